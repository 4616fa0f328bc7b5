//! Judges whether a fragment was joined correctly, by comparing the result with the document that
//! was cut.

use super::join::Outcome;
use super::reading::{Node, read};

/// The verdict on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The value is the intended one; or the fragment adds nothing or not everything, and the
    /// result has all that it adds.
    Right,
    /// Nothing was taken, or less than the fragment has; the result may still become the intended
    /// one.
    Flagged,
    /// The fragment closed the delivered text, and the result is that: the fragment says so.
    Closed,
    /// The result is, or must become, another document, and nothing reports it.
    Wrong,
}

/// One fragment after one cut.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    /// The document's value.
    pub(crate) truth: &'a Node,
    pub(crate) delivered: &'a str,
    pub(crate) fragment: &'a str,
    /// What the fragment contains.
    pub(crate) brings: Brings<'a>,
    /// Bytes of the fragment before its first new one, where that is known.
    pub(crate) seam: Option<usize>,
}

/// The contents of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brings<'a> {
    /// The rest of the document.
    Rest,
    /// A part of it, which would follow. It is not compared where its layout is not that of any
    /// part of the document.
    Part {
        missing: &'a str,
        compared: bool,
    },
    Nothing,
    /// Only the closers of the delivered text.
    Closers,
}

impl Case<'_> {
    /// A join that is reported as ambiguous or as an early end is not silent.
    pub(crate) fn judge(&self, outcome: &Outcome) -> Verdict {
        match self.compare(outcome) {
            Verdict::Wrong if outcome.ambiguous || outcome.early_end => Verdict::Flagged,
            verdict => verdict,
        }
    }

    /// Compares the result with the document, whatever the seam reports.
    pub(crate) fn compare(&self, outcome: &Outcome) -> Verdict {
        let is_unchanged = outcome.text == self.delivered;
        if is_unchanged && matches!(self.brings, Brings::Nothing | Brings::Closers) {
            return Verdict::Right;
        }
        let Some(node) = read(&outcome.text) else {
            return Verdict::Wrong;
        };
        if outcome.complete {
            return match self.brings {
                _ if node.is(self.truth) => Verdict::Right,
                Brings::Closers if read(self.fragment).is_some_and(|closed| node.is(&closed)) => {
                    Verdict::Closed
                }
                _ => Verdict::Wrong,
            };
        }
        if !node.may_become(self.truth) {
            return Verdict::Wrong;
        }
        // Nothing in the text shows that a root that is a number has ended.
        if self.brings == Brings::Rest
            && outcome.joined
            && matches!(node, Node::Number(..))
            && node.is(self.truth)
        {
            return Verdict::Right;
        }
        let Brings::Part { missing, compared } = self.brings else {
            return Verdict::Flagged;
        };
        if is_unchanged {
            let ended_before = self.seam.is_some_and(|seam| self.fragment.len() <= seam);
            return if ended_before {
                Verdict::Right
            } else {
                Verdict::Flagged
            };
        }
        let completes =
            || read(&format!("{}{missing}", outcome.text)).is_some_and(|node| node.is(self.truth));
        if outcome.joined && (!compared || completes()) {
            Verdict::Right
        } else {
            Verdict::Flagged
        }
    }
}

/// Returns where the new text of `fragment` begins: of the places where it has the rest of the
/// document verbatim, the one after the longest repetition of delivered text. `None` where it does
/// not have the rest verbatim.
pub(crate) fn seam(fragment: &str, delivered: &str, rest: &str) -> Option<usize> {
    let repeated = |at: usize| {
        fragment.as_bytes()[..at]
            .iter()
            .rev()
            .zip(delivered.as_bytes().iter().rev())
            .take_while(|(a, b)| a == b)
            .count()
    };
    fragment
        .match_indices(rest)
        .map(|(at, _)| at)
        .max_by_key(|&at| repeated(at))
}

#[test]
fn the_seam_is_after_the_repeated_text() {
    assert_eq!(seam("0,0]", "[0,0,", "0]"), Some(2));
    assert_eq!(
        seam("I go on with }: ```\n{\"a\":1}\n```", "{\"a\":1", "}"),
        Some(26)
    );
    assert_eq!(seam("{ \"a\": 1 }", "{\"a\":", "1}"), None);
}

#[test]
fn verdicts_are_those_of_a_reader() {
    let truth = read(r#"{"a": [1, 2, 3], "b": "xyz"}"#).unwrap();
    let rows: [(Brings<'_>, &str, bool, Verdict); 12] = [
        (
            Brings::Rest,
            r#"{"a": [1, 2,3],"b":"xy\u007a"}"#,
            true,
            Verdict::Right,
        ),
        (
            Brings::Rest,
            r#"{"a": [1, 23], "b": "xyz"}"#,
            true,
            Verdict::Wrong,
        ),
        (Brings::Rest, r#"{"a": [1, 2"#, false, Verdict::Flagged),
        (
            Brings::Rest,
            r#"{"a": [1, 2, 3], "b": "x"#,
            false,
            Verdict::Flagged,
        ),
        (Brings::Rest, r#"{"a": [1, 2, 4"#, false, Verdict::Wrong),
        (
            Brings::Part {
                missing: "z\"}",
                compared: true,
            },
            r#"{"a": [1, 2, 3], "b": "xy"#,
            false,
            Verdict::Right,
        ),
        (
            Brings::Part {
                missing: "z\"}",
                compared: true,
            },
            r#"{"a": [1, 2, 3], "b": "x"#,
            false,
            Verdict::Flagged,
        ),
        (
            Brings::Part {
                missing: "z\"}",
                compared: true,
            },
            r#"{"a": [1, 2"#,
            false,
            Verdict::Flagged,
        ),
        (Brings::Nothing, r#"{"a": [1, 2"#, false, Verdict::Right),
        (
            Brings::Nothing,
            r#"{"a": [1, 2, 1, 2"#,
            false,
            Verdict::Wrong,
        ),
        (Brings::Closers, r#"{"a": [1, 2]}"#, true, Verdict::Closed),
        (Brings::Closers, r#"{"a": [1, 2, 2]}"#, true, Verdict::Wrong),
    ];
    for (brings, text, complete, verdict) in rows {
        let fragment = if brings == Brings::Closers {
            r#"{"a": [1, 2]}"#
        } else {
            ""
        };
        let case = Case {
            truth: &truth,
            delivered: r#"{"a": [1, 2"#,
            fragment,
            brings,
            seam: None,
        };
        let outcome = Outcome {
            text: text.to_owned(),
            complete,
            joined: true,
            how: String::new(),
            ambiguous: false,
            early_end: false,
            posterior: None,
            pending: 0,
            pushed_at: None,
        };
        assert_eq!(case.judge(&outcome), verdict, "{brings:?} {text}");
    }
}
