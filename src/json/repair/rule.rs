//! The levels of tolerance, and the table of rules.

use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// How much of a text inside the root may be changed. Each level includes the ones before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RepairLevel {
    /// Nothing: the grammar of RFC 8259.
    #[default]
    Strict,
    /// Changes that keep the meaning of every whole token: commas, escapes, quotes around a token,
    /// comments.
    Syntax,
    /// Changes that choose between readings: lost quotes, colons and closers, words without quotes.
    Guess,
}

impl RepairLevel {
    /// All levels, the least tolerant first.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Syntax, Self::Guess];

    /// Returns the name in options and reports: `strict`, `syntax`, `guess`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Syntax => "syntax",
            Self::Guess => "guess",
        }
    }

    /// Returns the level of a name.
    ///
    /// # Errors
    /// Fails with a message that lists the names.
    #[doc(hidden)]
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == name);
        found.ok_or_else(|| format!("`{name}` is not one of `strict`, `syntax`, `guess`"))
    }
}

/// Declares the rules with their names, levels, costs, meanings and examples: the table of
/// docs/internals/repair.md.
macro_rules! rules {
    ($($variant:ident $name:literal $level:ident $cost:literal, $meaning:literal, $before:literal => $after:literal;)+) => {
        /// A mistake in a text that a repair corrects. docs/internals/repair.md has the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum RepairRule {
            $(#[doc = concat!($meaning, " `", $before, "` becomes `", $after, "`.")] $variant,)+
        }

        impl RepairRule {
            /// All rules, by level.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name in options and reports.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the lowest level that has the rule.
            pub fn level(self) -> RepairLevel {
                match self { $(Self::$variant => RepairLevel::$level),+ }
            }

            /// Returns the mistake as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),+ }
            }

            /// Returns a text that needs only this rule, and the text after the repair.
            pub fn example(self) -> (&'static str, &'static str) {
                match self { $(Self::$variant => ($before, $after)),+ }
            }

            /// Returns how unlikely the mistake is, as a number to add up.
            pub(super) fn cost(self) -> u32 {
                match self { $(Self::$variant => $cost),+ }
            }
        }
    };
}

rules! {
    ExtraComma "extra_comma" Syntax 1, "A comma without a value after it, or before the first one.",
        "[1, 2,]" => "[1, 2]";
    MissingComma "missing_comma" Syntax 1, "No comma between two values.",
        "[1 2]" => "[1, 2]";
    ControlCharacter "control_character" Syntax 1, "A raw line end, tab, backspace or form feed in a string.",
        "[\"a\tb\"]" => "[\"a\\tb\"]";
    InvalidEscape "invalid_escape" Syntax 1, "A backslash before a character that has no escape.",
        "[\"C:\\x\", \"\\_\"]" => "[\"C:\\\\x\", \"_\"]";
    Quotes "quotes" Syntax 1, "Single, typographic or repeated quotes around a string.",
        "['a']" => "[\"a\"]";
    Literal "literal" Syntax 1, "`True`, `False`, `None`, or a literal in another case.",
        "[True, None]" => "[true, null]";
    Comment "comment" Syntax 1, "A comment: `//`, `/* */`, `<!-- -->`, `# ` or `-- `.",
        "[1 /* one */]" => "[1 ]";
    Space "space" Syntax 1, "White space that JSON does not know, or a byte order mark, between tokens.",
        "[\u{a0}1]" => "[ 1]";
    Closed "closed" Syntax 1, "The text ends before its root is closed: uncertain text is left out, and open containers are closed.",
        "[1, {\"a\": \"b" => "[1, {\"a\": \"b\"}]";
    KeyQuote "key_quote" Guess 2, "The quote after a key is lost.",
        "{\"a: \"b\"}" => "{\"a\": \"b\"}";
    InnerQuote "inner_quote" Guess 2, "A quote inside a string has no backslash.",
        "[\"a \"b\" c\"]" => "[\"a \\\"b\\\" c\"]";
    OpenString "open_string" Guess 2, "The quote after a string is lost.",
        "{\"a\": \"b, \"c\": 1}" => "{\"a\": \"b\", \"c\": 1}";
    MissingQuote "missing_quote" Guess 2, "The quote before a string is lost.",
        "[a\", 1]" => "[\"a\", 1]";
    StrayQuote "stray_quote" Guess 2, "A quote where no string begins or ends.",
        "[{\"a\": 1},\"{\"a\": 2}]" => "[{\"a\": 1},{\"a\": 2}]";
    StringSum "string_sum" Guess 2, "A string is written as a sum of strings.",
        "[\"a\" + \"b\"]" => "[\"ab\"]";
    EscapedQuotes "escaped_quotes" Guess 2, "The quotes around a string have backslashes.",
        "{\\\"a\\\": 1}" => "{\"a\": 1}";
    MissingCloser "missing_closer" Guess 2, "A container lacks its closing bracket before the next value.",
        "[{\"a\": 1, {\"a\": 2}]" => "[{\"a\": 1}, {\"a\": 2}]";
    ExtraCloser "extra_closer" Guess 2, "A closing bracket comes too early, or closes nothing.",
        "[{\"a\": 1}], {\"a\": 2}]" => "[{\"a\": 1}, {\"a\": 2}]";
    WrongCloser "wrong_closer" Guess 2, "A closing bracket is of the other kind.",
        "[1, [}]" => "[1, []]";
    MissingColon "missing_colon" Guess 2, "No colon between a key and its value.",
        "{\"a\" 1}" => "{\"a\": 1}";
    BareKey "bare_key" Guess 2, "A key has no quotes.",
        "{a: 1}" => "{\"a\": 1}";
    BareWord "bare_word" Guess 2, "A value has no quotes, or looks like a number that JSON does not know.",
        "[hello, 007]" => "[\"hello\", \"007\"]";
    Ellipsis "ellipsis" Guess 2, "Three dots replace omitted values.",
        "[1, 2, ...]" => "[1, 2]";
    LostBrackets "lost_brackets" Guess 4, "Values are listed without an array around them. Whole texts only.",
        "{\"a\": 1}, [2]" => "[{\"a\": 1}, [2]]";
}

impl fmt::Display for RepairLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RepairRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RepairRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Which repairs are made: a level, rules that are switched off, and caps.
///
/// ```
/// use restitch::repair::{RepairLevel, RepairOptions, RepairRule};
///
/// let options = RepairOptions::new(RepairLevel::Guess).without(RepairRule::Comment);
/// assert!(options.allows(RepairRule::BareKey) && !options.allows(RepairRule::Comment));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairOptions {
    pub(super) level: RepairLevel,
    /// One bit per rule that is switched off, in the order of [`RepairRule::ALL`].
    off: u32,
    pub(super) caps: RepairCaps,
    /// The expected root: it decides between guesses that are nearly as likely.
    preference: Option<Preference>,
}

/// A test for an expected root.
#[derive(Clone)]
struct Preference(Arc<dyn Fn(&str) -> bool + Send + Sync + UnwindSafe + RefUnwindSafe>);

impl fmt::Debug for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Preference")
    }
}

impl PartialEq for Preference {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Preference {}

/// Caps on one text. [`ParserLimits`](crate::ParserLimits) documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepairCaps {
    pub(crate) depth: usize,
    pub(crate) lookahead: usize,
    pub(crate) repairs: usize,
    pub(crate) readings: usize,
}

impl RepairOptions {
    /// Creates options for a level, with all of its rules and the default caps.
    pub fn new(level: RepairLevel) -> Self {
        let caps = RepairCaps {
            depth: 1024,
            lookahead: 4096,
            repairs: 1 << 16,
            readings: 64,
        };
        Self {
            level,
            off: 0,
            caps,
            preference: None,
        }
    }

    /// Switches a rule off.
    #[must_use]
    pub fn without(mut self, rule: RepairRule) -> Self {
        self.off |= 1 << rule as u32;
        self
    }

    /// Takes the caps from `limits`: `max_depth`, `max_lookahead`, `max_repairs`, `max_readings`.
    #[must_use]
    pub fn within(mut self, limits: &crate::Limits) -> Self {
        let parser = &limits.parser;
        self.caps = RepairCaps {
            depth: parser.max_depth,
            lookahead: parser.max_lookahead,
            repairs: parser.max_repairs,
            readings: parser.max_readings,
        };
        self
    }

    /// Lowers the level to one that changes no more than `level` does.
    #[must_use]
    pub(crate) fn at_most(mut self, level: RepairLevel) -> Self {
        self.level = self.level.min(level);
        self
    }

    /// Returns the level.
    pub fn level(&self) -> RepairLevel {
        self.level
    }

    /// Returns the rules that are switched off.
    pub(crate) fn off(&self) -> impl Iterator<Item = RepairRule> + '_ {
        RepairRule::ALL
            .iter()
            .copied()
            .filter(|rule| self.is_off(*rule))
    }

    fn is_off(&self, rule: RepairRule) -> bool {
        self.off >> rule as u32 & 1 == 1
    }

    /// Prefers guesses whose root passes `is_expected`.
    pub(crate) fn preferring(
        mut self,
        is_expected: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        // A check that panics leaves nothing half done.
        let is_expected = AssertUnwindSafe(is_expected);
        self.preference = Some(Preference(Arc::new(move |json: &str| {
            let is_expected = &is_expected;
            (is_expected.0)(json)
        })));
        self
    }

    /// Whether `json` is an expected root, or any root is.
    pub(super) fn prefers(&self, json: impl FnOnce() -> String) -> bool {
        self.preference
            .as_ref()
            .is_none_or(|Preference(is_expected)| is_expected(&json()))
    }

    /// Returns how many bytes after a mistake are read before a guess is accepted.
    pub(crate) fn lookahead(&self) -> usize {
        self.caps.lookahead
    }

    /// Returns the most containers that may be open.
    pub(crate) fn depth(&self) -> usize {
        self.caps.depth
    }

    /// Whether a rule is used.
    pub fn allows(&self, rule: RepairRule) -> bool {
        rule.level() <= self.level && !self.is_off(rule)
    }
}

impl From<RepairLevel> for RepairOptions {
    fn from(level: RepairLevel) -> Self {
        Self::new(level)
    }
}

impl Default for RepairOptions {
    /// All rules: [`RepairLevel::Guess`].
    fn default() -> Self {
        Self::new(RepairLevel::Guess)
    }
}
