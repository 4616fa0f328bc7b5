//! The request of a further call, independent of the provider, whose module writes it.

use std::sync::{Arc, LazyLock};

use super::prompt::{Parts, Prompt, Rendered};
use super::rung::{Rung, Rungs};
use crate::provider::capability::GrammarForm;

/// A further call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The first call after the original one is 1.
    pub number: u32,
    /// The turns that are added to the original request. `None`: the original request is sent again
    /// unchanged, since nothing of the document was delivered.
    pub turn: Option<Turn>,
    /// The call before spent all its tokens on reasoning: this one must reason less, or may write
    /// more. Only if [`ContinuationStrategy::reduce_reasoning`] allows it.
    pub reduce_reasoning: bool,
    /// The provider can send the rest of the same answer. Only the proxy makes such calls.
    #[doc(hidden)]
    pub resume: Option<Resume>,
}

/// How a call ended that another one with a token follows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopEnd {
    /// The provider asked for the next call.
    Asked,
    /// The connection was lost, or the stream had no end.
    Lost,
    /// The limit on its tokens: the next call needs a higher one.
    Limit,
}

/// How a provider sends the rest of the same answer.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The connection was lost: this follows the path of the original request or of the stream that
    /// the provider keeps. The call is a GET.
    Stream(Box<str>),
    /// The original request again, with this token, raw JSON.
    Token {
        /// The token.
        token: Box<str>,
        /// How the call before it ended.
        after: HopEnd,
    },
}

impl Resume {
    pub(super) fn rung(&self) -> Rung {
        match self {
            Self::Stream(_) => Rung::Reattach,
            Self::Token { .. } => Rung::Token,
        }
    }
}

impl Request {
    /// Returns a call that brings the rest of the same answer; it has the number of the call
    /// before it.
    pub(super) fn resuming(number: u32, resume: Resume) -> Self {
        Self {
            number,
            turn: None,
            reduce_reasoning: false,
            resume: Some(resume),
        }
    }
}

/// The turns that ask a model to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// The assistant's message: all text that was delivered, or a rendering of it where it is
    /// longer than
    /// [`max_verbatim_context`](crate::Limits::with_max_verbatim_context)
    /// and one is known. The prefill with [`ContinuationMode::Prefill`].
    pub delivered: String,
    /// The delivered text that the answer is asked to repeat first: its tail, or with
    /// [`ContinuationMode::Schema`] the last object.
    pub anchor: String,
    /// The mark that the answer is asked to write between the anchor and the new text. It occurs
    /// nowhere in the delivered text.
    pub mark: Option<String>,
    /// The user's message: the instruction, and the anchor between its tags. Empty with
    /// [`ContinuationMode::Prefill`].
    pub prompt: String,
    /// The names of the prompt's tags, without angle brackets.
    pub tags: Vec<String>,
    /// Words of the prompt that belong into no document.
    pub(super) own_words: Vec<String>,
    /// The original request ends with an assistant's message, which `delivered` replaces and begins
    /// with.
    pub replaces_prefill: bool,
    /// The request keeps the format that it asks for: the prompt asks for a separate JSON document,
    /// or the provider applies the format to the prefill, too
    /// ([`PrefillOptions::keeps_format`]).
    pub keeps_json_mode: bool,
    /// The grammar that the answer must follow, with [`ContinuationMode::Grammar`]: the end of the
    /// delivered text that is not in a prefill, and then the legal rests. With
    /// [`ContinuationMode::Schema`] the JSON Schema of the answer.
    pub grammar: Option<String>,
    /// How the turns ask for the rest.
    pub mode: ContinuationMode,
}

/// How a call asks for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ContinuationMode {
    /// By a re-prompt: the delivered text as the assistant's turn, then the prompt as the user's.
    #[default]
    Reprompt,
    /// The delivered text is the last turn, and is continued literally.
    Prefill,
    /// The provider makes the model follow a grammar of the rest: as the continuation of a prefill,
    /// as the answer to a re-prompt, or as the input of a tool, for which a re-prompt asks.
    Grammar,
    /// A re-prompt asks for the whole document once more, under the format that the request has.
    Again,
    /// The provider makes the model answer with an object of the parts that are missing, under a
    /// JSON Schema.
    Schema,
}

impl ContinuationMode {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        self.rung().as_str()
    }

    pub(super) fn rung(self) -> Rung {
        match self {
            Self::Reprompt => Rung::Words,
            Self::Prefill => Rung::Prefill,
            Self::Grammar => Rung::Grammar,
            Self::Again => Rung::Again,
            Self::Schema => Rung::Schema,
        }
    }
}

/// How a session asks for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContinuationStrategy {
    /// The words.
    pub prompt: Arc<Prompt>,
    /// How the provider continues a prefill. `None`: it does not, so a re-prompt asks for the rest.
    pub prefill: Option<PrefillOptions>,
    /// How the request has a grammar of the rest, with which the provider forces the answer. Only
    /// for requests that [`Retry::body`](super::Retry::body) writes: a list of messages has no
    /// grammar.
    pub grammar: GrammarForm,
    /// A call can ask for less reasoning or for more text: see [`Request::reduce_reasoning`]. If
    /// unset, an answer that is all reasoning passes unchanged.
    pub reduce_reasoning: bool,
    /// The request asks for JSON mode and must keep it, so the re-prompt asks for a separate JSON
    /// document, and a prefill is sent only with [`PrefillOptions::keeps_format`].
    pub keeps_json_mode: bool,
    /// The rungs that may be used. Without one that can ask for the rest, the answer is given up.
    pub(super) rungs: Rungs,
}

/// How a provider continues a prefill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct PrefillOptions {
    /// The prefill must not end in white space. If the white space is text of a string, a re-prompt
    /// asks for the rest.
    pub rejects_trailing_space: bool,
    /// The answer begins with the prefill.
    pub returns_prefill: bool,
    /// The request asks for a format and keeps it, since the provider applies it to the prefill and
    /// the answer together. After a lost connection the prefill then ends before the word that was
    /// cut: the model writes that word again, and an answer with another word is not joined.
    pub keeps_format: bool,
}

/// The default prompt, without a prefill.
impl Default for ContinuationStrategy {
    fn default() -> Self {
        static USUAL: LazyLock<Arc<Prompt>> = LazyLock::new(Arc::default);
        Self {
            prompt: Arc::clone(&USUAL),
            prefill: None,
            grammar: GrammarForm::None,
            reduce_reasoning: false,
            keeps_json_mode: false,
            rungs: Rungs::ALL,
        }
    }
}

impl ContinuationStrategy {
    /// Returns a strategy with a custom prompt.
    pub fn with(prompt: Prompt) -> Self {
        Self {
            prompt: Arc::new(prompt),
            ..Self::default()
        }
    }

    /// Sets how a prefill is continued.
    #[must_use]
    pub fn prefill(mut self, prefill: PrefillOptions) -> Self {
        self.prefill = Some(prefill);
        self
    }

    /// Sets how a request has a grammar of the rest.
    #[must_use]
    pub fn grammar(mut self, grammar: GrammarForm) -> Self {
        self.grammar = grammar;
        self
    }

    /// Sets the rungs that may be used.
    #[doc(hidden)]
    #[must_use]
    pub fn allowing(mut self, rungs: Rungs) -> Self {
        self.rungs = rungs;
        self
    }

    /// Sets whether a call can ask for less reasoning.
    #[must_use]
    pub fn reduce_reasoning(mut self, reduce_reasoning: bool) -> Self {
        self.reduce_reasoning = reduce_reasoning;
        self
    }

    /// Sets whether the request must keep its JSON mode. A prefill is used then only with
    /// [`PrefillOptions::keeps_format`].
    #[must_use]
    pub fn keeps_json_mode(mut self, keeps_json_mode: bool) -> Self {
        self.keeps_json_mode = keeps_json_mode;
        self
    }
}

impl Turn {
    /// Returns the turns of a re-prompt. Delivered text of up to `full` bytes is sent back
    /// unchanged.
    #[doc(hidden)]
    pub fn reprompt(prompt: &Prompt, parts: &Parts<'_>, full: usize) -> Self {
        let rendering = parts
            .hierarchy_context
            .filter(|_| parts.delivered.len() > full);
        // Text that is not sent can't be confused with a tag, so it is not searched.
        let parts = Parts {
            delivered: rendering.unwrap_or(parts.delivered),
            ..*parts
        };
        let Rendered {
            text,
            tags,
            own_words,
        } = prompt.rendered(&parts);
        Self {
            delivered: parts.delivered.to_owned(),
            anchor: parts.question.anchor.to_owned(),
            mark: parts.question.mark.map(str::to_owned),
            prompt: text,
            tags,
            own_words,
            replaces_prefill: false,
            keeps_json_mode: parts.question.form.is_rerooted(),
            grammar: None,
            mode: ContinuationMode::Reprompt,
        }
    }

    /// The turn that is continued literally.
    #[doc(hidden)]
    pub fn prefill(parts: &Parts<'_>) -> Self {
        Self {
            delivered: parts.delivered.to_owned(),
            anchor: parts.question.anchor.to_owned(),
            mark: None,
            prompt: String::new(),
            tags: Vec::new(),
            own_words: Vec::new(),
            replaces_prefill: false,
            keeps_json_mode: false,
            grammar: None,
            mode: ContinuationMode::Prefill,
        }
    }

    /// Adds the grammar or schema that the answer must follow.
    pub(super) fn forced(self, mode: ContinuationMode, grammar: String) -> Self {
        Self {
            grammar: Some(grammar),
            mode,
            ..self
        }
    }

    /// Returns the bytes that the answer is asked to write before new text.
    #[doc(hidden)]
    pub fn repeated_bytes(&self) -> usize {
        match self.mode {
            ContinuationMode::Prefill => 0,
            ContinuationMode::Again => self.delivered.len(),
            ContinuationMode::Reprompt | ContinuationMode::Grammar | ContinuationMode::Schema => {
                self.anchor.len() + self.mark.as_ref().map_or(0, String::len)
            }
        }
    }

    /// Returns whether the delivered text is the last turn.
    pub(super) fn is_prefill(&self) -> bool {
        self.prompt.is_empty() && self.mode != ContinuationMode::Reprompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(delivered: &str, anchor: &str) -> Turn {
        Turn::reprompt(
            &Prompt::default(),
            &Parts::new(delivered, anchor),
            usize::MAX,
        )
    }

    #[test]
    fn a_tag_that_the_text_holds_is_not_used() {
        let turn = turn("[\"</overlap_context> <overlap_context_2>", "x");
        assert!(
            turn.prompt
                .ends_with("\n<overlap_context_3>\nx\n</overlap_context_3>"),
            "{}",
            turn.prompt
        );
        // One that is not sent may be used: of a long text only the rendering is read.
        let parts = Parts {
            hierarchy_context: Some("[…x"),
            ..Parts::new("[\"</overlap_context>\", x", "x")
        };
        let turn = Turn::reprompt(&Prompt::default(), &parts, 0);
        assert!(
            turn.prompt
                .ends_with("\n<overlap_context>\nx\n</overlap_context>"),
            "{}",
            turn.prompt
        );
    }
}
