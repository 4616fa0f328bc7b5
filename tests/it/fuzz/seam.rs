//! Seams of documents that models continue in their styles: the document is what must come of them.
//!
//! The first bytes of an input say where the document is cut, how it goes on and what was asked for; the rest of them is
//! the document, if that is JSON, and what one is made of, if it is not.

use restitch::splice::{Expect, Repair, Seam, Slot, Splice, SpliceError};
use restitch::{Document, Limits};

use super::missing::missing;
use super::reading::{End, Node, read, root_end};
use super::style::{ContinuationStyle, Cut, Group, write};
use crate::support::{Rng, chunks, text_cuts};

/// Bytes before the document.
const HEAD: usize = 9;

/// Characters of an anchor that may stand anywhere, in a sentence too.
const FEW: usize = 8;

/// Characters that a text hardly says twice; fewer of them in front of the rest may as well come once more.
const MANY: usize = 16;

pub(crate) fn check(input: &[u8]) {
    let Some((head, body)) = input.split_first_chunk::<HEAD>() else { return };
    let document = document(body);
    let Some(end) = root_end(&document) else { return };
    let Some(truth) = read(&document).filter(|node| is_container(node) && is_unique(node)) else { return };
    let &[asked, cut, cut_low, first, second, again, again_low, seed, raw] = head;
    let mut rng = Rng::of(input);
    let ambiguous = is_ambiguous(&truth);
    let place = |high: u8, low: u8, text: &str, end: usize| {
        let at = usize::from(u16::from_be_bytes([high, low])) % end.max(1);
        (1..=at.max(1)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    };
    let cut = place(cut, cut_low, &document, end);
    if cut == 0 {
        return;
    }
    let mut row = Row { document, cut, truth: &truth, ambiguous, asked, seed: u64::from(seed) };
    let Some((fragment, line)) = row.fragment(first) else { return };
    let is_cut_again = raw % 2 == 1 && fragment.len() > 1;
    let (part, is_part) = if is_cut_again {
        (&fragment[..place(again, again_low, &fragment, fragment.len())], true)
    } else {
        (fragment.as_str(), false)
    };
    // What was cut while it repeated what was delivered has nothing of its own: it may be anything.
    let is_repeat = is_part && !row.brings_more(&fragment, part);
    let line = Line { is_sure: line.is_sure && !is_repeat, is_told: line.is_told && !is_repeat, ..line };
    let text = row.check(part, line, is_part, &mut rng);
    // What stands is another beginning of the same document, perhaps laid out in another way: it goes on from there.
    let Some(node) = read(&text).filter(|node| node.may_become(&truth)) else { return };
    if !is_part || root_end(&text).is_some() {
        return;
    }
    let Some(rest) = row.rest(&text, &node) else { return };
    row.cut = text.len();
    row.document = text + &rest;
    if let Some((fragment, line)) = row.fragment(second) {
        row.check(&fragment, line, false, &mut rng);
    }
}

/// A document behind which something comes.
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
    /// The anchor that was asked for stands in one place only, and is more than what stands in prose as well.
    is_sure: bool,
    /// The fragment can't as well be another one's beginning.
    is_told: bool,
}

impl Row<'_> {
    fn delivered(&self) -> &str {
        &self.document[..self.cut]
    }

    /// What would make `text` the document.
    fn rest(&self, text: &str, node: &Node) -> Option<String> {
        self.document.strip_prefix(text).map(str::to_owned).or_else(|| missing(text, node, self.truth))
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
        let place = Cut { document: &self.document, offset: self.cut, anchor: anchor.range.start };
        let fragment = write(style, &place, self.seed)?;
        let text = &self.document[anchor.range.clone()];
        let says_little = text.chars().filter(|c| !c.is_whitespace()).count() < FEW;
        let is_sure = !anchor.ambiguous && !says_little && !text.starts_with("```");
        // Digits behind digits: the number goes on, or it comes again.
        let digit = |c: char| c.is_ascii_digit();
        let in_number =
            self.delivered().ends_with(digit) && fragment.trim_start_matches([',', '-', ' ', '\n']).starts_with(digit);
        // A few characters of a half anchor may as well come once more.
        let half = fragment.len().saturating_sub(self.document.len() - self.cut);
        let is_border = |n: usize| fragment.get(..n).is_some_and(|begun| fragment[..half].ends_with(begun));
        let is_short = style == ContinuationStyle::HalfAnchor && (half < MANY || (FEW..half).any(is_border));
        // Nothing stands in the innermost container: what has brackets of its own may be all of it.
        let is_bare = self.delivered().trim_end_matches(['"', ' ', '\n']).ends_with(['{', '[']);
        let is_bare = is_bare && style == ContinuationStyle::Refusal;
        let is_told = !says_little
            && !in_number
            && !is_short
            && !is_bare
            && !self.is_nested_alike()
            && !self.looks_honoured(anchor.range.start);
        Some((fragment, Line { style, expect, is_sure, is_told }))
    }

    /// What follows the cut begins as the delivered text ends, with all of the anchor, or with all of a container that is
    /// open: it seems to have been written again.
    fn looks_honoured(&self, anchor: usize) -> bool {
        let significant = |text: &str| text.split_ascii_whitespace().collect::<String>();
        let rest = significant(&self.document[self.cut..]);
        let tails = (0..self.cut).filter_map(|start| Some((start, self.delivered().get(start..)?)));
        let repeats = tails.filter(|(start, tail)| *start <= anchor || tail.starts_with(['{', '[']));
        repeats.map(|(_, tail)| significant(tail)).any(|tail| rest.starts_with(&tail))
    }

    /// Two objects that are open around each other have come to the same key: each of them may be the one that begins
    /// again.
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

    /// More of the fragment came than what repeats the delivered text.
    fn brings_more(&self, fragment: &str, part: &str) -> bool {
        let rest = self.document[self.cut..].trim_end();
        fragment.rfind(rest).is_some_and(|at| part.len() > at + FEW)
    }

    /// Joins the fragment in every chunking and compares what stands with the document; what stands.
    fn check(&self, fragment: &str, line: Line, is_part: bool, rng: &mut Rng) -> String {
        let whole = self.join(fragment, line.expect, &[]);
        let bytewise: Vec<_> = (1..fragment.len()).filter(|&at| fragment.is_char_boundary(at)).collect();
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
        let show = || format!("{outcome:?} {repairs:?} {text:?}: {}", self.show(fragment, line));
        // The reader does not take numbers that are too large for it.
        let Some(node) = read(&text) else { return text };
        let before = read(self.delivered()).unwrap();
        assert!(overwrites_nothing(&before, &node), "a delivered member comes again: {}", show());
        let is_whole = root_end(&text).is_some();
        // That it may as well stand elsewhere is said by the seam.
        let is_said = outcome.as_ref().is_ok_and(|seam| seam.ambiguous);
        let wanted = &self.document[..root_end(&self.document).unwrap()];
        match line.style.group() {
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
                if line.is_told && matches!(line.style, ContinuationStyle::Empty | ContinuationStyle::Refusal) =>
            {
                assert_eq!(text, self.delivered(), "{}", show());
            }
            _ => {}
        }
        text
    }

    fn show(&self, fragment: &str, line: Line) -> String {
        format!("{} {:?}\n  {:?}\n  {fragment:?}", line.style.name(), line.expect, self.delivered())
    }

    /// The text after it, what became of the fragment, and what was changed in it.
    fn join(&self, fragment: &str, expect: Expect, cuts: &[usize]) -> (String, Result<Seam, SpliceError>, Vec<Repair>) {
        let limits = Limits::default();
        let mut slot = Slot::new(&limits);
        slot.push(self.delivered()).unwrap();
        let mut splice = Splice::new(&slot, expect, &limits);
        let mut outcome = Ok(());
        for chunk in chunks(fragment.as_bytes(), cuts) {
            let before = slot.document().text().len();
            let fed = splice.feed(&mut slot, std::str::from_utf8(chunk).unwrap());
            assert!(slot.document().text().len() >= before, "text was taken back");
            assert!(outcome.is_ok() || fed == outcome, "a failure is final");
            outcome = fed;
        }
        let finished = splice.finish(&mut slot);
        let document = slot.document();
        assert!(document.text().starts_with(self.delivered()), "text was taken back");
        assert!(outcome.is_ok() || finished.as_ref().err() == outcome.as_ref().err());
        if let Ok(seam) = &finished {
            assert_eq!((seam.offset, splice.pending()), (self.cut, 0));
        } else if splice.seam().is_none() {
            assert_eq!(document.text(), self.delivered(), "a fragment that fails to merge changes nothing");
        }
        check_closing(document);
        (document.text().to_owned(), finished, splice.repairs().to_vec())
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

/// All that stands in a value, itself the first.
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

/// No object has a key twice: what such a document means is not agreed on.
fn is_unique(node: &Node) -> bool {
    all(node).iter().all(|node| {
        let Node::Object(members, _) = node else { return true };
        let mut keys: Vec<_> = members.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    })
}

/// The document explains some fragments in two ways, and nobody can tell them apart.
fn is_ambiguous(truth: &Node) -> bool {
    all(truth).iter().any(|node| {
        let Node::Array(elements, _) = node else { return false };
        // The next one, or the last one again.
        let equal = |(n, element): (usize, &Node)| elements[..n].iter().any(|other| other.is(element));
        elements.iter().enumerate().any(equal) || elements.iter().any(is_short)
    })
}

/// One character, which says nothing of where it belongs.
fn is_short(node: &Node) -> bool {
    match node {
        Node::String(units, _) => units.len() < 2,
        Node::Number(text, _) => text.len() < 2,
        Node::Array(elements, _) => elements.is_empty(),
        Node::Object(members, _) => members.is_empty(),
        Node::Literal(_) => false,
    }
}

/// No object that was open has got a member again that had been delivered.
fn overwrites_nothing(before: &Node, after: &Node) -> bool {
    let (mut before, mut after) = (before, after);
    loop {
        match (before, after) {
            (Node::Object(old, _), Node::Object(new, _)) => {
                let (known, rest) = new.split_at(old.len());
                if rest.iter().any(|(key, _)| known.iter().any(|(other, _)| other == key)) {
                    return false;
                }
                let (Some((_, last)), Some((_, same))) = (old.last(), known.last()) else { return true };
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

/// The document of some bytes.
fn document(body: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(body)
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        return text.to_owned();
    }
    let mut source = Source { bytes: body.iter(), count: 0 };
    let layout = source.below(3);
    let mut out = String::new();
    source.value(&mut out, layout, 0, true);
    out
}

const KEYS: [&str; 12] = ["id", "t", "name", "kids", "a b", "\\u00e9", "", "note", "rows", "é", "value", "x\\\"y"];
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

/// Makes a document of bytes, and of numbers in a row where there are no more.
struct Source<'a> {
    bytes: std::slice::Iter<'a, u8>,
    count: usize,
}

impl Source<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.count += 1;
        self.bytes.next().map_or(self.count * 7 / 3, |&byte| usize::from(byte)) % end
    }

    fn value(&mut self, out: &mut String, layout: usize, level: usize, is_root: bool) {
        let deepest = if self.bytes.len() == 0 { 3 } else { 6 };
        let kinds = if level < deepest { 8 } else { 6 };
        match if is_root { 6 + self.below(2) } else { self.below(kinds) } {
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
