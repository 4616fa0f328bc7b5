//! OpenAI's Responses API, which Azure and other servers speak, too.
//!
//! A response has items (messages, tool calls, reasoning), and a message has parts. A stream opens
//! and closes each item and part with an event, and its last event repeats the whole response:
//! <https://platform.openai.com/docs/api-reference/responses-streaming>. The slot of a text is its
//! item and its part; the slot of arguments is their item.

mod adopt;
mod allowed;
mod body;
mod items;
mod reader;
mod request;
mod writer;

use reader::ResponsesReader;
use writer::ResponsesWriter;

use super::capability::GrammarForm;
use super::fields::{object, word};
use super::translate::PlainMessage;
use super::wire::{
    self, Adaptation, Changes, Ending, NewRequest, PlainPrompt, Request, Rest, SlotText, Wire,
};
use super::{Delta, Finish};
use crate::json::walk::Raw;

#[derive(Debug)]
pub(crate) struct Responses;

impl Wire for Responses {
    fn takes_path(&self, path: &str) -> bool {
        ["/v1/responses", "/openai/responses"]
            .into_iter()
            .any(|end| path.ends_with(end))
    }

    fn recognizes(&self, event_type: &str, data: &str) -> Option<bool> {
        let [kind, object] = object(data)?.pick(["type", "object"]);
        let kind = word(kind);
        match kind.as_deref().unwrap_or(event_type) {
            "error" => None,
            name => Some(
                name.starts_with("response.")
                    || word(object).is_some_and(|object| object == "response"),
            ),
        }
    }

    fn reader(&self) -> Box<dyn wire::Reader> {
        Box::<ResponsesReader>::default()
    }

    fn writer(&self) -> Box<dyn wire::Writer> {
        Box::<ResponsesWriter>::default()
    }

    fn read_body(&self, body: &str, on: &mut dyn FnMut(Delta<'_>)) -> bool {
        body::read_body(body, on)
    }

    fn write_body(
        &self,
        first_body: &str,
        texts: &[SlotText<'_>],
        ending: &Ending<'_>,
    ) -> Option<String> {
        body::write_body(first_body, texts, ending)
    }

    fn takes_grammar(&self, form: GrammarForm) -> bool {
        form == GrammarForm::CustomTool || form.is_schema()
    }

    fn parse(&self, _path: &str, body: &[u8]) -> Option<Request> {
        request::parse(body)
    }

    fn plain_messages(&self, body: &str) -> Option<Vec<PlainMessage>> {
        request::plain_messages(body)
    }

    fn version(&self) -> &'static str {
        "/v1"
    }

    fn allowed(&self) -> crate::provider::allowed::Members {
        allowed::REQUEST
    }

    fn new_request(&self, prompt: &PlainPrompt<'_>) -> NewRequest {
        request::new(prompt)
    }

    fn ask(&self, body: &str, rest: Option<&Rest<'_>>, changes: &Changes<'_>) -> Option<String> {
        request::ask(body, rest, changes)
    }

    fn adapt(&self, body: &str, adaptation: &Adaptation<'_>) -> Option<String> {
        request::adapt(body, adaptation)
    }
}

/// Members that change from delta to delta: the number of the event, and padding.
const CHANGING: [&str; 2] = ["sequence_number", "obfuscation"];

/// The words for one type of item that calls a tool with arguments.
#[derive(Debug)]
struct ResponsesCall {
    /// The type of the item.
    item: &'static str,
    /// The start of the names of its argument events, before `.delta` and `.done`.
    event: &'static str,
    /// The member that has the arguments, in the item and in the last event.
    member: &'static str,
    /// The client runs the tool, and the response waits for its result.
    is_clients: bool,
}

/// All types of items that call a tool with arguments that are streamed.
static CALLS: [ResponsesCall; 4] = [
    ResponsesCall {
        item: "function_call",
        event: "response.function_call_arguments",
        member: "arguments",
        is_clients: true,
    },
    ResponsesCall {
        item: "custom_tool_call",
        event: "response.custom_tool_call_input",
        member: "input",
        is_clients: true,
    },
    ResponsesCall {
        item: "mcp_call",
        event: "response.mcp_call_arguments",
        member: "arguments",
        is_clients: false,
    },
    ResponsesCall {
        item: "code_interpreter_call",
        event: "response.code_interpreter_call_code",
        member: "code",
        is_clients: false,
    },
];

/// Returns the words of a type of items.
fn call_of(item: &str) -> Option<&'static ResponsesCall> {
    CALLS.iter().find(|call| call.item == item)
}

/// Returns whether an event of this type is the last of a response.
fn is_terminal(event: &str) -> bool {
    matches!(
        event,
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled"
    )
}

/// Returns whether an event of this type has only the response's head.
fn is_head(event: &str) -> bool {
    matches!(
        event,
        "response.created" | "response.in_progress" | "response.queued"
    )
}

/// Returns why a response ended, and the same in one word. `None`: it has not ended.
fn finish(response: Raw<'_>, has_calls: bool) -> Option<(Finish, String)> {
    let [status, details] = response.pick(["status", "incomplete_details"]);
    let reason = match &*word(status)? {
        "completed" if has_calls => return Some((Finish::ToolCalls, "completed".to_owned())),
        "completed" => return Some((Finish::Stop, "completed".to_owned())),
        "incomplete" => word(details.and_then(|details| details.member("reason"))),
        status @ ("failed" | "cancelled") => {
            return Some((Finish::Other(status.to_owned()), status.to_owned()));
        }
        _ => return None,
    };
    let Some(reason) = reason else {
        return Some((Finish::Other(INCOMPLETE.to_owned()), INCOMPLETE.to_owned()));
    };
    let finish = match &*reason {
        "max_output_tokens" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        other => Finish::Other(other.to_owned()),
    };
    Some((finish, format!("{INCOMPLETE}:{reason}")))
}

/// Returns the status of a response that ends for a reason, and its `incomplete_details`.
fn status(finish: &Finish) -> (&'static str, String) {
    let details = |reason: &str| {
        (
            INCOMPLETE,
            format!(r#"{{"reason":{}}}"#, crate::json::string::quoted(reason)),
        )
    };
    match finish {
        Finish::Stop | Finish::ToolCalls | Finish::FunctionCall => ("completed", "null".to_owned()),
        Finish::Length => details("max_output_tokens"),
        Finish::ContentFilter => details("content_filter"),
        Finish::Other(word) if word == "failed" => ("failed", "null".to_owned()),
        Finish::Other(word) => details(word),
    }
}

const INCOMPLETE: &str = "incomplete";
