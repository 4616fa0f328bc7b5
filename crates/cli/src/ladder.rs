//! The rungs that the proxy would use for the rest of an answer, in their order.

use restitch::provider::Dialect;
use restitch::provider::capability::{Capability, GrammarForm, PrefillForm};
use restitch::session::{Rung, Rungs};

/// Returns the rungs of a model, by their names and, where there are several, their forms. `has_format`: the
/// request asks for JSON.
pub(super) fn ladder(
    dialect: Dialect,
    capability: &Capability,
    has_format: bool,
    allowed: Rungs,
) -> Vec<String> {
    let wire = dialect.wire();
    let mut rungs = Vec::new();
    let mut add = |rung: Rung, form: Option<&str>| {
        if allowed.contains(rung) {
            let form = form.map_or_else(String::new, |form| format!(" ({form})"));
            rungs.push(format!("{}{form}", rung.as_str()));
        }
    };
    if dialect == Dialect::Gemini {
        add(Rung::Token, None);
    }
    let keeps_streams = wire.has_chat_requests() && capability.keeps_streams;
    if keeps_streams || dialect == Dialect::Responses {
        add(Rung::Reattach, None);
    }
    let form = match capability.prefill {
        _ if wire.always_continues() => Some("prompt"),
        PrefillForm::None => None,
        PrefillForm::Turn => Some(PrefillForm::Turn.as_str()),
        form => wire.has_chat_requests().then(|| form.as_str()),
    };
    let keeps_format = has_format && wire.has_chat_requests() && capability.prefill_keeps_format;
    let is_first = keeps_format && form.is_some() && allowed.contains(Rung::Prefill);
    let grammar = wire.grammar(capability.grammar);
    let has_grammar = grammar != GrammarForm::None && !grammar.is_schema();
    // A prefill under the request's format leaves nothing to a grammar.
    if has_grammar && !is_first {
        add(Rung::Grammar, Some(grammar.as_str()));
    }
    if let Some(form) = form {
        add(Rung::Prefill, Some(form));
    }
    // A document that a prefill continues is not written once more.
    if form.is_none() && has_format {
        add(Rung::Again, None);
    }
    if grammar.is_schema() && has_format {
        add(Rung::Schema, None);
    }
    add(Rung::Words, None);
    rungs
}
