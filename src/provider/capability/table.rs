//! The built-in rows, each with its source. A request to a model that is newer than its row follows
//! the row until a refusal corrects it; see [`CapabilityHint`](super::CapabilityHint).

use super::{GrammarForm, PrefillForm, Row, SchemaSubset};

/// Returns all rows. If two rows match a model, the first counts.
pub(super) fn rows() -> Vec<Row> {
    [
        anthropic(),
        google(),
        deepseek(),
        mistral(),
        alibaba(),
        moonshot(),
        perplexity(),
        openrouter(),
        openai(),
        fireworks(),
        xai(),
        llama_cpp(),
    ]
    .concat()
}

/// Models up to version 4.5 continue the last assistant message; from 4.6 on it is an error:
/// <https://platform.claude.com/docs/en/about-claude/models/migration-guide> (prefill removal).
/// White space at its end is refused:
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response>.
/// A schema of the answer, from 4.5 on:
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
fn anthropic() -> Vec<Row> {
    let old = [
        "*claude-2*",
        "*claude-3*",
        "*claude-instant*",
        // Versions 4 and 4.1: `claude-sonnet-4-20250514`, `claude-opus-4-1-20250805`, and their
        // names at other providers.
        "*claude-*-4",
        "*claude-*-4-0*",
        "*claude-*-4-1*",
        "*claude-*-4-2025*",
        "*claude-*-4-online",
    ];
    let old = old.map(|pattern| Row::of(pattern).grammar(GrammarForm::None));
    let newer = Row::of("*claude-*-4-5*").grammar(PLAIN_SCHEMA);
    let continuing = old.into_iter().chain([newer]).map(|row| Row {
        rejects_trailing_space: Some(true),
        ..row.prefill(PrefillForm::Turn)
    });
    let newest = Row::of("*claude*").grammar(PLAIN_SCHEMA);
    continuing.chain([newest]).collect()
}

/// Models up to 3.5 Flash continue a last message of the model; 3.5 Flash-Lite, 3.6 Flash and later
/// models refuse it: <https://ai.google.dev/gemini-api/docs/whats-new-gemini-3.6>. Reasoning can be
/// turned off for 2.5 Flash: <https://ai.google.dev/gemini-api/docs/openai#thinking>. A schema of
/// the answer, from 2.5 on: <https://ai.google.dev/gemini-api/docs/structured-output>.
fn google() -> Vec<Row> {
    let mut rows = vec![Row::of("*gemini-3-5-flash-lite*").prefill(PrefillForm::None)];
    let old = [
        "*gemini-1*",
        "*gemini-2*",
        "*gemini-3-flash*",
        "*gemini-3-pro*",
        "*gemini-3-1-*",
        "*gemini-3-5-flash*",
    ];
    rows.extend(old.map(|pattern| Row::of(pattern).prefill(PrefillForm::Turn)));
    rows.push(
        Row::of("*gemini-2-5-flash*")
            .at("generativelanguage.googleapis.com")
            .reasoning_off(EFFORT, NO_EFFORT),
    );
    let older = ["*gemini-1*", "*gemini-2-0*"];
    rows.extend(older.map(|pattern| Row::of(pattern).grammar(GrammarForm::None)));
    rows.push(Row::of("*gemini-*").grammar(FULL_SCHEMA));
    rows
}

/// `prefix` at the beta path: <https://api-docs.deepseek.com/guides/chat_prefix_completion>.
/// `thinking`: <https://api-docs.deepseek.com/guides/thinking_mode>.
fn deepseek() -> Vec<Row> {
    let row = Row::of("*")
        .at("api.deepseek.com")
        .prefill(PrefillForm::Flag)
        .reasoning_off(THINKING, DISABLED);
    vec![Row {
        prefill_path: Some("/beta".to_owned()),
        ..row
    }]
}

/// `prefix`, with which the answer starts:
/// <https://docs.mistral.ai/capabilities/completion/prefix/>. A schema of the answer:
/// <https://docs.mistral.ai/capabilities/structured-output/custom_structured_output/>.
fn mistral() -> Vec<Row> {
    vec![Row {
        returns_prefill: Some(true),
        ..Row::of("*")
            .at("*.mistral.ai")
            .prefill(PrefillForm::Flag)
            .grammar(FULL_SCHEMA)
    }]
}

/// `partial`, for models that do not reason:
/// <https://www.alibabacloud.com/help/en/model-studio/partial-mode>. `enable_thinking`:
/// <https://www.alibabacloud.com/help/en/model-studio/deep-thinking>.
fn alibaba() -> Vec<Row> {
    let hosts = ["*.aliyuncs.com", "*.alibabacloud.com"];
    let at = |host| {
        [
            // These models always reason.
            Row::of("*-thinking*").at(host).prefill(PrefillForm::None),
            Row::of("*qwq*").at(host).prefill(PrefillForm::None),
            Row::of("*qwen*")
                .at(host)
                .prefill(PrefillForm::Partial)
                .reasoning_off("enable_thinking", "false"),
        ]
    };
    hosts.into_iter().flat_map(at).collect()
}

/// `partial`: <https://platform.kimi.ai/docs/api/partial>. `thinking`, which only models from K2.5
/// on accept: <https://platform.kimi.ai/docs/api/models-overview>.
fn moonshot() -> Vec<Row> {
    let hosts = ["api.moonshot.*", "*.kimi.*"];
    let at = |host| {
        [
            Row::of("*kimi-k2-thinking*")
                .at(host)
                .prefill(PrefillForm::None),
            Row::of("*kimi-k2-5*")
                .at(host)
                .reasoning_off(THINKING, DISABLED),
            Row::of("*kimi-k2-6*")
                .at(host)
                .reasoning_off(THINKING, DISABLED),
            Row::of("*").at(host).prefill(PrefillForm::Partial),
        ]
    };
    hosts.into_iter().flat_map(at).collect()
}

/// The models refuse `response_format`.
fn perplexity() -> Vec<Row> {
    let refusing = |row| Row {
        response_format: Some(false),
        ..row
    };
    vec![
        refusing(Row::of("perplexity/*")),
        refusing(Row::of("*").at("api.perplexity.ai")),
    ]
}

/// <https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>.
fn openrouter() -> Vec<Row> {
    vec![
        Row::of("*")
            .at("openrouter.ai")
            .reasoning_off("reasoning", r#"{"enabled":false}"#),
    ]
}

/// `none` from 5.1 on, `minimal` before:
/// <https://platform.openai.com/docs/api-reference/chat/create>.
fn openai() -> Vec<Row> {
    let host = "api.openai.com";
    let mut rows: Vec<Row> = ["gpt-5", "gpt-5-mini*", "gpt-5-nano*", "gpt-5-2025*"]
        .map(|pattern| {
            Row::of(pattern)
                .at(host)
                .reasoning_off(EFFORT, r#""minimal""#)
        })
        .into();
    rows.push(Row::of("gpt-5-*").at(host).reasoning_off(EFFORT, NO_EFFORT));
    // Custom tools with a grammar, from GPT-5 on, at OpenAI and at Azure:
    // <https://platform.openai.com/docs/guides/function-calling#context-free-grammars>.
    let newer = ["gpt-5*", "openai/gpt-5*"];
    rows.extend(newer.map(|pattern| Row::of(pattern).grammar(GrammarForm::CustomTool)));
    // A schema of the answer: <https://platform.openai.com/docs/guides/structured-outputs>.
    let older = ["gpt-4o*", "gpt-4-1*", "o3*", "o4*"];
    let prefixed = older.map(|pattern| format!("openai/{pattern}"));
    let older = older.map(str::to_owned).into_iter().chain(prefixed);
    rows.extend(older.map(|pattern| Row::of(pattern).grammar(STRICT_SCHEMA)));
    rows
}

/// <https://docs.fireworks.ai/structured-responses/structured-output-grammar-based>.
fn fireworks() -> Vec<Row> {
    vec![
        Row::of("*")
            .at("*.fireworks.ai")
            .grammar(GrammarForm::ResponseFormat),
    ]
}

/// A schema of the answer: <https://docs.x.ai/docs/guides/structured-outputs>.
fn xai() -> Vec<Row> {
    vec![Row::of("*").at("api.x.ai").grammar(PLAIN_SCHEMA)]
}

/// Read from a server of October 2026: it continues a last assistant message without reasoning, in
/// the APIs of OpenAI and Anthropic, under the `response_format` or the `grammar` of the request.
/// Kept streams:
/// <https://github.com/ggml-org/llama.cpp/pull/23226>. A grammar forbids the control tokens that
/// separate the channels of gpt-oss: <https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1555>.
fn llama_cpp() -> Vec<Row> {
    let server = || Some("llama.cpp".to_owned());
    let in_channels = Row {
        server: server(),
        ..Row::of("*gpt-oss*").grammar(GrammarForm::None)
    };
    let row = Row {
        server: server(),
        returns_prefill_whole: Some(true),
        prefill_keeps_format: Some(true),
        keeps_streams: Some(true),
        ..Row::of("*")
            .prefill(PrefillForm::Turn)
            .grammar(GrammarForm::Member)
    };
    vec![in_channels, row]
}

const FULL_SCHEMA: GrammarForm = GrammarForm::JsonSchema(SchemaSubset::Full);
const STRICT_SCHEMA: GrammarForm = GrammarForm::JsonSchema(SchemaSubset::Strict);
const PLAIN_SCHEMA: GrammarForm = GrammarForm::JsonSchema(SchemaSubset::Plain);
pub(super) const EFFORT: &str = "reasoning_effort";
pub(super) const NO_EFFORT: &str = r#""none""#;
const THINKING: &str = "thinking";
const DISABLED: &str = r#"{"type":"disabled"}"#;
