//! Estimates how many bits text costs after the delivered text: text with the habits of the
//! delivered text costs little, text that never occurred in it costs much.
//!
//! Counts which byte follows the last bytes, in contexts of several lengths. The longest known
//! context decides; where it does not know the byte, the next shorter one does, without the bytes
//! that the longer one knows. White space between tokens costs nothing and is no context.

mod history;
mod suffixes;

pub(super) use history::History;
use history::Layout;
use suffixes::{Followers, LONGEST, Piece, Suffixes};

/// Counts over the end of the delivered text.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// The counted text, which has no layout.
    suffixes: Suffixes,
    /// The statistics of escapes in the counted text.
    again: Again,
}

/// By order, and by whether the context had been seen once or more often: how often it was seen
/// again, and how often a known byte followed it then.
#[derive(Clone, Copy, Debug, Default)]
struct Again([[(u32, u32); 2]; ORDERS.len()]);

impl Again {
    /// Records that a context was seen again, and whether a known byte followed it.
    fn note(&mut self, order: usize, bucket: usize, is_known: bool) {
        if let Some((tries, hits)) = self.0.get_mut(order).and_then(|by| by.get_mut(bucket)) {
            *tries += 1;
            *hits += u32::from(is_known);
        }
    }

    /// The probability that an unknown byte follows (Krichevsky and Trofimov).
    fn escape(&self, order: usize, bucket: usize) -> f32 {
        let (tries, hits) = self
            .0
            .get(order)
            .and_then(|by| by.get(bucket))
            .copied()
            .unwrap_or_default();
        (tries.saturating_sub(hits) as f32 + 1.0) / (tries as f32 + 2.0)
    }
}

impl Followers {
    fn bucket(self) -> usize {
        usize::from(self.total > 1)
    }

    /// The share of new bytes after the context (Witten and Bell).
    fn escape(self) -> f32 {
        let (total, distinct) = (f32::from(self.total), f32::from(self.distinct.max(1)));
        distinct / (total + distinct)
    }

    /// The context without one occurrence, where the byte followed.
    fn without_one(self) -> Self {
        let one = u16::from(self.seen > 0);
        Self {
            total: self.total - one,
            distinct: self.distinct.saturating_sub(u16::from(self.seen == 1)),
            seen: self.seen - one,
        }
    }

    /// The context without the bytes that follow a longer one.
    fn without(self, longer: Self) -> Self {
        let distinct = self.distinct.saturating_sub(longer.distinct);
        let total = if distinct == 0 {
            0
        } else {
            self.total.saturating_sub(longer.total)
        };
        Self {
            total,
            distinct,
            ..self
        }
    }
}

/// The lengths of the contexts.
// Single steps where contexts in JSON differ most (quotes, keys), doubled ones above: between 8 and
// 64 bytes the counts are those of whole words and rows.
const ORDERS: [u16; 10] = [0, 1, 2, 3, 4, 5, 8, 15, 32, LONGEST];

/// The first order whose escapes are learned: how often the byte that followed a context once
/// follows it again depends on the document. In a table of zeros it always does, in prose almost
/// never.
// Shorter contexts are seen often enough for Witten and Bell's estimate; longer ones mostly once,
// where that estimate (one half) is wrong in tables and in prose.
const LEARNED: usize = 5;

/// The probability of a byte that no context knows: one of some ninety printable ones.
// The printable characters of ASCII, near enough: bytes beyond ASCII cost the same.
const UNKNOWN: f32 = 1.0 / 90.0;

/// The share of unseen behaviour in a document: without it one byte could prove anything.
// It caps a byte at 17 bits: with the prior of a tail (-13.6), a repeat of one odd character stays
// less than ten bits above text at the cut. Halved or doubled, the cap moves by one bit.
const SURPRISE: f32 = 1.0 / 1024.0;

/// The text whose cost is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// It may be new.
    #[default]
    New,
    /// It is in the counted text, where its own occurrence does not count.
    Repeated,
}

/// How many of the orders are no longer than a context, by its length.
const WITHIN: [usize; LONGEST as usize + 1] = {
    let mut within = [0; LONGEST as usize + 1];
    let (mut length, mut orders) = (0, 0);
    while length < within.len() {
        if orders < ORDERS.len() && ORDERS[orders] as usize == length {
            orders += 1;
        }
        within[length] = orders;
        length += 1;
    }
    within
};

/// An iterator over the ends of a context, the longest first.
struct Contexts<'a> {
    suffixes: &'a Suffixes,
    context: Piece,
    /// The orders that are left.
    orders: usize,
    byte: u8,
    /// The followers of the context, once they are known.
    known: Option<Followers>,
}

impl Iterator for Contexts<'_> {
    type Item = (usize, Followers);

    #[inline]
    fn next(&mut self) -> Option<(usize, Followers)> {
        loop {
            self.orders = self.orders.checked_sub(1)?;
            let length = *ORDERS.get(self.orders)?;
            let shorter = self.suffixes.shortened(self.context, length);
            // Most long contexts occur once, and so do their ends.
            let known = self.known.filter(|_| shorter.is_alike(self.context));
            let known = known.unwrap_or_else(|| self.suffixes.followers(shorter, self.byte));
            (self.context, self.known) = (shorter, Some(known));
            if known.total > 0 {
                return Some((self.orders, known));
            }
        }
    }
}

/// A predictor whose text is counted in steps.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    predictor: Predictor,
    layout: Layout,
    /// The number of bytes that are counted.
    at: usize,
}

impl Counting {
    /// Has counted nothing of a text of this length.
    pub(super) fn of(length: usize) -> Self {
        let predictor = Predictor {
            suffixes: Suffixes::with_capacity(length),
            again: Again::default(),
        };
        Self {
            predictor,
            layout: Layout::default(),
            at: 0,
        }
    }

    /// Counts up to `most` bytes of the text, which is the same each time. Returns whether some are
    /// left.
    pub(super) fn step(&mut self, text: &str, most: usize) -> bool {
        let left = text.as_bytes().get(self.at..).unwrap_or_default();
        let due = left.get(..most).unwrap_or(left);
        for &byte in due {
            if !self.layout.push(byte) {
                self.predictor.count(byte);
            }
        }
        self.at += due.len();
        due.len() < left.len()
    }

    /// Counts the rest of the text.
    pub(super) fn finish(mut self, text: &str) -> Predictor {
        self.step(text, usize::MAX);
        self.predictor.suffixes.finish();
        self.predictor
    }
}

impl Predictor {
    /// Counts the bytes of `text`, at most its first 16 KiB.
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Counting::of(text.len()).finish(text)
    }

    /// Counts a byte that follows the text.
    fn count(&mut self, byte: u8) {
        if let Some(context) = self.suffixes.repeated() {
            let known = self.known(context, byte).next();
            if let Some((order, mut context)) = known {
                // It is counted at the end of the text, too.
                context.total -= 1;
                self.again.note(order, context.bucket(), context.seen > 0);
            }
        }
        self.suffixes.push(byte);
    }

    /// Returns the history at the end of `text`.
    pub(super) fn history(&self, text: &str) -> History {
        // Layout may be long.
        let from = (text.len().saturating_sub(LOOKED_AT)..)
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or_default();
        let mut history = History::default();
        for &byte in text.as_bytes().get(from..).unwrap_or_default() {
            self.follow(&mut history, byte);
        }
        history
    }

    /// Returns the history at the end of `text`, but only its last two bytes: for a longer one, the
    /// counts know only the byte that followed it before.
    pub(super) fn short_history(&self, text: &str) -> History {
        let history = self.history(text);
        History {
            known: self.suffixes.shortened(history.known, 2),
            ..history
        }
    }

    /// Adds the next byte to the history.
    pub(super) fn follow(&self, history: &mut History, byte: u8) {
        if !history.layout.push(byte) {
            history.known = self.suffixes.follow(history.known, byte);
        }
    }

    /// Returns the ends of the context that have the length of an order and are followed in the text,
    /// the longest first, each with its order.
    fn known(&self, context: Piece, byte: u8) -> Contexts<'_> {
        Contexts {
            suffixes: &self.suffixes,
            context,
            orders: WITHIN
                .get(usize::from(context.length))
                .copied()
                .unwrap_or_default(),
            byte,
            known: None,
        }
    }

    /// The bits that the byte costs after this history.
    fn bits(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        if history.layout.has(byte) {
            return 0.0;
        }
        -(self.probability(again, history, byte, of) + SURPRISE * UNKNOWN).log2()
    }

    /// The probability of the byte: from the longest known context, or where that does not know the
    /// byte, from the next shorter one without the bytes that the longer one knows.
    fn probability(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        let (mut escaped, mut excluded) = (1.0, None);
        for (order, mut context) in self.known(history.known, byte) {
            // The repeated text is among the counted bytes. Without this, an id that occurs once would cost
            // nothing where it is repeated, and so prove nothing.
            if of == Of::Repeated {
                context = context.without_one();
            }
            let seen = context.seen;
            let left = excluded.map_or(context, |excluded| context.without(excluded));
            if left.total == 0 {
                continue;
            }
            // The learned statistics are about the longest known context only: a shorter one is used after an
            // escape, which changes what follows it.
            let is_learned = excluded.is_none() && order >= LEARNED;
            let escape = if is_learned {
                again.escape(order, left.bucket())
            } else {
                left.escape()
            };
            if is_learned {
                again.note(order, left.bucket(), seen > 0);
            }
            if seen > 0 {
                return escaped
                    * (1.0 - escape)
                    * (f32::from(seen) / f32::from(left.total)).min(1.0);
            }
            (escaped, excluded) = (escaped * escape, Some(context));
        }
        escaped * UNKNOWN
    }
}

/// The bytes at the end of the delivered text that are counted: with four times as many the rates
/// of joins are the same (docs/internals/performance.md).
// docs/internals/performance.md has the measurement. Twice as much also doubles the cost of the
// first deviation from the request.
pub(super) const TAIL: usize = 4 << 10;

/// Bytes before an offset that are examined for its history: more than the longest context, since
/// layout does not count.
const LOOKED_AT: usize = 512;

/// The bytes at the start of a fragment whose costs are summed.
// A decision that 16 KiB do not bring is not brought by more; the sums take four bytes for each
// byte of the fragment.
pub(super) const ENOUGH: usize = 16 << 10;

/// The costs of the bytes of a fragment, one after the other, from one history on.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// The sum before each byte.
    sums: Vec<f32>,
    sum: f32,
    history: History,
    of: Of,
    /// The statistics of escapes, including those in the fragment.
    again: Option<Again>,
}

impl Costs {
    pub(super) fn of(of: Of) -> Self {
        Self {
            of,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, predictor: &Predictor, byte: u8) {
        if self.is_full() {
            return;
        }
        self.sums.push(self.sum);
        let again = self.again.get_or_insert(predictor.again);
        self.sum += predictor.bits(again, &self.history, byte, self.of);
        predictor.follow(&mut self.history, byte);
    }

    /// Whether further bytes are not counted.
    pub(super) fn is_full(&self) -> bool {
        self.sums.len() >= ENOUGH
    }

    /// The next bytes follow this history.
    pub(super) fn begin(&mut self, history: History) {
        self.history = history;
        self.again = None;
    }

    /// Whether the bytes before `at` were counted.
    pub(super) fn knows(&self, at: usize) -> bool {
        at <= ENOUGH
    }

    /// The bits of the bytes before `at`.
    pub(super) fn before(&self, at: usize) -> f32 {
        self.sums.get(at).copied().unwrap_or(self.sum)
    }

    /// The bits of the bytes from `from` to `to`.
    pub(super) fn between(&self, from: usize, to: usize) -> f32 {
        self.before(to) - self.before(from.min(to))
    }
}

#[cfg(test)]
mod tests {
    use restitch_testing::Rng;

    use super::*;

    /// Returns the cost of `text` after `history`.
    fn cost(predictor: &Predictor, history: &History, text: &str, of: Of) -> f32 {
        let mut costs = Costs::of(of);
        costs.begin(*history);
        text.bytes().for_each(|byte| costs.push(predictor, byte));
        costs.between(0, text.len())
    }

    fn bits(delivered: &str, repeated: &str) -> f32 {
        cost(
            &Predictor::of(delivered),
            &History::default(),
            repeated,
            Of::Repeated,
        )
    }

    /// The slow twin: looks for each context in all text before `end`.
    fn occurrences(text: &[u8], end: usize, context: &[u8], byte: u8) -> Option<(u16, u16, u16)> {
        let is_before = |place: &usize| text[..*place].ends_with(context);
        let after: Vec<u8> = (0..end)
            .filter(is_before)
            .map(|place| text[place])
            .collect();
        let distinct = after
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        let seen = after.iter().filter(|one| **one == byte).count();
        (!after.is_empty()).then_some((after.len() as u16, distinct as u16, seen as u16))
    }

    #[test]
    fn what_is_known_is_what_occurs_in_the_text() {
        let rows: String = (0..6)
            .map(|n| format!("{{\"id\":{n},\"note\":\"ab{}\"}},", n % 2))
            .collect();
        let row =
            "[\"a row that is longer than the longest of the contexts, which has sixty-four\"],"
                .repeat(3);
        let alphabet = |seed: u64| -> String {
            let mut rng = Rng::new(seed);
            (0..90 + rng.below(90))
                .map(|_| ['a', 'b', '"', ',', ' ', '\n'][rng.below(2 + seed as usize % 5)])
                .collect()
        };
        let random = (0..30).map(alphabet);
        for delivered in ["", "a", "aaaaaaaaaaaaaaaaaaaa", &rows, &row]
            .map(String::from)
            .into_iter()
            .chain(random)
        {
            let predictor = Predictor::of(&delivered);
            let mut layout = Layout::default();
            let text: Vec<u8> = delivered
                .bytes()
                .filter(|&byte| !layout.push(byte))
                .collect();
            let text = text.as_slice();
            let mut again = Again::default();
            for place in 0..text.len() {
                let contexts = ORDERS
                    .iter()
                    .enumerate()
                    .filter(|(_, length)| **length as usize <= place);
                let known = contexts.filter_map(|(order, &length)| {
                    let context = &text[place - length as usize..place];
                    Some((order, occurrences(text, place, context, text[place])?))
                });
                if let Some((order, (total, _, seen))) = known.max_by_key(|(order, _)| *order) {
                    again.note(order, usize::from(total > 1), seen > 0);
                }
            }
            assert_eq!(
                format!("{again:?}"),
                format!("{:?}", predictor.again),
                "{delivered:?}"
            );
            let fragment = format!(
                "{}{}zaab,ba\"",
                &delivered[..delivered.len() / 2],
                delivered
            );
            let mut history = History::default();
            let mut read = Vec::new();
            for byte in fragment
                .bytes()
                .filter(|byte| !matches!(byte, b' ' | b'\n'))
            {
                let mut known = [None; ORDERS.len()];
                for (order, context) in predictor.known(history.known, byte) {
                    known[order] = Some((context.total, context.distinct, context.seen));
                }
                let wanted = ORDERS.map(|length| {
                    let from = read.len().checked_sub(length as usize)?;
                    occurrences(text, text.len(), &read[from..], byte)
                });
                assert_eq!(
                    known,
                    wanted,
                    "{byte} after {:?} in {delivered:?}",
                    String::from_utf8_lossy(&read)
                );
                predictor.follow(&mut history, byte);
                read.push(byte);
            }
        }
    }

    #[test]
    fn a_text_that_is_counted_in_steps_is_counted_alike() {
        let text =
            "{\"rows\": [{\"a\": 1, \"b\": \"two\"}, {\"a\": 11, \"b\": \"two words\"}, ".repeat(9);
        let whole = format!("{:?}", Predictor::of(&text));
        for size in [1, 7, 256, text.len(), text.len() + 1] {
            let mut counting = Counting::of(text.len());
            let mut steps = 1;
            while counting.step(&text, size) {
                steps += 1;
            }
            assert_eq!(steps, text.len().div_ceil(size));
            assert_eq!(format!("{:?}", counting.finish(&text)), whole, "{size}");
        }
        assert_eq!(
            format!("{:?}", Counting::of(text.len()).finish(&text)),
            whole
        );
    }

    #[test]
    fn what_repeats_itself_proves_nothing() {
        let zeros = format!("[{}", "0,".repeat(1000));
        assert!(bits(&zeros, &"0,".repeat(100)) < 16.0);
        let rows: String = (0..50)
            .map(|n| format!("{{\"id\": {n}, \"name\": \"n{}\"}}, ", n * 7919 % 1000))
            .collect();
        let key = bits(&rows, "{\"id\": ");
        assert!(key < 8.0, "{key}");
        let row = bits(&rows, "{\"id\": 12345, \"name\": \"Zsuzsanna\"");
        assert!(row > 40.0, "{row}");
        // Sixteen characters of indentation.
        assert!(bits(&rows, "\n                ") < 0.1);
    }

    #[test]
    fn letters_of_prose_cost_some_bits_each() {
        let prose = "{\"text\": \"Rain fell in torrents, and the wind rose over the hills and the sea beyond them";
        let letters = bits(prose, "the");
        assert!((3.0..15.0).contains(&letters), "{letters}");
        assert!(bits(prose, "QXZ") > 18.0);
    }

    #[test]
    fn a_text_fits_where_its_context_is() {
        let rows: String = (0..50)
            .map(|n| format!("{{\"id\": {n}, \"name\": \"n{n}\"}}, "))
            .collect();
        let predictor = Predictor::of(&rows);
        let cost = |history: &History, text: &str| cost(&predictor, history, text, Of::New);
        let (here, alone) = (predictor.history(&rows), History::default());
        assert!(cost(&here, "{\"id\": 50") < cost(&alone, "{\"id\": 50"));
        assert!(cost(&here, "true") > cost(&alone, "true"));
        let in_key = predictor.history("{\"id\": 50, \"na");
        assert!(cost(&in_key, "me\": \"n50\"") + 4.0 < cost(&alone, "me\": \"n50\""));
    }
}
