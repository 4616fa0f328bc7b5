//! The rungs of the ladder: the ways in which the rest of an answer can be obtained.

use std::str::FromStr;

/// A means to obtain the rest of an answer.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// The provider continues its own answer from a token.
    Token,
    /// The provider sends the rest of a stream that it keeps.
    Reattach,
    /// The delivered text is the last message, and is continued literally.
    Prefill,
    /// The provider enforces a grammar of the rest.
    Grammar,
    /// The whole document is written once more, under the format of the request.
    Again,
    /// The provider enforces a schema of the rest.
    Schema,
    /// A re-prompt asks for the rest.
    Words,
}

impl Rung {
    /// All rungs.
    pub const ALL: [Self; 7] = [
        Self::Token,
        Self::Reattach,
        Self::Prefill,
        Self::Grammar,
        Self::Again,
        Self::Schema,
        Self::Words,
    ];

    /// Returns the name in reports and configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Reattach => "reattach",
            Self::Prefill => "prefill",
            Self::Grammar => "grammar",
            Self::Again => "again",
            Self::Schema => "schema",
            Self::Words => "words",
        }
    }
}

impl FromStr for Rung {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|rung| rung.as_str() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|rung| format!("`{}`", rung.as_str()));
            format!("`{name}` is not one of {}", names.join(", "))
        })
    }
}

/// The rungs that may be used.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rungs(u8);

impl Rungs {
    /// Every rung.
    pub const ALL: Self = Self((1 << Rung::ALL.len()) - 1);

    /// Returns whether a rung may be used.
    pub fn contains(self, rung: Rung) -> bool {
        self.0 & Self::bit(rung) != 0
    }

    /// Returns the rungs that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the rungs in their order.
    pub fn iter(self) -> impl Iterator<Item = Rung> {
        Rung::ALL
            .into_iter()
            .filter(move |rung| self.contains(*rung))
    }

    fn bit(rung: Rung) -> u8 {
        1 << rung as u8
    }
}

impl Default for Rungs {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Rung> for Rungs {
    fn from_iter<I: IntoIterator<Item = Rung>>(rungs: I) -> Self {
        let bits = rungs.into_iter().map(Self::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

/// Reads names that are separated by commas.
impl FromStr for Rungs {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        names.split(',').map(|name| name.trim().parse()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_read_by_their_names() {
        assert_eq!(
            "words, prefill".parse(),
            Ok(Rungs::from_iter([Rung::Prefill, Rung::Words]))
        );
        assert_eq!(
            "token,reattach,prefill,grammar,again,schema,words".parse(),
            Ok(Rungs::ALL)
        );
        for names in ["", "words,", "word", "Words"] {
            let error = names.parse::<Rungs>().unwrap_err();
            assert!(error.ends_with("`schema`, `words`"), "{names}: {error}");
        }
    }

    #[test]
    fn both_sets_must_have_a_rung() {
        let some = Rungs::from_iter([Rung::Grammar, Rung::Words]);
        let others = Rungs::from_iter([Rung::Words, Rung::Token]);
        assert_eq!(some.and(others).iter().collect::<Vec<_>>(), [Rung::Words]);
        assert_eq!(some.and(Rungs::ALL), some);
    }
}
