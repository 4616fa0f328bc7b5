//! The engine around streams.
