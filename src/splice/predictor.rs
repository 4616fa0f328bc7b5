//! Tells how many bits text costs after the text that was delivered: what repeats the delivered text's habits costs
//! little, what never occurred in it costs much.
//!
//! Counts which byte follows the last bytes, in contexts of several lengths. The longest known context decides; where it
//! does not know the byte, the next shorter one does, without the bytes that the longer one knows. White space between
//! tokens costs nothing and is no context.

mod history;

pub(super) use history::History;
use history::{LONG, LONGEST, hashes};

/// Counts over the end of the delivered text.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// The contexts, and each byte after one of them, by hash.
    counts: Table,
    /// What the counted text teaches of escapes.
    again: Again,
}

/// By order, and by whether the context had been seen once or more often: how often it was seen again, and how often a
/// known byte followed it then.
#[derive(Clone, Copy, Debug, Default)]
struct Again([[(u32, u32); 2]; ORDERS.len()]);

impl Again {
    /// Notes that a context was seen again, and whether a known byte followed it.
    fn note(&mut self, order: usize, bucket: usize, is_known: bool) {
        if let Some((tries, hits)) = self.0.get_mut(order).and_then(|by| by.get_mut(bucket)) {
            *tries += 1;
            *hits += u32::from(is_known);
        }
    }

    /// The probability that an unknown byte follows (Krichevsky and Trofimov).
    fn escape(&self, order: usize, bucket: usize) -> f32 {
        let (tries, hits) = self.0.get(order).and_then(|by| by.get(bucket)).copied().unwrap_or_default();
        (tries.saturating_sub(hits) as f32 + 1.0) / (tries as f32 + 2.0)
    }
}

/// A hash table of counts with room for a few places more than are needed. What finds no place is not counted.
#[derive(Clone, Debug)]
struct Table {
    entries: Vec<Entry>,
    shift: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// A part of the hash that tells entries in neighbouring places apart.
    tag: u32,
    /// Bytes that followed the context; or how often this one did.
    total: u16,
    /// Different ones among them.
    distinct: u16,
}

/// Places that are looked at for an entry.
const PROBES: usize = 16;

impl Table {
    fn with_room(entries: usize) -> Self {
        let bits = entries.next_power_of_two().trailing_zeros().clamp(10, 21);
        Self { entries: vec![Entry::default(); 1 << bits], shift: 64 - bits }
    }

    /// The place of the entry with this hash, or one where it may be put.
    fn place(&self, hash: u64) -> Option<usize> {
        let first = (hash >> self.shift) as usize;
        let tag = tag(hash);
        (first..first + PROBES)
            .find(|&at| self.entries.get(at).is_some_and(|entry| entry.total == 0 || entry.tag == tag))
    }

    fn get(&self, hash: u64) -> Entry {
        self.place(hash).and_then(|at| self.entries.get(at)).copied().unwrap_or_default()
    }

    fn entry(&mut self, hash: u64) -> Option<&mut Entry> {
        let at = self.place(hash)?;
        let entry = self.entries.get_mut(at)?;
        entry.tag = tag(hash);
        Some(entry)
    }
}

fn tag(hash: u64) -> u32 {
    hash as u32
}

impl Entry {
    fn bucket(self) -> usize {
        usize::from(self.total > 1)
    }

    /// The share of what is new after the context (Witten and Bell).
    fn escape(self) -> f32 {
        let (total, distinct) = (f32::from(self.total), f32::from(self.distinct.max(1)));
        distinct / (total + distinct)
    }

    /// The context without the bytes that follow a longer one.
    fn without(self, longer: Self) -> Self {
        let distinct = self.distinct.saturating_sub(longer.distinct);
        let total = if distinct == 0 { 0 } else { self.total.saturating_sub(longer.total) };
        Self { total, distinct, ..self }
    }
}

/// The lengths of the contexts.
const ORDERS: [u32; 10] = [0, 1, 2, 3, 4, 5, 8, 15, LONG, LONGEST];

/// The first order whose escapes are learned: how often what followed a context once follows it again depends on the
/// document. In a table of zeros it always does, in prose hardly ever.
const LEARNED: usize = 5;

/// The probability of a byte that no context knows: one of some ninety printable ones.
const UNKNOWN: f32 = 1.0 / 90.0;

/// How often a document does what it has never done: without this share one byte could prove anything.
const SURPRISE: f32 = 1.0 / 1024.0;

/// The text whose cost is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// It may be new.
    #[default]
    New,
    /// It is in the counted text: that place does not count.
    Repeated,
}

impl Predictor {
    /// Counts the bytes of `text`. O(text), some 100 ns a byte.
    pub(super) fn of(text: &str) -> Self {
        let mut predictor = Self { counts: Table::with_room(30 * text.len()), again: Default::default() };
        let mut history = History::default();
        for &byte in text.as_bytes() {
            predictor.count(&history, byte);
            history.push(byte);
        }
        predictor
    }

    fn count(&mut self, history: &History, byte: u8) {
        if history.is_layout(byte) {
            return;
        }
        let mut longest = None;
        for (order, &bytes) in ORDERS.iter().enumerate().take_while(|(_, bytes)| **bytes <= history.count) {
            let (context, pair) = hashes(history, bytes, byte);
            let is_known = self.counts.get(pair).total > 0;
            let Some(entry) = self.counts.entry(context) else { continue };
            if entry.total > 0 {
                longest = Some((order, entry.bucket(), is_known));
            }
            if entry.total < u16::MAX {
                entry.distinct += u16::from(!is_known);
                entry.total += 1;
                if let Some(pair) = self.counts.entry(pair) {
                    pair.total += 1;
                }
            }
        }
        if let Some((order, bucket, is_known)) = longest {
            self.again.note(order, bucket, is_known);
        }
    }

    /// The bits that the byte costs after this history.
    fn bits(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        if history.is_layout(byte) {
            return 0.0;
        }
        -(self.probability(again, history, byte, of) + SURPRISE * UNKNOWN).log2()
    }

    /// The probability of the byte: from the longest known context, or where that does not know the byte, from the next
    /// shorter one without the bytes that the longer one knows.
    fn probability(&self, again: &mut Again, history: &History, byte: u8, of: Of) -> f32 {
        let (mut escaped, mut excluded) = (1.0, None);
        for (order, &bytes) in ORDERS.iter().enumerate().rev().filter(|(_, bytes)| **bytes <= history.count) {
            let (context, pair) = hashes(history, bytes, byte);
            let mut context = self.counts.get(context);
            let mut seen = self.counts.get(pair).total.min(context.total);
            if of == Of::Repeated && seen > 0 {
                (seen, context.total) = (seen - 1, context.total - 1);
                context.distinct = context.distinct.saturating_sub(u16::from(seen == 0));
            }
            let left = excluded.map_or(context, |excluded| context.without(excluded));
            if left.total == 0 {
                continue;
            }
            let is_learned = excluded.is_none() && order >= LEARNED;
            let escape = if is_learned { again.escape(order, left.bucket()) } else { left.escape() };
            if is_learned {
                again.note(order, left.bucket(), seen > 0);
            }
            if seen > 0 {
                return escaped * (1.0 - escape) * (f32::from(seen) / f32::from(left.total)).min(1.0);
            }
            (escaped, excluded) = (escaped * escape, Some(context));
        }
        escaped * UNKNOWN
    }
}

/// The bytes at the end of the delivered text that are counted: with four times as many the rates of joins are the same
/// (docs/performance.md).
pub(super) const TAIL: usize = 4 << 10;

/// The bytes at the start of a fragment whose costs are summed.
pub(super) const ENOUGH: usize = 16 << 10;

/// What the bytes of a fragment cost, one after the other, from one history on.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// The sum before each byte.
    sums: Vec<f32>,
    sum: f32,
    history: History,
    of: Of,
    /// What was learned of escapes, from the fragment, too.
    again: Option<Again>,
}

impl Costs {
    pub(super) fn of(of: Of) -> Self {
        Self { of, ..Self::default() }
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

    /// What follows comes after this history.
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

    /// Returns what `text` costs after `history`.
    fn cost(predictor: &Predictor, history: &History, text: &str, of: Of) -> f32 {
        let mut costs = Costs::of(of);
        costs.begin(*history);
        text.bytes().for_each(|byte| costs.push(predictor, byte));
        costs.between(0, text.len())
    }

    fn bits(delivered: &str, repeated: &str) -> f32 {
        cost(&Predictor::of(delivered), &History::default(), repeated, Of::Repeated)
    }

    #[test]
    fn what_repeats_itself_proves_nothing() {
        let zeros = format!("[{}", "0,".repeat(1000));
        assert!(bits(&zeros, &"0,".repeat(100)) < 16.0);
        let rows: String = (0..50).map(|n| format!("{{\"id\": {n}, \"name\": \"n{}\"}}, ", n * 7919 % 1000)).collect();
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
        let rows: String = (0..50).map(|n| format!("{{\"id\": {n}, \"name\": \"n{n}\"}}, ")).collect();
        let predictor = Predictor::of(&rows);
        let cost = |history: &History, text: &str| cost(&predictor, history, text, Of::New);
        let (here, alone) = (History::of(&rows), History::default());
        assert!(cost(&here, "{\"id\": 50") < cost(&alone, "{\"id\": 50"));
        assert!(cost(&here, "true") > cost(&alone, "true"));
        let in_key = History::of("{\"id\": 50, \"na");
        assert!(cost(&in_key, "me\": \"n50\"") + 4.0 < cost(&alone, "me\": \"n50\""));
    }
}
