//! Fragments that close the document before its end. Half of the fragments repeat the anchor first,
//! as the request asked.

use super::index::Site;
use super::random::Random;
use super::restart::WHITE_SPACE;
use restitch::internal::json::Machine;
use restitch::json::Kind;

/// Writes the text that closes the open string and the open containers.
pub(super) fn close(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let closers = closers_at_cut(site)?;
    is_closed_by(site, &closers).then(|| after_anchor(site, &closers, random))
}

/// Writes an ellipsis first.
pub(super) fn ellipsis(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let closers = closers_at_cut(site)?;
    let is_key = site
        .open
        .last()
        .is_some_and(|&node| site.nodes[node].key == site.token());
    let is_text = site.string().is_some() && !is_key;
    // No model writes an ellipsis inside an escape, a key, a number or a literal.
    if site.token().is_some() && !is_text {
        return None;
    }
    let is_due = site
        .delivered()
        .trim_end_matches(WHITE_SPACE)
        .ends_with(['[', '{', ',', ':']);
    if !is_text && !is_due && !is_closed_by(site, &closers) {
        return None;
    }
    let comma = if is_text || is_due { "" } else { ", " };
    let dots = random.pick(&["...", "…"]);
    let text = format!("{comma}{dots}{closers}");
    Some(after_anchor(site, &text, random))
}

/// Writes up to three elements or members, and an ellipsis instead of the others.
pub(super) fn element(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let (written, container, separator) = beginning(site, random)?;
    let is_list = site.nodes[site.open[container]].container == Some(Kind::Array);
    // In a list the ellipsis may be a string, which is legal JSON.
    let dots = if is_list {
        ["...", "...", "…", "\"...\""]
    } else {
        ["...", "...", "…", "…"]
    };
    let closers = closers(site, container);
    let text = [written, separator, random.pick(&dots), &closers].concat();
    Some(after_anchor(site, &text, random))
}

/// Writes up to three elements or members, and a comment instead of the others.
pub(super) fn comment(site: &Site<'_>, random: &mut Random) -> Option<String> {
    const COMMENTS: [&str; 5] = [
        "// … rest unchanged\n",
        "// ... remaining items\n",
        "/* ... */",
        "/* rest of the document unchanged */",
        "// ...\n",
    ];
    let (written, container, separator) = beginning(site, random)?;
    let separator = random.pick(&[separator, " ", "\n"]);
    let closers = closers(site, container);
    let text = [written, separator, random.pick(&COMMENTS), &closers].concat();
    Some(after_anchor(site, &text, random))
}

/// Returns the rest up to the end of the first, second or third next child of an open container;
/// the container, as an index of `open`; and the text between that child and its successor. It is
/// the innermost container in which the fragment then leaves out a child: a comma after a
/// container's last child would make the delivered text another document.
fn beginning<'a>(site: &Site<'a>, random: &mut Random) -> Option<(&'a str, usize, &'a str)> {
    let wanted = 1 + random.below(3);
    let document = site.cut.document;
    (0..site.open.len()).rev().find_map(|place| {
        let children = &site.nodes[site.open[place]].children;
        let first = site.next(site.open[place])?;
        let at = children.iter().position(|&child| child == first)?;
        let left_out = (at + wanted).min(children.len() - 1);
        let end = site.nodes[children[left_out.checked_sub(1)?]].span.end;
        let separator = &document[end..site.nodes[children[left_out]].lead()];
        (left_out > at).then(|| (&document[site.cut.offset..end], place, separator))
    })
}

/// Returns the closers of the open containers up to the one at `place`, the innermost first.
pub(super) fn closers(site: &Site<'_>, place: usize) -> String {
    let open = site.open[..=place]
        .iter()
        .rev()
        .map(|&node| &site.nodes[node]);
    let open = open.filter(|node| node.span.start < site.cut.offset);
    open.filter_map(|node| node.container)
        .map(|kind| if kind == Kind::Array { ']' } else { '}' })
        .collect()
}

/// Returns the text that closes everything at the cut; `None` if the rest of the document has only
/// that.
fn closers_at_cut(site: &Site<'_>) -> Option<String> {
    let quote = if site.string().is_some() { "\"" } else { "" };
    let closers = format!("{quote}{}", closers(site, site.open.len().checked_sub(1)?));
    let is_end = site.ends_with_closers(site.cut.offset, &closers);
    (!is_end && !closers.is_empty()).then_some(closers)
}

/// Returns whether the delivered text and the closers are a document: the cut is not in a key, an
/// escape or a literal, and not after a comma or a colon.
fn is_closed_by(site: &Site<'_>, closers: &str) -> bool {
    let text = [site.delivered(), closers].concat();
    let mut machine = Machine::new(usize::MAX);
    machine.feed(text.as_bytes()).is_ok() && machine.finish().is_ok()
}

fn after_anchor(site: &Site<'_>, text: &str, random: &mut Random) -> String {
    match random.below(2) {
        0 => text.to_owned(),
        _ => site.after_anchor(text),
    }
}
