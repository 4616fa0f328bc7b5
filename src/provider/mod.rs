//! stub
/// f
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// s
    Stop,
    /// l
    Length,
    /// o
    ContentFilter,
}
