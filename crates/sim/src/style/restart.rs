//! Fragments that start again before the cut, verbatim or reformatted, and those that have a comma
//! or a closer too many or too few.

use std::collections::HashSet;

use super::ceil_char_boundary;
use super::index::Site;
use super::print::{Layout, View};
use super::random::Random;
use super::spell::Spelling;
use restitch::internal::json::string;
use restitch::json::Kind;

/// Where a fragment starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The cut line.
    Line,
    /// The cut string, number, literal or key.
    Value,
    /// The innermost cut member, with its key.
    Member,
    /// The innermost cut array element.
    Element,
    /// The innermost cut array, or the container around the innermost one.
    Parent,
    /// The start of the document.
    Root,
}

impl Start {
    /// Returns its offset in the document.
    pub(super) fn offset(self, site: &Site<'_>) -> Option<usize> {
        let value = |place: usize| site.nodes[site.open[place]].span.start;
        match self {
            Self::Line => site.delivered().rfind('\n').map(|end| end + 1),
            Self::Value => site.token().map(|token| token.start),
            Self::Member => site
                .member()
                .map(|place| site.nodes[site.open[place]].lead()),
            Self::Element => site.element().map(value),
            Self::Parent => parent(site).map(value),
            Self::Root => Some(0),
        }
    }

    /// Returns the node that begins there.
    fn node(self, site: &Site<'_>) -> Option<usize> {
        let place = match self {
            Self::Line => return None,
            Self::Value => site.token().and(site.open.len().checked_sub(1)),
            Self::Member => site.member(),
            Self::Element => site.element(),
            Self::Parent => parent(site),
            Self::Root => return Some(0),
        };
        site.open.get(place?).copied()
    }
}

fn parent(site: &Site<'_>) -> Option<usize> {
    site.container(Some(Kind::Array))
        .or_else(|| site.container(None)?.checked_sub(1))
}

/// Returns the document from there on.
pub(super) fn verbatim(site: &Site<'_>, from: Start) -> Option<String> {
    from.offset(site).map(|offset| site.from(offset).to_owned())
}

/// Returns the same in another layout than the document's.
pub(super) fn reformatted(site: &Site<'_>, from: Start, random: &mut Random) -> Option<String> {
    let start = from.offset(site)?;
    let node = from.node(site)?;
    // In a cut key the value has not begun.
    let with_key =
        from == Start::Member || (from == Start::Value && start < site.nodes[node].span.start);
    let mut view = View::new(site);
    shuffle(site, &mut view, start, random);
    lay_out(site, random, |layout, spelling| {
        let printed = view.print(layout, spelling, node);
        let start = if with_key {
            printed.lead
        } else {
            printed.value
        };
        debug_assert!(
            printed.text.is_char_boundary(start),
            "a node begins at a character"
        );
        printed.text.get(start..).map(str::to_owned)
    })
    .filter(|text| text != site.from(start))
}

/// Calls `print` with a layout that is not the document's, and with other escapes.
pub(super) fn lay_out(
    site: &Site<'_>,
    random: &mut Random,
    print: impl Fn(Layout, Spelling) -> Option<String>,
) -> Option<String> {
    let spelling = random.pick(&[Spelling::Ascii, Spelling::Plain, Spelling::Swapped]);
    let whole = View::new(site);
    let document = site.cut.document.trim();
    random.some_of(&Layout::ALL).find_map(|layout| {
        if whole.print(layout, Spelling::Same, 0).text == document {
            return None;
        }
        print(layout, spelling).filter(|text| !document.ends_with(text.as_str()))
    })
}

/// Reorders the members of the cut element, and of the cut objects in it: all that begin at `start`
/// or after it in an object that is repeated, else those that were not delivered. Without an
/// element, the root is the element.
pub(super) fn shuffle(site: &Site<'_>, view: &mut View<'_, '_>, start: usize, random: &mut Random) {
    for &node in site.open.iter().skip(site.element().unwrap_or(0)) {
        let own = &site.nodes[node];
        if own.container != Some(Kind::Object) || has_twin_keys(site, node) {
            continue;
        }
        let delivered =
            |child: &usize| own.span.start < start && site.nodes[*child].lead() < site.cut.offset;
        let kept = view.children[node].partition_point(delivered);
        random.shuffle(&mut view.children[node][kept..]);
    }
}

/// Returns whether two members have the same key, so that their order matters.
fn has_twin_keys(site: &Site<'_>, object: usize) -> bool {
    let mut seen = HashSet::new();
    let children = site.nodes[object].children.iter();
    let mut keys = children.filter_map(|&child| site.nodes[child].key);
    keys.any(|key| !seen.insert(string::decode(site.inside(key))))
}

/// Returns the second half of the anchor and the rest; `None` if the anchor has fewer than two
/// characters.
pub(super) fn half_anchor(site: &Site<'_>) -> Option<String> {
    let (anchor, cut) = (site.cut.anchor, site.cut.offset);
    let half = ceil_char_boundary(site.cut.document, anchor + (cut - anchor).div_ceil(2));
    (half > anchor && half < cut).then(|| site.from(half).to_owned())
}

/// Returns the rest after one more comma, if the cut is after a comma.
pub(super) fn comma_extra(site: &Site<'_>) -> Option<String> {
    let is_after = site.token().is_none()
        && site
            .delivered()
            .trim_end_matches(WHITE_SPACE)
            .ends_with(',');
    is_after.then(|| format!(",{}", site.exact()))
}

/// Returns the rest without its comma. `None` if two values would become one, as two numbers do.
pub(super) fn comma_missing(site: &Site<'_>) -> Option<String> {
    let rest = site
        .exact()
        .strip_prefix(',')
        .filter(|_| site.token().is_none())?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+');
    let grows = site.delivered().ends_with(is_word) && rest.starts_with(is_word);
    (!grows).then(|| rest.to_owned())
}

/// Returns the fragment with one to three closers after the end.
pub(super) fn closer_extra(site: &Site<'_>, random: &mut Random) -> Option<String> {
    site.nodes[0].container?;
    Some(format!(
        "{}{}",
        site.anchored().trim_end_matches(WHITE_SPACE),
        random.pick(&["}", "]", "]}", "}}", "}]}"])
    ))
}

/// Returns the fragment without the root's closer; `None` if nothing else is left.
pub(super) fn closer_missing(site: &Site<'_>) -> Option<String> {
    let root = &site.nodes[0];
    root.container?;
    let closer = root.span.end - 1;
    let rest = site.cut.document.get(site.cut.offset..closer)?;
    let is_left = !rest.trim_matches(WHITE_SPACE).is_empty();
    is_left.then(|| site.after_anchor(rest))
}

pub(super) use super::super::call::WHITE_SPACE;
