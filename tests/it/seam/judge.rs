//! Whether a fragment was joined as it was meant: by what stands, compared with the document that was cut.

use super::join::Outcome;
use super::reading::{Node, read};

/// What one row comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The value is the one that was meant; or, where the fragment brings nothing or not all, what stands is all that
    /// it brings.
    Right,
    /// Nothing was taken, or less than came; what stands may still become what was meant.
    Flagged,
    /// The fragment has closed what was delivered, and so it stands: that is what it says.
    Closed,
    /// What stands is no JSON, and nobody says so before it is parsed.
    Broken,
    /// What stands is, or must become, another document, and nothing tells.
    Wrong,
}

/// One fragment behind one cut.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    /// The document's value.
    pub(crate) truth: &'a Node,
    pub(crate) delivered: &'a str,
    pub(crate) fragment: &'a str,
    /// What is expected of it.
    pub(crate) brings: Brings<'a>,
    /// Bytes of the fragment before its first new one, where that can be told.
    pub(crate) seam: Option<usize>,
}

/// What there is in a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brings<'a> {
    /// The rest of the document.
    Rest,
    /// A part of it: this would follow. Where that is laid out as no part of the document is, it is not compared.
    Part {
        missing: &'a str,
        compared: bool,
    },
    Nothing,
    /// Nothing but the closers of what was delivered.
    Closers,
}

impl Case<'_> {
    /// What is joined and reported as ambiguous has been told: it is not silent.
    pub(crate) fn judge(&self, outcome: &Outcome) -> Verdict {
        match self.compare(outcome) {
            Verdict::Wrong if outcome.ambiguous => Verdict::Flagged,
            verdict => verdict,
        }
    }

    fn compare(&self, outcome: &Outcome) -> Verdict {
        let is_unchanged = outcome.text == self.delivered;
        if is_unchanged && matches!(self.brings, Brings::Nothing | Brings::Closers) {
            return Verdict::Right;
        }
        let Some(node) = read(&outcome.text) else { return Verdict::Wrong };
        if outcome.complete {
            return match self.brings {
                _ if node.is(self.truth) => Verdict::Right,
                Brings::Closers if read(self.fragment).is_some_and(|told| node.is(&told)) => Verdict::Closed,
                _ => Verdict::Wrong,
            };
        }
        if !node.may_become(self.truth) {
            return Verdict::Wrong;
        }
        // Nothing in the text says that a root that is a number has ended.
        if self.brings == Brings::Rest && outcome.joined && matches!(node, Node::Number(..)) && node.is(self.truth) {
            return Verdict::Right;
        }
        let Brings::Part { missing, compared } = self.brings else { return Verdict::Flagged };
        if is_unchanged {
            let ended_before = self.seam.is_some_and(|seam| self.fragment.len() <= seam);
            return if ended_before { Verdict::Right } else { Verdict::Flagged };
        }
        let stands = || read(&format!("{}{missing}", outcome.text)).is_some_and(|node| node.is(self.truth));
        if outcome.joined && (!compared || stands()) { Verdict::Right } else { Verdict::Flagged }
    }

    /// The same for a script that joins texts and parses what comes of it.
    pub(crate) fn judge_text(&self, text: &str) -> Verdict {
        let outcome = Outcome {
            text: text.to_owned(),
            complete: serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
            joined: true,
            how: String::new(),
            ambiguous: false,
            held: 0,
            pushed_at: None,
        };
        match self.judge(&outcome) {
            Verdict::Wrong | Verdict::Flagged if !outcome.complete => Verdict::Broken,
            verdict => verdict,
        }
    }
}

/// Where the new text of `fragment` begins: of the places where the rest of the document stands in it, the one that
/// repeats the most of what was delivered. `None` where it does not stand there verbatim.
pub(crate) fn seam(fragment: &str, delivered: &str, rest: &str) -> Option<usize> {
    let repeated = |at: usize| {
        fragment.as_bytes()[..at]
            .iter()
            .rev()
            .zip(delivered.as_bytes().iter().rev())
            .take_while(|(a, b)| a == b)
            .count()
    };
    fragment.match_indices(rest).map(|(at, _)| at).max_by_key(|&at| repeated(at))
}

#[test]
fn the_seam_is_behind_what_is_repeated() {
    assert_eq!(seam("0,0]", "[0,0,", "0]"), Some(2));
    assert_eq!(seam("I go on with }: ```\n{\"a\":1}\n```", "{\"a\":1", "}"), Some(26));
    assert_eq!(seam("{ \"a\": 1 }", "{\"a\":", "1}"), None);
}

#[test]
fn verdicts_are_those_of_a_reader() {
    let truth = read(r#"{"a": [1, 2, 3], "b": "xyz"}"#).unwrap();
    let rows: [(Brings<'_>, &str, bool, Verdict); 12] = [
        (Brings::Rest, r#"{"a": [1, 2,3],"b":"xy\u007a"}"#, true, Verdict::Right),
        (Brings::Rest, r#"{"a": [1, 23], "b": "xyz"}"#, true, Verdict::Wrong),
        (Brings::Rest, r#"{"a": [1, 2"#, false, Verdict::Flagged),
        (Brings::Rest, r#"{"a": [1, 2, 3], "b": "x"#, false, Verdict::Flagged),
        (Brings::Rest, r#"{"a": [1, 2, 4"#, false, Verdict::Wrong),
        (Brings::Part { missing: "z\"}", compared: true }, r#"{"a": [1, 2, 3], "b": "xy"#, false, Verdict::Right),
        (Brings::Part { missing: "z\"}", compared: true }, r#"{"a": [1, 2, 3], "b": "x"#, false, Verdict::Flagged),
        (Brings::Part { missing: "z\"}", compared: true }, r#"{"a": [1, 2"#, false, Verdict::Flagged),
        (Brings::Nothing, r#"{"a": [1, 2"#, false, Verdict::Right),
        (Brings::Nothing, r#"{"a": [1, 2, 1, 2"#, false, Verdict::Wrong),
        (Brings::Closers, r#"{"a": [1, 2]}"#, true, Verdict::Closed),
        (Brings::Closers, r#"{"a": [1, 2, 2]}"#, true, Verdict::Wrong),
    ];
    for (brings, text, complete, verdict) in rows {
        let fragment = if brings == Brings::Closers { r#"{"a": [1, 2]}"# } else { "" };
        let case = Case { truth: &truth, delivered: r#"{"a": [1, 2"#, fragment, brings, seam: None };
        let outcome = Outcome {
            text: text.to_owned(),
            complete,
            joined: true,
            how: String::new(),
            ambiguous: false,
            held: 0,
            pushed_at: None,
        };
        assert_eq!(case.judge(&outcome), verdict, "{brings:?} {text}");
    }
}
