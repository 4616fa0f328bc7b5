//! A fragment that begins as requested: with the anchor, or at the cut.
//!
//! The requested candidate wins with its first new character, whatever other readings the fragment
//! has. So while the fragment does what was requested, nothing is compared, and the delivered text
//! need not be counted. With the first character that does something else, all candidates are
//! [tried](super::deciding).

use super::attempt::{AttemptSetup, SpliceAttempt};
use super::candidate::{Candidate, Evidence};
use super::deciding::FEW;
use super::early_end::may_end_early;
use super::flow::is_space;
use super::predictor::Counting;
use super::prior::Start;
use super::seam::{Alignment, Expect, SpliceRequest};
use super::slot::Slot;
use crate::overlap::Anchor;

/// A fragment that has done only what was requested.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    expect: Expect,
    /// The fragment so far.
    pub(super) text: String,
    /// Without the text before the root; empty if the fragment continues at the cut, or if a
    /// separate root was requested.
    anchor: String,
    /// Bytes of the anchor that the fragment has repeated.
    matched: usize,
    /// New text that repeats the anchor may be the anchor once more.
    may_come_twice: bool,
    /// Takes the new text; `None` before the anchor is whole.
    attempt: Option<Box<SpliceAttempt>>,
    /// Bytes of white space before the anchor, or of new text, that may wait.
    cap: usize,
    /// Counts the delivered text, once [prepared](super::Splice::prepare).
    pub(super) counting: Option<Counting>,
}

/// Bytes of white space before the anchor, or of new text, that may wait here: each character looks
/// at them again.
// Chosen: white space before an answer is shorter, and new text decides with its first character.
// Longer, and the square of it is the work for an answer of blanks.
const WAITING: usize = 256;

/// The meaning of a character of the fragment.
#[derive(Debug)]
pub(super) enum RequestedStep {
    /// The fragment has followed the request up to here.
    AsAsked,
    /// Its new text continues the document.
    Verified(Box<SpliceAttempt>),
    /// The fragment does something else, or may do so.
    Other,
}

impl Requested {
    /// Waits for the requested text.
    pub(super) fn new(slot: &Slot, request: &SpliceRequest, anchor: &Anchor, cap: usize) -> Self {
        let root = slot.document().root_start().unwrap_or_default();
        let is_prefill = request.expect == Expect::Exact;
        let has_anchor = !is_prefill && !request.rerooted;
        let range = if has_anchor {
            anchor.range.start.max(root)..anchor.range.end
        } else {
            0..0
        };
        let anchor_text = slot.text().get(range).unwrap_or_default();
        let mut requested = Self {
            expect: request.expect,
            text: String::new(),
            anchor: anchor_text.to_owned(),
            matched: 0,
            may_come_twice: anchor_text.len() >= FEW && !anchor.ambiguous,
            attempt: None,
            cap: cap.min(WAITING),
            counting: None,
        };
        if is_prefill && !request.rerooted {
            requested.begin(slot);
        }
        requested
    }

    /// Takes the next character of the fragment.
    pub(super) fn take(&mut self, slot: &Slot, c: char) -> RequestedStep {
        let Some(attempt) = &mut self.attempt else {
            return self.take_anchor(slot, c);
        };
        self.text.push(c);
        let is_legal = attempt.feed(slot, c.encode_utf8(&mut [0; 4])).is_ok();
        if !is_legal || !attempt.candidate.start.is_requested() {
            return RequestedStep::Other;
        }
        let new = self.text.get(attempt.candidate.at..).unwrap_or_default();
        let again = new.trim_start_matches(is_space);
        if new.len() > self.cap || self.may_come_twice && again == self.anchor {
            return RequestedStep::Other;
        }
        let waits = self.may_come_twice && self.anchor.starts_with(again)
            || may_end_early(slot, self.expect, new);
        match self
            .attempt
            .take_if(|attempt| attempt.is_verified() && !waits)
        {
            Some(attempt) => RequestedStep::Verified(attempt),
            None => RequestedStep::AsAsked,
        }
    }

    /// Takes a character before or inside the anchor.
    fn take_anchor(&mut self, slot: &Slot, c: char) -> RequestedStep {
        let is_due = self
            .anchor
            .get(self.matched..)
            .is_some_and(|rest| rest.starts_with(c));
        let may_precede = is_space(c) && self.is_blank();
        self.text.push(c);
        self.matched = if is_due {
            self.matched + c.len_utf8()
        } else {
            0
        };
        if !is_due && !may_precede || self.text.len() - self.matched > self.cap {
            return RequestedStep::Other;
        }
        if is_due && self.matched == self.anchor.len() {
            self.begin(slot);
        }
        RequestedStep::AsAsked
    }

    /// Whether only white space has arrived.
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim_start_matches(is_space).is_empty()
    }

    /// Whether a tag here is one of the request's own. A prompt has tags; a prefill has none.
    pub(super) fn may_be_tag(&self) -> bool {
        self.expect != Expect::Exact && self.is_blank()
    }

    /// The new text begins here.
    fn begin(&mut self, slot: &Slot) {
        let (end, at) = (slot.text().len(), self.text.len());
        let tail = slot.text().trim_end_matches(is_space).len();
        let evidence = Evidence::new(Start::Requested.prior(self.expect), 0.0, 0.0);
        let (alignment, from) = match self.expect {
            Expect::Exact => (Alignment::Exact, end),
            Expect::Anchor | Expect::Any => (Alignment::Anchor, tail - self.anchor.len().min(tail)),
        };
        let new = Candidate::new(alignment, Start::Requested, at, self.anchor.len());
        let candidate = Candidate {
            from,
            evidence,
            ..new
        };
        let skip = if self.expect == Expect::Exact {
            0
        } else {
            end - tail
        };
        self.attempt = Some(Box::new(SpliceAttempt::new(
            slot,
            candidate,
            AttemptSetup {
                skip,
                ..AttemptSetup::default()
            },
            self.cap,
        )));
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::splice::deciding::Deciding;
    use crate::splice::{Expect, Seam, Slot, Splice, SpliceError, SplicePhase, SpliceRequest};

    const DOCUMENTS: [&str; 4] = [
        r#"{"title": "Rain, \"wind\" and snow\n on the hills", "rows": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}, {"id": 3}]}"#,
        r#"[[1, 2, 3], [4, 5, 6], [4, 5, 6], [-7.25e3, true, null], "", {"a": {"b": []}}]"#,
        "{\n  \"text\": \"h\u{e4}\u{1f327} \\ud83c\\udf27 the end\",\n  \"list\": [\n    \"one\",\n    \"two\"\n  ]\n}",
        r#"{"a": "aaaaaaaaaaaaaaaaaaaaaaaa", "b": "aaaaaaaaaaaaaaaaaaaaaaaa", "a<b": "```json"}"#,
    ];

    /// The result of a fragment that a client or a report can see, without the losing candidates.
    type Joined = (String, Result<Seam, SpliceError>, String);

    /// Joins `fragment` to `delivered`, and where `compares` is set, lets all candidates begin with
    /// its first character.
    fn joined(
        delivered: &str,
        fragment: &str,
        request: &SpliceRequest,
        compares: bool,
        limits: &Limits,
    ) -> Joined {
        let mut slot = Slot::new(limits);
        slot.push(delivered).unwrap();
        let mut splice = Splice::new(&slot, request.clone(), limits);
        if let (SplicePhase::Requested(_), Some(anchor), true) =
            (&splice.phase, &splice.task.anchor, compares)
        {
            let deciding = Deciding::new(&slot, &splice.task, anchor, None);
            splice.phase = SplicePhase::Deciding(Box::new(deciding));
        }
        let _ = splice.feed(&mut slot, fragment);
        let seam = splice.finish(&mut slot).map(|seam| Seam {
            rivals: Vec::new(),
            ..seam
        });
        (
            slot.text().to_owned(),
            seam,
            format!("{:?}", splice.repairs()),
        )
    }

    fn decided(joined: &Joined) -> usize {
        joined.1.as_ref().map_or(0, |seam| seam.decided)
    }

    /// Scores are not computed after each byte, so that all candidates may decide a little later.
    fn without_waiting((text, seam, repairs): &Joined) -> Joined {
        let seam = seam.clone().map(|seam| Seam {
            pending: 0,
            decided: 0,
            ..seam
        });
        (text.clone(), seam, repairs.clone())
    }

    /// Continuations of the document from `cut` on: the requested one, and similar ones.
    fn fragments(document: &str, cut: usize, anchor: &str) -> Vec<String> {
        let (delivered, rest) = document.split_at(cut);
        let asked = [rest.to_owned(), format!("{anchor}{rest}")];
        let other = [
            format!("{anchor}\n{rest}"),
            format!("\n {anchor}{rest}"),
            format!("```json\n{anchor}{rest}\n```"),
            format!("{anchor}{anchor}{rest}"),
            format!("{anchor} {anchor}\n{anchor}{rest}"),
            format!("Here it is: {anchor}{rest}"),
            format!(
                "{}{rest}",
                anchor.get(..anchor.len() / 2).unwrap_or_default()
            ),
            format!("{anchor}\"]}}"),
            format!("{anchor}, 1, 2"),
            format!("{anchor}\u{e4}{rest}"),
            format!("<t>{anchor}</t>{rest}"),
            format!("{anchor}</t>{rest}"),
            format!("{anchor}\u{a7}{rest}"),
            format!("{delivered}{rest}"),
            format!(" {rest}"),
            anchor.to_owned(),
            String::new(),
        ];
        asked.into_iter().chain(other).collect()
    }

    #[test]
    fn an_anchor_may_be_a_megabyte_long() {
        let text = format!("{{\"a\": [\"{}", "long ".repeat(200_000));
        let mut slot = Slot::new(&Limits::default());
        slot.push(&text).unwrap();
        let request = SpliceRequest {
            anchor: Some(0..text.len()),
            ..Expect::Anchor.into()
        };
        let mut splice = Splice::new(&slot, request, &Limits::default());
        splice.feed(&mut slot, &text).unwrap();
        splice.feed(&mut slot, "way\"]}").unwrap();
        assert!(slot.document().is_complete());
    }

    #[test]
    fn what_was_asked_for_wins_as_it_does_among_all_candidates() {
        let mut asked = 0;
        for (document, small) in DOCUMENTS
            .iter()
            .flat_map(|document| [(document, false), (document, true)])
        {
            let mut limits = Limits::default();
            if small {
                limits.parser.max_pending_bytes = 8;
            }
            for cut in (1..document.len())
                .step_by(2)
                .filter(|&cut| document.is_char_boundary(cut))
            {
                let delivered = document.get(..cut).unwrap();
                let ways = [
                    (Expect::Anchor, None, false),
                    (Expect::Exact, None, false),
                    (Expect::Any, Some("\u{a7}"), false),
                    (Expect::Any, None, true),
                ];
                for (expect, mark, rerooted) in ways {
                    let (mark, tags) = (mark.map(str::to_owned), vec!["t".to_owned()]);
                    let request = SpliceRequest {
                        mark,
                        tags,
                        rerooted,
                        ..expect.into()
                    };
                    let mut slot = Slot::new(&limits);
                    slot.push(delivered).unwrap();
                    let anchor = Splice::new(&slot, request.clone(), &limits)
                        .anchor()
                        .map(|anchor| anchor.range.clone());
                    let anchor = anchor
                        .and_then(|range| delivered.get(range))
                        .unwrap_or_default();
                    for fragment in fragments(document, cut, anchor) {
                        let run =
                            |compares| joined(delivered, &fragment, &request, compares, &limits);
                        let (own, twin) = (run(false), run(true));
                        // Text that waits for a comparison reaches a limit earlier.
                        if !matches!(twin.1, Err(SpliceError::Pending(_))) {
                            assert_eq!(
                                without_waiting(&own),
                                without_waiting(&twin),
                                "{delivered:?} + {fragment:?}"
                            );
                            assert!(decided(&own) <= decided(&twin), "{own:?} {twin:?}");
                        }
                        asked += usize::from(own.0 == *document);
                    }
                }
            }
        }
        assert!(asked > 5_000, "{asked}");
    }
}
