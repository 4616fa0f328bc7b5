//! How often a continuation begins at each type of start: the prior of a candidate.
//!
//! The figures are for a model that was asked for the anchor. They need not be exact: a factor of
//! two is one bit of a score, and a joined candidate has about ten bits more than all other
//! readings together.

use serde::Serialize;

use super::seam::Expect;

/// Where the content of a fragment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Start {
    /// At the requested offset.
    Requested,
    /// After the request's mark.
    Mark,
    /// At the requested anchor, repeated nearly.
    Nearly,
    /// At the cut.
    Cut,
    /// At the start of the token that was cut.
    Token,
    /// At the key of an open member.
    Member,
    /// At the bracket of an open container.
    Container,
    /// At the root.
    Root,
    /// At any other tail of the delivered text.
    Tail,
    /// At a separate root, which leaves out delivered elements.
    Rerooted,
}

/// A row of the table.
struct Prior {
    start: Start,
    /// The probability, times a thousand.
    thousandths: f32,
}

/// One line for each type of start.
const PRIORS: [Prior; 10] = [
    // Models usually follow the request.
    Prior {
        start: Start::Requested,
        thousandths: 700.0,
    },
    Prior {
        start: Start::Mark,
        thousandths: 700.0,
    },
    // They retype, more than they copy: white space, quotes, a letter.
    Prior {
        start: Start::Nearly,
        thousandths: 90.0,
    },
    // They go straight on at the cut.
    Prior {
        start: Start::Cut,
        thousandths: 50.0,
    },
    // They write the word or the number again that is not whole.
    Prior {
        start: Start::Token,
        thousandths: 10.0,
    },
    // They write the member again.
    Prior {
        start: Start::Member,
        thousandths: 10.0,
    },
    // They write the element again, in brackets.
    Prior {
        start: Start::Container,
        thousandths: 20.0,
    },
    // They send the whole document again.
    Prior {
        start: Start::Root,
        thousandths: 40.0,
    },
    // They begin in the anchor, after its start, or somewhere else: `IN_ANCHOR`, `AT_WORD` and
    // `IN_WORD` are the shares of each offset.
    Prior {
        start: Start::Tail,
        thousandths: 5.0,
    },
    // They open a document for the rest: with JSON mode they must.
    Prior {
        start: Start::Rerooted,
        thousandths: 20.0,
    },
];

// All constants but `HEAD` are in bits. Those below zero are added to a score: the logarithm of a
// share.

/// Bits for the reading that the cut element is lost: what begins like that element is the next
/// one. One half: right after its array's bracket, or without it, an element is either of the two.
// Doubled, an element that begins like the cut one would be taken for it where an equal row is as
// likely, without a flag; at zero, a restart at an element would never win by the element alone.
// docs/internals/seam.md states it, and tests/cases/seam/element-among-equal-elements.md shows it.
pub(super) const LOST: f32 = -1.0;

/// Bits for the same reading where whole values before the element were repeated: a model that
/// repeats those continues with the cut element.
// Two bits more than a decision at the default `max_risk` needs (10): repeated values before the
// element settle the question, unless the text says the opposite. At half, restarts in tables of
// short rows would wait for their end.
pub(super) const LOST_AFTER_VALUES: f32 = -12.0;

/// Bits for the reading that a whole element is missing before the new text: models almost never
/// skip one.
// One in 16,000. A series that counts on (`series::THREE`, 9) must not outweigh it alone: models
// number rows wrongly more often than they skip one. Lower by half, a gap in the ids of a table
// would refuse a right join.
pub(super) const SKIPPED: f32 = -14.0;

/// Bits for the reading that a part after a gap begins with text that equals the end of the
/// delivered text by chance. One half: the part before it was skipped, so this part continues the
/// skipped one, or repeats text before it.
// The reading must lose against a proof only, and a proof has at least `ENOUGH` bits. Any value
// near a half has the same effect.
pub(super) const AFTER_GAP: f32 = -1.0;

/// Bits for the reading that the answer is not a continuation, but a refusal or a question: 4 in
/// 100 answers.
// 4 in 100 is an estimate of refusals and questions; a factor of two is one bit of the ten that a
// decision needs. tests/cases/seam/refusal.md and refusal-as-json.md show it.
pub(super) const OTHER: f32 = -4.6;

/// Bits for the same reading once the grammar has verified a candidate: a sentence rarely has the
/// brackets, commas and quotes that the document needs.
// One in 500,000: an `exact` candidate (-4.3) is 14.7 bits above it, so verification alone joins at
// the default risk, which needs ten, but not at a risk that is a thousand times smaller.
pub(super) const OTHER_VERIFIED: f32 = -19.0;

/// Bits for the reading that the fragment begins again and differs in a value: models copy nearly
/// all values right.
// One value in 128 is copied wrongly, by estimate. At zero, any restart that differs in one value
// late would block the right candidate; at twice this, a restart that contradicts would be ignored,
// and its text joined as new.
pub(super) const DIFFERS: f32 = -7.0;

/// Bits for the offset at which a tail begins that is a good part of the anchor: any one of eight
/// words is as likely.
// From the number of words in an anchor of 40 characters, the first length that is asked for.
pub(super) const IN_ANCHOR: f32 = -3.0;

/// Bits for any other offset: any one of 64 is as likely.
// 64 words are the last ten lines or so. With its prior such a tail starts nine bits below text at
// the cut, so one repeated word does not outweigh the reading that it is new.
pub(super) const AT_WORD: f32 = -6.0;

/// Bits for the same offset if the tail has one or two bytes and begins inside a word: models
/// rarely begin there.
// As much again as `AT_WORD`: one or two letters recur in any text, and a join there doubles or
// loses them.
pub(super) const IN_WORD: f32 = -12.0;

/// Bits for a candidate that leaves out delivered members of the element that it begins again:
/// models mostly write an element in full.
// One element in 16 is written in part, by estimate. Both readings give another document only if
// the new part has other members, so the number decides few joins.
pub(super) const LEFT_OUT: f32 = -4.0;

/// Bits for an anchor that occurs twice in a row: models rarely begin it again.
// As `DIFFERS`: a model that repeats the anchor, and then again. In a document whose rows all end
// like the anchor, the second one is new text (tests/cases/seam/anchor-twice.md).
pub(super) const TWICE: f32 = -7.0;

/// Bits for each byte of a text that is typical of the document: rows that differ in a few digits
/// cost less.
// It lies between such rows and prose, whose letters cost some bits each (the predictor's tests
// have both). Doubled, short sentences count as rows, and an anchor that was retyped in prose is no
// evidence any more (tests/cases/seam/anchor-with-a-wrong-letter.md).
pub(super) const TYPICAL: f32 = 0.75;

/// Bits that an edit of the anchor costs: the choice of the character, and of its replacement.
// The choice of one of some 90 characters (6.5 bits) and of the place in an anchor of 40 to 200
// characters (5 to 8). Halved, an anchor with five edits, which is another sentence, could still
// win.
pub(super) const EDIT: f32 = 14.0;

impl Start {
    /// The prior of one candidate with this start, in bits.
    pub(super) fn prior(self, expect: Expect) -> f32 {
        let row = PRIORS.iter().find(|row| row.start == self);
        let thousandths = row.map_or(1.0, |row| row.thousandths);
        let thousandths = match (expect, self) {
            // Models almost always continue a prefill at its end.
            (Expect::Exact, Self::Cut) => 950.0,
            (Expect::Exact, _) => thousandths / 20.0,
            // The request is unknown: parts of a stream continue at the cut, or repeat some of the
            // text before it; see `tail`.
            (Expect::Any, Self::Cut) => 300.0,
            _ => thousandths,
        };
        (thousandths / 1000.0).log2()
    }

    /// Whether the request asked for this beginning: one legal byte is enough.
    pub(super) fn is_requested(self) -> bool {
        matches!(self, Self::Requested | Self::Mark)
    }

    /// The name in reports: `requested`, `nearly`, `cut`, ….
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Mark => "mark",
            Self::Nearly => "nearly",
            Self::Cut => "cut",
            Self::Token => "token",
            Self::Member => "member",
            Self::Container => "container",
            Self::Root => "root",
            Self::Tail => "tail",
            Self::Rerooted => "rerooted",
        }
    }
}

/// The length in bytes of the shortest tail that counts as an overlap of parts of unknown origin.
/// Periodic text has shorter ones by chance: tests/cases/seam/escapes-that-repeat.md.
// The same number as `overlap::EVIDENCE`. Halved, the closers and keys at the end of rows count as
// overlaps of parts; doubled, parts that overlap by a line of a dozen words only just do.
pub(super) const OVERLAP: usize = 16;

/// Returns the prior of all tails together, if the fragment repeats `repeated` bytes of the
/// delivered text.
pub(super) fn tail(expect: Expect, repeated: usize) -> f32 {
    match expect {
        // Parts that overlap are as frequent as parts that do not.
        Expect::Any if repeated >= OVERLAP => Start::Cut.prior(expect),
        _ => Start::Tail.prior(expect),
    }
}

/// The share of `max_risk` that a seam of unknown origin may have without a flag: a document has
/// several such seams.
// A document of ten parts then has the risk of one seam that was asked for. At one, no seam of
// `stitch` would be flagged for its risk.
pub(super) const UNFLAGGED: f64 = 0.1;

/// The length in bytes from which on a repeat counts as intended: parts rarely overlap by less, and
/// shorter repeats occur by chance.
// Half of `OVERLAP`: it raises a flag and joins nothing, so chance costs a flag.
// docs/internals/seam.md states it.
pub(super) const REPEATED: usize = 8;

/// The most bits by which a fragment that is unlike the document speaks for no continuation: new
/// text may well be unlike all text before it.
// Four bits take `OTHER` to about 0: the fragment may as well be a refusal as a continuation.
// Without a limit, the first sentence in another language would be refused as no continuation.
pub(super) const UNLIKE: f32 = 4.0;

/// The limit instead of `UNLIKE` if a key was cut: a key is almost never a sentence.
// Together with `OTHER` it outweighs a decision: a sentence in a cut key is not joined before it is
// verified (tests/cases/seam/quoted-anchor-in-a-key.md has text in a key).
pub(super) const UNLIKE_KEY: f32 = 14.0;

/// The length of the fragment's beginning that is compared for `UNLIKE`, in bytes: a few words show
/// what the text is, and more text would only add up.
// Four or five words. The sum grows with the length, so twice as much only reaches the limit
// `UNLIKE` sooner; half of it is a word and a half, which may be a name.
pub(super) const HEAD: usize = 24;

/// The most bits that a byte at the cut costs where it is compared with a sentence: a short
/// document gives too few counts.
// A delivered text of a few hundred bytes knows few letters in few contexts, so an unknown letter
// is no evidence. Without the limit it costs the 6.5 bits of a byte that no context knows
// (`predictor::UNKNOWN`), and each continuation after a short cut would look like a refusal.
pub(super) const UNKNOWN: f32 = 4.5;

/// The bits that a letter of prose costs at most: a sentence in a new language is a sentence, too.
// It lies below the 4.7 bits of a letter without any context, since a sentence has habits, too. It
// was set by the mix of styles in benches/seam.rs, and docs/internals/seam.md states it.
pub(super) const LETTER: f32 = 3.5;

/// Bits against new text whose first key no element before it has: rows of a table share their
/// keys.
// As `series::THREE`: one structural fact is worth nine bits, less than a decision, so that no
// single one decides. Optional keys exist, so it must not exclude.
pub(super) const STRANGE_KEY: f32 = 9.0;

/// The bits of a repeat that are more than chance: with fewer it is open whether the fragment
/// begins again at all.
// Two bits more than a decision needs at the default `max_risk`. It is the threshold of several
// flags, so with less, tables of equal rows are joined without one; with more, every restart in a
// table is flagged. docs/internals/seam.md states it.
pub(super) const ENOUGH: f32 = 12.0;

/// The most bits of each row of a repeat, since the rows may be new ones that equal the old ones.
/// One repeated row must not outweigh this reading; several rows in the same order do.
// Less than a decision needs (10 bits): one repeated row alone is never joined as a repeat where a
// new row may be equal to it. Two rows in the same order (16) are.
pub(super) const IN_A_ROW: f32 = 8.0;

/// Bits for the reading that a fragment ends while it still repeats delivered text: most answers
/// bring new text.
// Known answers that end in the repeat are cut again before their first new text: one in 64, by
// estimate. At zero, a whole repeat and its first half would tie at the end.
pub(super) const ENDS_IN_REPEAT: f32 = -6.0;

#[cfg(test)]
mod tests {
    use super::super::attempt::ALONE;
    use super::super::cursor::RECURS;
    use super::super::deciding::FEW;
    use super::*;

    const DOC: &str = include_str!("../../docs/internals/seam.md");

    #[test]
    fn the_documented_priors_are_these() {
        let (_, table) = DOC.split_once("| start | of 1,000 | bits | why |").unwrap();
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let documented: Vec<(&str, &str, &str)> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                (cells[1], cells[2], cells[3])
            })
            .collect();
        let priors: Vec<(String, String, String)> = PRIORS
            .iter()
            .map(|row| {
                let bits = row.start.prior(Expect::Anchor);
                (
                    format!("`{}`", row.start.as_str()),
                    row.thousandths.to_string(),
                    format!("{bits:.1}"),
                )
            })
            .collect();
        let priors: Vec<(&str, &str, &str)> = priors
            .iter()
            .map(|(start, of, bits)| (&**start, &**of, &**bits))
            .collect();
        assert_eq!(documented, priors);
    }

    /// Checks that the page says each sentence with the code's numbers.
    #[test]
    fn the_documented_constants_are_these() {
        let page = DOC.split_whitespace().collect::<Vec<_>>().join(" ");
        let thousandths =
            |start: Start, expect: Expect| (start.prior(expect).exp2() * 1000.0).round();
        let share = Start::Root.prior(Expect::Anchor) - Start::Root.prior(Expect::Exact);
        for sentence in [
            format!(
                "`cut` is {}. After a prefill",
                thousandths(Start::Cut, Expect::Any)
            ),
            format!(
                "(`Expect::Exact`), `cut` is {}, and",
                thousandths(Start::Cut, Expect::Exact)
            ),
            format!("everything else is divided by {}", share.exp2().round()),
            format!(
                "leaves out delivered members of the element that it begins again has {} bits less",
                -LEFT_OUT
            ),
            format!(
                "{} bits less for the place where {} bytes of the anchor or more follow",
                -IN_ANCHOR, FEW
            ),
            format!("{} for any other, and", -AT_WORD),
            format!("{} for a tail of one or two bytes", -IN_WORD),
            format!("in none of the last 64 elements: {STRANGE_KEY} against it"),
            format!("that comes twice in a row has {} bits less", -TWICE),
            format!("{EDIT} bits less for each edit"),
            format!("that the array has more than once: it counts at most {RECURS} bits"),
            format!("all that was delivered is the anchor: it counts at most {IN_A_ROW} bits"),
            format!("typical: less than {TYPICAL} bits a byte"),
            format!("where a byte counts at most {UNKNOWN} bits"),
            format!(
                "less {} bit ({} where whole values",
                -LOST, -LOST_AFTER_VALUES
            ),
            format!("the prior of a container, less {}, plus the bits", -LOST),
            format!(
                "may have been skipped: {} bits less than the candidate",
                -SKIPPED
            ),
            format!("At the end of the fragment {} bits less", -ENDS_IN_REPEAT),
            format!("the compared text, less {}.", -DIFFERS),
            format!("a question. {OTHER}, and {OTHER_VERIFIED} once the grammar has verified"),
            format!(
                "up to {UNLIKE} bits more ({UNLIKE_KEY} in a key) where the first {HEAD} bytes"
            ),
            format!("as a sentence at {LETTER} bits a letter"),
            format!("or have repeated {ENOUGH} bits, or have {ALONE} bytes: a refusal is shorter"),
            format!("less than {ENOUGH} bits identify it"),
        ] {
            assert!(
                page.contains(&sentence),
                "docs/internals/seam.md does not say: {sentence}"
            );
        }
    }
}
