//! Documents that models continue in their styles: the result must be the document.
//!
//! The first bytes of an input say where the document is cut, how it is continued and what the
//! request asked for. The rest is the document, if it is JSON; otherwise a document is made of it.

use restitch::splice::{Expect, Repair, Seam, Slot, Splice, SpliceError};
use restitch::{Document, Limits};

use super::missing::missing;
use super::reading::{End, Node, read, root_end};
use super::style::{ContinuationStyle, Cut, Group, write};
use restitch_testing::{Rng, chunks, text_cuts};

/// Bytes before the document.
const HEAD: usize = 9;

/// Characters of an anchor that may also occur in a sentence.
const FEW: usize = 8;

/// More characters than a text usually repeats; fewer of them before the rest may just occur again.
const MANY: usize = 16;

pub(crate) fn check(input: &[u8]) {
    let Some((head, body)) = input.split_first_chunk::<HEAD>() else {
        return;
    };
    let document = document(body);
    let Some(end) = root_end(&document) else {
        return;
    };
    let Some(truth) = read(&document).filter(|node| is_container(node) && is_unique(node)) else {
        return;
    };
    let &[
        asked,
        cut,
        cut_low,
        first,
        second,
        again,
        again_low,
        seed,
        raw,
    ] = head;
    let mut rng = Rng::of(input);
    let ambiguous = is_ambiguous(&truth);
    let place = |high: u8, low: u8, text: &str, end: usize| {
        let at = usize::from(u16::from_be_bytes([high, low])) % end.max(1);
        (1..=at.max(1))
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0)
    };
    let cut = place(cut, cut_low, &document, end);
    if cut == 0 {
        return;
    }
    let mut row = Row {
        document,
        cut,
        truth: &truth,
        ambiguous,
        asked,
        seed: u64::from(seed),
    };
    let Some((fragment, line)) = row.fragment(first) else {
        return;
    };
    let is_cut_again = raw % 2 == 1 && fragment.len() > 1;
    let (part, is_part) = if is_cut_again {
        (
            &fragment[..place(again, again_low, &fragment, fragment.len())],
            true,
        )
    } else {
        (fragment.as_str(), false)
    };
    // A fragment that was cut inside its repetition adds nothing: it may be anything.
    let is_repeat = is_part && !row.brings_more(&fragment, part);
    let line = Line {
        is_sure: line.is_sure && !is_repeat,
        is_told: line.is_told && !is_repeat,
        ..line
    };
    let text = row.check(part, line, is_part, &mut rng);
    // The result is another beginning of the same document, perhaps in another layout: continue
    // from there.
    let Some(node) = read(&text).filter(|node| node.may_become(&truth)) else {
        return;
    };
    if !is_part || root_end(&text).is_some() {
        return;
    }
    let Some(rest) = row.rest(&text, &node) else {
        return;
    };
    row.cut = text.len();
    row.document = text + &rest;
    if let Some((fragment, line)) = row.fragment(second) {
        row.check(&fragment, line, false, &mut rng);
    }
}

/// A document that is continued.
struct Row<'a> {
    document: String,
    cut: usize,
    truth: &'a Node,
    ambiguous: bool,
    asked: u8,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    style: ContinuationStyle,
    expect: Expect,
    /// The requested anchor occurs in one place only, and is more than what occurs in prose.
    is_sure: bool,
    /// The fragment cannot be the beginning of another fragment.
    is_told: bool,
}

impl Row<'_> {
    fn delivered(&self) -> &str {
        &self.document[..self.cut]
    }

    /// Returns what would make `text` the document.
    fn rest(&self, text: &str, node: &Node) -> Option<String> {
        self.document
            .strip_prefix(text)
            .map(str::to_owned)
            .or_else(|| missing(text, node, self.truth))
    }

    fn fragment(&self, style: u8) -> Option<(String, Line)> {
        let style = ContinuationStyle::ALL[usize::from(style) % ContinuationStyle::ALL.len()];
        let expect = match style.group() {
            Group::Exact => Expect::Exact,
            _ => [Expect::Anchor, Expect::Any][usize::from(self.asked) % 2],
        };
        let limits = Limits::default();
        let mut slot = Slot::new(&limits);
        slot.push(self.delivered()).unwrap();
        let splice = Splice::new(&slot, expect, &limits);
        let anchor = splice.anchor()?;
        let place = Cut {
            document: &self.document,
            offset: self.cut,
            anchor: anchor.range.start,
            mark: None,
        };
        let fragment = write(style, &place, self.seed)?;
        let text = &self.document[anchor.range.clone()];
        let says_little = text.chars().filter(|c| !c.is_whitespace()).count() < FEW;
        let is_sure = !anchor.ambiguous && !says_little && !text.starts_with("```");
        // Digits after digits: the number goes on, or is repeated.
        let digit = |c: char| c.is_ascii_digit();
        let in_number = self.delivered().ends_with(digit)
            && fragment
                .trim_start_matches([',', '-', ' ', '\n'])
                .starts_with(digit);
        // A few characters of half an anchor may just occur again.
        let half = fragment
            .len()
            .saturating_sub(self.document.len() - self.cut);
        let is_border = |n: usize| {
            fragment
                .get(..n)
                .is_some_and(|begun| fragment[..half].ends_with(begun))
        };
        let is_short =
            style == ContinuationStyle::HalfAnchor && (half < MANY || (FEW..half).any(is_border));
        // The innermost container is empty: a fragment with brackets of its own may be all of it.
        let is_bare = self
            .delivered()
            .trim_end_matches(['"', ' ', '\n'])
            .ends_with(['{', '[']);
        let is_bare = is_bare && style == ContinuationStyle::Refusal;
        let is_told = !says_little
            && !in_number
            && !is_short
            && !is_bare
            && !self.is_nested_alike()
            && !self.looks_honoured(anchor.range.start);
        Some((
            fragment,
            Line {
                style,
                expect,
                is_sure,
                is_told,
            },
        ))
    }

    /// Returns whether the text after the cut begins as the delivered text ends, with the complete
    /// anchor or with a complete open container: it looks like a repetition.
    fn looks_honoured(&self, anchor: usize) -> bool {
        let significant = |text: &str| text.split_ascii_whitespace().collect::<String>();
        let rest = significant(&self.document[self.cut..]);
        let tails = (0..self.cut).filter_map(|start| Some((start, self.delivered().get(start..)?)));
        let repeats =
            tails.filter(|(start, tail)| *start <= anchor || tail.starts_with(['{', '[']));
        repeats
            .map(|(_, tail)| significant(tail))
            .any(|tail| rest.starts_with(&tail))
    }

    /// Returns whether two open objects inside each other are at the same key: a fragment may start
    /// either of them again.
    fn is_nested_alike(&self) -> bool {
        let (mut node, mut keys) = (read(self.delivered()), Vec::new());
        while let Some(open) = node {
            node = match open {
                Node::Object(mut members, End::Value) => members.pop().map(|(key, value)| {
                    keys.push(key);
                    value
                }),
                Node::Object(_, End::Key(key, ..)) => {
                    keys.push(key);
                    None
                }
                Node::Array(mut elements, End::Value) => elements.pop(),
                _ => None,
            };
        }
        (1..keys.len()).any(|n| keys[..n].contains(&keys[n]))
    }

    /// Returns whether the fragment has more than a repetition of delivered text.
    fn brings_more(&self, fragment: &str, part: &str) -> bool {
        let rest = self.document[self.cut..].trim_end();
        fragment.rfind(rest).is_some_and(|at| part.len() > at + FEW)
    }

    /// Joins the fragment in every chunking and compares the result with the document. Returns the
    /// result.
    fn check(&self, fragment: &str, line: Line, is_part: bool, rng: &mut Rng) -> String {
        let whole = self.join(fragment, line.expect, &[]);
        let bytewise: Vec<_> = (1..fragment.len())
            .filter(|&at| fragment.is_char_boundary(at))
            .collect();
        let cuts = text_cuts(fragment, rng);
        for cuts in [bytewise, cuts] {
            assert_eq!(
                self.join(fragment, line.expect, &cuts),
                whole,
                "cut at {cuts:?}: {}",
                self.show(fragment, line)
            );
        }
        let (text, outcome, repairs) = whole;
        let show = || {
            format!(
                "{outcome:?} {repairs:?} {text:?}: {}",
                self.show(fragment, line)
            )
        };
        // The reader rejects numbers that are too large for it.
        let Some(node) = read(&text) else { return text };
        let before = read(self.delivered()).unwrap();
        assert!(
            overwrites_nothing(&before, &node),
            "a delivered member comes again: {}",
            show()
        );
        let is_whole = root_end(&text).is_some();
        // The seam reports that the text may also fit elsewhere.
        let is_said = outcome.as_ref().is_ok_and(|seam| seam.ambiguous);
        let wanted = &self.document[..root_end(&self.document).unwrap()];
        match line.style.group() {
            // Closers alone are an early end where more is due: they are asked for once more.
            Group::Anchored if outcome == Err(SpliceError::EarlyEnd) => {
                let rest = &self.document[self.cut..];
                let is_closer = |c: char| c.is_whitespace() || matches!(c, '"' | '}' | ']');
                assert!(is_part || rest.chars().all(is_closer), "{}", show());
                assert_eq!(text, self.delivered(), "{}", show());
            }
            Group::Anchored if line.is_sure && !is_part => assert_eq!(text, wanted, "{}", show()),
            Group::Exact if !is_part => assert_eq!(text, wanted, "{}", show()),
            Group::Anchored if line.is_sure => assert!(wanted.starts_with(&text), "{}", show()),
            Group::Exact => assert!(wanted.starts_with(&text), "{}", show()),
            Group::Unasked | Group::Restart | Group::NewRoot
                if is_whole && line.is_told && !is_said && !self.ambiguous =>
            {
                assert!(node.is(self.truth), "{}", show());
            }
            Group::Rest
                if line.is_told
                    && matches!(
                        line.style,
                        ContinuationStyle::Empty | ContinuationStyle::Refusal
                    ) =>
            {
                assert_eq!(text, self.delivered(), "{}", show());
            }
            _ => {}
        }
        text
    }

    fn show(&self, fragment: &str, line: Line) -> String {
        format!(
            "{} {:?}\n  {:?}\n  {fragment:?}",
            line.style.name(),
            line.expect,
            self.delivered()
        )
    }

    /// Returns the text after a fragment, the result of the join, and the repairs.
    fn join(
        &self,
        fragment: &str,
        expect: Expect,
        cuts: &[usize],
    ) -> (String, Result<Seam, SpliceError>, Vec<Repair>) {
        let limits = Limits::default();
        let mut slot = Slot::new(&limits);
        slot.push(self.delivered()).unwrap();
        let mut splice = Splice::new(&slot, expect, &limits);
        let mut outcome = Ok(());
        for chunk in chunks(fragment.as_bytes(), cuts) {
            let before = slot.document().text().len();
            let fed = splice.feed(&mut slot, std::str::from_utf8(chunk).unwrap());
            assert!(
                slot.document().text().len() >= before,
                "text was taken back"
            );
            assert!(outcome.is_ok() || fed == outcome, "a failure is final");
            outcome = fed;
        }
        let finished = splice.finish(&mut slot);
        let document = slot.document();
        assert!(
            document.text().starts_with(self.delivered()),
            "text was taken back"
        );
        assert!(outcome.is_ok() || finished.as_ref().err() == outcome.as_ref().err());
        if let Ok(seam) = &finished {
            assert_eq!((seam.offset, splice.pending()), (self.cut, 0));
        } else if splice.seam().is_none() {
            assert_eq!(
                document.text(),
                self.delivered(),
                "a fragment that fails to merge changes nothing"
            );
        }
        check_closing(document);
        (
            document.text().to_owned(),
            finished,
            splice.repairs().to_vec(),
        )
    }
}

fn check_closing(document: &Document) {
    let root = document.root().unwrap();
    let mut closed = Document::new(usize::MAX);
    closed.push(root).unwrap();
    assert_eq!(closed.text(), root, "the text is a legal beginning");
    closed.push(&document.completion().suffix).unwrap();
    assert!(closed.is_complete(), "{root} is not closed");
}

fn is_container(node: &Node) -> bool {
    matches!(node, Node::Object(..) | Node::Array(..))
}

/// Returns all nodes of a value, starting with itself.
fn all(node: &Node) -> Vec<&Node> {
    let mut nodes = vec![node];
    let mut at = 0;
    while let Some(&node) = nodes.get(at) {
        match node {
            Node::Object(members, _) => nodes.extend(members.iter().map(|(_, value)| value)),
            Node::Array(elements, _) => nodes.extend(elements),
            _ => {}
        }
        at += 1;
    }
    nodes
}

/// Returns whether no object has a key twice: the meaning of such a document is not agreed on.
fn is_unique(node: &Node) -> bool {
    all(node).iter().all(|node| {
        let Node::Object(members, _) = node else {
            return true;
        };
        let mut keys: Vec<_> = members.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    })
}

/// Returns whether the document explains some fragments in two ways that cannot be told apart.
fn is_ambiguous(truth: &Node) -> bool {
    all(truth).iter().any(|node| {
        let Node::Array(elements, _) = node else {
            return false;
        };
        // The next value, or the last one again.
        let equal =
            |(n, element): (usize, &Node)| elements[..n].iter().any(|other| other.is(element));
        elements.iter().enumerate().any(equal) || elements.iter().any(is_short)
    })
}

/// Returns whether a text is one character over and over, which does not tell where it belongs.
fn is_short(node: &Node) -> bool {
    match node {
        Node::String(units, _) => units.len() < 2,
        Node::Number(text, _) => text.len() < 2,
        Node::Array(elements, _) => elements.is_empty(),
        Node::Object(members, _) => members.is_empty(),
        Node::Literal(_) => false,
    }
}

/// Returns whether no open object got a member again that had been delivered.
fn overwrites_nothing(before: &Node, after: &Node) -> bool {
    let (mut before, mut after) = (before, after);
    loop {
        match (before, after) {
            (Node::Object(old, _), Node::Object(new, _)) => {
                let (known, rest) = new.split_at(old.len());
                if rest
                    .iter()
                    .any(|(key, _)| known.iter().any(|(other, _)| other == key))
                {
                    return false;
                }
                let (Some((_, last)), Some((_, same))) = (old.last(), known.last()) else {
                    return true;
                };
                (before, after) = (last, same);
            }
            (Node::Array(old, _), Node::Array(new, _)) => {
                let Some(last) = old.last() else { return true };
                (before, after) = (last, &new[old.len() - 1]);
            }
            _ => return true,
        }
    }
}

/// Returns the document of some bytes.
fn document(body: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(body)
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        return text.to_owned();
    }
    let mut source = Source {
        bytes: body.iter(),
        count: 0,
    };
    let layout = source.below(3);
    let mut out = String::new();
    source.value(&mut out, layout, 0, true);
    out
}

const KEYS: [&str; 12] = [
    "id", "t", "name", "kids", "a b", "\\u00e9", "", "note", "rows", "é", "value", "x\\\"y",
];
const WORDS: [&str; 20] = [
    "growth",
    "of",
    "the",
    "market",
    "was",
    "\\n",
    "\\u00e9",
    "é",
    "\\\\",
    "\\\"",
    "{",
    "\\ud83d\\ude00",
    "😀",
    "[1]",
    "12",
    "```",
    "no",
    "漢字",
    ", ",
    "<think>",
];

/// Makes a document of bytes, and of increasing numbers where there are no more bytes.
struct Source<'a> {
    bytes: std::slice::Iter<'a, u8>,
    count: usize,
}

impl Source<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.count += 1;
        self.bytes
            .next()
            .map_or(self.count * 7 / 3, |&byte| usize::from(byte))
            % end
    }

    fn value(&mut self, out: &mut String, layout: usize, level: usize, is_root: bool) {
        let deepest = if self.bytes.len() == 0 { 3 } else { 6 };
        let kinds = if level < deepest { 8 } else { 6 };
        match if is_root {
            6 + self.below(2)
        } else {
            self.below(kinds)
        } {
            0 | 1 => out.push_str(&(self.count * 17).to_string()),
            2 => out.push_str(["true", "false", "null", "-1.5e3", "0"][self.below(5)]),
            3..=5 => {
                out.push('"');
                for _ in 0..self.below(8) {
                    out.push_str(WORDS[self.below(WORDS.len())]);
                    out.push_str([" ", ""][self.below(2)]);
                }
                out.push_str(&format!("{}\"", self.count));
            }
            6 => self.items(out, layout, level, true),
            _ => self.items(out, layout, level, false),
        }
    }

    fn items(&mut self, out: &mut String, layout: usize, level: usize, is_object: bool) {
        let line = |out: &mut String, level: usize| {
            if layout == 2 {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', 2 * level));
            }
        };
        out.push(if is_object { '{' } else { '[' });
        let count = self.below(5);
        let first = self.below(4);
        for n in 0..count {
            if n > 0 {
                out.push_str(if layout == 1 { ", " } else { "," });
            }
            line(out, level + 1);
            if is_object {
                out.push_str(&format!("\"{}\":", KEYS[(first * 3 + n) % KEYS.len()]));
                out.push_str(if layout == 0 { "" } else { " " });
            }
            self.value(out, layout, level + 1, false);
        }
        if count > 0 {
            line(out, level);
        }
        out.push(if is_object { '}' } else { ']' });
    }
}
