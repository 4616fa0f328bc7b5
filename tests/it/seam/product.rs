//! The behaviours of models, as all combinations of four properties: an answer repeats some delivered
//! text, with a difference, has an envelope, and continues. The table lists the worst combinations,
//! because means hide them.

use std::collections::BTreeMap;
use std::ops::Range;

use restitch::splice::Expect;
use restitch_testing::Rng;

use super::documents::{Sample, sample};
use super::join::{Outcome, anchor, join};
use super::judge::{Brings, Case, Verdict};
use super::reading::read;
use super::source::WORDS;

/// The delivered text that an answer repeats before its new text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Repeats {
    Nothing,
    /// The last 14 to 60 characters.
    Tail,
    Anchor,
    /// The innermost array element that was cut.
    Element,
    /// All elements of its array.
    Elements,
    Root,
}

/// How the repeated text differs from the delivered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Differs {
    Nothing,
    Letter,
    Word,
    Number,
    /// Other words for a key.
    Key,
    /// The first one to six characters are missing.
    Beginning,
    /// The last one to six characters are missing.
    End,
}

/// The text around the JSON of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Around {
    Nothing,
    Greeting,
    Fence,
    Note,
}

/// The text after the repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Follows {
    Rest,
    Closers,
    Nothing,
}

/// The request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Surface {
    /// The anchor, in words.
    Words,
    /// A prefill is to be continued.
    Prefill,
    /// Nothing is known, as of the parts of `stitch`.
    Parts,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) surface: Surface,
    pub(crate) repeats: Repeats,
    pub(crate) differs: Differs,
    pub(crate) around: Around,
    pub(crate) follows: Follows,
}

const SURFACES: [Surface; 3] = [Surface::Words, Surface::Prefill, Surface::Parts];
const REPEATS: [Repeats; 6] = [
    Repeats::Nothing,
    Repeats::Tail,
    Repeats::Anchor,
    Repeats::Element,
    Repeats::Elements,
    Repeats::Root,
];
const DIFFERS: [Differs; 7] = [
    Differs::Nothing,
    Differs::Letter,
    Differs::Word,
    Differs::Number,
    Differs::Key,
    Differs::Beginning,
    Differs::End,
];
const AROUND: [Around; 4] = [
    Around::Nothing,
    Around::Greeting,
    Around::Fence,
    Around::Note,
];
const FOLLOWS: [Follows; 3] = [Follows::Rest, Follows::Closers, Follows::Nothing];

impl Cell {
    /// Returns all cells that have a meaning.
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for (surface, repeats) in pairs(&SURFACES, &REPEATS) {
            for (differs, around) in pairs(&DIFFERS, &AROUND) {
                cells.extend(FOLLOWS.map(|follows| Self {
                    surface,
                    repeats,
                    differs,
                    around,
                    follows,
                }));
            }
        }
        cells.retain(|cell| {
            let is_same = cell.differs == Differs::Nothing && cell.follows != Follows::Nothing;
            cell.repeats != Repeats::Nothing || is_same
        });
        cells
    }

    fn expect(self) -> Expect {
        match self.surface {
            Surface::Words => Expect::Anchor,
            Surface::Prefill => Expect::Exact,
            Surface::Parts => Expect::Any,
        }
    }

    fn brings(self) -> Brings<'static> {
        match self.follows {
            Follows::Rest => Brings::Rest,
            Follows::Closers => Brings::Closers,
            Follows::Nothing => Brings::Nothing,
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            surface,
            repeats,
            differs,
            around,
            follows,
        } = self;
        write!(
            f,
            "{surface:?} repeats={repeats:?} differs={differs:?} around={around:?} follows={follows:?}"
        )
    }
}

fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter()
        .flat_map(|&a| b.iter().map(move |&b| (a, b)))
        .collect()
}

/// The results for one cell, or the sum for several cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    rows: usize,
    right: usize,
    /// Joined with a mark.
    marked: usize,
    given_up: usize,
    wrong: usize,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome, verdict: Verdict) {
        self.rows += 1;
        let count = match verdict {
            Verdict::Right if !outcome.ambiguous => &mut self.right,
            Verdict::Wrong => &mut self.wrong,
            _ if outcome.joined && outcome.ambiguous => &mut self.marked,
            _ => &mut self.given_up,
        };
        *count += 1;
    }

    fn add_all(&mut self, other: &Self) {
        self.rows += other.rows;
        self.right += other.right;
        self.marked += other.marked;
        self.given_up += other.given_up;
        self.wrong += other.wrong;
    }

    fn line(&self, name: &str) -> String {
        let percent = |count: usize| 100.0 * count as f64 / self.rows.max(1) as f64;
        format!(
            "{name:90} {:7} right {:6.2} % marked {:6.2} % given up {:6.2} % wrong {:6.2} %\n",
            self.rows,
            percent(self.right),
            percent(self.marked),
            percent(self.given_up),
            percent(self.wrong)
        )
    }
}

/// A container that is open at the end of some JSON.
#[derive(Clone, Copy, Debug)]
struct Open {
    at: usize,
    is_array: bool,
    /// Where its last child begins.
    child: usize,
}

/// Returns the open containers, and whether the text ends in a string.
fn open(text: &str) -> (Vec<Open>, bool) {
    let (mut stack, mut in_string, mut escaped) = (Vec::<Open>::new(), false, false);
    let mut due = true;
    for (at, c) in text.char_indices() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        if c.is_whitespace() {
            continue;
        }
        if due && let Some(last) = stack.last_mut() {
            last.child = at;
        }
        due = false;
        match c {
            '"' => in_string = true,
            '{' | '[' => {
                stack.push(Open {
                    at,
                    is_array: c == '[',
                    child: at + 1,
                });
                due = true;
            }
            '}' | ']' => drop(stack.pop()),
            ',' => due = true,
            _ => {}
        }
    }
    (stack, in_string)
}

/// An offset at which a document is cut.
pub(crate) struct Cut<'a> {
    sample: &'a Sample,
    cut: usize,
    /// Where the anchor begins.
    anchor: usize,
    /// The open containers, the root first.
    open: Vec<Open>,
    in_string: bool,
}

impl<'a> Cut<'a> {
    fn new(sample: &'a Sample, cut: usize) -> Self {
        let delivered = &sample.text[..cut];
        let (open, in_string) = open(delivered);
        Self {
            sample,
            cut,
            anchor: anchor(delivered),
            open,
            in_string,
        }
    }

    /// Returns the row as text: the ends of the delivered text, of the answer, and of the new text.
    fn show(&self, cell: Cell, fragment: &str, outcome: &Outcome) -> String {
        let (name, how) = (&self.sample.name, &outcome.how);
        let tail: String = self.delivered().chars().rev().take(120).collect();
        let tail: String = tail.chars().rev().collect();
        let fragment: String = fragment.chars().take(200).collect();
        let added = outcome.text.get(self.cut..).unwrap_or_default();
        let added: String = added.chars().take(80).collect();
        format!(
            "{cell}: {name} at {}: {how}\n    delivered …{tail:?}\n    answer    {fragment:?}\n    joined    {added:?}",
            self.cut
        )
    }

    fn delivered(&self) -> &str {
        &self.sample.text[..self.cut]
    }

    /// Returns where the repeated text begins; `None` where there is nothing to repeat.
    fn from(&self, repeats: Repeats, rng: &mut Rng) -> Option<usize> {
        let text = self.delivered();
        let array = self.open.iter().rev().find(|open| open.is_array);
        let from = match repeats {
            Repeats::Nothing => return Some(self.cut),
            Repeats::Tail => {
                let length = 14 + rng.below(47);
                text.char_indices().rev().nth(length - 1).map(|(at, _)| at)
            }
            Repeats::Anchor => Some(self.anchor),
            Repeats::Element => array.map(|array| array.child),
            Repeats::Elements => array.map(|array| array.at + 1),
            Repeats::Root => Some(0),
        };
        from.filter(|&at| at + 4 < self.cut)
    }

    /// Returns the repeated text with the difference; `None` if that text can't have it.
    fn repeated(&self, from: usize, differs: Differs, rng: &mut Rng) -> Option<String> {
        let text = &self.delivered()[from..];
        // The last eight characters stay equal: the cut may be inside a word.
        let body = text.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
        let in_strings = in_strings(self.delivered(), from, from + body);
        let words = |least: usize| -> Vec<Range<usize>> {
            runs(text, body, |c| c.is_ascii_alphabetic(), least)
                .filter(|word| {
                    in_strings.iter().any(|(string, is_key)| {
                        !is_key && string.start <= word.start && word.end <= string.end
                    })
                })
                .collect()
        };
        let pick = |ranges: Vec<Range<usize>>, rng: &mut Rng| {
            (!ranges.is_empty()).then(|| ranges[rng.below(ranges.len())].clone())
        };
        let put = |range: Range<usize>, new: &str| {
            format!("{}{new}{}", &text[..range.start], &text[range.end..])
        };
        match differs {
            Differs::Nothing => Some(text.to_owned()),
            Differs::Letter => {
                let word = pick(words(3), rng)?;
                let at = word.start + rng.below(word.len());
                let new = if &text[at..=at] == "e" { "a" } else { "e" };
                Some(put(at..at + 1, new))
            }
            Differs::Word => {
                let word = pick(words(3), rng)?;
                let other = WORDS[rng.below(WORDS.len())];
                (other != &text[word.clone()]).then(|| put(word, other))
            }
            Differs::Number => {
                let number = pick(runs(text, body, |c| c.is_ascii_digit(), 1).collect(), rng)?;
                let other = format!("{}", 1 + rng.below(98));
                (other != text[number.clone()]).then(|| put(number, &other))
            }
            Differs::Key => {
                let keys = in_strings
                    .iter()
                    .filter(|(string, is_key)| *is_key && string.len() > 2)
                    .map(|(string, _)| string.clone());
                let key = pick(keys.collect(), rng)?;
                let name = &text[key.clone()];
                let other = match name.split_once('_') {
                    Some((one, other)) if !other.is_empty() && other.is_ascii() => {
                        format!("{one}{}{}", other[..1].to_uppercase(), &other[1..])
                    }
                    _ => format!("{name}_value"),
                };
                Some(put(key, &other))
            }
            Differs::Beginning => {
                let lost = text
                    .char_indices()
                    .nth(1 + rng.below(6))
                    .map(|(at, _)| at)?;
                (lost + 12 < text.len()).then(|| text[lost..].to_owned())
            }
            Differs::End => {
                let lost = text
                    .char_indices()
                    .rev()
                    .nth(rng.below(6))
                    .map(|(at, _)| at)?;
                (lost > 12).then(|| text[..lost].to_owned())
            }
        }
    }

    fn closers(&self) -> String {
        let close = |open: &Open| if open.is_array { ']' } else { '}' };
        let quote = self.in_string.then_some('"').into_iter();
        quote.chain(self.open.iter().rev().map(close)).collect()
    }

    /// Writes an answer; `None` if the cell's behaviour is impossible at this cut.
    fn write(&self, cell: Cell, rng: &mut Rng) -> Option<String> {
        let from = self.from(cell.repeats, rng)?;
        let repeated = self.repeated(from, cell.differs, rng)?;
        let rest = &self.sample.text[self.cut..];
        let json = match cell.follows {
            Follows::Rest => format!("{repeated}{rest}"),
            Follows::Closers => {
                let closers = self.closers();
                let is_rest = closers == rest.trim_end();
                let is_illegal = self.delivered().trim_end().ends_with([',', ':', '\\']);
                if is_rest || is_illegal {
                    return None;
                }
                repeated + &closers
            }
            Follows::Nothing => repeated,
        };
        Some(match cell.around {
            Around::Nothing => json,
            Around::Greeting => format!(
                "{}{json}",
                rng.pick(&["Sure! ", "Sure, here is the rest:\n\n", "Continuing: "])
            ),
            Around::Fence => format!("```json\n{json}\n```"),
            Around::Note => format!("{json}\n\nLet me know if you need anything else."),
        })
    }
}

/// Returns the strings of `text` between the offsets, without quotes and relative to `from`, each
/// with whether it is a key.
fn in_strings(text: &str, from: usize, to: usize) -> Vec<(Range<usize>, bool)> {
    let (mut found, mut start, mut escaped) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match start {
            None if c == '"' => start = Some(at + 1),
            None => {}
            Some(begin) if c == '"' && !escaped => {
                start = None;
                if at > from && begin < to {
                    let is_key = text[at + 1..].trim_start().starts_with(':');
                    found.push((begin.max(from) - from..at.min(to) - from, is_key));
                }
            }
            Some(_) => escaped = c == '\\' && !escaped,
        }
    }
    if let Some(begin) = start.filter(|&begin| begin < to) {
        found.push((begin.max(from) - from..to - from, false));
    }
    found
}

/// Returns the runs of at least `least` such characters that end before `end`.
fn runs<'t>(
    text: &'t str,
    end: usize,
    is: impl Fn(char) -> bool + 't,
    least: usize,
) -> impl Iterator<Item = Range<usize>> + 't {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..end].find(&is)?;
            let length = text[start..end].find(|c| !is(c)).unwrap_or(end - start);
            at = start + length;
            // A letter after a backslash belongs to an escape.
            let is_escape = text[..start].ends_with('\\');
            if length >= least && !is_escape && start + length < end {
                return Some(start..start + length);
            }
        }
    })
}

/// Returns the documents of the seeds that are short and have a container as their root.
fn documents(seeds: Range<u64>) -> impl Iterator<Item = (u64, Sample)> {
    let samples = seeds.map(|seed| (seed, sample(seed)));
    samples.filter(|(_, sample)| !sample.scalar && sample.text.len() <= LONGEST)
}

/// The most bytes of a document: hundreds of cells repeat all of it at each cut.
const LONGEST: usize = 3000;

/// Runs the wanted cells at `cuts` offsets of each document, and calls `seen` with each result. One
/// row in four runs, so that the same time covers more documents.
fn measure(
    seeds: Range<u64>,
    cuts: usize,
    wanted: impl Fn(&Cell) -> bool,
    mut seen: impl FnMut(Cell, &Cut<'_>, &str, &Outcome, Verdict),
) {
    let mut cells = Cell::all();
    cells.retain(wanted);
    for (seed, sample) in documents(seeds) {
        let truth = read(&sample.text).unwrap();
        let mut rng = Rng::new(seed ^ 0x00c1_1500);
        for _ in 0..cuts {
            let root = sample.text.find(['{', '[']).unwrap_or_default();
            let most = (sample.text.len() - root).saturating_sub(4).max(1);
            let least = root + 2 + rng.below(most);
            let cut = (least..=sample.text.len()).find(|&at| sample.text.is_char_boundary(at));
            let cut = Cut::new(&sample, cut.unwrap());
            for &cell in &cells {
                if rng.below(4) > 0 {
                    continue;
                }
                let Some(fragment) = cut.write(cell, &mut rng) else {
                    continue;
                };
                let outcome = join(cut.delivered(), &fragment, cell.expect(), 7);
                let case = Case {
                    truth: &truth,
                    delivered: cut.delivered(),
                    fragment: &fragment,
                    brings: cell.brings(),
                    seam: None,
                };
                seen(cell, &cut, &fragment, &outcome, case.judge(&outcome));
            }
        }
    }
}

/// Returns the sums over all cells that share a property, and the worst cells. If `shows_wrong` is
/// set, prints the wrong rows.
pub(crate) fn table(
    seeds: Range<u64>,
    cuts: usize,
    shows_wrong: bool,
    wanted: impl Fn(&Cell) -> bool,
) -> String {
    let mut cells: BTreeMap<Cell, Counts> = BTreeMap::new();
    measure(
        seeds,
        cuts,
        wanted,
        |cell, cut, fragment, outcome, verdict| {
            cells.entry(cell).or_default().add(outcome, verdict);
            if shows_wrong && verdict == Verdict::Wrong {
                println!("{}", cut.show(cell, fragment, outcome));
            }
        },
    );
    let mut sums: BTreeMap<String, Counts> = BTreeMap::new();
    for (cell, counts) in &cells {
        let surface = cell.surface;
        for name in [
            "all".to_owned(),
            format!("{surface:?}"),
            format!("{surface:?} repeats {:?}", cell.repeats),
            format!("{surface:?} differs {:?}", cell.differs),
            format!("{surface:?} around {:?}", cell.around),
            format!("{surface:?} follows {:?}", cell.follows),
        ] {
            sums.entry(name).or_default().add_all(counts);
        }
    }
    let mut out: String = sums.iter().map(|(name, sum)| sum.line(name)).collect();
    out += "the worst cells:\n";
    let mut worst: Vec<_> = cells.iter().filter(|(_, one)| one.rows >= LEAST).collect();
    worst.sort_by(|(_, a), (_, b)| (b.wrong * a.rows).cmp(&(a.wrong * b.rows)));
    let worst = worst.iter().take(WORST);
    out + &worst
        .map(|(cell, counts)| counts.line(&cell.to_string()))
        .collect::<String>()
}

/// The fewest rows of a listed cell: the rate of fewer is chance.
const LEAST: usize = 20;
/// The worst cells that are listed.
const WORST: usize = 40;

#[test]
fn an_answer_does_what_its_cell_says() {
    let text = r#"{"rows": [{"id": 17, "first_name": "Ada", "note": "the tide turns at noon and the harbour fills"}, {"id": 18}]}"#;
    let sample = Sample {
        name: "rows".to_owned(),
        text: text.to_owned(),
        periodic: false,
        scalar: false,
    };
    let cut = Cut::new(&sample, text.find(" fills").unwrap());
    let write = |repeats, differs, around, follows| {
        let cell = Cell {
            surface: Surface::Words,
            repeats,
            differs,
            around,
            follows,
        };
        cut.write(cell, &mut Rng::new(7)).unwrap()
    };
    let element = |differs| write(Repeats::Element, differs, Around::Nothing, Follows::Rest);
    let (_, rest) = text.split_at(cut.cut);
    let begun = &text[10..cut.cut];
    assert_eq!(element(Differs::Nothing), format!("{begun}{rest}"));
    assert_eq!(
        element(Differs::Key),
        format!("{begun}{rest}").replace("\"note\"", "\"note_value\"")
    );
    assert_ne!(element(Differs::Word), element(Differs::Nothing));
    assert!(element(Differs::Word).ends_with(rest));
    assert!(begun.ends_with(element(Differs::Beginning).strip_suffix(rest).unwrap()));
    assert!(begun.starts_with(element(Differs::End).strip_suffix(rest).unwrap()));
    let closed = write(
        Repeats::Nothing,
        Differs::Nothing,
        Around::Fence,
        Follows::Closers,
    );
    assert_eq!(closed, "```json\n\"}]}\n```");
    let tail = write(
        Repeats::Tail,
        Differs::Nothing,
        Around::Nothing,
        Follows::Nothing,
    );
    assert!(text[..cut.cut].ends_with(&tail) && tail.len() >= 14);
}

#[test]
fn what_differs_in_nothing_is_joined() {
    let is_plain = |cell: &Cell| {
        cell.surface == Surface::Words
            && cell.repeats == Repeats::Anchor
            && cell.differs == Differs::Nothing
            && matches!(cell.around, Around::Nothing | Around::Fence)
            && cell.follows == Follows::Rest
    };
    let (mut rows, mut wrong) = (0, Vec::new());
    measure(
        0..40,
        8,
        is_plain,
        |cell, cut, fragment, outcome, verdict| {
            rows += 1;
            if verdict == Verdict::Wrong {
                wrong.push(cut.show(cell, fragment, outcome));
            }
        },
    );
    assert!(rows > 60 && wrong.is_empty(), "{rows} {wrong:#?}");
}
