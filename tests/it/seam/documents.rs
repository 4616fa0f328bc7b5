//! Documents as models write them, by seed: reports, rows, tables, nesting, code, every script. One
//! in twelve of them repeats itself so often that a seam may fit in many places.

use std::ops::Range;

use super::kinds;
use super::layout::{Escapes, Layout, Tree};
use super::source::Source;
use restitch_testing::Rng;

/// One document.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Its kind, and the seed that makes it again.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Some of its elements are equal to each other, or it repeats the same text.
    pub(crate) periodic: bool,
    /// Its root is not a container.
    pub(crate) scalar: bool,
}

type Kind = (&'static str, fn(&mut Source<'_>, usize) -> Tree);

const DIFFERENT: [Kind; 15] = [
    ("sections", kinds::sections),
    ("records", kinds::records),
    ("table", kinds::table),
    ("nested", kinds::nested),
    ("code", kinds::code),
    ("escapes", kinds::escapes),
    ("scripts", kinds::scripts),
    ("numbers", kinds::numbers),
    ("lookalikes", kinds::lookalikes),
    ("list", kinds::list),
    ("mixed", kinds::mixed),
    ("orders", kinds::orders),
    ("events", kinds::events),
    ("features", kinds::features),
    ("named", kinds::named),
];
const PERIODIC: [Kind; 4] = [
    ("zeros", kinds::zeros),
    ("equal-rows", kinds::equal_rows),
    ("equal-strings", kinds::equal_strings),
    ("phrases", kinds::phrases),
];

/// The seeds of the documents on which priors and terms are chosen. The tests use a small part of
/// them.
pub(crate) const TUNING: Range<u64> = 0..1 << 32;

/// The seeds of the documents on which rates are reported: nothing is chosen by them.
pub(crate) const REPORT: Range<u64> = 1 << 32..1 << 33;

/// Returns whether the document of a seed has elements that are equal to each other, or repeats the
/// same text.
pub(crate) fn is_periodic(seed: u64) -> bool {
    seed % 12 == 11
}

/// Returns the document of a seed: one of every twelve consecutive seeds is periodic, and one of
/// sixty-six is a scalar.
pub(crate) fn sample(seed: u64) -> Sample {
    let mut rng = Rng::new(seed ^ 0x5ea3_0000_0000);
    let periodic = is_periodic(seed);
    // As many documents have 200 to 400 bytes as 1,600 to 3,200; one in ten is longer.
    let spread = if rng.below(10) == 0 {
        4096 << rng.below(3)
    } else {
        200 << rng.below(5)
    };
    let size = (spread + rng.below(spread)).min(16 << 10);
    let layout = Layout::seeded(&mut rng);
    let escapes = Escapes::seeded(&mut rng);
    let kinds: &[Kind] = if periodic { &PERIODIC } else { &DIFFERENT };
    let is_scalar = seed % 66 == 7;
    let (name, kind) = if is_scalar {
        (
            "scalar",
            kinds::scalar as fn(&mut Source<'_>, usize) -> Tree,
        )
    } else {
        kinds[rng.below(kinds.len())]
    };
    let tree = kind(
        &mut Source {
            rng: &mut rng,
            escapes,
            count: 0,
        },
        size,
    );
    Sample {
        name: format!("{name}-{seed}"),
        text: layout.write(&tree),
        periodic,
        scalar: is_scalar,
    }
}

#[test]
fn no_document_is_both_tuned_for_and_reported() {
    assert!(TUNING.end <= REPORT.start && !REPORT.is_empty());
}

#[test]
fn documents_are_as_promised() {
    let samples: Vec<Sample> = (0..660).map(sample).collect();
    for sample in &samples {
        assert!(
            serde_json::from_str::<serde_json::Value>(&sample.text).is_ok(),
            "{}",
            sample.name
        );
        let node = super::reading::read(&sample.text).unwrap();
        assert!(
            node.is_closed() || sample.name.starts_with("scalar"),
            "{}",
            sample.name
        );
        assert!(node.is(&node), "{}: a key comes twice", sample.name);
    }
    assert_eq!(samples.iter().filter(|sample| sample.periodic).count(), 55);
    assert!(
        samples
            .iter()
            .filter(|sample| sample.text.len() <= 4096)
            .count()
            > 400
    );
    assert!(samples.iter().any(|sample| sample.text.len() > 12_000));
    assert!(samples.iter().all(|sample| sample.text.len() < 64 << 10));
    assert!(samples.iter().any(|sample| sample.text.contains("\r\n")));
}
