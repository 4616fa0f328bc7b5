//! The question at a cut: a prefill, or a re-prompt that describes the cut. An answer that was not
//! joined is followed by another question.

use super::channel::AnswerChannel;
use super::continuation::{ForcedAnswer, RequestKind, repairs_next};
use super::decisions::Decisions;
use super::repeated_text;
use super::returned_prefill::ReturnedPrefill;
use super::{CallEnd, ContinuationMode, Parts, Prompt, QuestionParts, Rung, Turn};
use crate::carve::carve;
use crate::carve::grammar::Syntax;
use crate::carve::schema::{RestReader, rest_schema};
use crate::context;
use crate::provider::Finish;
use crate::provider::capability::GrammarForm;
use crate::schema::Shortfall;
use crate::splice::{Expect, SpliceError, SpliceRequest};

/// A question: the turns, how the answer is joined, and how the turns ask.
pub(super) type Asked = (Turn, SpliceRequest, RequestKind);

// A grammar leaves less to the model than a prefill, and is not used where a prefill keeps the
// format. A schema's answer is longer than the one to a grammar: it has names.
/// The rungs that ask for the rest, the first one first.
const LADDER: [Rung; 5] = [
    Rung::Grammar,
    Rung::Prefill,
    Rung::Again,
    Rung::Schema,
    Rung::Words,
];

/// Builds the turns that ask for the rest of a channel's text.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    channel: &'a AnswerChannel,
    attempts: Attempts,
    shortfall: Option<&'a Shortfall>,
    /// The cut may be inside a token, since no finish reason ended the delivered text, and a model
    /// can write the token again.
    may_rewrite_word: bool,
    /// The token limit did not end the delivered text, so a short document fits into one answer.
    fits_whole: bool,
    /// A call was too long for the model, so no turn has all of the delivered text.
    is_shortened: bool,
    /// Another question follows at this cut if the answer to this one is not joined.
    asks_again: bool,
}

impl<'a> Question<'a> {
    pub(super) fn new(channel: &'a AnswerChannel, decisions: &'a Decisions) -> Self {
        let cut = decisions.last_cut();
        Self {
            channel,
            attempts: decisions.counters.at_cut.attempts,
            shortfall: decisions.counters.at_cut.shortfall.as_ref(),
            is_shortened: decisions.counters.is_shortened,
            fits_whole: cut.is_some_and(|cut| cut.end != CallEnd::Finished(Finish::Length)),
            asks_again: decisions.asks_again(channel),
            // A repair reads the answer from the cut on.
            may_rewrite_word: cut.is_some_and(|cut| !matches!(cut.end, CallEnd::Finished(_)))
                && !repairs_next(channel, decisions),
        }
    }

    /// Returns the question for the rest of a document, by the first rung of the ladder that can
    /// bring this rest: the provider takes it, and the failures at this cut leave it open.
    pub(super) fn of_document(self) -> Asked {
        let allowed = LADDER
            .into_iter()
            .filter(|rung| self.channel.settings.allows(*rung));
        let mut possible = allowed.filter_map(|rung| self.by(rung));
        possible.next().unwrap_or_else(|| self.reprompt())
    }

    /// Returns the question by a rung. `None`: it can't bring the rest of this cut.
    fn by(self, rung: Rung) -> Option<Asked> {
        match rung {
            Rung::Grammar => self.forced(),
            Rung::Prefill => self.prefill(),
            Rung::Again => self.again(),
            Rung::Schema => self.members(),
            Rung::Words => Some(self.reprompt()),
            // The relay makes these calls, without a question.
            Rung::Token | Rung::Reattach => None,
        }
    }

    /// Returns the delivered text as a prefill. `None`: the provider continues none, or the question
    /// has to say something, which a prefill can't.
    fn prefill(self) -> Option<Asked> {
        let document = self.channel.document();
        let can_be_silent = self.shortfall.is_none() && !self.is_shortened;
        let prefill = self
            .channel
            .settings
            .usable_prefill(document)
            .filter(|_| can_be_silent)?;
        let text = document.text();
        // A model continues a part of a token wrongly. The answer to an earlier prefill at this cut
        // has another word, so the next one keeps the delivered part.
        let rewrites_word =
            prefill.keeps_format && self.may_rewrite_word && self.attempts.unjoined == 0;
        let word = rewrites_word
            .then(|| start_of_cut_word(text))
            .flatten()
            .filter(|start| *start > self.channel.text.base.len());
        let sent = match word {
            Some(start) => start,
            // The provider refuses white space at the end. It is not missing: the answer's text is
            // compared with it.
            None if prefill.rejects_trailing_space => text.trim_end().len(),
            None => text.len(),
        };
        let in_string = document.machine().in_string();
        let returned = ReturnedPrefill::new(
            text,
            sent,
            prefill.returns_prefill,
            word.is_some(),
            in_string,
        );
        let limits = &self.channel.settings.limits.continuation;
        let anchor = repeated_text::anchor(document, QuestionForm::Anchor, limits);
        let anchor = anchor.and_then(|range| text.get(range)).unwrap_or_default();
        let turn = Turn {
            keeps_json_mode: prefill.keeps_format,
            ..Turn::prefill(&Parts::new(text.get(..sent).unwrap_or(text), anchor))
        };
        let believes_early_end = self.attempts.early_ends > 0;
        let request = SpliceRequest {
            believes_early_end,
            ..Expect::Exact.into()
        };
        let kind = RequestKind::Prefill {
            returned,
            believes_early_end,
        };
        Some((turn, request, kind))
    }

    /// Returns the turns with which the provider forces the rest by a grammar. `None`: it takes
    /// none, or none can be written here.
    fn forced(self) -> Option<Asked> {
        let settings = &self.channel.settings;
        let form = settings.strategy.grammar;
        let syntax = match form {
            _ if settings.strategy.keeps_json_mode => return None,
            GrammarForm::None | GrammarForm::JsonSchema(_) => return None,
            GrammarForm::CustomTool => Syntax::Lark,
            GrammarForm::Member
            | GrammarForm::StructuredOutputs
            | GrammarForm::Ebnf
            | GrammarForm::ResponseFormat => Syntax::Gbnf,
        };
        let document = self.channel.document();
        // Two answers were cut in their heads.
        if self.attempts.unjoined > 1 {
            return None;
        }
        let is_tool_input = form == GrammarForm::CustomTool;
        // A prefill can't name the missing part.
        let is_known = self.shortfall.is_none() && !self.is_shortened;
        let prefill = settings.usable_prefill(document).filter(|_| is_known);
        let next = prefill.filter(|_| settings.allows(Rung::Prefill));
        // A server that applies the request's format to a prefill knows the schema, too.
        if next.is_some_and(|prefill| prefill.keeps_format) {
            return None;
        }
        let has_other = next.is_some() || settings.allows(Rung::Words);
        // Another tool misses the cache of prompts. Other grammars do not.
        if is_tool_input && has_other && self.channel.is_costly() && self.attempts.unjoined == 0 {
            return None;
        }
        let takes_prefill = !is_tool_input && form != GrammarForm::ResponseFormat;
        // The answer would have the prefill before the text that the grammar forces.
        let is_returned = prefill.is_some_and(|prefill| prefill.returns_prefill);
        if takes_prefill && is_returned && next.is_some() {
            return None;
        }
        let text = document.text();
        let mut carved = carve(document, settings.schema()).ok()?;
        let sent = text.len().checked_sub(carved.head.len())?;
        // A short text is all head, and a prefill must not be empty.
        let turn = if takes_prefill && prefill.is_some() && !is_returned && sent > 0 {
            Turn::prefill(&Parts::new(text.get(..sent)?, &carved.head))
        } else {
            let form = match is_tool_input {
                true => QuestionForm::ToolInput,
                false => QuestionForm::Forced,
            };
            // A server may take white space from the start of an answer.
            carved.head = carved.head.trim_start().to_owned();
            self.reprompt_of(QuestionParts {
                anchor: &carved.head,
                ..QuestionParts::of(form)
            })
        };
        let head = text.len() - carved.head.len();
        let kind = RequestKind::Grammar {
            answer: ForcedAnswer::Head(ReturnedPrefill::unsent(text, head)),
            is_tool_input,
        };
        let turn = turn.forced(ContinuationMode::Grammar, carved.print(syntax));
        Some((turn, Expect::Exact.into(), kind))
    }

    /// Returns the turns that ask for the whole document once more. `None`: the request has no
    /// schema, under which the answer is as complete as the first one would have been, or the
    /// document is not short, or was asked for so before.
    fn again(self) -> Option<Asked> {
        let settings = &self.channel.settings;
        let text = self.channel.document().text();
        let is_short = text.len() <= MOST_AGAIN && self.channel.text.base.len() == 0;
        let is_due = settings.schema().is_some() && !settings.is_tool_call();
        let is_first = self.attempts.unjoined == 0 && !self.is_shortened;
        if !(is_due && is_short && self.fits_whole && is_first) {
            return None;
        }
        let turn = Turn {
            keeps_json_mode: true,
            mode: ContinuationMode::Again,
            ..self.reprompt_of(QuestionParts::of(QuestionForm::Again))
        };
        Some((turn, Expect::Any.into(), RequestKind::Again))
    }

    /// Returns the turns that ask for the parts that are missing, under a schema that the provider
    /// enforces. `None`: it enforces none, the request's schema has no shape for the cut, or both
    /// forms of the question have failed at this cut.
    fn members(self) -> Option<Asked> {
        let settings = &self.channel.settings;
        let GrammarForm::JsonSchema(subset) = settings.strategy.grammar else {
            return None;
        };
        // Another schema misses the cache of prompts.
        let is_later = self.channel.is_costly() && settings.allows(Rung::Words);
        if is_later && self.attempts.unjoined == 0 {
            return None;
        }
        let (document, schema) = (self.channel.document(), settings.schema()?);
        let rest = |copies| rest_schema(document, schema, subset, copies);
        let rest = match self.attempts.schemas {
            0 => rest(true)?,
            // The answer may have had a wrong copy. The same question would bring the same answer.
            1 if !rest(true)?.copied.is_empty() => rest(false)?,
            _ => return None,
        };
        let turn = self.reprompt_of(QuestionParts {
            members: Some(&rest.members),
            anchor: document.text().get(rest.copied.clone())?,
            ..QuestionParts::of(QuestionForm::Members)
        });
        let turn = turn.forced(ContinuationMode::Schema, rest.schema.clone());
        let limits = &settings.limits.parser;
        let reader = RestReader::new(rest, limits.max_depth, limits.max_pending_bytes);
        let kind = RequestKind::Grammar {
            answer: ForcedAnswer::Members(Box::new(reader)),
            is_tool_input: false,
        };
        Some((turn, Expect::Exact.into(), kind))
    }

    fn reprompt(self) -> Asked {
        let settings = &self.channel.settings;
        let (strategy, limits) = (&settings.strategy, &settings.limits.continuation);
        let document = self.channel.document();
        // In JSON mode a mark can't be written.
        let mark = self
            .attempts
            .mark(&strategy.prompt, document.text())
            .filter(|_| !strategy.keeps_json_mode);
        let form = self.attempts.form(strategy.keeps_json_mode, mark.is_some());
        let anchor = match settings.is_tool_call() {
            true => repeated_text::arguments_anchor(document, form, limits),
            false => repeated_text::anchor(document, form, limits),
        };
        let repeated = anchor
            .clone()
            .and_then(|range| document.text().get(range))
            .unwrap_or_default();
        let turn = self.reprompt_of(QuestionParts {
            anchor: repeated,
            mark: mark.as_deref(),
            ..QuestionParts::of(form)
        });
        let expect = match settings.expect {
            _ if form.is_rerooted() => Expect::Any,
            expect => expect,
        };
        let request = SpliceRequest {
            expect,
            anchor,
            mark,
            tags: turn.tags.clone(),
            own_words: turn.own_words.clone(),
            given: self.channel.client_request.clone(),
            rerooted: form.is_rerooted(),
            believes_early_end: self.attempts.early_ends > 0,
            asks_again: self.asks_again,
            after_gap: false,
        };
        (turn, request, RequestKind::Reprompt)
    }

    /// Returns the turns of a re-prompt with this question.
    fn reprompt_of(self, question: QuestionParts<'_>) -> Turn {
        let form = question.form;
        let text = &self.channel.text;
        let (document, index) = (text.document(), Some(text.slot.child_index()));
        let limits = &self.channel.settings.limits.continuation;
        let full = self.most_verbatim();
        let is_long = document.text().len() > full;
        let budget = limits.context_budget_chars;
        // A long text costs its tokens in each call, and the model needs only what surrounds the
        // cut.
        let rendering =
            is_long.then(|| context::hierarchy_context_for_prompt(document, index, budget).text);
        // A grammar shows the model where the rest begins, and a whole document needs no place.
        let needs_no_place = matches!(
            form,
            QuestionForm::ToolInput | QuestionForm::Again | QuestionForm::Members
        );
        let shown = (!needs_no_place).then_some(());
        let summary = shown.map(|()| text.sections.summary(document));
        let child = context::cut_child(document).filter(|_| form.has_path());
        // A longer element would not help, since the anchor is its end; nor would a longer path,
        // since the rendering shows its keys.
        let is_short = |text: &&str| text.len() <= full;
        let tool_call = self.channel.settings.tool_description();
        let shortfall = self.shortfall.map(Shortfall::to_string);
        let parts = Parts {
            // It asks for text, and no call of a tool.
            tool_call: tool_call
                .as_deref()
                .filter(|_| !matches!(form, QuestionForm::ToolInput | QuestionForm::Members)),
            hierarchy_context: rendering.as_deref(),
            delivered_summary: summary.as_deref().filter(|summary| !summary.is_empty()),
            element_before_cutoff: shown
                .and_then(|()| context::element_before_cutoff(document, index))
                .filter(is_short),
            cut_off_element: shown
                .and_then(|()| context::cut_off_element(document))
                .filter(is_short),
            cut_path: child
                .as_ref()
                .map(|child| child.path.as_str())
                .filter(is_short),
            shortfall: shortfall.as_deref(),
            delivered: document.text(),
            is_short: document.text().len() <= MOST_SHORT,
            question,
        };
        Turn::reprompt(&self.channel.settings.strategy.prompt, &parts, full)
    }

    /// Returns how many bytes of delivered text a turn has verbatim.
    fn most_verbatim(self) -> usize {
        let limits = &self.channel.settings.limits.continuation;
        match self.is_shortened {
            true => limits.context_budget_chars.min(limits.max_verbatim_context),
            false => limits.max_verbatim_context,
        }
    }

    /// Returns the turns that ask for the rest of prose. A prefill is not used: if a provider
    /// ignores it, nothing distinguishes its new answer from the rest.
    pub(super) fn of_prose(self) -> Turn {
        let settings = &self.channel.settings;
        let limits = &settings.limits.continuation;
        let (document, form) = (self.channel.document(), self.attempts.text_form());
        let text = document.text();
        let repeated =
            repeated_text::anchor(document, form, limits).and_then(|range| text.get(range));
        let most = self.most_verbatim();
        // The beginning of a long text is left out: the anchor is at its end.
        let end = (text.len() > most).then(|| end_of(text, most));
        let parts = Parts {
            delivered: text,
            hierarchy_context: end.as_deref(),
            question: QuestionParts {
                anchor: repeated.unwrap_or_default(),
                ..QuestionParts::of(form)
            },
            ..Parts::default()
        };
        Turn::reprompt(&settings.strategy.prompt, &parts, most)
    }
}

/// Returns where the word at the end of a text begins: a part of a string, a number, a literal or a
/// key. The space before a word belongs to it, as in the tokens of most models. `None` if the text
/// ends with no word, or with one that is too long.
fn start_of_cut_word(text: &str) -> Option<usize> {
    let is_part =
        |c: &char| !c.is_whitespace() && !matches!(c, '"' | '{' | '}' | '[' | ']' | ',' | ':');
    let word = text.chars().rev().take_while(is_part);
    let length: usize = word.take(LONGEST_WORD + 1).map(char::len_utf8).sum();
    let start = text.len() - length;
    let word = text.get(start..)?;
    let before = text.get(..start)?;
    let start = before.strip_suffix(' ').unwrap_or(before).len();
    let is_word = start < text.len() && word.chars().count() <= LONGEST_WORD;
    (is_word && !before.trim().is_empty()).then_some(start)
}

// Longer runs are encoded bytes, or a language without spaces: nothing shows where a token begins.
/// The most characters of a word that the model writes again.
const LONGEST_WORD: usize = 32;

// The answer is paid for from the document's beginning: some 500 tokens, as much as the
// instructions and contexts of a question for the rest.
/// The most bytes of delivered text with which the whole document is asked for again.
const MOST_AGAIN: usize = 2 << 10;

// The usual instruction has half as many bytes.
/// The most bytes of delivered text for which the default instruction has fewer words.
const MOST_SHORT: usize = 1 << 10;

/// Returns the last `most` bytes of a text, from the start of a word on.
fn end_of(text: &str, most: usize) -> String {
    let from = text.len() - most.min(text.len());
    let starts = text.char_indices().skip_while(|(at, _)| *at < from);
    let word = starts
        .skip_while(|(_, c)| !c.is_whitespace())
        .find(|(_, c)| !c.is_whitespace());
    let end = word.and_then(|(at, _)| text.get(at..)).unwrap_or_default();
    format!("[...] {end}")
}

/// The variant of a re-prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuestionForm {
    /// Asks to repeat the anchor.
    #[default]
    Anchor,
    /// Asks to repeat a longer anchor.
    LongerAnchor,
    /// Asks to repeat the element that was cut.
    WholeElement,
    /// Asks for a separate document with the cut element and all text after it. Used if JSON mode
    /// stays.
    Rerooted,
    /// Asks for the same in other words.
    RerootedAgain,
    /// Asks to repeat the anchor under a grammar, which allows nothing before it.
    Forced,
    /// Asks for the input of a tool, which begins with the anchor.
    ToolInput,
    /// Asks for the whole document once more.
    Again,
    /// Asks for an object with the parts that are missing.
    Members,
    /// Asks to repeat the anchor of a text that is not JSON.
    Text,
    /// Asks for the same in other words, with a longer anchor.
    TextAgain,
}

impl QuestionForm {
    /// All variants.
    #[cfg(test)]
    pub(super) const ALL: [Self; 11] = [
        Self::Anchor,
        Self::LongerAnchor,
        Self::WholeElement,
        Self::Rerooted,
        Self::RerootedAgain,
        Self::Forced,
        Self::ToolInput,
        Self::Again,
        Self::Members,
        Self::Text,
        Self::TextAgain,
    ];

    /// Whether the answer is the repeated text and its continuation, with nothing around them.
    pub(super) fn is_literal(self) -> bool {
        match self {
            Self::Anchor
            | Self::LongerAnchor
            | Self::WholeElement
            | Self::Forced
            | Self::Text
            | Self::TextAgain => true,
            Self::Rerooted
            | Self::RerootedAgain
            | Self::ToolInput
            | Self::Again
            | Self::Members => false,
        }
    }

    /// Whether the prompt asks for a separate document.
    pub fn is_rerooted(self) -> bool {
        matches!(self, Self::Rerooted | Self::RerootedAgain)
    }

    /// Returns whether the prompt names the path of the cut.
    pub(super) fn has_path(self) -> bool {
        !matches!(
            self,
            Self::Anchor
                | Self::LongerAnchor
                | Self::Forced
                | Self::ToolInput
                | Self::Again
                | Self::Members
                | Self::Text
                | Self::TextAgain
        )
    }

    /// Whether the answer may begin with a line of its own.
    pub(super) fn allows_remark(self) -> bool {
        !self.is_rerooted()
            && !self.is_text()
            && !matches!(
                self,
                Self::Forced | Self::ToolInput | Self::Again | Self::Members
            )
    }

    /// Whether the prompt asks for the rest of a text that is not JSON.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::TextAgain)
    }
}

/// Results of the calls at one cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// Answers whose text was not joined or was not new.
    pub(super) unjoined: u32,
    /// The number of these answers that ended the document early.
    pub(super) early_ends: u32,
    /// The number of these answers that were asked for by a schema.
    pub(super) schemas: u32,
}

impl Attempts {
    /// Counts an answer that has not added to the document. `failure`: why it was not joined.
    pub(super) fn count(&mut self, mode: ContinuationMode, failure: Option<&SpliceError>) {
        // The counts from a snapshot may be large.
        self.unjoined = self.unjoined.saturating_add(1);
        let is_schema = mode == ContinuationMode::Schema;
        self.schemas = self.schemas.saturating_add(is_schema.into());
        let is_early_end = failure == Some(&SpliceError::EarlyEnd);
        self.early_ends = self.early_ends.saturating_add(is_early_end.into());
    }

    /// Returns the variant of the next prompt. Two prompts in a row differ: in their words, or in
    /// their marks.
    pub(super) fn form(self, keeps_json_mode: bool, has_mark: bool) -> QuestionForm {
        match self.unjoined {
            // The two questions in JSON mode take turns. A model at temperature 0 answers an equal
            // question equally.
            even if keeps_json_mode && even % 2 == 0 => QuestionForm::Rerooted,
            _ if keeps_json_mode => QuestionForm::RerootedAgain,
            0 => QuestionForm::Anchor,
            1 => QuestionForm::LongerAnchor,
            // Without a mark only the words can differ.
            odd if !has_mark && odd % 2 == 1 => QuestionForm::LongerAnchor,
            _ => QuestionForm::WholeElement,
        }
    }

    /// Returns the variant of the next prompt for a text that is not JSON.
    pub(super) fn text_form(self) -> QuestionForm {
        if self.unjoined.is_multiple_of(2) {
            QuestionForm::Text
        } else {
            QuestionForm::TextAgain
        }
    }

    /// Returns the mark of the next question, if the prompt uses one. The same attempt has the same
    /// mark, so that an unanswered request is repeated unchanged.
    pub(super) fn mark(self, prompt: &Prompt, delivered: &str) -> Option<String> {
        prompt
            .uses_mark(self.unjoined > 0)
            .then(|| repeated_text::mark(delivered, self.unjoined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_word_begins_with_the_space_before_it() {
        let long = format!("[\"{}", "x".repeat(LONGEST_WORD + 1));
        for (text, before) in [
            ("{\"title\": \"Hello wor", Some("{\"title\": \"Hello")),
            ("{\"title\": \"Hello ", Some("{\"title\": \"Hello")),
            ("{\"title\": \"Hel", Some("{\"title\": \"")),
            ("{\"ti", Some("{\"")),
            ("{\"port\": 80", Some("{\"port\":")),
            ("[\n  -1.5e", Some("[\n ")),
            ("[tru", Some("[")),
            ("[\"caf\\u00", Some("[\"")),
            ("[\"x ✓é", Some("[\"x")),
            ("[1,", None),
            ("{\"a\": \"b\"", None),
            ("{\"a\":", None),
            ("tru", None),
            ("", None),
            (long.as_str(), None),
        ] {
            let start = start_of_cut_word(text);
            assert_eq!(start.map(|start| &text[..start]), before, "{text}");
        }
    }

    #[test]
    fn two_questions_in_a_row_differ() {
        for (keeps_json_mode, has_mark) in [(false, true), (false, false), (true, false)] {
            let form = |unjoined| {
                Attempts {
                    unjoined,
                    ..Attempts::default()
                }
                .form(keeps_json_mode, has_mark)
            };
            for unjoined in 0..10 {
                let differ = form(unjoined) != form(unjoined + 1);
                assert!(
                    differ || has_mark && unjoined >= 2,
                    "{unjoined} {keeps_json_mode} {has_mark}"
                );
            }
        }
    }
}
