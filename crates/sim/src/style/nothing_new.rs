//! Fragments that add nothing new.

use super::ceil_char_boundary;
use super::index::Site;
use super::random::Random;
use super::restart::Start;
use restitch::internal::json::Machine;
use restitch::json::CloseOptions;

/// Returns one of several refusals.
pub(super) fn refusal(random: &mut Random) -> String {
    random.pick(&REFUSALS).to_owned()
}

/// Returns the last delivered bytes once more, like a model in a loop.
pub(super) fn same_again(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let delivered = site.delivered();
    let most = delivered.len().checked_sub(50)?;
    let from = most - random.below(251).min(most);
    Some(delivered[ceil_char_boundary(delivered, from)..].to_owned())
}

/// Returns text from the start of an element, a line or the root, up to the cut or a little less.
pub(super) fn only_delivered(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let starts: Vec<usize> = [Start::Element, Start::Line, Start::Root]
        .iter()
        .filter_map(|from| from.offset(site))
        .filter(|&start| start < site.cut.offset)
        .collect();
    let slice = &site.delivered()[random.pick(&starts)..];
    let end = match random.below(2) {
        0 => slice.len(),
        _ => slice.len().div_ceil(2) + random.below(slice.len() / 2),
    };
    Some(slice[..ceil_char_boundary(slice, end)].to_owned())
}

/// Returns the complete part of the delivered text, closed; `None` if that is empty, or all of the
/// document.
pub(super) fn closed_delivered(site: &Site<'_>) -> Option<String> {
    let mut machine = Machine::new(usize::MAX);
    let fed = machine.feed(site.delivered().as_bytes());
    debug_assert!(fed.is_ok(), "the document is JSON, and so is its beginning");
    fed.ok()?;
    let mut suffix = String::new();
    let end = machine.close_into(CloseOptions::default(), &mut suffix)?;
    let is_all = site.ends_with_closers(end, &suffix);
    (!is_all).then(|| format!("{}{suffix}", &site.delivered()[..end]))
}

const REFUSALS: [&str; 5] = [
    "I'm sorry, but I can't help with that.",
    "I can't continue this text. The part \"as it was\" seems to be cut off; please send it again.",
    "I'm unable to complete the list [1, 2, …] or the object {\"id\": …} that you sent.",
    r#"{"error": "The response could not be completed."}"#,
    r#"{"error": {"code": "content_policy", "message": "I can't go on with \"this\" text.", "details": []}}"#,
];
