//! Counts the bytes that comparisons read, for unit tests that check linear work.

/// Adds bytes that a digest or a comparison has read; does nothing outside of unit tests.
#[inline(always)]
pub(super) fn bytes_read(bytes: usize) {
    #[cfg(test)]
    READ.set(READ.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
thread_local! {
    /// The bytes that this thread has read.
    static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the bytes that were read since the last call.
#[cfg(test)]
pub(crate) fn take_bytes_read() -> usize {
    READ.replace(0)
}
