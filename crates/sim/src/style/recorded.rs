//! Fragments after answers that were recorded from small models. They copy text that the model
//! sees, and close the document, or never end.

use super::super::answer::floor_char_boundary;
use super::anchor_tag;
use super::early_end::closers;
use super::index::Site;
use super::random::Random;
use super::restart::Start;
use super::wrap;
use restitch::internal::prompt::{QuestionForm, task};

/// Writes the rest of the cut token, or the scalar that is due, and closes everything.
pub(super) fn token_closed(site: &Site<'_>) -> Option<String> {
    let end = end_of_token(site)?;
    let closers = closers(site, site.open.len().checked_sub(1)?);
    // The document itself may end like that.
    let is_end = site.ends_with_closers(end, &closers);
    let token = &site.cut.document[site.cut.offset..end];
    (!is_end && !closers.is_empty()).then(|| format!("{token}{closers}"))
}

/// Writes the same after a copy of the delivered text.
pub(super) fn root_copy_close(site: &Site<'_>) -> Option<String> {
    Some(format!("{}{}", site.delivered(), token_closed(site)?))
}

/// Writes the same after the anchor.
pub(super) fn anchor_closed(site: &Site<'_>) -> Option<String> {
    Some(site.after_anchor(&token_closed(site)?))
}

/// Returns where the cut token ends, in a key the value after it; without a token, the scalar that
/// comes next. `None` if that is a container.
fn end_of_token(site: &Site<'_>) -> Option<usize> {
    let innermost = *site.open.last()?;
    let is_cut = site.token().is_some() || site.nodes[innermost].container.is_none();
    let node = match is_cut {
        true => innermost,
        false if site.nodes[innermost].span.start >= site.cut.offset => innermost,
        false => site.next(innermost)?,
    };
    let node = &site.nodes[node];
    node.container.is_none().then_some(node.span.end)
}

/// Writes the document again, without one delivered element or member, or with one of them twice.
pub(super) fn root_altered(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let cut = site.cut.offset;
    let pairs: Vec<(usize, usize)> = site
        .nodes
        .iter()
        .flat_map(|node| node.children.windows(2))
        .map(|pair| (site.nodes[pair[0]].lead(), site.nodes[pair[1]].lead()))
        .filter(|(_, next)| *next < cut)
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let (own, next) = random.pick(&pairs);
    let (to, from) = match random.below(2) {
        0 => (own, next),
        _ => (next, own),
    };
    Some([&site.cut.document[..to], site.from(from)].concat())
}

/// Writes the cut element alone, perhaps in a code fence.
pub(super) fn element_only(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let element = cut_element(site)?;
    Some(match random.below(2) {
        0 => element.to_owned(),
        _ => wrap::fence(element, random),
    })
}

/// Writes the cut element again and again, until the answer reaches its limit inside one of them.
pub(super) fn element_loop(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let element = cut_element(site)?;
    let one = match random.below(3) {
        0 => format!("{element},\n"),
        1 => format!("{element}\n"),
        _ => format!("```json\n{element}\n```\n\n"),
    };
    let mut text = one.repeat(2 + random.below(4));
    text.push_str(&one);
    let end = text.len() - 1 - random.below(one.len() - 1);
    text.truncate(floor_char_boundary(&text, end));
    Some(text)
}

fn cut_element<'a>(site: &Site<'a>) -> Option<&'a str> {
    let element = site.open[site.element()?];
    Start::Element.offset(site)?;
    Some(site.text(site.nodes[element].span))
}

/// Writes tags and sentences of the request, around delivered text or instead of new text.
pub(super) fn own_words(site: &Site<'_>, random: &mut Random) -> String {
    let (anchor, tag) = (site.anchor(), anchor_tag(site.delivered()));
    let template = task(QuestionForm::Anchor, false);
    let sentences = template.get(..template.find(" Please").unwrap_or_default());
    let sentences = sentences.unwrap_or_default();
    let tagged = format!("<{tag}>\n{anchor}\n</{tag}>");
    match random.below(5) {
        0 => format!("{tagged}\n\n{sentences}"),
        1 => format!(
            "<delivered_summary>\n- section (incomplete)\n</delivered_summary>\n\n{sentences}\n\n{tagged}"
        ),
        2 => format!("{anchor}\n</{tag}>\n\n{tagged}\n\n{tagged}"),
        3 => format!("{sentences}\n\n{tagged}"),
        // The sentence replaces the rest of the cut string.
        _ => {
            let quote = if site.string().is_some() { "\"" } else { "" };
            let closers = closers(site, site.open.len().saturating_sub(1));
            format!("{anchor}{}{sentences}{quote}{closers}", site.mark())
        }
    }
}
