//! How much of the document has come, as the model sees it (rule 5 of the specification).

/// The `kpi_question`: asked beside the request to go on.
pub const KPI_QUESTION: &str = "Based on the delivered data so far, approximately what percentage (%) of the total \
                                required content has been delivered? Respond outside of the JSON, with one line \
                                `PROGRESS: n`, where n is an integer between 0-100.";

/// The percentage that an answer names outside of its JSON: in lines before it or behind it. `PROGRESS: n`, `n%` and
/// `n percent` count, and a bare integer alone on its line; the first of the first kind that is there. Anything outside
/// of 0 to 100 is none.
///
/// A fragment may begin and end inside a string, where any text may stand. So what stands before a line that a root or
/// a fence begins counts, and what stands behind a line that a bracket or a fence ends; a line that holds quotes or
/// brackets never does. Elsewhere a line `PROGRESS: n` alone counts: there is no such line in JSON.
///
/// ```
/// use restitch::context::extract;
///
/// assert_eq!(extract("PROGRESS: 45\n{\"share\": \"90%\"}"), Some(45));
/// assert_eq!(extract("{\"share\": \"90%\"}\nThat is about 60 percent."), Some(60));
/// assert_eq!(extract("{\"share\": \"90%\"}"), None);
/// ```
pub fn extract(answer: &str) -> Option<u8> {
    let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let begins = |line: &&str| line.starts_with(['{', '[', '`']);
    let ends = |line: &&str| line.ends_with(['}', ']', '`']);
    let head = lines.iter().position(begins);
    let tail = lines.iter().rposition(ends).map(|at| at + 1);
    let is_prose = |lines: &&[&str]| lines.iter().all(|line| !line.contains(['"', '{', '}', '[', ']']));
    let before = head.and_then(|head| lines.get(..head)).filter(is_prose).unwrap_or_default();
    let behind = tail.and_then(|tail| lines.get(tail..)).filter(is_prose).unwrap_or_default();
    // Without any JSON all of the answer may be one.
    let alone = if lines.len() == 1 && head.is_none() { lines.as_slice() } else { &[] };
    let outside = || before.iter().chain(behind);
    let asked = || lines.iter().find_map(|line| asked(line));
    let named = || outside().find_map(|line| named(line)).or_else(|| alone.iter().find_map(|line| whole(line)));
    let bare = || outside().chain(alone).find_map(|line| integer(line));
    asked().or_else(named).or_else(bare).filter(|&percent| percent <= 100).and_then(|percent| percent.try_into().ok())
}

/// The line `PROGRESS: n`, perhaps with a percent sign.
fn asked(line: &str) -> Option<u32> {
    let line = line.trim_matches(['*', '`', ' ']);
    let rest = line.get(..PROGRESS.len()).filter(|word| word.eq_ignore_ascii_case(PROGRESS))?;
    let rest = line.get(rest.len()..)?.trim_start();
    let rest = rest.strip_prefix(':')?.trim().trim_start_matches(['*', ' ']);
    integer(rest.strip_suffix('%').unwrap_or(rest).trim_end())
}

const PROGRESS: &str = "progress";

/// A line that is a percentage and nothing else.
fn whole(line: &str) -> Option<u32> {
    let line = line.strip_suffix('.').unwrap_or(line);
    let digits = line.strip_suffix('%').or_else(|| line.strip_suffix("percent"))?;
    integer(digits.trim_end())
}

/// The first percentage in a line: an integer before `%` or `percent`.
fn named(line: &str) -> Option<u32> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = line;
    let mut before = None;
    while let Some(start) = rest.find(is_digit) {
        let (head, digits) = rest.split_at(start);
        let end = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
        let (digits, behind) = digits.split_at(end);
        let sign = head.chars().next_back().or(before);
        let is_part = sign.is_some_and(|c| matches!(c, '.' | ',' | '-' | '−') || c.is_alphanumeric());
        let unit = behind.trim_start();
        let word = unit.get(..PERCENT.len()).is_some_and(|word| word.eq_ignore_ascii_case(PERCENT));
        let goes_on = unit.get(PERCENT.len()..).is_some_and(|more| more.starts_with(char::is_alphanumeric));
        if !is_part && (unit.starts_with('%') || word && !goes_on) {
            // A number that is too long to be one is too large, too.
            return Some(digits.parse().unwrap_or(u32::MAX));
        }
        before = digits.chars().next_back();
        rest = behind;
    }
    None
}

const PERCENT: &str = "percent";

/// A text that is an integer.
fn integer(text: &str) -> Option<u32> {
    let is_integer = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Whether a percentage goes on from the last accepted one: at least one more. Less, or the same, is a failure; before
/// the first one the last is 0.
pub fn validate(last_kpi: Option<u8>, kpi: u8) -> bool {
    kpi > last_kpi.unwrap_or(0)
}

/// The percentages that a model named, and how often in a row they did not rise. A counter of its own: what becomes of
/// a fragment does not matter to it.
///
/// ```
/// use restitch::context::Progress;
///
/// let mut progress = Progress::new(2);
/// assert!(progress.note(Some(40)) && progress.note(None) && progress.note(Some(40)));
/// assert!(!progress.note(Some(30)));
/// assert_eq!((progress.last_kpi(), progress.strikes()), (Some(40), 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    last: Option<u8>,
    strikes: u32,
    limit: u32,
}

impl Default for Progress {
    /// Three strikes.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Progress {
    /// So many failures in a row are the end; at least one.
    pub fn new(limit: u32) -> Self {
        Self { last: None, strikes: 0, limit: limit.max(1) }
    }

    /// What another process had noted.
    pub(crate) fn resume(limit: u32, last: Option<u8>, strikes: u32) -> Self {
        Self { last, strikes, ..Self::new(limit) }
    }

    /// Notes what an answer named ([`extract`]). Whether the loop may go on. One that names nothing is no failure, and
    /// ends no row of them.
    pub fn note(&mut self, kpi: Option<u8>) -> bool {
        match kpi {
            Some(kpi) if validate(self.last, kpi) => (self.last, self.strikes) = (Some(kpi), 0),
            Some(_) => self.strikes = self.strikes.saturating_add(1),
            None => {}
        }
        self.strikes < self.limit
    }

    /// The last one that was accepted.
    pub fn last_kpi(&self) -> Option<u8> {
        self.last
    }

    /// Failures in a row.
    pub fn strikes(&self) -> u32 {
        self.strikes
    }
}
