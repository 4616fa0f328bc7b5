//! Counts work, for tests that check that work is linear, or done once. Builds without debug
//! assertions count nothing.

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

/// Adds bytes that a decoder has divided into events. Counts in all debug builds, since tests of
/// other crates read the counter.
#[inline(always)]
pub(crate) fn bytes_framed(amount: usize) {
    #[cfg(debug_assertions)]
    BYTES_FRAMED.set(BYTES_FRAMED.get() + amount);
    #[cfg(not(debug_assertions))]
    let _ = amount;
}

#[cfg(debug_assertions)]
thread_local! {
    /// The bytes that decoders of this thread have divided into events, in debug builds.
    pub static BYTES_FRAMED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

counters! {
    /// Adds bytes that a machine has examined.
    bytes_examined => BYTES_EXAMINED;
    /// Adds bytes that a digest or a comparison has read.
    bytes_read => BYTES_READ;
    /// Adds steps of a search: bytes that it has read, or entries that it has computed.
    steps => STEPS;
}
