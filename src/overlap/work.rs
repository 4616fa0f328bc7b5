//! Counts the steps of comparisons and searches, for unit tests that check linear work.

/// Adds steps: bytes that were read, or entries that were computed. Does nothing outside of unit tests.
#[inline(always)]
pub(crate) fn steps(steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + steps);
    #[cfg(not(test))]
    let _ = steps;
}

#[cfg(test)]
thread_local! {
    /// The steps of this thread.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the steps since the last call.
#[cfg(test)]
pub(crate) fn take_steps() -> usize {
    STEPS.replace(0)
}
