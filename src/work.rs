//! Counts work, for unit tests that check that work is linear. Outside of unit tests it counts
//! nothing.

/// Defines functions that add to a counter of this thread, and the counters. A test replaces a
/// counter by 0 to read it.
macro_rules! counters {
    ($($(#[$doc:meta])* $add:ident => $counter:ident;)+) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub(crate) fn $add(amount: usize) {
                #[cfg(test)]
                tests::$counter.set(tests::$counter.get() + amount);
                #[cfg(not(test))]
                let _ = amount;
            }
        )+

        #[cfg(test)]
        pub(crate) mod tests {
            use std::cell::Cell;

            thread_local! {
                $(pub(crate) static $counter: Cell<usize> = const { Cell::new(0) };)+
            }
        }
    };
}

counters! {
    /// Adds bytes that a machine has examined.
    bytes_examined => BYTES_EXAMINED;
    /// Adds bytes that a digest or a comparison has read.
    bytes_read => BYTES_READ;
    /// Adds steps of a search: bytes that it has read, or entries that it has computed.
    steps => STEPS;
}
