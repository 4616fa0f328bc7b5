//! Calibration: whether joins are as often wrong as the engine's own probability says.

/// Joins of similar predicted error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    pub(crate) joins: usize,
    /// The mean predicted probability that a join is wrong.
    pub(crate) predicted: f64,
    /// The share of joins that are wrong.
    pub(crate) observed: f64,
}

/// Sorts pairs of a predicted probability to be right and whether the join is right into bins of
/// `least` joins or more.
pub(crate) fn bins(mut pairs: Vec<(f64, bool)>, least: usize) -> Vec<Bin> {
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = (pairs.len() / least.max(1)).clamp(1, MOST_BINS);
    let mut bins = Vec::new();
    for n in 0..count {
        let part = &pairs[pairs.len() * n / count..pairs.len() * (n + 1) / count];
        if part.is_empty() {
            continue;
        }
        let joins = part.len();
        let predicted = part.iter().map(|(right, _)| 1.0 - right).sum::<f64>() / joins as f64;
        let observed = part.iter().filter(|(_, is_right)| !is_right).count() as f64 / joins as f64;
        bins.push(Bin {
            joins,
            predicted,
            observed,
        });
    }
    bins
}

/// More points than this are not read off a plot.
const MOST_BINS: usize = 24;

/// Returns the bins as text.
pub(crate) fn print(bins: &[Bin]) -> String {
    let mut out = String::from("   joins  predicted error  observed error\n");
    for bin in bins {
        out += &format!(
            "{:8} {:15.5}% {:14.5}%\n",
            bin.joins,
            100.0 * bin.predicted,
            100.0 * bin.observed
        );
    }
    out
}

/// Returns a plot of predicted against observed error, both on a logarithmic scale. Points on the
/// diagonal are calibrated; points below it are joins that are better than predicted.
pub(crate) fn svg(bins: &[Bin]) -> String {
    let x = |error: f64| LEFT + SIDE * position(error);
    let y = |error: f64| TOP + SIDE * (1.0 - position(error));
    let (right, bottom) = (LEFT + SIDE, TOP + SIDE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 470\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"480\" height=\"470\" fill=\"white\"/>\n\
         <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"black\"/>\n\
         <path d=\"M{LEFT} {bottom}L{right} {TOP}\" stroke=\"gray\" stroke-dasharray=\"4\"/>\n"
    );
    for power in 0..=DECADES {
        let error = FLOOR * 10f64.powi(power);
        let (x, y) = (x(error), y(error));
        let name = if power == 0 {
            "0".to_owned()
        } else {
            format!("{}%", 100.0 * error)
        };
        out += &format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\n",
            bottom + 16.0
        );
        out += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
            LEFT - 6.0,
            y + 4.0
        );
        out += &format!(
            "<path d=\"M{x:.1} {TOP}V{bottom}M{LEFT} {y:.1}H{right}\" stroke=\"gainsboro\"/>\n"
        );
    }
    for bin in bins {
        let (x, y) = (x(bin.predicted), y(bin.observed));
        out += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{} joins</title></circle>\n",
            bin.joins
        );
    }
    let middle = LEFT + SIDE / 2.0;
    out += &format!(
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">predicted error</text>\n",
        bottom + 38.0
    );
    out += &format!(
        "<text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">observed error</text>\n</svg>\n",
        TOP + SIDE / 2.0
    );
    out
}

/// Returns where an error is on an axis, from 0 to 1. Everything up to the smallest error that is
/// shown is at 0.
fn position(error: f64) -> f64 {
    (error.max(FLOOR) / FLOOR).log10() / f64::from(DECADES)
}

/// The smallest error that is shown, and the powers of ten from there to 100 %.
const FLOOR: f64 = 1e-5;
const DECADES: i32 = 5;

/// The place of the plot.
const LEFT: f64 = 70.0;
const TOP: f64 = 20.0;
const SIDE: f64 = 390.0;

#[test]
fn pairs_are_sorted_into_bins() {
    let pairs = (0..4000)
        .map(|n| {
            if n % 2 == 0 {
                (0.9, n % 20 != 0)
            } else {
                (0.5, n % 4 == 1)
            }
        })
        .collect();
    let found = bins(pairs, 2000);
    let rounded: Vec<_> = found
        .iter()
        .map(|bin| (bin.joins, (bin.predicted * 100.0).round(), bin.observed))
        .collect();
    assert_eq!(rounded, [(2000, 50.0, 0.5), (2000, 10.0, 0.1)]);
    assert_eq!(bins(Vec::new(), 1000), []);
    let plot = svg(&found);
    assert!(
        plot.starts_with("<svg")
            && plot.ends_with("</svg>\n")
            && plot.matches("<circle").count() == 2
    );
    assert!(print(&found).contains("50.00000%"));
}
