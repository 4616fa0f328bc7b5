//! Counts the work of comparisons and searches, for unit tests that check linear work. Outside of unit tests it counts nothing.

/// Adds bytes that a digest or a comparison has read.
#[inline(always)]
pub(crate) fn bytes_read(bytes: usize) {
    #[cfg(test)]
    tests::BYTES_READ.set(tests::BYTES_READ.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// Adds steps of a search: bytes that it has read, or entries that it has computed.
#[inline(always)]
pub(crate) fn steps(steps: usize) {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + steps);
    #[cfg(not(test))]
    let _ = steps;
}

/// The counters of this thread. A test replaces one by 0 to read it.
#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static BYTES_READ: Cell<usize> = const { Cell::new(0) };
        pub(crate) static STEPS: Cell<usize> = const { Cell::new(0) };
    }
}
