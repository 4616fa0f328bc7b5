//! Checks of a text. A failure shows the whole text, and the row of a table that it belongs to.

use std::fmt::Debug;

/// A text that a test looks into.
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
        self.said().has(part)
    }

    #[track_caller]
    fn has_all<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> Said<'_> {
        self.said().has_all(parts)
    }

    #[track_caller]
    fn lacks(&self, part: impl AsRef<str>) -> Said<'_> {
        self.said().lacks(part)
    }

    #[track_caller]
    fn begins(&self, part: impl AsRef<str>) -> Said<'_> {
        self.said().begins(part)
    }

    #[track_caller]
    fn ends(&self, part: impl AsRef<str>) -> Said<'_> {
        self.said().ends(part)
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

impl Said<'_> {
    #[track_caller]
    pub fn has(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        let is_right = self.text.contains(part);
        self.check(is_right, "has no", part)
    }

    #[track_caller]
    pub fn has_all<P: AsRef<str>>(self, parts: impl IntoIterator<Item = P>) -> Self {
        let mut said = self;
        for part in parts {
            said = said.has(part);
        }
        said
    }

    #[track_caller]
    pub fn lacks(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        let is_right = !self.text.contains(part);
        self.check(is_right, "has", part)
    }

    #[track_caller]
    pub fn begins(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        let is_right = self.text.starts_with(part);
        self.check(is_right, "does not begin with", part)
    }

    #[track_caller]
    pub fn ends(self, part: impl AsRef<str>) -> Self {
        let part = part.as_ref();
        let is_right = self.text.ends_with(part);
        self.check(is_right, "does not end with", part)
    }

    #[track_caller]
    fn check(self, is_right: bool, problem: &str, part: &str) -> Self {
        let Self { text, row } = &self;
        assert!(is_right, "{row}the text {problem} {part:?}:\n{text}");
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
