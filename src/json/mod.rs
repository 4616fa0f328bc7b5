//! JSON as bytes: the strict grammar, strings, and spans of what a text holds.
