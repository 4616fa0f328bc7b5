//! Scripts: the steps of a scripted server, call by call.
//!
//! Only names behaviours, without knowing HTTP, documents or conversations.

mod parse;

use std::fmt;

pub use parse::ScriptError;
use strum::{EnumString, IntoStaticStr};

use super::style::ContinuationStyle;

/// The steps of a conversation: for its first calls and for its continuations.
///
/// The text form is `FIRST… | THEN…`. Steps are separated by white space, `,` or `;`; a step is
/// `[LEAD+…]BEHAVIOUR[@BYTES][!END]`. The n-th first call takes the n-th first step, and starts
/// over after the last one. The n-th continuation after it takes the n-th `then` step; the last one
/// repeats. An empty side means `answer` before the bar and `anchor` after it. The [module](super)
/// lists behaviours and ends.
///
/// ```
/// use restitch_sim::Script;
///
/// let script: Script = "answer@200!length | refusal, anchor@300!drop; exact".parse()?;
/// assert_eq!(script.to_string(), "answer@200!length | refusal anchor@300!drop exact");
///
/// let error = "answer@200!lenght".parse::<Script>().unwrap_err();
/// assert_eq!(error.to_string(), "no end is called `lenght` (byte 11)");
/// # Ok::<(), restitch_sim::ScriptError>(())
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
        Self {
            first: vec![Step::plain(Behaviour::Answer)],
            then: vec![Step::plain(Behaviour::Anchor)],
        }
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

/// The answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The parts before that content.
    pub lead: Lead,
    /// The content of the answer.
    pub behaviour: Behaviour,
    /// How many bytes of the document's remaining text it delivers, moved back to the start of a
    /// character; `None` is all.
    pub bytes: Option<usize>,
    /// How it ends; `None` is [`AnswerEnd::Stop`] if it reached the document's end, else
    /// [`AnswerEnd::Length`].
    pub end: Option<AnswerEnd>,
}

impl Step {
    fn plain(behaviour: Behaviour) -> Self {
        Self {
            lead: Lead::default(),
            behaviour,
            bytes: None,
            end: None,
        }
    }

    /// Returns the same step with another behaviour.
    pub(super) fn with(self, behaviour: Behaviour) -> Self {
        Self { behaviour, ..self }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lead, self.behaviour)?;
        if let Some(bytes) = self.bytes {
            write!(f, "@{bytes}")?;
        }
        if let Some(end) = self.end {
            write!(f, "!{end}")?;
        }
        Ok(())
    }
}

/// The parts of an answer before its document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lead {
    /// Reasoning, with a signature if the API has one.
    pub reasoning: bool,
    /// "I'll write the file." Only before a tool call.
    pub text: bool,
    /// A call of the same tool with short arguments. Only before a tool call.
    pub call: bool,
}

impl fmt::Display for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, is_on) in [
            (REASONING, self.reasoning),
            (TEXT, self.text),
            (CALL, self.call),
        ] {
            f.write_str(if is_on { word } else { "" })?;
        }
        Ok(())
    }
}

/// The content of an answer. The [module](super) has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Behaviour {
    /// The document and nothing else. First calls only.
    Answer,
    /// The document, as the arguments of a tool call: of the tool that the request forces, or of
    /// the first one that it declares. As [`Answer`](Self::Answer) if it declares none. First calls
    /// only.
    Tool,
    /// No JSON at all. First calls only.
    Prose,
    /// The requested anchor, verbatim, and the text after it. Continuations only.
    Anchor,
    /// The text after the delivered text, without a repetition. Continuations only.
    Exact,
    /// A continuation after prose and a code fence. Continuations only: the
    /// [`Preamble`](Self::Preamble) of a first answer has a fence already.
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
    /// As [`Anchor`](Self::Anchor), after a line with the percentage of the document. Continuations
    /// only.
    Progress,
    /// Only reasoning, up to the limit on tokens. If the request turns reasoning off, as
    /// [`Answer`](Self::Answer) or [`Anchor`](Self::Anchor).
    Reasoning,
    /// "I'm sorry, but I can't help with that."
    Refusal,
    /// A role and a finish, no text.
    Empty,
    /// The connection is dropped before any text: after the role chunk, or after the head of a
    /// response that is one body.
    Drop,
    /// The connection is closed before the first byte of a response.
    NoResponse,
    /// An HTTP error, 400 to 599, with a JSON body.
    #[strum(disabled)]
    Status {
        /// The status code.
        code: u16,
        /// The value of `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// The rest in one of the [styles](super::style), or as [`Anchor`](Self::Anchor) if the style
    /// does not apply at the cut. Continuations only; `@BYTES` counts bytes of the fragment. The
    /// name of a style that is also the name of another behaviour means that behaviour.
    #[strum(disabled)]
    Style(ContinuationStyle),
}

impl Behaviour {
    /// Returns whether `@BYTES` is allowed: only if the answer has text of the document.
    fn takes_bytes(self) -> bool {
        !matches!(
            self,
            Self::Prose | Self::Repeat | Self::Refusal | Self::Empty | Self::Reasoning
        ) && self.takes_end()
    }

    /// Returns whether `!END` is allowed: not if the behaviour is an end itself.
    fn takes_end(self) -> bool {
        !matches!(self, Self::Drop | Self::NoResponse | Self::Status { .. })
    }

    /// Returns whether these parts may precede it.
    fn takes_lead(self, lead: Lead) -> bool {
        match self {
            Self::Tool => true,
            Self::Reasoning => lead == Lead::default(),
            _ => lead == Lead::default() || (self.takes_end() && !lead.text && !lead.call),
        }
    }

    fn fits(self, side: Side) -> bool {
        match self {
            Self::Answer | Self::Tool | Self::Prose => side == Side::First,
            Self::Anchor
            | Self::Exact
            | Self::PreambleFence
            | Self::Progress
            | Self::Repeat
            | Self::Style(_) => side == Side::Then,
            _ => true,
        }
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Status { code, retry_after } => {
                write!(f, "{code}")?;
                retry_after.map_or(Ok(()), |seconds| write!(f, "~{seconds}"))
            }
            Self::Style(style) => f.write_str(style.name()),
            named => f.write_str(named.into()),
        }
    }
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum AnswerEnd {
    /// `finish_reason: "length"`.
    Length,
    /// `finish_reason: "stop"`; premature before the document's end.
    Stop,
    /// `finish_reason: "content_filter"`.
    Filter,
    /// The finish of a tool call: `finish_reason: "tool_calls"`. The usual one of a whole call; on
    /// a call that was cut, it hides the limit, as some servers do.
    Tool,
    /// The connection is dropped after the text, without the end of the chunked body.
    Drop,
    /// The connection is dropped after exactly this many bytes of the response's body, counted
    /// before chunked framing, even inside an event. A shorter answer gets its default end.
    #[strum(disabled)]
    Reset(u64),
    /// The body ends cleanly, without a finish and without `[DONE]`.
    Eof,
    /// `[DONE]` without a finish.
    Done,
    /// An error inside the stream, then a clean end. An answer that is one body is replaced by the
    /// error.
    Error,
    /// An event that is not JSON, then a clean end. An answer that is one body is cut to its first
    /// half.
    Malformed,
    /// The server sends no further bytes, and the connection stays open until the peer leaves.
    Stall,
}

impl fmt::Display for AnswerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Reset(bytes) => write!(f, "drop={bytes}"),
            named => f.write_str(named.into()),
        }
    }
}

/// The two sides of a script: first calls and continuations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Then,
}

/// The words before a behaviour, with the sign that separates them. Their order is fixed.
const REASONING: &str = "reasoning+";
const TEXT: &str = "text+";
const CALL: &str = "call+";
