//! One slot's whole text.

/// One slot's whole text.
#[derive(Debug)]
pub struct Document {}
