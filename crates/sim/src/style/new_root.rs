//! Fragments with a root of their own, and bare elements. Delivered values beside them are left
//! out.

use super::index::Site;
use super::print::{Layout, View};
use super::random::Random;
use super::restart::{lay_out, shuffle};
use super::spell::Spelling;
use restitch::json::Kind;

/// A root that has less than the document: its containers from the root down, each with the first
/// child that it keeps. That is the next container, if there is one.
struct KeptText(Vec<(usize, usize)>);

impl KeptText {
    /// Returns the path down to the open container at `place`, which keeps its children from
    /// `first` on.
    fn new(site: &Site<'_>, place: usize, first: usize) -> Self {
        let path = &site.open[..=place];
        Self(
            path.iter()
                .copied()
                .zip(path.iter().copied().skip(1).chain([first]))
                .collect(),
        )
    }

    /// Returns whether it leaves out something that was delivered.
    fn leaves_out(&self, site: &Site<'_>) -> bool {
        self.0
            .iter()
            .any(|&(container, first)| site.nodes[container].children.first() != Some(&first))
    }

    fn view<'s, 'a>(&self, site: &'s Site<'a>) -> View<'s, 'a> {
        let mut view = View::new(site);
        for &(container, first) in &self.0 {
            view.begin_with(container, first);
        }
        view
    }

    /// Writes it in the layout of the document.
    fn verbatim(&self, site: &Site<'_>) -> String {
        let document = site.cut.document;
        let mut text = String::new();
        let mut rest = 0;
        for &(container, first) in &self.0 {
            let (own, first) = (&site.nodes[container], &site.nodes[first]);
            let opened = own
                .children
                .first()
                .map_or(own.span.end, |&child| site.nodes[child].lead());
            // The bracket and the white space after it, then the key of the child that is kept, if
            // it is a member.
            text.push_str(&document[own.span.start..opened]);
            text.push_str(&document[first.lead()..first.span.start]);
            rest = first.span.start;
        }
        text.push_str(site.from(rest));
        text
    }

    /// Writes it in the layout of the document, or all in one line.
    fn write(&self, site: &Site<'_>, random: &mut Random) -> Option<String> {
        if !self.leaves_out(site) {
            return None;
        }
        Some(match random.below(2) {
            0 => self.verbatim(site),
            _ => {
                self.view(site)
                    .print(Layout::Spaced, Spelling::Same, 0)
                    .text
            }
        })
    }
}

/// Returns the position of the array around the cut element, and the element.
fn cut_element(site: &Site<'_>) -> Option<(usize, usize)> {
    let element = site.element()?;
    Some((element.checked_sub(1)?, site.open[element]))
}

/// Writes the cut element and the text after it.
pub(super) fn element(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let (array, element) = cut_element(site)?;
    KeptText::new(site, array, element).write(site, random)
}

/// Writes the same reformatted.
pub(super) fn reformatted(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let (array, element) = cut_element(site)?;
    let kept = KeptText::new(site, array, element);
    if !kept.leaves_out(site) {
        return None;
    }
    let mut view = kept.view(site);
    shuffle(site, &mut view, site.nodes[element].span.start, random);
    lay_out(site, random, |layout, spelling| {
        Some(view.print(layout, spelling, 0).text)
    })
}

/// Writes the same with one or two complete elements before the cut one.
pub(super) fn last(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let (array, element) = cut_element(site)?;
    let children = &site.nodes[site.open[array]].children;
    let at = children.iter().position(|&child| child == element)?;
    let before = if at > 2 { 1 + random.below(2) } else { 1 };
    KeptText::new(site, array, *children.get(at.checked_sub(before)?)?).write(site, random)
}

/// Writes the cut element without its complete members.
pub(super) fn rest(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let place = site.element()?;
    let element = site.open[place];
    let own = &site.nodes[element];
    if own.container != Some(Kind::Object) {
        return None;
    }
    let first = own
        .children
        .iter()
        .copied()
        .find(|&child| site.nodes[child].span.end > site.cut.offset)?;
    if own.children.first() == Some(&first) {
        return None;
    }
    KeptText::new(site, place, first).write(site, random)
}

/// Writes the elements after the cut one.
pub(super) fn without(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let array = site.container(Some(Kind::Array))?;
    KeptText::new(site, array, site.next(site.open[array])?).write(site, random)
}

/// Writes the elements after the cut one, or from it on, with the text between them.
pub(super) fn bare(site: &Site<'_>, with_cut: bool) -> Option<String> {
    let array = site.open[site.container(Some(Kind::Array))?];
    let children = &site.nodes[array].children;
    let first = match with_cut {
        true => children
            .iter()
            .copied()
            .find(|child| site.open.contains(child))?,
        false => site.next(array)?,
    };
    let last = *children.last()?;
    debug_assert!(first <= last, "the first element is not after the last one");
    site.cut
        .document
        .get(site.nodes[first].span.start..site.nodes[last].span.end)
        .map(str::to_owned)
}

/// Writes the one element after the cut one.
pub(super) fn next(site: &Site<'_>) -> Option<String> {
    let next = site.next(site.open[site.container(Some(Kind::Array))?])?;
    Some(site.text(site.nodes[next].span).to_owned())
}
