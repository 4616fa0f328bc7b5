//! Checks of a text. A failure shows the whole text, and the row of a table that it belongs to.

use std::fmt::Debug;

/// A text that a test looks into.
#[derive(Clone)]
pub struct Said<'a> {
    text: &'a str,
    row: String,
}

/// Texts that a test looks into.
pub trait Says {
    fn said(&self) -> Said<'_>;

    /// Names the row of a table that the text belongs to.
    fn of(&self, row: impl Debug) -> Said<'_> {
        let row = format!("{row:?}: ");
        Said { row, ..self.said() }
    }

    #[track_caller]
    fn has(&self, part: impl AsRef<str>) -> Said<'_> {
        self.said()
            .check("has no", part.as_ref(), |text, part| text.contains(part))
    }

    #[track_caller]
    fn has_all<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> Said<'_> {
        for part in parts {
            self.has(part);
        }
        self.said()
    }

    #[track_caller]
    fn lacks(&self, part: impl AsRef<str>) -> Said<'_> {
        self.said()
            .check("has", part.as_ref(), |text, part| !text.contains(part))
    }

    #[track_caller]
    fn begins(&self, part: impl AsRef<str>) -> Said<'_> {
        let begins = |text: &str, part: &str| text.starts_with(part);
        self.said()
            .check("does not begin with", part.as_ref(), begins)
    }

    #[track_caller]
    fn ends(&self, part: impl AsRef<str>) -> Said<'_> {
        let ends = |text: &str, part: &str| text.ends_with(part);
        self.said().check("does not end with", part.as_ref(), ends)
    }
}

impl Says for str {
    fn said(&self) -> Said<'_> {
        Said {
            text: self,
            row: String::new(),
        }
    }
}

impl<'a> Says for Said<'a> {
    fn said(&self) -> Said<'a> {
        self.clone()
    }
}

impl Said<'_> {
    #[track_caller]
    fn check(self, problem: &str, part: &str, is_right: impl Fn(&str, &str) -> bool) -> Self {
        let Self { text, row } = &self;
        assert!(
            is_right(text, part),
            "{row}the text {problem} {part:?}:\n{text}"
        );
        self
    }
}

#[test]
fn a_check_fails_where_the_text_differs() {
    use std::panic::catch_unwind;

    "[1, 2]"
        .of("a row")
        .begins("[1")
        .has(", ")
        .ends("2]")
        .lacks("3");
    assert!(catch_unwind(|| drop("[1".has("2"))).is_err());
    assert!(catch_unwind(|| drop("[1".lacks("1"))).is_err());
    assert!(catch_unwind(|| drop("[1".begins("1"))).is_err());
    assert!(catch_unwind(|| drop("[1".ends("["))).is_err());
}
