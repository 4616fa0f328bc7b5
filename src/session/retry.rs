//! Writes a further call for a provider, as edits of the original request.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Request, Resume, Turn};
use crate::provider::Dialect;
use crate::provider::capability::{Capability, GrammarForm, PrefillForm, Switch};
use crate::provider::wire::{Changes, Rest};

/// A further call, which applies itself to the original request.
///
/// If nothing of the document was delivered, the call repeats the original request. Otherwise it
/// asks for the rest in the form that the session has chosen ([`ContinuationMode`](super::ContinuationMode)).
///
/// ```
/// use std::time::Duration;
/// use restitch::provider::capability::Table;
/// use restitch::session::{ContinuationStrategy, CallEnd, Input, Output, PrefillOptions, Retry, Session};
///
/// let now = Duration::ZERO;
/// let mut session = Session::new(restitch::Limits::default());
/// session.set_strategy(ContinuationStrategy::default().prefill(PrefillOptions::default()));
/// session.handle_input(now, Input::Text("[1, 2"));
/// session.handle_input(now, Input::CallEnd(CallEnd::Dropped));
/// let request = std::iter::from_fn(|| session.poll_output()).find_map(|output| match output {
///     Output::Call { request, .. } => Some(request),
///     _ => None,
/// });
///
/// let deepseek = Table::default().of("deepseek-chat", Some("api.deepseek.com"));
/// let retry = Retry::new(request.unwrap(), deepseek.into());
/// assert_eq!(
///     retry.body(r#"{"model":"deepseek-chat","messages":[]}"#),
///     r#"{"model":"deepseek-chat","messages":[{"role":"assistant","content":"[1, 2","prefix":true}],"thinking":{"type":"disabled"}}"#,
/// );
/// assert_eq!(retry.path("/v1/chat/completions"), "/beta/chat/completions");
/// assert_eq!(retry.messages(&[("user", "Count.".to_owned())])[1], ("assistant", "[1, 2".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    request: Request,
    capability: Arc<Capability>,
    dialect: Dialect,
    max_tokens: Option<u64>,
}

impl Retry {
    /// Returns the call that a session asks for, written for a model of this capability.
    pub fn new(request: Request, capability: Arc<Capability>) -> Self {
        Self {
            request,
            capability,
            dialect: Dialect::default(),
            max_tokens: None,
        }
    }

    /// Sets the API of the request. Default: Chat Completions.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the limit on the answer's tokens. It is used where the original request has one.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Returns the session's request, independent of the provider.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the call's number: the first call after the original one is 1.
    pub fn number(&self) -> u32 {
        self.request.number
    }

    /// Returns whether the call is a prefill: the delivered text is its last message.
    pub fn is_prefill(&self) -> bool {
        self.request.turn.as_ref().is_some_and(Turn::is_prefill)
    }

    /// Returns whether the answer must follow a grammar.
    #[doc(hidden)]
    pub fn is_forced(&self) -> bool {
        let turn = self.request.turn.as_ref();
        turn.is_some_and(|turn| turn.grammar.is_some())
    }

    /// Returns whether the answer is the input of a custom tool of Chat Completions.
    #[doc(hidden)]
    pub fn calls_custom_tool(&self) -> bool {
        self.is_forced()
            && self.capability.grammar == Some(GrammarForm::CustomTool)
            && self.dialect == Dialect::Chat
    }

    /// Returns whether the call keeps the format that the original request asks for.
    #[doc(hidden)]
    pub fn keeps_format(&self) -> bool {
        self.request
            .turn
            .as_ref()
            .is_some_and(|turn| turn.keeps_json_mode)
    }

    /// Returns the member that turns reasoning off for a custom tool, if this call adds it.
    #[doc(hidden)]
    pub fn tool_reasoning_off(&self) -> Option<&Switch> {
        let switch = self.capability.tool_reasoning_off.as_ref();
        switch.filter(|_| self.calls_custom_tool())
    }

    /// Returns the member that turns reasoning off, if this call adds it: with a prefill, since
    /// reasoning would come before the continued text, after a call that brought only reasoning,
    /// and with a tool that excludes reasoning.
    pub fn reasoning_off(&self) -> Option<&Switch> {
        let switch = self.capability.reasoning_off.as_ref();
        let usual = || switch.filter(|_| self.is_prefill() || self.request.reduce_reasoning);
        self.tool_reasoning_off().or_else(usual)
    }

    /// Returns the body of this call, made from the original body. A body that is not a request of
    /// the API (for Chat Completions a JSON object with an array `messages`) is returned unchanged:
    /// the model then begins its answer again, and the new answer is joined where it reaches the
    /// cut.
    pub fn body(&self, original: &str) -> String {
        self.try_body(original)
            .unwrap_or_else(|| original.to_owned())
    }

    /// Returns the body of this call like [`body`](Self::body), or `None` if the original is not a
    /// request of the API.
    pub fn try_body(&self, original: &str) -> Option<String> {
        let turn = self.request.turn.as_ref();
        let rest = turn.map(|turn| match turn.is_prefill() {
            false => Rest::Reprompt {
                delivered: &turn.delivered,
                prompt: &turn.prompt,
            },
            true => Rest::Prefill {
                delivered: &turn.delivered,
                form: self.capability.prefill,
            },
        });
        let changes = Changes {
            reasoning_off: self.reasoning_off(),
            max_tokens: self.max_tokens,
            token: match &self.request.resume {
                Some(Resume::Token { token, .. }) => Some(token),
                Some(Resume::Stream(_)) | None => None,
            },
            grammar: turn
                .and_then(|turn| turn.grammar.as_deref())
                .and_then(|grammar| Some((self.capability.grammar?, grammar))),
            keeps_json_mode: self.keeps_format(),
            replaces_prefill: turn.is_some_and(|turn| turn.replaces_prefill),
        };
        self.dialect.wire().ask(original, rest.as_ref(), &changes)
    }

    /// Returns the request of this call, made from the original request of an SDK: a type that
    /// serde writes and reads as a chat completions request. Any other value is returned unchanged.
    /// Members that the type does not have, for example `"prefix": true`, are lost.
    pub fn typed<R: Serialize + DeserializeOwned + Clone>(&self, original: &R) -> R {
        let body = serde_json::to_string(original)
            .ok()
            .and_then(|body| self.try_body(&body));
        body.and_then(|body| serde_json::from_str(&body).ok())
            .unwrap_or_else(|| original.clone())
    }

    /// Returns the messages of this call: the original ones, followed by the ones that ask for the
    /// rest. If the answer continues the assistant's last message, the delivered text, which begins
    /// with it, replaces it.
    ///
    /// Remove from the request the members that prescribe the format of the answer
    /// (`response_format`, tools), because the rest of a document matches no schema, unless the
    /// turn keeps its JSON mode ([`Turn::keeps_json_mode`](super::Turn)). [`body`](Self::body) and
    /// [`typed`](Self::typed) remove it.
    pub fn messages<M: Message + Clone>(&self, original: &[M]) -> Vec<M> {
        let mut messages = original.to_vec();
        let Some(turn) = &self.request.turn else {
            return messages;
        };
        if turn.replaces_prefill {
            messages.pop();
        }
        match turn.is_prefill() {
            false => {
                messages.extend([
                    M::assistant(turn.delivered.clone()),
                    M::user(turn.prompt.clone()),
                ]);
            }
            true => {
                messages.push(M::prefill(turn.delivered.clone(), self.capability.prefill));
            }
        }
        messages
    }

    /// Returns the path of this call. It differs from the original where the provider takes a
    /// prefill at another path.
    pub fn path<'p>(&self, original: &'p str) -> Cow<'p, str> {
        match self
            .capability
            .prefill_path
            .as_deref()
            .filter(|_| self.is_prefill())
        {
            Some(prefix) => below(prefix, original).map_or(Cow::Borrowed(original), Cow::Owned),
            None => Cow::Borrowed(original),
        }
    }
}

/// Replaces `/v1` by `prefix` in a path, or puts `prefix` in front; `None` where the path begins
/// with it already.
pub fn below(prefix: &str, path: &str) -> Option<String> {
    let rest = path
        .strip_prefix("/v1")
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(path);
    let is_below = path
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('/'));
    (!is_below).then(|| format!("{prefix}{rest}"))
}

/// A message type of an SDK, for [`Retry::messages`].
pub trait Message {
    /// Returns a message of the assistant.
    fn assistant(content: String) -> Self;

    /// Returns a message of the user.
    fn user(content: String) -> Self;

    /// Returns a message of the assistant for the model to continue. Override this if a member of
    /// the message ([`PrefillForm::flag`]) asks for that.
    fn prefill(content: String, form: PrefillForm) -> Self
    where
        Self: Sized,
    {
        let _ = form;
        Self::assistant(content)
    }
}

/// A role and a content.
impl Message for (&str, String) {
    fn assistant(content: String) -> Self {
        ("assistant", content)
    }

    fn user(content: String) -> Self {
        ("user", content)
    }
}

/// A role and a content.
impl Message for (String, String) {
    fn assistant(content: String) -> Self {
        ("assistant".to_owned(), content)
    }

    fn user(content: String) -> Self {
        ("user".to_owned(), content)
    }
}

/// An object with members `role` and `content`.
impl Message for serde_json::Value {
    fn assistant(content: String) -> Self {
        serde_json::json!({"role": "assistant", "content": content})
    }

    fn user(content: String) -> Self {
        serde_json::json!({"role": "user", "content": content})
    }

    fn prefill(content: String, form: PrefillForm) -> Self {
        let mut message = Self::assistant(content);
        if let Some(flag) = form.flag() {
            message[flag] = true.into();
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_prefix_takes_the_place_of_v1() {
        for (path, expected) in [
            ("/v1/chat/completions", Some("/beta/chat/completions")),
            ("/chat/completions", Some("/beta/chat/completions")),
            ("/v1beta/chat", Some("/beta/v1beta/chat")),
            ("/beta/chat/completions", None),
        ] {
            assert_eq!(below("/beta", path).as_deref(), expected);
        }
    }
}
