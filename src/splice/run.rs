//! Takes a run of text of an open string, before the decision, if no candidate, reader or matcher
//! can tell its characters apart.
//!
//! The result is that of the characters one by one: a run ends before, or with, the first character
//! that could begin or end a candidate, change what counts as repeated, or let a decision fall.

use memchr::{memchr2, memchr2_iter};

use super::attempt::SpliceAttempt;
use super::cursor::{PathCursor, TokenAtCut};
use super::deciding::{ATTEMPTS, Deciding};
use super::flow::skippable_len;
use super::reader::ContentReader;
use super::score::Schedule;
use super::slot::Slot;
use crate::overlap::Run;
use crate::work;

/// The bytes that are looked at for a run where the one before was short.
pub(super) const LEAST_AHEAD: usize = 64;

impl Deciding {
    /// Takes the beginning of `text` that is such a run; returns its length, or 0 where the next
    /// character must be [taken](Self::take) alone.
    pub(super) fn take_run(&mut self, slot: &Slot, text: &str) -> usize {
        let from = self.fragment.text.len();
        // Text that is examined and not taken is examined again, so a run examines at most twice
        // the length of the run before.
        let ahead = text
            .get(..floor(text, self.run_ahead.min(text.len())))
            .unwrap_or_default();
        let length = self.run_len(slot, ahead);
        work::steps(length);
        let run = ahead.get(..floor(ahead, length)).unwrap_or_default();
        if run.len() < 2 {
            self.run_ahead = LEAST_AHEAD;
            return 0;
        }
        self.fragment.text.push_str(run);
        // Once no attempt can be added, it only matters that there were too many.
        let is_crowded = self.rejected.is_crowded && self.attempts.len() >= ATTEMPTS;
        let Run { end, kept, hits } =
            self.matcher
                .run(slot.text(), &self.fragment.text, from, !is_crowded);
        self.fragment.text.truncate(end);
        self.take_costs(from);
        self.fragment
            .scanner
            .run(self.fragment.text.get(from..).unwrap_or_default());
        self.advance(slot, from);
        let run = self.fragment.text.get(from..).unwrap_or_default();
        let brackets = memchr2_iter(b'{', b'[', run.as_bytes()).map(|at| from + at);
        self.fragment.brackets.extend(brackets);
        if let Some(lost) = &mut self.lost
            && !lost.take(&self.place.predictor, run)
        {
            self.lost = None;
        }
        self.read(slot, from);
        self.matched(slot, hits, end);
        self.note_repeated((kept > from).then_some(kept));
        self.schedule.skip(&self.fragment.text, from, end);
        self.run_ahead = (2 * (end - from)).max(LEAST_AHEAD);
        end - from
    }

    /// The bytes of `text` that are text of a string for everybody, and at which no decision falls.
    fn run_len(&self, slot: &Slot, text: &str) -> usize {
        let fragment = &self.fragment;
        let verified = self
            .attempts
            .iter()
            .filter(|attempt| attempt.is_verified())
            .count();
        let is_quiet = fragment.text.len() > fragment.begin
            && fragment.scanner.is_settled()
            && self.near.anchor.is_over()
            && self.schedule.counts() == (self.attempts.len(), verified)
            && self.attempts.iter().all(SpliceAttempt::is_in_text)
            && self.readers.iter().all(|reader| reader.is_in_text(slot));
        if !is_quiet {
            return 0;
        }
        let room = self.caps.pending.saturating_sub(self.pending());
        let due = if verified > 0 {
            self.schedule.next().saturating_sub(fragment.text.len())
        } else {
            usize::MAX
        };
        let bytes = text.as_bytes();
        let bytes = bytes.get(..room.min(due)).unwrap_or(bytes);
        let mut length = skippable_len(bytes);
        if fragment.bracket.is_none() && !fragment.is_prose {
            let bytes = bytes.get(..length).unwrap_or_default();
            length = memchr2(b'{', b'[', bytes).unwrap_or(length);
        }
        let token = &self.place.token;
        let same = |reader: &ContentReader| {
            reader.same_text_len(token, bytes.get(..length).unwrap_or_default())
        };
        self.readers.iter().map(same).fold(length, usize::min)
    }
}

impl Schedule {
    /// Records that the fragment's text has grown from `from` to `end` without a change, with the
    /// same result as a check after each character but the last.
    fn skip(&mut self, text: &str, from: usize, end: usize) {
        while self.next() < end {
            let after = self.next().max(from + 1);
            let Some(at) = (after..end).find(|&at| text.is_char_boundary(at)) else {
                return;
            };
            self.is_due(self.counts(), at);
        }
    }
}

impl SpliceAttempt {
    /// In a string, where text makes no difference.
    fn is_in_text(&self) -> bool {
        let is_certain = || self.machine.certain_string() == self.machine.offset();
        self.lead.skip == 0 && self.in_plain_string() && is_certain()
    }
}

impl ContentReader {
    /// Whether no cursor examines the text of the open string, or each only compares it with the
    /// cut string.
    fn is_in_text(&self, slot: &Slot) -> bool {
        let around = self.machine.frames().len();
        self.is_over
            || self.machine.in_string()
                && self.machine.certain_string() == self.text.len()
                && self
                    .cursors
                    .iter()
                    .all(|cursor| cursor.is_in_text(slot, around))
    }

    /// Returns the bytes of `text` that repeat the cut string without reaching its end, for all
    /// cursors that compare them.
    fn same_text_len(&self, token: &TokenAtCut, text: &[u8]) -> usize {
        let comparing = self
            .cursors
            .iter()
            .filter(|cursor| !self.is_over && cursor.is_following());
        comparing
            .filter_map(|cursor| cursor.same_text_len(token, text))
            .fold(text.len(), usize::min)
    }
}

impl PathCursor {
    fn is_in_text(&self, slot: &Slot, around: usize) -> bool {
        !self.is_following()
            || self.compared.is_some()
            || self.levels_around(slot).is_some_and(|open| around >= open)
    }

    fn same_text_len(&self, token: &TokenAtCut, text: &[u8]) -> Option<usize> {
        let TokenAtCut::String(begun) = token else {
            return self.compared.map(|_| 0);
        };
        self.compared.map(|compared| begun.same_len(text, compared))
    }
}

/// The last character boundary up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::splice::text::TextSplice;
    use crate::splice::{Expect, Slot, Splice};
    use crate::work::tests::{BYTES_READ, STEPS};

    /// Elements of about `size` bytes.
    fn elements(size: usize) -> [(&'static str, String); 5] {
        let row = |n: usize| {
            format!(
                "{{\"id\": {n}, \"text\": \"Section {} says {} – and on.\"}}",
                n * 7919 % 1000,
                n % 77
            )
        };
        let rows = (0..size / 50).map(row).collect::<Vec<_>>().join(", ");
        [
            ("rows", format!("{{\"items\": [{rows}]}}")),
            ("letters", format!("\"{}\"", "a".repeat(size))),
            ("zeros", format!("[0{}]", ",0".repeat(size / 2))),
            (
                "escapes",
                format!("\"{}\"", "\\n\\u00e9é\\\"".repeat(size / 12)),
            ),
            (
                "nesting",
                format!("[{}0]", "[[[{\"k\": 1}]]], ".repeat(size / 16)),
            ),
        ]
    }

    /// Returns the delivered text, and a fragment that begins it again.
    fn texts(element: &str) -> (String, String) {
        let start = format!(
            "{{\"title\": \"Report\", \"rows\": [{element}, {{\"name\": \"Aurelia Quimby of Vaduz, who "
        );
        let rest = "went on {with} [brackets], \\\"quotes\\\" and é\", \"city\": \"Vaduz\"}, {\"name\": \"Bo\"}]}";
        (start.clone(), start + rest)
    }

    fn chunks(text: &str, size: usize) -> impl Iterator<Item = &str> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
            let end = (size.min(rest.len())..).find(|&end| rest.is_char_boundary(end))?;
            at += end;
            rest.get(..end)
        })
    }

    fn begin(delivered: &str) -> (Slot, Splice) {
        let limits = Limits::default();
        let mut slot = Slot::new(&limits);
        slot.push(delivered).unwrap();
        let splice = Splice::new(&slot, Expect::Anchor, &limits);
        (slot, splice)
    }

    /// A push of one character takes no run.
    #[test]
    fn runs_give_what_their_characters_give() {
        let fragments = |whole: &str, delivered: &str| {
            let cut = delivered.len();
            [
                whole.to_owned(),
                whole.replace(", ", ",\n").replace("[{", "[ {"),
                whole[cut - 40..].to_owned(),
                whole[cut..].to_owned(),
                whole.replace("Quimby", "Quimbo"),
                format!("Sure, here is the rest:\n```json\n{whole}\n```\n"),
            ]
        };
        for (_, element) in elements(600) {
            let (delivered, whole) = texts(&element);
            for fragment in fragments(&whole, &delivered) {
                let joined = |size: usize| {
                    let (mut slot, mut splice) = begin(&delivered);
                    let fed: Vec<_> = chunks(&fragment, size)
                        .map(|chunk| splice.feed(&mut slot, chunk))
                        .filter(Result::is_err)
                        .collect();
                    let seam = splice.finish(&mut slot);
                    let repairs = splice.repairs().to_vec();
                    format!(
                        "{:?} {seam:?} {repairs:?} {}",
                        fed.first(),
                        slot.document().text()
                    )
                };
                let expected = joined(1);
                for size in [2, 3, 7, 64, usize::MAX] {
                    assert_eq!(joined(size), expected, "{size} {fragment}");
                }
            }
        }
    }

    /// The digests are computed while the element is read: no byte of it is read again when it
    /// ends.
    #[test]
    fn a_comparison_reads_each_byte_once() {
        for size in [1 << 10, 16 << 10, 128 << 10] {
            for (name, element) in elements(size) {
                let (delivered, fragment) = texts(&element);
                let (mut slot, mut splice) = begin(&delivered);
                BYTES_READ.take();
                let (mut all, mut most) = (0, 0);
                for push in chunks(&fragment[..delivered.len() - 8], 4) {
                    splice.feed(&mut slot, push).unwrap();
                    let read = BYTES_READ.take();
                    (all, most) = (all + read, most.max(read));
                }
                assert!(
                    all <= fragment.len() * 5 / 4,
                    "{name}: {all} bytes for {}",
                    fragment.len()
                );
                assert!(most <= 2 << 10, "{name}: {most} bytes in one push");
                assert!(
                    all >= fragment.len() / 16,
                    "{name}: {all} bytes are counted"
                );
            }
        }
    }

    /// Text with this period, and no shorter one.
    fn periodic(period: usize, size: usize) -> String {
        let unit = (1..period)
            .map(|n| char::from(b'a' + (n * n * 7 + n / 3) as u8 % 25))
            .chain(['z']);
        unit.collect::<String>()
            .chars()
            .cycle()
            .take(size)
            .collect()
    }

    /// Delivered text that repeats itself, and a fragment that does.
    fn periodic_texts(period: usize, size: usize) -> [(String, String); 6] {
        let (text, string) = (
            periodic(period, size),
            format!("{{\"a\": \"{}", periodic(period, size)),
        );
        let broken: String = text
            .char_indices()
            .map(|(at, c)| if at % 97 == 96 { 'Y' } else { c })
            .collect();
        let row = |n: usize| ["1,", "4,", "7,"][n % period.min(3)];
        let numbers = format!("[{}", (0..size / 2).map(row).collect::<String>());
        [
            (string.clone(), text[period / 2..].to_owned()),
            (string.clone(), string.clone()),
            (
                string.clone(),
                format!("{}Y{}", &text[..size / 2], &text[size / 2..]),
            ),
            (string.clone(), broken),
            (string, format!("{}\n", &text[..60]).repeat(size / 61)),
            (numbers.clone(), numbers),
        ]
    }

    #[test]
    fn text_that_repeats_itself_costs_the_same_for_each_byte() {
        let mut most = 0;
        for period in [1, 2, 7, 100, 1000] {
            for case in 0..6 {
                for push in [50, usize::MAX].into_iter().skip(usize::from(period != 7)) {
                    let costs = [16 << 10, 32 << 10].map(|size| {
                        let (delivered, fragment) = &periodic_texts(period, size)[case];
                        let (mut slot, mut splice) = begin(delivered);
                        STEPS.take();
                        for chunk in chunks(fragment, push) {
                            let _ = splice.feed(&mut slot, chunk);
                        }
                        let _ = splice.finish(&mut slot);
                        let mut text =
                            TextSplice::new(delivered, Expect::Anchor, &Limits::default());
                        let _ = text.feed(delivered, fragment, &mut String::new());
                        STEPS.take()
                    });
                    let shown =
                        format!("period {period}, texts {case}, pushes of {push}: {costs:?} steps");
                    let [short, long] = costs;
                    // A fragment that is joined at its beginning costs next to nothing. Quadratic
                    // work would take four times the count.
                    assert!(short < 16 << 10 || 2 * long <= 5 * short, "{shown}");
                    // An anchor that is repeated nearly is compared with twice 204 of its
                    // characters for each of the fragment's, and the window is read once for each
                    // of 256 contents.
                    assert!(long <= (409 + 256 + 64) * (32 << 10), "{shown}");
                    most = most.max(long);
                }
            }
        }
        assert!(most > 2 * (32 << 10), "{most} steps are counted");
    }
}
