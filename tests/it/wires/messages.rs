//! Anthropic's Messages API.

use restitch::internal::wire::Dialect;

use super::recorded::{check_cuts, check_recorded};
use crate::support::at_least;

#[test]
fn recorded_streams_say_what_the_index_says() {
    let covered = check_recorded(Dialect::Messages);
    assert!(covered >= at_least(1, 60), "{covered}");
    println!("covered: {covered} recorded streams of messages");
}

#[test]
fn cut_streams_say_what_was_complete() {
    let covered = check_cuts(Dialect::Messages);
    assert!(covered >= at_least(0, 30), "{covered}");
    println!("covered: {covered} cuts of messages");
}
