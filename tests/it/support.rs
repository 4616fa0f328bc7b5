//! What the tests share: random numbers that repeat, the ways to split an input, base64, the corpus.

use std::fmt::Debug;
use std::path::PathBuf;

use restitch::Document;
use restitch::json::{CloseOptions, Partial};

/// A seeded generator (splitmix64): a failure comes again with the same seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Of an input: what it decides at random comes again with it.
    pub(crate) fn of(input: &[u8]) -> Self {
        Self(input.iter().fold(input.len() as u64, |seed, &byte| seed.rotate_left(8) ^ u64::from(byte)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// One of `items`, which are not empty.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

/// The chunkings of invariant 1, each as its cuts in rising order: whole, byte by byte, and every two-way split of up
/// to 4 KiB or 200 seeded splits above.
pub(crate) fn splits(len: usize) -> Box<dyn Iterator<Item = Vec<usize>>> {
    let ends = [Vec::new(), (1..len).collect()].into_iter();
    if len <= 4096 {
        Box::new(ends.chain((1..len).map(|cut| vec![cut])))
    } else {
        Box::new(ends.chain((0..200).map(move |seed| random_cuts(len, &mut Rng::new(seed)))))
    }
}

/// One to sixteen cuts of `len` bytes, some of them neighbours or equal: an empty chunk is a chunk.
pub(crate) fn random_cuts(len: usize, rng: &mut Rng) -> Vec<usize> {
    let mut cuts = Vec::new();
    for _ in 0..=rng.below(8) {
        let cut = rng.below(len + 1);
        cuts.extend([cut, (cut + rng.below(3)).min(len)]);
    }
    cuts.sort_unstable();
    cuts
}

/// The same, between the characters of a text.
pub(crate) fn text_cuts(text: &str, rng: &mut Rng) -> Vec<usize> {
    let mut cuts = random_cuts(text.len(), rng);
    cuts.retain(|&cut| text.is_char_boundary(cut));
    cuts
}

/// All that a document says of itself.
pub(crate) fn view(document: &Document) -> impl PartialEq + Debug + use<> {
    let closed =
        [(Partial::Omit, Partial::Omit), (Partial::Include, Partial::Omit), (Partial::Include, Partial::Include)];
    let closed = closed.map(|(strings, literals)| {
        let mut suffix = String::new();
        (document.complete_into(CloseOptions { strings, literals }, &mut suffix), suffix)
    });
    let root = (document.root_start(), document.root_end(), document.roots(), document.root().map(str::to_owned));
    let envelope = (document.is_json(), document.has_fence(), document.is_blank(), document.is_prose());
    let fence = (document.rest_of_fence(), document.open_fence());
    let frames = document.machine().frames().to_vec();
    let text = document.text().to_owned();
    (text, document.cut(), document.complete(), closed, document.completion(), root, envelope, fence, frames)
}

/// `input` in pieces.
pub(crate) fn chunks<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let ends = cuts.iter().copied().chain([input.len()]);
    let mut start = 0;
    ends.map(|end| &input[std::mem::replace(&mut start, end)..end]).collect()
}

/// Decodes standard base64 with padding, as the corpus has it.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64: 0x{byte:02x}"),
    };
    let mut out = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 6 | u32::from(digit(byte))) << (6 * (4 - group.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    out
}

/// The folder of recorded test data, which is no part of the crate: a test that needs it skips itself without.
#[expect(clippy::disallowed_methods, reason = "the tests' data is named by the environment")]
pub(crate) fn corpus() -> Option<PathBuf> {
    let folder = std::env::var("RESTITCH_CORPUS").ok().map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: RESTITCH_CORPUS is not set");
    }
    folder
}

#[test]
fn base64_decodes() {
    for (text, expect) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")] {
        assert_eq!(base64(text), expect.as_bytes());
    }
    assert_eq!(base64("77+/"), [0xef, 0xbf, 0xbf]);
}

#[test]
fn splits_are_what_they_say() {
    let all: Vec<_> = splits(4).collect();
    assert_eq!(all, [vec![], vec![1, 2, 3], vec![1], vec![2], vec![3]]);
    assert_eq!(splits(4096).count(), 2 + 4095);
    assert_eq!(splits(4097).count(), 202);
    assert_eq!(chunks(b"abcd", &[1, 1, 3]), [&b"a"[..], b"", b"bc", b"d"]);
    for cuts in splits(5000) {
        assert_eq!(chunks(&[7; 5000], &cuts).concat(), [7; 5000]);
    }
}
