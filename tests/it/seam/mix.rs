//! The mix: styles as often as models write them, each cut through a session until it is done.

use std::collections::BTreeMap;
use std::ops::Range;

use restitch::Limits;
use restitch::repair::RepairLevel;

use super::documents::sample;
use super::judge::Verdict;
use super::reading::read;
use super::retry::{Asked, Ended, run};
use super::rows::{Class, cuts_of};
use super::style::{ContinuationStyle, Cut, write};
use restitch_testing::Rng;
use restitch_testing::rows::Rows;

/// How a model answers the further calls of one cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// In a style that is drawn again each time.
    Independent,
    /// In the same style each time.
    Sticky,
    /// As requested with a probability of one half, where the request differs from the one before
    /// it; else in the same style.
    Half,
}

impl Retries {
    pub(crate) const ALL: [(Self, &str); 3] = [
        (Self::Independent, "independent"),
        (Self::Sticky, "sticky"),
        (Self::Half, "half follow a change"),
    ];
}

/// The counts of a run, by cuts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cuts: usize,
    /// Complete, and the document.
    pub(crate) right: usize,
    /// Complete, another document, and no seam is reported as ambiguous or as an early end. Also
    /// where the text can't become the document any more, and another call is asked for.
    pub(crate) silent: usize,
    calls: usize,
    /// Cuts that stop inside an escape that the document does not have.
    skipped: usize,
    /// Silent cuts by the style of the first answer.
    by_style: BTreeMap<&'static str, usize>,
}

/// Runs the chosen rows of at least `cuts` cuts of the documents of `seeds`, eight of each.
pub(crate) fn measure(
    seeds: Range<u64>,
    cuts: usize,
    retries: Retries,
    limits: &Limits,
    level: RepairLevel,
    rows: &mut Rows,
) -> Counts {
    let mut counts = Counts::default();
    let mut left_out = 0;
    for seed in seeds {
        if counts.cuts + left_out >= cuts {
            break;
        }
        let sample = sample(seed);
        // No stream has such a root.
        if sample.scalar {
            continue;
        }
        let truth = read(&sample.text).unwrap();
        let mut rng = Rng::new(!seed);
        for cut in cuts_of(&sample.text, CUTS, &mut rng) {
            let mut model = Model::new(retries, rng.next());
            if !rows.runs_next() {
                left_out += 1;
                continue;
            }
            let delivered = &sample.text[..cut];
            let ended = run(limits, level, &sample.text, &truth, delivered, |asked| {
                model.answer(asked)
            });
            counts.add(ended, model.style);
        }
    }
    counts
}

/// Runs at least `cuts` cuts of the documents of `seeds` at which the style applies. The first
/// answer is in this style; the further ones are in the styles of the mix, or in the same one.
pub(crate) fn measure_style(
    seeds: Range<u64>,
    cuts: usize,
    style: ContinuationStyle,
    retries: Retries,
) -> Counts {
    let limits = Limits::default();
    let mut counts = Counts::default();
    // A style that rarely applies has fewer cuts.
    for seed in seeds.take(cuts) {
        if counts.cuts >= cuts {
            break;
        }
        let sample = sample(seed);
        if sample.scalar {
            continue;
        }
        let truth = read(&sample.text).unwrap();
        let mut rng = Rng::new(!seed);
        for cut in cuts_of(&sample.text, CUTS, &mut rng) {
            let mut model = Model {
                style: Some(style),
                ..Model::new(retries, rng.next())
            };
            let mut applies = true;
            let ended = run(
                &limits,
                RepairLevel::Strict,
                &sample.text,
                &truth,
                &sample.text[..cut],
                |asked| match asked.number {
                    0 => model.begin(asked, style).unwrap_or_else(|| {
                        applies = false;
                        String::new()
                    }),
                    _ => model.answer(asked),
                },
            );
            if applies {
                counts.add(ended, Some(style));
            }
        }
    }
    counts
}

/// Cuts of each document.
const CUTS: usize = 8;

/// A model that answers one session.
struct Model {
    retries: Retries,
    /// The style of the first answer.
    style: Option<ContinuationStyle>,
    /// What the request before this one asked for.
    before: Option<(String, String, Option<String>)>,
    rng: Rng,
}

impl Model {
    fn new(retries: Retries, seed: u64) -> Self {
        Self {
            retries,
            style: None,
            before: None,
            rng: Rng::new(seed),
        }
    }

    /// Answers the first call in this style; `None` where it does not apply.
    fn begin(&mut self, asked: &Asked<'_>, style: ContinuationStyle) -> Option<String> {
        self.note(asked);
        write(style, &place(asked), self.rng.next())
    }

    /// Records a request. Returns whether it differs from the one before.
    fn note(&mut self, asked: &Asked<'_>) -> bool {
        let turn = asked.turn;
        let request = (turn.prompt.clone(), turn.anchor.clone(), turn.mark.clone());
        let before = self.before.replace(request);
        before.is_some() && before != self.before
    }

    fn answer(&mut self, asked: &Asked<'_>) -> String {
        let has_changed = self.note(asked);
        // Not drawn where nothing has changed, so that the first answers are the same for all kinds
        // of retries.
        let follows = self.retries == Retries::Half && has_changed && self.rng.below(2) == 0;
        if asked.has_grown || follows {
            return asked.as_requested();
        }
        let place = place(asked);
        let same = self.style.filter(|_| self.retries != Retries::Independent);
        if let Some(answer) = same.and_then(|style| write(style, &place, self.rng.next())) {
            return answer;
        }
        let (style, answer) = self.draw(&place);
        self.style.get_or_insert(style);
        answer
    }

    /// Draws a style by its frequency, among those that apply.
    fn draw(&mut self, place: &Cut<'_>) -> (ContinuationStyle, String) {
        loop {
            let mut at = self.rng.below(SHARES.iter().map(|(share, _)| share).sum());
            let of = SHARES
                .iter()
                .find(|(share, _)| at.checked_sub(*share).map(|rest| at = rest).is_none());
            let styles: Vec<_> = ContinuationStyle::ALL
                .iter()
                .copied()
                .filter(|style| of.is_some_and(|(_, is)| is(*style)))
                .collect();
            for _ in 0..TRIES {
                let style = styles[self.rng.below(styles.len())];
                if let Some(text) = write(style, place, self.rng.next()) {
                    return (style, text);
                }
            }
        }
    }
}

/// Returns where a call asks for the rest.
fn place<'a>(asked: &Asked<'a>) -> Cut<'a> {
    let text = &asked.document[..asked.delivered];
    // White space between the anchor and the cut belongs to neither.
    let anchor = text
        .trim_end()
        .strip_suffix(&asked.turn.anchor)
        .map_or(text.len(), str::len);
    Cut {
        document: asked.document,
        offset: asked.delivered,
        anchor,
        mark: asked.turn.mark.as_deref(),
    }
}

/// Draws of a style that applies, before another group is drawn.
const TRIES: usize = 8;

/// A percentage, and the styles that have it together.
type Share = (usize, fn(ContinuationStyle) -> bool);

/// How frequent models write groups of styles.
const SHARES: [Share; 8] = [
    (52, |style| style == ContinuationStyle::Anchor),
    (14, |style| {
        let is_wrapped = style.name().contains("fence") || style.name().contains("preamble");
        Class::of(style) == Class::Anchored && is_wrapped
    }),
    (10, |style| Class::of(style) == Class::Restart),
    (5, |style| style == ContinuationStyle::ExactUnasked),
    (4, |style| Class::of(style) == Class::ReRooted),
    (4, |style| style == ContinuationStyle::Refusal),
    (9, |style| Class::of(style) == Class::Noise),
    (2, |style| Class::of(style) == Class::EarlyEnd),
];

impl Counts {
    fn add(&mut self, ended: Option<Ended>, style: Option<ContinuationStyle>) {
        let Some(ended) = ended else {
            self.skipped += 1;
            return;
        };
        self.cuts += 1;
        self.calls += ended.calls;
        self.right += usize::from(ended.verdict == Verdict::Right);
        if ended.verdict == Verdict::Wrong {
            self.silent += 1;
            *self
                .by_style
                .entry(style.map_or("none", ContinuationStyle::name))
                .or_default() += 1;
        }
    }

    pub(crate) fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.cuts.max(1) as f64
    }

    pub(crate) fn calls_a_cut(&self) -> f64 {
        self.calls as f64 / self.cuts.max(1) as f64
    }

    /// Returns the counts as text: a line, and the styles of silent cuts.
    pub(crate) fn print(&self, name: &str) -> String {
        let mut out = format!(
            "{name:26} {:8} cuts, right {:6.2} %, silent {:6.3} %, flagged {:6.2} %, {:.3} calls a cut, {} skipped\n",
            self.cuts,
            self.percent(self.right),
            self.percent(self.silent),
            self.percent(self.cuts - self.right - self.silent),
            self.calls_a_cut(),
            self.skipped,
        );
        let mut styles: Vec<_> = self.by_style.iter().collect();
        styles.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (style, count) in styles {
            out += &format!("    silent after {style}: {count}\n");
        }
        out
    }
}

/// Runs the three kinds of retries, and the first kind again: where only what was asked for is
/// joined, and on two levels of repair.
pub(crate) fn measure_all(
    seeds: &Range<u64>,
    cuts: usize,
    rows: &mut Rows,
) -> Vec<(&'static str, Counts)> {
    let limits = Limits::default();
    let strict = Limits::default().with_max_risk(0.0);
    let mut run =
        |retries, limits, level| measure(seeds.clone(), cuts, retries, limits, level, rows);
    let mut runs: Vec<_> = Retries::ALL
        .map(|(retries, name)| (name, run(retries, &limits, RepairLevel::Strict)))
        .to_vec();
    runs.push((
        "independent, max_risk = 0",
        run(Retries::Independent, &strict, RepairLevel::Strict),
    ));
    runs.push((
        "independent, syntax",
        run(Retries::Independent, &limits, RepairLevel::Syntax),
    ));
    runs.push((
        "independent, guess",
        run(Retries::Independent, &limits, RepairLevel::Guess),
    ));
    runs
}
