//! Joins a fragment to text that is not JSON: prose, Markdown, code. No grammar can reject an
//! offset here, so the fragment is taken only as requested, or at a verbatim repeat that contains
//! the anchor.

use std::ops::Range;

use super::deciding::CONTENTS;
use super::flow::is_space;
use super::tag_stripper::{StrippedPiece, TagStripper};
use super::{Alignment, Expect, Seam, SpliceError, SpliceRequest};
use crate::envelope::{ContentStart, EnvelopeScanner, FenceCloser, ends_in_block, ticks_of};
use crate::limits::Limits;
use crate::overlap::{Anchor, EVIDENCE, Hits, Matcher};

/// A splice of one fragment to any text. The text is lent with every call, and new text is appended
/// to another one.
///
/// If an [exact](Expect::Exact) continuation was requested, all of the fragment is taken from its
/// first byte on, and nothing is pending. Otherwise the fragment must repeat the
/// [anchor](Self::anchor): at its beginning, after white space, a fence, reasoning or a preamble of
/// whole lines, or where it begins again earlier in the text and repeats it word for word. The text
/// after the anchor is new. Everything else fails. The line that closes a fence around the fragment
/// is removed with all text after it; a bare fence line closes the fence, as in Markdown.
///
/// A few characters occur in many fragments: a seam that rests on less than sixteen bytes is
/// [ambiguous](Seam::ambiguous).
///
/// ```
/// use restitch::Limits;
/// use restitch::splice::{Expect};
/// use restitch::internal::prose::{TextSplice};
///
/// let (text, mut new) = ("Rain fell in tor", String::new());
/// let mut splice = TextSplice::new(text, Expect::Anchor, &Limits::default());
/// splice.feed(text, "Sure, I'll go on:\n\nRain fell in torrents.", &mut new).unwrap();
/// let seam = splice.finish(&mut new).unwrap();
/// assert_eq!(new, "rents.");
/// assert_eq!((seam.offset, seam.overlap), (16, 16));
/// ```
#[derive(Clone, Debug)]
pub struct TextSplice {
    anchor: Option<Anchor>,
    strip: TagStripper,
    /// An anchor that may also occur elsewhere, or is short, is not enough.
    is_sure: bool,
    /// Where the delivered text ends.
    offset: usize,
    /// Bytes of the fragment that may wait.
    cap: usize,
    phase: TextPhase,
}

#[derive(Clone, Debug)]
enum TextPhase {
    Searching(Box<AnchorSearch>),
    Joined(Box<JoinedText>),
    Failed(SpliceError),
}

/// The search for the anchor in a fragment.
#[derive(Clone, Debug)]
struct AnchorSearch {
    matcher: Matcher,
    scanner: EnvelopeScanner,
    /// Where the delivered text ends without white space.
    tail: usize,
    /// The delivered text ends in a fenced block.
    in_block: bool,
    /// The fragment up to now.
    pending: String,
    /// The offset at which its content begins, and the number of times that content began.
    begin: usize,
    begun: usize,
}

/// The repeat with which a fragment begins.
#[derive(Debug)]
struct FoundRepeat {
    alignment: Alignment,
    /// The delivered text that is repeated.
    repeated: Range<usize>,
    /// The fence around the repeat.
    fence: Option<FenceCloser>,
}

#[derive(Clone, Debug)]
struct JoinedText {
    seam: Seam,
    /// Where in the white space at the end of the delivered text the fragment may continue to
    /// repeat it.
    white: usize,
    fence: Option<FenceCloser>,
    /// White space after the repeated text: the next text shows whether it is new or ends a line of
    /// the envelope.
    lead: String,
    is_new: bool,
}

impl TextSplice {
    /// Creates a splice at the end of `text`. Takes O(text): a search for the anchor.
    pub fn new(text: &str, expect: Expect, limits: &Limits) -> Self {
        let anchor = Anchor::of(text, limits.continuation.max_anchor_chars);
        let offset = text.len();
        let phase = match &anchor {
            Some(anchor) if expect != Expect::Exact => {
                let range = anchor.range.clone();
                TextPhase::Searching(Box::new(AnchorSearch::new(text, range, limits)))
            }
            anchor => {
                let alignment = match anchor {
                    Some(_) => Alignment::Exact,
                    None => Alignment::Start,
                };
                let start = FoundRepeat {
                    alignment,
                    repeated: offset..offset,
                    fence: None,
                };
                TextPhase::Joined(Box::new(JoinedText::new(offset, start, false, 0)))
            }
        };
        Self {
            anchor,
            strip: TagStripper::new(&SpliceRequest::default()),
            is_sure: false,
            offset,
            cap: limits.parser.max_pending_bytes,
            phase,
        }
    }

    /// Makes a splice of a fragment that is delivered without a review, so the seam is never
    /// ambiguous. `tags`: the names of the request's own tags, which are not part of the text.
    pub(crate) fn certain(text: &str, tags: &[String], limits: &Limits) -> Self {
        let request = SpliceRequest {
            tags: tags.to_vec(),
            ..Expect::Anchor.into()
        };
        Self {
            strip: TagStripper::new(&request),
            is_sure: true,
            ..Self::new(text, Expect::Anchor, limits)
        }
    }

    /// Returns the anchor that the fragment is expected to repeat; `None` if nothing was delivered.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// Takes text of the fragment. New text is appended to `out`. `text` begins with the text that
    /// the splice was made for.
    ///
    /// # Errors
    /// Returns the failure, now and for all text to come.
    pub fn feed(
        &mut self,
        text: &str,
        fragment: &str,
        out: &mut String,
    ) -> Result<(), SpliceError> {
        let delivered = text.get(..self.offset).unwrap_or_default();
        if self.strip.is_idle(fragment) {
            self.take_text(delivered, fragment, out);
        } else {
            for piece in self.strip.feed(fragment) {
                match piece {
                    StrippedPiece::Text(text) => self.take_text(delivered, &text, out),
                    StrippedPiece::Tag(tag) => self.take_tag(delivered, &tag, out),
                    StrippedPiece::Mark => {}
                }
            }
        }
        if let TextPhase::Failed(failure) = &self.phase {
            Err(failure.clone())
        } else {
            Ok(())
        }
    }

    /// Ends a fragment that broke off: the next one repeats its uncertain end.
    pub(crate) fn break_off(&mut self) {
        self.strip.drop_pending();
        if let TextPhase::Joined(joined) = &mut self.phase {
            (joined.fence, joined.lead) = (None, String::new());
        }
    }

    /// Ends the fragment.
    ///
    /// # Errors
    /// Fails if the fragment was not joined: [`SpliceError::Empty`], [`SpliceError::NoAlignment`],
    /// [`SpliceError::Pending`].
    pub fn finish(&mut self, out: &mut String) -> Result<Seam, SpliceError> {
        let rest = self.strip.take_pending();
        if let TextPhase::Joined(joined) = &mut self.phase {
            joined.deliver("", 0, &rest, out);
        }
        if let TextPhase::Searching(search) = &self.phase {
            self.phase = TextPhase::Failed(match search.pending.trim() {
                "" => SpliceError::Empty,
                _ => SpliceError::NoAlignment,
            });
        }
        match &mut self.phase {
            TextPhase::Joined(joined) => joined.finish(out),
            TextPhase::Failed(failure) => Err(failure.clone()),
            TextPhase::Searching(_) => Err(SpliceError::Empty),
        }
    }

    /// Returns the seam, once the fragment has brought new text.
    pub fn seam(&self) -> Option<&Seam> {
        if let TextPhase::Joined(joined) = &self.phase {
            Some(&joined.seam).filter(|_| joined.is_new)
        } else {
            None
        }
    }

    /// Returns the number of bytes that wait for the decision.
    pub fn pending(&self) -> usize {
        match &self.phase {
            TextPhase::Searching(search) => search.pending.len(),
            TextPhase::Joined(_) | TextPhase::Failed(_) => 0,
        }
    }

    /// Takes text without the request's tags.
    fn take_text(&mut self, text: &str, fragment: &str, out: &mut String) {
        let mut at = 0;
        for c in fragment.chars() {
            let (TextPhase::Searching(search), Some(anchor)) = (&mut self.phase, &self.anchor)
            else {
                break;
            };
            at += c.len_utf8();
            if let Some(found) = search.take(text, &anchor.range, c) {
                self.join(found);
            } else if search.pending.len() > self.cap {
                self.phase = TextPhase::Failed(SpliceError::Pending(self.cap));
            }
        }
        if let TextPhase::Joined(joined) = &mut self.phase {
            joined.deliver(
                text,
                self.offset,
                fragment.get(at..).unwrap_or_default(),
                out,
            );
        }
    }

    /// Decides: the text after the repeated text is new.
    fn join(&mut self, found: FoundRepeat) {
        let is_ambiguous = !found.repeated.is_empty()
            && self
                .anchor
                .as_ref()
                .is_none_or(|anchor| !is_evidence(anchor));
        self.phase = if is_ambiguous && self.is_sure {
            TextPhase::Failed(SpliceError::Ambiguous)
        } else {
            let pending = self.pending();
            let joined = JoinedText::new(self.offset, found, is_ambiguous, pending);
            TextPhase::Joined(Box::new(joined))
        };
    }

    /// Takes a tag of the request, as written.
    fn take_tag(&mut self, text: &str, tag: &str, out: &mut String) {
        match &mut self.phase {
            // A line end beside the tag may belong to the tag or to the text, so the offset is not
            // certain.
            TextPhase::Joined(joined) if !joined.is_new => {
                self.phase = TextPhase::Failed(SpliceError::NoAlignment);
            }
            TextPhase::Joined(joined) if !tag.starts_with("</") => {
                joined.deliver(text, self.offset, tag, out);
            }
            TextPhase::Searching(_) | TextPhase::Joined(_) | TextPhase::Failed(_) => {}
        }
    }
}

impl AnchorSearch {
    fn new(text: &str, anchor: Range<usize>, limits: &Limits) -> Self {
        let root = text.len() - text.trim_ascii_start().len();
        Self {
            matcher: Matcher::new(text, anchor, root, limits.parser.overlap_window),
            scanner: EnvelopeScanner::new(),
            tail: text.trim_end_matches(is_space).len(),
            in_block: ends_in_block(text),
            pending: String::new(),
            begin: 0,
            begun: 0,
        }
    }

    /// Takes the next character; returns the repeat that it completes. `anchor`: the requested
    /// text, as a range of the delivered `text`.
    fn take(&mut self, text: &str, anchor: &Range<usize>, c: char) -> Option<FoundRepeat> {
        let at = self.pending.len();
        self.pending.push(c);
        if let Some(mark) = self.scanner.take(c) {
            self.begin_content(mark, at);
        }
        let mut found = None;
        for end in at + 1..=self.pending.len() {
            let fragment = self.pending.as_bytes().get(..end).unwrap_or_default();
            let is_repeat = self.matcher.may_repeat();
            let hits = self.matcher.feed(text, fragment);
            found = found.or_else(|| self.candidate_of(anchor, hits, end, is_repeat));
        }
        let (alignment, repeated) = found?;
        let start = if alignment == Alignment::Anchor {
            self.pending.len() - repeated.len()
        } else {
            self.begin
        };
        let fence = self.fence(text, start, repeated.start);
        Some(FoundRepeat {
            alignment,
            repeated,
            fence,
        })
    }

    /// Records that content may begin at `at`.
    fn begin_content(&mut self, mark: ContentStart, at: usize) {
        let before = self.pending.get(..at).unwrap_or_default();
        let is_more = mark == ContentStart::Line
            || before
                .get(self.begin..)
                .is_some_and(|text| text.trim().contains('\n'));
        if self.begun >= CONTENTS {
            return;
        }
        // Lines and fences of the text itself, written again, are not an envelope.
        if matches!(mark, ContentStart::Line | ContentStart::Fence)
            && is_more
            && self.matcher.may_repeat()
        {
            return;
        }
        self.matcher.begin(at);
        self.begin = at;
        self.begun += 1;
    }

    /// Returns the meaning of repeats that end at `end`, and the delivered text that is repeated;
    /// `is_repeat` if the content before the last byte may continue with a repeat.
    fn candidate_of(
        &self,
        asked: &Range<usize>,
        hits: Hits,
        end: usize,
        is_repeat: bool,
    ) -> Option<(Alignment, Range<usize>)> {
        let is_anchor = |&start: &usize| {
            let Some(before) = self.pending.get(..start) else {
                return false;
            };
            // From the end: anchors may follow each other without end in one line.
            let is_first = start == self.begin || before.trim_end().is_empty();
            let line = before.trim_end_matches(|c: char| c != '\n' && c.is_whitespace());
            let on_own_line = line.is_empty() || line.ends_with('\n');
            let is_inside = is_repeat && self.begin < start;
            is_first || on_own_line && !is_inside && !self.scanner.in_reasoning()
        };
        let anchor = hits
            .anchor
            .filter(is_anchor)
            .map(|start| (Alignment::Anchor, asked.end - (end - start)..asked.end));
        // A repeat that begins after the anchor's start may be new text that begins alike, and no grammar
        // can tell.
        let restart = hits.overlap.filter(|&start| start <= asked.start);
        anchor.or(restart.map(|start| (Alignment::Restart, start..self.tail)))
    }

    /// Returns the fence around the content that begins at `start` in the fragment and repeats the
    /// text from `repeated` on; none if the line before that belongs to the text itself.
    fn fence(&self, text: &str, start: usize, repeated: usize) -> Option<FenceCloser> {
        let line = self
            .pending
            .get(..start)?
            .trim_end()
            .rsplit('\n')
            .next()?
            .trim();
        let ticks = ticks_of(line)?;
        let is_own = text.get(..repeated)?.trim_end().ends_with(line);
        (!is_own).then(|| FenceCloser::text(ticks, self.in_block))
    }
}

/// Returns whether text that repeats the anchor is certain to continue after it.
pub(crate) fn is_evidence(anchor: &Anchor) -> bool {
    !anchor.ambiguous && anchor.range.len() >= EVIDENCE
}

impl JoinedText {
    /// Creates the state after the repeat. The delivered text ended at `offset`; `pending` bytes of
    /// the fragment waited.
    fn new(offset: usize, found: FoundRepeat, is_ambiguous: bool, pending: usize) -> Self {
        Self {
            seam: Seam {
                offset,
                path: String::new(),
                overlap: found.repeated.len(),
                alignment: found.alignment,
                ambiguous: is_ambiguous,
                pending,
                decided: pending,
                rivals: Vec::new(),
                posterior: 1.0,
                early_end: false,
            },
            white: found.repeated.end,
            fence: found.fence,
            lead: String::new(),
            is_new: false,
        }
    }

    /// Delivers text after the seam; the delivered text ended at `offset`.
    fn deliver(&mut self, text: &str, offset: usize, fragment: &str, out: &mut String) {
        let mut fragment = fragment;
        while self.white < offset
            && let Some(c) = fragment.chars().next()
        {
            let is_same = text
                .get(self.white..offset)
                .is_some_and(|white| white.starts_with(c));
            if !is_same {
                self.white = offset;
                break;
            }
            self.white += c.len_utf8();
            self.seam.overlap += c.len_utf8();
            fragment = fragment.get(c.len_utf8()..).unwrap_or_default();
        }
        if self.seam.overlap == 0 || self.is_new {
            return self.push(fragment, out);
        }
        self.lead.push_str(fragment);
        if !self.lead.trim().is_empty() {
            self.release(out);
        }
    }

    /// Delivers the text that waits after the repeated text.
    fn release(&mut self, out: &mut String) {
        let lead = std::mem::take(&mut self.lead);
        self.push(&lead, out);
    }

    fn push(&mut self, fragment: &str, out: &mut String) {
        let before = out.len();
        match &mut self.fence {
            Some(fence) => {
                fence.feed(fragment, out);
            }
            None => out.push_str(fragment),
        }
        self.is_new |= out.len() > before;
    }

    fn finish(&mut self, out: &mut String) -> Result<Seam, SpliceError> {
        self.release(out);
        let before = out.len();
        if let Some(fence) = &mut self.fence {
            fence.finish(out);
        }
        self.is_new |= out.len() > before;
        if !self.is_new && self.seam.overlap == 0 {
            return Err(SpliceError::Empty);
        }
        if !self.is_new {
            self.seam.alignment = Alignment::Repeat;
            self.is_new = true;
        }
        Ok(self.seam.clone())
    }
}
