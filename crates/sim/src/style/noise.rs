//! Anchors as models really repeat them: nearly letter by letter, or with something around them.
//! The rest is verbatim.

use super::anchor_tag;
use super::index::Site;
use super::random::Random;
use super::restart::WHITE_SPACE;

/// Returns a repeated anchor, then the mark and the rest.
fn with_anchor(anchor: &str, site: &Site<'_>) -> String {
    [anchor, site.mark(), site.exact()].concat()
}

/// Returns the anchor with one or two characters replaced, left out or added.
pub(super) fn typo(site: &Site<'_>, random: &mut Random) -> Option<String> {
    let mut chars: Vec<char> = site.anchor().chars().collect();
    if chars.len() < SHORTEST_TYPO {
        return None;
    }
    // Two mistakes in a few characters would make the anchor unrecognizable.
    let mistakes = if chars.len() < 3 * SHORTEST_TYPO {
        1
    } else {
        1 + random.below(2)
    };
    for _ in 0..mistakes {
        let at = random.below(chars.len() - UNCHANGED_END);
        let letters: Vec<char> = LETTERS
            .iter()
            .copied()
            .filter(|letter| *letter != chars[at])
            .collect();
        match random.below(3) {
            0 => chars[at] = random.pick(&letters),
            1 => drop(chars.remove(at)),
            _ => chars.insert(at, random.pick(&letters)),
        }
    }
    let anchor: String = chars.iter().collect();
    // Two mistakes may cancel each other.
    (anchor != site.anchor()).then(|| with_anchor(&anchor, site))
}

/// How the white space between tokens is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum White {
    /// A line end and the indentation after it become this.
    LineEnds(&'static str),
    /// Commas and colons have this after them, unless a line ends there.
    Separators(&'static str),
}

/// Returns the anchor with other white space between its tokens.
pub(super) fn white(site: &Site<'_>, random: &mut Random) -> Option<String> {
    const KINDS: [White; 4] = [
        White::LineEnds(" "),
        White::LineEnds(""),
        White::Separators(""),
        White::Separators(" "),
    ];
    let mut changed = random.some_of(&KINDS).map(|kind| with_white(kind, site));
    let anchor = changed.find(|anchor| anchor != site.anchor())?;
    Some(with_anchor(&anchor, site))
}

fn with_white(kind: White, site: &Site<'_>) -> String {
    let (mut out, mut rest) = (String::new(), site.anchor());
    while let Some(c) = rest.chars().next() {
        let at = site.cut.offset - rest.len();
        let in_string = site.is_in_string(at);
        let run = if in_string {
            0
        } else {
            rest.len() - rest.trim_start_matches(WHITE_SPACE).len()
        };
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        match kind {
            White::LineEnds(other) if rest[..run].contains('\n') => out.push_str(other),
            White::Separators(other) if !in_string && matches!(c, ',' | ':') => {
                let tail = after.trim_start_matches(WHITE_SPACE);
                let space = &after[..after.len() - tail.len()];
                out.push(c);
                // At the end of the anchor the rest may still begin with the space.
                let is_kept = space.contains('\n') || tail.is_empty();
                out.push_str(if is_kept { space } else { other });
                rest = tail;
                continue;
            }
            _ if run > 0 => out.push_str(&rest[..run]),
            _ => out.push(c),
        }
        rest = rest.get(run..).filter(|_| run > 0).unwrap_or(after);
    }
    out
}

/// Returns the anchor with curly quotes.
pub(super) fn curly(site: &Site<'_>) -> String {
    let mut anchor = String::new();
    for (at, c) in site.anchor().char_indices() {
        let at = site.cut.anchor + at;
        anchor.push(match c {
            // A closing quote is still inside its string.
            '"' if site.is_in_string(at) => '”',
            '"' => '“',
            c => c,
        });
    }
    with_anchor(&anchor, site)
}

/// Returns the anchor with the characters that `\"` and `\n` mean.
pub(super) fn unescaped(site: &Site<'_>) -> String {
    let mut anchor = String::new();
    let mut chars = site.anchor().chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(next)) => {
                chars.next();
                match next {
                    '"' => anchor.push('"'),
                    'n' => anchor.push('\n'),
                    other => anchor.extend(['\\', other]),
                }
            }
            _ => anchor.push(c),
        }
    }
    with_anchor(&anchor, site)
}

/// Returns the anchor after an ellipsis.
pub(super) fn ellipsis(site: &Site<'_>, random: &mut Random) -> String {
    format!(
        "{}{}",
        random.pick(&["...", "…", "... ", "… "]),
        site.anchored()
    )
}

/// Returns the anchor, a line end, and the rest.
pub(super) fn line_end(site: &Site<'_>) -> String {
    [site.anchor(), site.mark(), "\n", site.exact()].concat()
}

/// Returns the anchor twice.
pub(super) fn twice(site: &Site<'_>) -> String {
    [site.anchor(), &site.anchored()].concat()
}

/// Returns the anchor without its first word, or the sign that it begins with.
pub(super) fn wordless(site: &Site<'_>) -> Option<String> {
    let anchor = site.anchor().trim_start_matches(WHITE_SPACE);
    let word = anchor
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(anchor.len());
    let first = if word > 0 {
        word
    } else {
        anchor.chars().next()?.len_utf8()
    };
    let rest = &anchor[first..];
    (!rest.is_empty()).then(|| with_anchor(rest, site))
}

/// Returns the anchor after a sentence that quotes the whole anchor or its end.
pub(super) fn quoted(site: &Site<'_>, random: &mut Random) -> String {
    let anchor = site.anchor();
    let quote = match random.below(2) {
        0 => anchor,
        _ => anchor
            .char_indices()
            .rev()
            .nth(QUOTED_END - 1)
            .map_or(anchor, |(at, _)| &anchor[at..]),
    };
    let rest = site.anchored();
    match random.below(3) {
        0 => format!("The text stops after \"{quote}\", so I continue from there:\n\n{rest}"),
        1 => format!("Continuing from `{quote}`:\n{rest}"),
        _ => format!("You asked me to begin with:\n{quote}\n\nHere it is:\n\n{rest}"),
    }
}

/// Returns the anchor in a code fence, then the rest.
pub(super) fn fence_alone(site: &Site<'_>, random: &mut Random) -> String {
    let (language, gap) = (random.pick(&["json", ""]), random.pick(&["\n", "\n\n"]));
    format!(
        "```{language}\n{}{}\n```{gap}{}",
        site.anchor(),
        site.mark(),
        site.exact()
    )
}

/// Returns the anchor between the request's tags, or after or before one tag, in one line.
pub(super) fn tags_line(site: &Site<'_>, random: &mut Random) -> String {
    let tag = anchor_tag(site.delivered());
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let (open, close) = match random.below(4) {
        0 => (open.as_str(), ""),
        1 => ("", close.as_str()),
        _ => (open.as_str(), close.as_str()),
    };
    [open, site.anchor(), site.mark(), close, site.exact()].concat()
}

/// Returns the anchor between the request's tags, each on a line of its own.
pub(super) fn tags_lines(site: &Site<'_>) -> String {
    let tag = anchor_tag(site.delivered());
    format!(
        "<{tag}>\n{}{}\n</{tag}>\n{}",
        site.anchor(),
        site.mark(),
        site.exact()
    )
}

/// Characters of the shortest anchor in which a mistake leaves something to recognise.
const SHORTEST_TYPO: usize = 8;

/// Characters at the end of the anchor that no mistake changes.
const UNCHANGED_END: usize = 4;

/// Characters of the anchor's end that a sentence quotes.
const QUOTED_END: usize = 20;

/// Characters that are written by mistake.
const LETTERS: [char; 10] = ['a', 'e', 'i', 'n', 'r', 's', 't', '1', '7', ','];
