//! Estimates how many bits text costs after the delivered text: text with the habits of the
//! delivered text costs little, text that never occurred in it costs much.
//!
//! Counts which byte follows the last bytes, in contexts of several lengths. The longest known
//! context decides; where it does not know the byte, the next shorter one does, without the bytes
//! that the longer one knows. White space between tokens costs nothing and is no context.

mod history;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) use history::History;
use history::{LONG, LONGEST, follower};

/// Counts over the end of the delivered text.
///
/// A context that has occurred once has no entry where a shorter one has occurred only there, too:
/// the offset of the shorter one gives the text before and after it. In prose most contexts are of
/// this type.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// The counted bytes: the text without layout.
    text: Vec<u8>,
    /// By the hash of the context.
    contexts: ByHash<ContextCount>,
    /// How often a byte followed a context that has occurred more than once, by the hash of both.
    followers: ByHash<u16>,
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

/// The bytes that followed a context.
#[derive(Clone, Copy, Debug, Default)]
struct ContextCount {
    /// Bytes that followed it.
    total: u16,
    /// Different ones among them.
    distinct: u16,
    /// The offset of the first of them in the text.
    first: u32,
}

impl ContextCount {
    fn bucket(self) -> usize {
        usize::from(self.total > 1)
    }

    /// The share of new bytes after the context (Witten and Bell).
    fn escape(self) -> f32 {
        let (total, distinct) = (f32::from(self.total), f32::from(self.distinct.max(1)));
        distinct / (total + distinct)
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

/// A map whose keys are hashes.
type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Given>>;

/// A hasher that returns the given hash unchanged.
#[derive(Clone, Copy, Debug, Default)]
struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }
}

/// The lengths of the contexts.
// Single steps where contexts in JSON differ most (quotes, keys), doubled ones above: between 8 and
// 64 bytes the counts are those of whole words and rows. Each order costs a look-up per byte, so
// twice as many orders cost twice the time.
const ORDERS: [u32; 10] = [0, 1, 2, 3, 4, 5, 8, 15, LONG, LONGEST];

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

impl Predictor {
    /// Counts the bytes of `text`.
    pub(super) fn of(text: &str) -> Self {
        let mut predictor = Self {
            text: Vec::with_capacity(text.len()),
            contexts: ByHash::with_capacity_and_hasher(text.len(), BuildHasherDefault::default()),
            followers: ByHash::with_capacity_and_hasher(text.len(), BuildHasherDefault::default()),
            again: Again::default(),
        };
        let mut history = History::default();
        for &byte in text.as_bytes() {
            if !history.is_layout(byte) {
                predictor.count(&history, byte);
                predictor.text.push(byte);
            }
            history.push(byte);
        }
        predictor
    }

    /// Counts a byte that follows the text.
    fn count(&mut self, history: &History, byte: u8) {
        let (mut longest, mut only) = (None, None);
        for (order, &length) in ORDERS
            .iter()
            .enumerate()
            .take_while(|(_, length)| **length <= history.count)
        {
            if let Some(place) = only {
                self.set_apart(place, history, length);
            }
            let hash = history.context(length);
            let Some(context) = self.contexts.get_mut(&hash) else {
                // It is new, and so are all longer ones.
                self.contexts.insert(
                    hash,
                    ContextCount {
                        total: 1,
                        distinct: 1,
                        first: self.text.len() as u32,
                    },
                );
                break;
            };
            only = (context.total == 1).then_some(context.first as usize);
            if let Some(first) = only.and_then(|place| self.text.get(place)) {
                self.followers.insert(follower(hash, *first), 1);
            }
            let seen = self.followers.entry(follower(hash, byte)).or_default();
            longest = Some((order, context.bucket(), *seen > 0));
            context.distinct += u16::from(*seen == 0);
            context.total = context.total.saturating_add(1);
            *seen = seen.saturating_add(1);
        }
        if let Some((order, bucket, is_known)) = longest {
            self.again.note(order, bucket, is_known);
        }
    }

    /// Gives an entry to the context of this length before `place`, since the shorter one has now
    /// occurred elsewhere, too.
    fn set_apart(&mut self, place: usize, history: &History, length: u32) {
        let before = self.text.get(..place).unwrap_or_default();
        let Some(from) = place.checked_sub(length as usize) else {
            return;
        };
        let hash = match history.common(before) >= length {
            true => history.context(length),
            false => History::after(before.get(from..).unwrap_or_default()).context(length),
        };
        self.contexts.insert(
            hash,
            ContextCount {
                total: 1,
                distinct: 1,
                first: place as u32,
            },
        );
    }

    /// Returns the contexts that have occurred, the longest first, each with its order and how
    /// often the byte followed it.
    fn known(
        &self,
        history: &History,
        byte: u8,
    ) -> impl Iterator<Item = (usize, ContextCount, u16)> {
        let find = |order: usize| {
            let length = ORDERS
                .get(order)
                .filter(|length| **length <= history.count)?;
            let hash = history.context(*length);
            Some((hash, *self.contexts.get(&hash)?))
        };
        let last = (0..ORDERS.len())
            .rev()
            .find_map(|order| find(order).map(|(_, context)| (order, context)));
        // A context that occurred once has one offset, and so have the longer contexts, which have
        // no entries.
        let (from, end, only, seen) = match last {
            Some((order, context)) if context.total == 1 => {
                let place = context.first as usize;
                let common = history.common(self.text.get(..place).unwrap_or_default());
                let end = ORDERS
                    .partition_point(|length| *length <= common)
                    .max(order + 1);
                (
                    order,
                    end,
                    context,
                    u16::from(self.text.get(place) == Some(&byte)),
                )
            }
            Some((order, context)) => (order + 1, order + 1, context, 0),
            None => (0, 0, ContextCount::default(), 0),
        };
        (0..end).rev().filter_map(move |order| {
            if order >= from {
                return Some((order, only, seen));
            }
            let (hash, context) = find(order)?;
            Some((
                order,
                context,
                self.followers
                    .get(&follower(hash, byte))
                    .copied()
                    .unwrap_or_default(),
            ))
        })
    }

    /// The bits that the byte costs after this history.
    fn bits(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        if history.is_layout(byte) {
            return 0.0;
        }
        -(self.probability(again, history, byte, of) + SURPRISE * UNKNOWN).log2()
    }

    /// The probability of the byte: from the longest known context, or where that does not know the
    /// byte, from the next shorter one without the bytes that the longer one knows.
    fn probability(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        let (mut escaped, mut excluded) = (1.0, None);
        for (order, mut context, mut seen) in self.known(history, byte) {
            // The repeated text is among the counted bytes. Without this, an id that occurs once would cost
            // nothing where it is repeated, and so prove nothing.
            if of == Of::Repeated && seen > 0 {
                (seen, context.total) = (seen - 1, context.total - 1);
                context.distinct = context.distinct.saturating_sub(u16::from(seen == 0));
            }
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
/// of joins are the same (docs/performance.md).
// docs/performance.md has the measurement. Twice as much also doubles the cost of the first
// deviation from the request.
pub(super) const TAIL: usize = 4 << 10;

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
        self.history.push(byte);
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
            let mut state = seed;
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                state >> 40
            };
            (0..90 + next() % 90)
                .map(|_| ['a', 'b', '"', ',', ' ', '\n'][next() as usize % (2 + seed as usize % 5)])
                .collect()
        };
        let random = (0..30).map(alphabet);
        for delivered in ["", "a", "aaaaaaaaaaaaaaaaaaaa", &rows, &row]
            .map(String::from)
            .into_iter()
            .chain(random)
        {
            let predictor = Predictor::of(&delivered);
            let text = predictor.text.as_slice();
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
                for (order, context, seen) in predictor.known(&history, byte) {
                    known[order] = Some((context.total, context.distinct, seen));
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
                history.push(byte);
                read.push(byte);
            }
        }
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
        let (here, alone) = (History::of(&rows), History::default());
        assert!(cost(&here, "{\"id\": 50") < cost(&alone, "{\"id\": 50"));
        assert!(cost(&here, "true") > cost(&alone, "true"));
        let in_key = History::of("{\"id\": 50, \"na");
        assert!(cost(&in_key, "me\": \"n50\"") + 4.0 < cost(&alone, "me\": \"n50\""));
    }
}
