//! Scripts: the steps of a scripted server, call by call, their text form, and errors in it.
//!
//! Knows nothing of HTTP, documents or conversations; it only names behaviours.

use std::fmt;
use std::str::FromStr;

use super::style::ContinuationStyle;

/// The steps of a conversation: how its first calls are answered, and how its continuations are.
///
/// The text form is `FIRST… | THEN…`. Steps are separated by white space, `,` or `;`; a step is
/// `BEHAVIOUR[@BYTES][!END]`. The n-th first call takes the n-th first step, and starts over after the last one. The
/// n-th continuation after it takes the n-th `then` step; the last one repeats. An empty side means `answer` before the
/// bar and `anchor` after it. The [module](super) lists behaviours and ends.
///
/// ```
/// use restitch::sim::Script;
///
/// let script: Script = "answer@200!length | refusal, anchor@300!drop; exact".parse()?;
/// assert_eq!(script.to_string(), "answer@200!length | refusal anchor@300!drop exact");
///
/// let error = "answer@200!lenght".parse::<Script>().unwrap_err();
/// assert_eq!(error.to_string(), "no end is called `lenght` (byte 11)");
/// # Ok::<(), restitch::sim::ScriptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Never empty.
    first: Vec<Step>,
    /// Never empty.
    then: Vec<Step>,
}

impl Script {
    /// Returns the steps of first calls, at least one.
    pub fn first(&self) -> &[Step] {
        &self.first
    }

    /// Returns the steps of continuations, at least one.
    pub fn then(&self) -> &[Step] {
        &self.then
    }
}

/// One complete answer, and one that repeats its anchor in every continuation.
impl Default for Script {
    fn default() -> Self {
        Self { first: vec![Step::plain(Behaviour::Answer)], then: vec![Step::plain(Behaviour::Anchor)] }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.first {
            write!(f, "{step} ")?;
        }
        f.write_str("|")?;
        for step in &self.then {
            write!(f, " {step}")?;
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (first, then) = match text.split_once('|') {
            None => (text, None),
            Some((first, then)) => (first, Some(then)),
        };
        let mut script = Self::default();
        let steps = steps(first, 0, Side::First)?;
        if !steps.is_empty() {
            script.first = steps;
        }
        if let Some(then) = then {
            let base = first.len() + 1;
            if let Some(at) = then.find('|') {
                return Err(ScriptError { kind: ScriptErrorKind::SecondBar, offset: base + at });
            }
            let steps = self::steps(then, base, Side::Then)?;
            if !steps.is_empty() {
                script.then = steps;
            }
        }
        Ok(script)
    }
}

/// The answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The content of the answer.
    pub behaviour: Behaviour,
    /// How many bytes of the document's remaining text it delivers, moved back to the start of a character; `None` is
    /// all.
    pub bytes: Option<usize>,
    /// How it ends; `None` is [`AnswerEnd::Stop`] where it reached the document's end, else [`AnswerEnd::Length`].
    pub end: Option<AnswerEnd>,
}

impl Step {
    fn plain(behaviour: Behaviour) -> Self {
        Self { behaviour, bytes: None, end: None }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.behaviour)?;
        if let Some(bytes) = self.bytes {
            write!(f, "@{bytes}")?;
        }
        if let Some(end) = self.end {
            write!(f, "!{end}")?;
        }
        Ok(())
    }
}

/// The content of an answer. The [module](super) has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behaviour {
    /// The document and nothing else. First calls only.
    Answer,
    /// No JSON at all. First calls only.
    Prose,
    /// The requested anchor, verbatim, and what follows it. Continuations only.
    Anchor,
    /// What follows the delivered text, without a repetition. Continuations only.
    Exact,
    /// A continuation after prose and a code fence. Continuations only: the [`Preamble`](Self::Preamble) of a first
    /// answer has a fence already.
    PreambleFence,
    /// The delivered text once more and nothing new. Continuations only.
    Repeat,
    /// After a code fence that is closed where the document ends.
    Fence,
    /// After a code fence that is never closed.
    FenceOpen,
    /// After prose; in a first answer also after a fence.
    Preamble,
    /// With prose after the end of the document.
    Epilogue,
    /// A few valid bytes, then bytes that no JSON text can have there.
    Garbage,
    /// As [`Anchor`](Self::Anchor), after a line with the percentage of the document. Continuations only.
    Progress,
    /// Only reasoning, up to the limit on tokens. Where the request turns reasoning off, as [`Answer`](Self::Answer) or
    /// [`Anchor`](Self::Anchor).
    Reasoning,
    /// "I'm sorry, but I can't help with that."
    Refusal,
    /// A role and a finish, no text.
    Empty,
    /// The connection is dropped before any text: after the role chunk, or after the head of a response that is one
    /// body.
    Drop,
    /// The connection is closed before the first byte of a response.
    NoResponse,
    /// An HTTP error, 400 to 599, with a JSON body.
    Status {
        /// The status code.
        code: u16,
        /// The value of `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// The rest in one of the [styles](super::style), or as [`Anchor`](Self::Anchor) where the style does not apply at
    /// the cut. Continuations only; `@BYTES` counts bytes of the fragment. The name of a style that is also the name of
    /// another behaviour means that behaviour.
    Style(ContinuationStyle),
}

impl Behaviour {
    /// Returns whether `@BYTES` is allowed: only where the answer has text of the document.
    fn takes_bytes(self) -> bool {
        !matches!(self, Self::Prose | Self::Repeat | Self::Refusal | Self::Empty | Self::Reasoning) && self.takes_end()
    }

    /// Returns whether `!END` is allowed: not where the behaviour is an end itself.
    fn takes_end(self) -> bool {
        !matches!(self, Self::Drop | Self::NoResponse | Self::Status { .. })
    }

    fn fits(self, side: Side) -> bool {
        match self {
            Self::Answer | Self::Prose => side == Side::First,
            Self::Anchor | Self::Exact | Self::PreambleFence | Self::Progress | Self::Repeat | Self::Style(_) => {
                side == Side::Then
            }
            _ => true,
        }
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Status { code, retry_after } = self {
            write!(f, "{code}")?;
            return retry_after.map_or(Ok(()), |seconds| write!(f, "~{seconds}"));
        }
        if let Self::Style(style) = self {
            return f.write_str(style.name());
        }
        let name = BEHAVIOURS.iter().find(|(_, behaviour)| behaviour == self);
        debug_assert!(name.is_some(), "every behaviour has a name: {self:?}");
        f.write_str(name.map_or("", |&(name, _)| name))
    }
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerEnd {
    /// `finish_reason: "length"`.
    Length,
    /// `finish_reason: "stop"`; premature where the document goes on.
    Stop,
    /// `finish_reason: "content_filter"`.
    Filter,
    /// The connection is dropped after the text, without the end of the chunked body.
    Drop,
    /// The connection is dropped after exactly this many bytes of the response's body, counted before chunked framing,
    /// even inside an event. A shorter answer ends as if no end had been named.
    Reset(u64),
    /// The body ends cleanly, without a finish and without `[DONE]`.
    Eof,
    /// `[DONE]` without a finish.
    Done,
    /// An error inside the stream, then a clean end. An answer that is one body is replaced by the error.
    Error,
    /// Nothing more comes, and the connection stays open until the peer leaves.
    Stall,
}

impl fmt::Display for AnswerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Reset(bytes) = self {
            return write!(f, "drop={bytes}");
        }
        let name = ENDS.iter().find(|(_, end)| end == self);
        debug_assert!(name.is_some(), "every end has a name: {self:?}");
        f.write_str(name.map_or("", |&(name, _)| name))
    }
}

/// An error in the text of a script, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// What is wrong.
    pub kind: ScriptErrorKind,
    /// Byte offset of the part that is wrong.
    pub offset: usize,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptErrorKind {
    /// No behaviour has this name.
    UnknownBehaviour(String),
    /// No end has this name.
    UnknownEnd(String),
    /// A count of bytes or seconds that is not a number, or is too large.
    InvalidNumber(String),
    /// A status that is not an HTTP error.
    InvalidStatus(u16),
    /// A behaviour of first calls after the bar, or one of continuations before it.
    Misplaced(Behaviour),
    /// `@BYTES` after a behaviour that delivers nothing of the document.
    UnexpectedBytes(Behaviour),
    /// `!END` after a behaviour that is an end itself.
    UnexpectedEnd(Behaviour),
    /// A script has only one bar, between first calls and continuations.
    SecondBar,
}

impl fmt::Display for ScriptErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownBehaviour(name) => write!(f, "no behaviour is called `{name}`"),
            Self::UnknownEnd(name) => write!(f, "no end is called `{name}`"),
            Self::InvalidNumber(text) => write!(f, "`{text}` is not a number that fits"),
            Self::InvalidStatus(code) => write!(f, "{code} is not an HTTP error (400 to 599)"),
            Self::Misplaced(behaviour) if behaviour.fits(Side::First) => {
                write!(f, "`{behaviour}` answers first calls and cannot come after the `|`")
            }
            Self::Misplaced(behaviour) => {
                write!(f, "`{behaviour}` continues an answer and cannot come before the `|`")
            }
            Self::UnexpectedBytes(behaviour) => {
                write!(f, "`{behaviour}` delivers nothing of the document and takes no `@`")
            }
            Self::UnexpectedEnd(behaviour) => write!(f, "`{behaviour}` is an end itself and takes no `!`"),
            Self::SecondBar => f.write_str("a second `|`"),
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.offset)
    }
}

impl std::error::Error for ScriptError {}

/// The two kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Then,
}

/// Reads the steps in `text`, which starts at byte `base` of the script.
fn steps(text: &str, base: usize, side: Side) -> Result<Vec<Step>, ScriptError> {
    let mut steps = Vec::new();
    let mut at = 0;
    for word in text.split(|c: char| c.is_whitespace() || c == ',' || c == ';') {
        if !word.is_empty() {
            steps.push(step(word, base + at, side)?);
        }
        // Some white space is longer than one byte, so the length of the separator is looked up.
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    Ok(steps)
}

fn step(word: &str, base: usize, side: Side) -> Result<Step, ScriptError> {
    let fail = |kind, offset| Err(ScriptError { kind, offset: base + offset });
    let (head, end) = match word.split_once('!') {
        None => (word, None),
        Some((head, end)) => (head, Some((end, head.len()))),
    };
    let (name, bytes) = match head.split_once('@') {
        None => (head, None),
        Some((name, bytes)) => (name, Some((bytes, name.len()))),
    };
    let behaviour = behaviour(name, base)?;
    if !behaviour.fits(side) {
        return fail(ScriptErrorKind::Misplaced(behaviour), 0);
    }
    let mut step = Step::plain(behaviour);
    if let Some((bytes, at)) = bytes {
        if !behaviour.takes_bytes() {
            return fail(ScriptErrorKind::UnexpectedBytes(behaviour), at);
        }
        step.bytes = Some(number(bytes, base + at + 1)?);
    }
    if let Some((end, at)) = end {
        if !behaviour.takes_end() {
            return fail(ScriptErrorKind::UnexpectedEnd(behaviour), at);
        }
        step.end = Some(match end.split_once('=') {
            Some(("drop", bytes)) => AnswerEnd::Reset(number(bytes, base + at + 1 + "drop=".len())?),
            _ => match ENDS.iter().find(|(known, _)| *known == end) {
                Some(&(_, end)) => end,
                None => return fail(ScriptErrorKind::UnknownEnd(end.to_owned()), at + 1),
            },
        });
    }
    Ok(step)
}

fn behaviour(name: &str, offset: usize) -> Result<Behaviour, ScriptError> {
    let name = OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |&(_, now)| now);
    if let Some(&(_, behaviour)) = BEHAVIOURS.iter().find(|(known, _)| *known == name) {
        return Ok(behaviour);
    }
    if let Some(style) = ContinuationStyle::by_name(name) {
        return Ok(Behaviour::Style(style));
    }
    let fail = |kind| Err(ScriptError { kind, offset });
    let (code, wait) = match name.split_once('~') {
        None => (name, None),
        Some((code, wait)) => (code, Some(wait)),
    };
    if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_digit()) {
        return fail(ScriptErrorKind::UnknownBehaviour(name.to_owned()));
    }
    let code: u16 = number(code, offset)?;
    if !(400..600).contains(&code) {
        return fail(ScriptErrorKind::InvalidStatus(code));
    }
    let retry_after = wait.map(|wait| number(wait, offset + 4)).transpose()?;
    Ok(Behaviour::Status { code, retry_after })
}

/// Reads digits alone. Rust also accepts a leading `+`, which `Display` would not write again.
fn number<T: FromStr>(text: &str, offset: usize) -> Result<T, ScriptError> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(ScriptError { kind: ScriptErrorKind::InvalidNumber(text.to_owned()), offset }),
    }
}

/// Every behaviour but the statuses and the styles, by name.
const BEHAVIOURS: &[(&str, Behaviour)] = &[
    ("answer", Behaviour::Answer),
    ("prose", Behaviour::Prose),
    ("anchor", Behaviour::Anchor),
    ("exact", Behaviour::Exact),
    ("preamble-fence", Behaviour::PreambleFence),
    ("repeat", Behaviour::Repeat),
    ("fence", Behaviour::Fence),
    ("fence-open", Behaviour::FenceOpen),
    ("preamble", Behaviour::Preamble),
    ("progress", Behaviour::Progress),
    ("reasoning", Behaviour::Reasoning),
    ("epilogue", Behaviour::Epilogue),
    ("garbage", Behaviour::Garbage),
    ("refusal", Behaviour::Refusal),
    ("empty", Behaviour::Empty),
    ("drop", Behaviour::Drop),
    ("no-response", Behaviour::NoResponse),
];

/// Names that scripts used before, and the names they have now: old scripts keep working.
const OLD_NAMES: &[(&str, &str)] = &[
    ("thoughts", "reasoning"),
    ("hangup", "no-response"),
    ("value-anew", "value-reformatted"),
    ("member-anew", "member-reformatted"),
    ("element-anew", "element-reformatted"),
    ("parent-anew", "parent-reformatted"),
    ("root-anew", "root-reformatted"),
    ("root-anew-fence", "root-reformatted-fence"),
    ("reroot", "new-root"),
    ("reroot-anew", "new-root-reformatted"),
    ("reroot-last", "new-root-last"),
    ("reroot-rest", "new-root-rest"),
    ("reroot-without", "new-root-without"),
];

/// Every end but the reset, by name.
const ENDS: &[(&str, AnswerEnd)] = &[
    ("length", AnswerEnd::Length),
    ("stop", AnswerEnd::Stop),
    ("filter", AnswerEnd::Filter),
    ("drop", AnswerEnd::Drop),
    ("eof", AnswerEnd::Eof),
    ("done", AnswerEnd::Done),
    ("error", AnswerEnd::Error),
    ("stall", AnswerEnd::Stall),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name, count and end comes back as it was written.
    #[test]
    fn the_text_form_round_trips() {
        for side in [Side::First, Side::Then] {
            let styles = ContinuationStyle::ALL.iter().map(|&style| (style.name(), Behaviour::Style(style)));
            for (name, behaviour) in BEHAVIOURS.iter().copied().chain(styles) {
                // `empty` and `refusal` are names of styles, too.
                if !behaviour.fits(side) || !behaviour_is(name, behaviour) {
                    continue;
                }
                let mut words = vec![name.to_owned()];
                if behaviour.takes_bytes() {
                    words.push(format!("{name}@17"));
                }
                if behaviour.takes_end() {
                    words.extend(ENDS.iter().map(|(end, _)| format!("{name}!{end}")));
                    words.push(format!("{name}!drop=12"));
                }
                for word in words {
                    assert_eq!(step(&word, 0, side).unwrap().to_string(), word);
                }
            }
        }
        for text in ["answer@200!length | refusal anchor@300!drop exact@120 anchor", "429~2 500 | 599"] {
            let script: Script = text.parse().unwrap();
            assert_eq!(script.to_string(), text);
        }
    }

    fn behaviour_is(name: &str, expected: Behaviour) -> bool {
        behaviour(name, 0).unwrap() == expected
    }

    /// Behaviours that existed before the styles keep their names.
    #[test]
    fn names_of_styles_are_behaviours() {
        let read = |name| behaviour(name, 0).unwrap();
        assert_eq!(read("element-reformatted"), Behaviour::Style(ContinuationStyle::ElementReformatted));
        assert_eq!(read("anchor"), Behaviour::Anchor);
        let own: Vec<&str> = ContinuationStyle::ALL
            .iter()
            .map(|style| style.name())
            .filter(|&name| !matches!(read(name), Behaviour::Style(_)))
            .collect();
        assert_eq!(own, ["anchor", "exact", "empty", "refusal"]);
    }

    #[test]
    fn old_names_are_read_as_the_new_ones() {
        for (old, now) in OLD_NAMES {
            assert_eq!(behaviour(old, 0).unwrap(), behaviour(now, 0).unwrap(), "{old}");
            assert_eq!(behaviour(old, 0).unwrap().to_string(), *now);
        }
        let script: Script = "thoughts hangup | reroot@9!stop element-anew".parse().unwrap();
        assert_eq!(script.to_string(), "reasoning no-response | new-root@9!stop element-reformatted");
    }

    #[test]
    fn empty_sides_have_defaults() {
        for text in ["", "|", "answer", " answer | anchor ", ",;|\n", "|anchor"] {
            assert_eq!(text.parse::<Script>().unwrap(), Script::default(), "{text:?}");
        }
        assert_eq!(Script::default().to_string(), "answer | anchor");
    }

    #[test]
    fn errors_say_where() {
        let cases = [
            ("answr", "no behaviour is called `answr` (byte 0)"),
            ("answer  , fenc", "no behaviour is called `fenc` (byte 10)"),
            ("answer\u{2003}fenc", "no behaviour is called `fenc` (byte 9)"),
            ("answer | exact@1 foo", "no behaviour is called `foo` (byte 17)"),
            ("answer@", "`` is not a number that fits (byte 7)"),
            ("answer@+1", "`+1` is not a number that fits (byte 7)"),
            ("answer@99999999999999999999", "`99999999999999999999` is not a number that fits (byte 7)"),
            ("answer@1!lenght", "no end is called `lenght` (byte 9)"),
            ("answer!", "no end is called `` (byte 7)"),
            ("answer!drop=x", "`x` is not a number that fits (byte 12)"),
            ("answer!stop@3", "no end is called `stop@3` (byte 7)"),
            ("399", "399 is not an HTTP error (400 to 599) (byte 0)"),
            ("4290", "no behaviour is called `4290` (byte 0)"),
            ("429~x", "`x` is not a number that fits (byte 4)"),
            ("500!stop", "`500` is an end itself and takes no `!` (byte 3)"),
            ("drop@3", "`drop` delivers nothing of the document and takes no `@` (byte 4)"),
            ("answer | refusal@3", "`refusal` delivers nothing of the document and takes no `@` (byte 16)"),
            ("exact", "`exact` continues an answer and cannot come before the `|` (byte 0)"),
            ("root", "`root` continues an answer and cannot come before the `|` (byte 0)"),
            ("answer|answer", "`answer` answers first calls and cannot come after the `|` (byte 7)"),
            ("answer | anchor | anchor", "a second `|` (byte 16)"),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<Script>().unwrap_err().to_string(), message, "{text:?}");
        }
    }
}
