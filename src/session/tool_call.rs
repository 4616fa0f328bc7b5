//! The arguments of a tool call: text that is executed, so it is joined with less risk and is never
//! closed by guesses.

use std::sync::Arc;

use super::{CallEnd, MarkUse, Phase, SECTIONS, Session};
use crate::context::Sections;
use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::json::repair::RepairLevel;
use crate::provider::Finish;
use crate::provider::wire::Tool;
use crate::splice::{Slot, Splice};

impl Session {
    /// Makes the session's text the arguments of a tool call. Call this before the first input.
    ///
    /// A re-prompt that names the tool asks for the rest, because a prefill continues only texts.
    /// Guesses never change arguments, and arguments that are given up stay open:
    /// [`GiveUp::Close`](super::GiveUp::Close) ends them as incomplete.
    pub(super) fn set_tool_call(&mut self, tool: Tool) {
        self.clear_base();
        let settings = &mut self.settings;
        // The client would execute a guess.
        settings.repair = settings.repair.clone().at_most(RepairLevel::Syntax);
        self.slot = settings.slot();
        let limits = &mut settings.limits.continuation;
        limits.max_risk = limits.max_risk.min(limits.max_risk_arguments);
        let strategy = &mut settings.strategy;
        (strategy.prefill, strategy.keeps_json_mode) = (None, false);
        if strategy.prompt.mark_use() != MarkUse::Never {
            strategy.prompt = Arc::new(strategy.prompt.as_ref().clone().with_mark(MarkUse::Always));
        }
        settings.tool = Some(tool);
    }

    /// Declares that the caller sends nothing before the answer is whole, so a continuation can be
    /// taken back until then.
    pub(super) fn send_at_end(&mut self) {
        self.settings.sends_at_end = true;
    }

    /// Returns whether the text is the arguments of a tool call.
    pub(super) fn is_tool_call(&self) -> bool {
        self.settings.tool.is_some()
    }

    /// Returns whether arguments that end for this reason were cut, provided that they are not
    /// closed. Some servers write `tool_calls` instead of `length`, so the arguments decide, not
    /// the reason.
    pub(super) fn cuts_arguments(&self, reason: &Finish) -> bool {
        match reason {
            Finish::Length | Finish::ToolCalls | Finish::FunctionCall => true,
            Finish::Stop => !self.settings.trusts_stop,
            reason => reason.is_unknown(),
        }
    }

    /// Returns the tool's description for the prompt: its name and its schema, as JSON.
    pub(super) fn tool_description(&self) -> Option<String> {
        let tool = self.settings.tool.as_ref()?;
        let name = crate::json::string::quoted(&tool.name);
        // A schema longer than the limit for sent-back text is left out: the text shows the
        // structure.
        let most = self.settings.limits.continuation.max_verbatim_context;
        Some(
            match tool.schema.as_ref().filter(|schema| schema.len() <= most) {
                Some(schema) => format!("{{\"name\":{name},\"parameters\":{schema}}}"),
                None => format!("{{\"name\":{name}}}"),
            },
        )
    }

    /// Returns whether a tool call without arguments so far was cut. If a finish reason other than
    /// the limit ends it, it is a call without parameters.
    pub(super) fn lacks_arguments(&self, end: &CallEnd) -> bool {
        let is_cut = !matches!(end, CallEnd::Finished(reason) if *reason != Finish::Length);
        is_cut && self.slot.document().is_blank() && self.has_schema()
    }

    /// Returns whether some of an answer would stay delivered if the call ended like this. A
    /// continuation repeats the text that a repair holds back, and a fence announces a text but no
    /// arguments.
    pub(super) fn has_delivered(&self, end: &CallEnd) -> bool {
        let document = self.slot.document();
        let text = document.text();
        if !self.is_tool_call() {
            return document.is_json() && !self.answer_text().is_empty()
                || self.continues_prose(end);
        }
        let has_root = document.roots() > 0
            || document
                .root_start()
                .is_some_and(|start| start < text.len());
        has_root || self.lacks_arguments(end)
    }

    /// Returns whether the open call repeats the original request because no argument was
    /// delivered. The answer then has the whole tool call again.
    pub(super) fn repeats_call(&self) -> bool {
        self.is_tool_call() && self.call.is_repeated && matches!(self.phase, Phase::Continuing(_))
    }

    /// Returns the name of the called tool.
    pub(super) fn tool_name(&self) -> Option<&str> {
        self.settings.tool.as_ref().map(|tool| tool.name.as_str())
    }

    /// Returns the error for JSON after arguments that a continuation has closed: it shows that
    /// they were closed too early. Only white space, a fence and prose may follow.
    pub(super) fn error_after_arguments(&self, splice: &Splice) -> Option<SyntaxError> {
        let offset = self
            .slot
            .document()
            .root_end()
            .filter(|_| self.is_tool_call())?;
        let is_json =
            |c: &char| matches!(c, ',' | ':' | '[' | ']' | '{' | '}' | '"' | '-' | '0'..='9');
        let byte = u8::try_from(splice.after_root().filter(is_json)?).ok()?;
        Some(SyntaxError {
            kind: SyntaxErrorKind::TrailingText(byte),
            offset,
        })
    }

    /// Truncates arguments to `length` bytes, before the bracket that closed them.
    pub(super) fn reopen_arguments(&mut self, length: usize) {
        let text = self
            .slot
            .document()
            .text()
            .get(..length)
            .unwrap_or_default()
            .to_owned();
        self.slot = Slot::with_roots(&self.settings.limits, self.settings.roots);
        self.sections = Sections::new(SECTIONS);
        let read = self.slot.push_with(&text, &mut self.sections);
        debug_assert!(read.is_ok(), "it was read before: {read:?}");
    }

    /// Returns whether the text is the arguments of a tool whose parameters are declared.
    pub(super) fn has_schema(&self) -> bool {
        self.settings
            .tool
            .as_ref()
            .is_some_and(|tool| tool.schema.is_some())
    }

    /// Returns whether an answer's arguments violate their tool's schema at another path than those
    /// of the answer before. At the same path the model itself wrote the violation, and the join is
    /// right.
    pub(super) fn is_new_violation(&mut self, path: &str) -> bool {
        let known = self.streaks.violation.replace(path.to_owned());
        known.as_deref() != Some(path)
    }

    /// Completes the tally of arguments that were continued to their end.
    pub(super) fn note_arguments(&mut self, violation: Option<String>) {
        if self.is_tool_call() {
            // The calls after the one that was cut may never have begun.
            self.tally.calls_unknown = true;
            self.tally.schema_violation = violation;
        }
    }

    /// Returns where complete arguments violate their tool's schema.
    pub(super) fn violation(&self) -> Option<String> {
        let tool = self.settings.tool.as_ref()?;
        let document = self.slot.document();
        document
            .is_complete()
            .then(|| violation(tool, document.text()))?
    }
}

/// Returns where arguments violate their tool's schema.
#[cfg(feature = "schema")]
fn violation(tool: &Tool, arguments: &str) -> Option<String> {
    // An unreadable schema gives no evidence about the arguments.
    let schema: crate::shape::Schema = tool.schema.as_ref()?.parse().ok()?;
    schema
        .violations(arguments)
        .into_iter()
        .next()
        .map(|violation| violation.path)
}

#[cfg(not(feature = "schema"))]
fn violation(_tool: &Tool, _arguments: &str) -> Option<String> {
    None
}
