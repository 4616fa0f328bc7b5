//! How much of the document was delivered, in the model's estimate.

/// The `kpi_question`, which is part of the request to continue.
pub const KPI_QUESTION: &str = "Based on the delivered data so far, approximately what percentage (%) of the total \
                                required content has been delivered? Respond outside of the JSON, with one line \
                                `PROGRESS: n`, where n is an integer between 0-100.";

/// Returns the percentage that an answer names outside of its JSON.
///
/// Reads `PROGRESS: n`, then `n%` and `n percent`, then an integer alone on a line; the first match
/// of the first of these patterns counts. A number above 100 does not count.
///
/// A fragment may start and end inside a string, which may hold any text. So only these lines are
/// read: those before the first line that starts a root or a fence, and those after the last line
/// that ends with a bracket or a fence, if they have no quotes and no brackets. A line
/// `PROGRESS: n` counts anywhere: JSON has no such line.
///
/// ```
/// use restitch::internal::context::extract;
///
/// assert_eq!(extract("PROGRESS: 45\n{\"share\": \"90%\"}"), Some(45));
/// assert_eq!(extract("{\"share\": \"90%\"}\nThat is about 60 percent."), Some(60));
/// assert_eq!(extract("{\"share\": \"90%\"}"), None);
/// ```
pub fn extract(answer: &str) -> Option<u8> {
    let lines: Vec<&str> = answer
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let starts = |line: &&str| line.starts_with(['{', '[', '`']);
    let ends = |line: &&str| line.ends_with(['}', ']', '`']);
    let head = lines.iter().position(starts);
    let tail = lines.iter().rposition(ends).map(|at| at + 1);
    let is_prose = |lines: &&[&str]| {
        lines
            .iter()
            .all(|line| !line.contains(['"', '{', '}', '[', ']']))
    };
    let before = head
        .and_then(|head| lines.get(..head))
        .filter(is_prose)
        .unwrap_or_default();
    let after = tail
        .and_then(|tail| lines.get(tail..))
        .filter(is_prose)
        .unwrap_or_default();
    // An answer without JSON may be the percentage alone.
    let alone = if lines.len() == 1 && head.is_none() {
        lines.as_slice()
    } else {
        &[]
    };
    let outside = || before.iter().chain(after);
    let asked = || lines.iter().find_map(|line| asked(line));
    let named = || {
        outside()
            .find_map(|line| named(line))
            .or_else(|| alone.iter().find_map(|line| whole(line)))
    };
    let bare = || outside().chain(alone).find_map(|line| integer(line));
    asked()
        .or_else(named)
        .or_else(bare)
        .filter(|&percent| percent <= 100)
        .and_then(|percent| percent.try_into().ok())
}

/// Reads a line `PROGRESS: n`, with or without a percent sign.
fn asked(line: &str) -> Option<u32> {
    let line = line.trim_matches(['*', '`', ' ']);
    let rest = line
        .get(..PROGRESS.len())
        .filter(|word| word.eq_ignore_ascii_case(PROGRESS))?;
    let rest = line.get(rest.len()..)?.trim_start();
    let rest = rest
        .strip_prefix(':')?
        .trim()
        .trim_start_matches(['*', ' ']);
    integer(rest.strip_suffix('%').unwrap_or(rest).trim_end())
}

const PROGRESS: &str = "progress";

/// Reads a line that is a percentage and nothing else.
fn whole(line: &str) -> Option<u32> {
    let line = line.strip_suffix('.').unwrap_or(line);
    let digits = line
        .strip_suffix('%')
        .or_else(|| line.strip_suffix("percent"))?;
    integer(digits.trim_end())
}

/// Reads the first percentage in a line: an integer before `%` or `percent`.
fn named(line: &str) -> Option<u32> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = line;
    let mut before = None;
    while let Some(start) = rest.find(is_digit) {
        let (head, digits) = rest.split_at(start);
        let end = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
        let (digits, after) = digits.split_at(end);
        let sign = head.chars().next_back().or(before);
        let is_part =
            sign.is_some_and(|c| matches!(c, '.' | ',' | '-' | '−') || c.is_alphanumeric());
        let unit = after.trim_start();
        let word = unit
            .get(..PERCENT.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(PERCENT));
        let goes_on = unit
            .get(PERCENT.len()..)
            .is_some_and(|more| more.starts_with(char::is_alphanumeric));
        if !is_part && (unit.starts_with('%') || word && !goes_on) {
            // A number that is too long to parse is too large as well.
            return Some(digits.parse().unwrap_or(u32::MAX));
        }
        before = digits.chars().next_back();
        rest = after;
    }
    None
}

const PERCENT: &str = "percent";

/// Reads a text that is an integer.
fn integer(text: &str) -> Option<u32> {
    let is_integer = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Returns whether a percentage is higher than the last accepted one, which is 0 at the start.
pub fn validate(last_kpi: Option<u8>, kpi: u8) -> bool {
    kpi > last_kpi.unwrap_or(0)
}

/// Counts how often in a row the percentage that a model names did not rise. Independent of whether
/// its answers were joined.
///
/// ```
/// use restitch::internal::context::Progress;
///
/// let mut progress = Progress::new(2);
/// assert!(progress.note(Some(40)) && progress.note(None) && progress.note(Some(40)));
/// assert!(!progress.note(Some(30)));
/// assert_eq!((progress.last_kpi(), progress.stalled()), (Some(40), 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    last: Option<u8>,
    stalled: u32,
    limit: u32,
}

impl Default for Progress {
    /// Creates a counter that allows three stalled reports.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Progress {
    /// Creates a counter that ends after this many stalled reports in a row; at least one.
    pub fn new(limit: u32) -> Self {
        Self {
            last: None,
            stalled: 0,
            limit: limit.max(1),
        }
    }

    /// Restores the counts of another process.
    pub(crate) fn resume(limit: u32, last: Option<u8>, stalled: u32) -> Self {
        Self {
            last,
            stalled,
            ..Self::new(limit)
        }
    }

    /// Notes the percentage of an answer ([`extract`]), and returns whether the loop may continue.
    /// An answer without a percentage is not stalled, and does not reset the count.
    pub fn note(&mut self, kpi: Option<u8>) -> bool {
        match kpi {
            Some(kpi) if validate(self.last, kpi) => (self.last, self.stalled) = (Some(kpi), 0),
            Some(_) => self.stalled = self.stalled.saturating_add(1),
            None => {}
        }
        self.stalled < self.limit
    }

    /// Returns the last accepted percentage.
    pub fn last_kpi(&self) -> Option<u8> {
        self.last
    }

    /// Returns the number of stalled reports in a row.
    pub fn stalled(&self) -> u32 {
        self.stalled
    }
}
