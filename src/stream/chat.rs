//! SDKs whose requests and chunks are serde types: one call makes an answer whole.

use std::future::Future;

use futures_core::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deltas::TextDelta;
use super::stitcher::{Stitcher, mapped, opening};
use super::{StitchText, driver::Upstream};
use crate::provider::chat::{ChatReader, parse};
use crate::provider::{Delta, FIRST, answer_tokens};
use crate::session::Retry;

impl Stitcher {
    /// Makes a streaming chat completions call with an SDK, and makes the text of its answer whole.
    ///
    /// `call` is the SDK's streaming call. It is called with `request`, and again for each
    /// continuation. The request and the chunks are types that serde writes as the JSON of the Chat
    /// Completions API, like those of `async-openai`. If the request has stop sequences, a finish
    /// of `stop` is trusted, as with [`trust_stop`](Self::trust_stop). If it asks for reasoning, no
    /// continuation uses a prefill.
    ///
    /// With `async-openai` (`examples/async-openai` runs it):
    ///
    /// ```ignore
    /// let mut text = Stitcher::new().chat(request, async |request| client.chat().create_stream(request).await).await?;
    /// while let Some(delta) = text.next().await {
    ///     print!("{}", delta?);
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails when the first call does.
    pub async fn chat<'a, R, S, C, Fut, E: 'a>(
        self,
        request: R,
        mut call: impl FnMut(R) -> Fut + Send + 'a,
    ) -> Result<StitchText<'a, E>, E>
    where
        R: Serialize + DeserializeOwned + Clone + Send + 'a,
        S: Stream<Item = Result<C, E>> + Send + 'a,
        C: Serialize + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
    {
        let body = serde_json::to_vec(&request).unwrap_or_default();
        let read = parse(&body);
        let first = chunks(call(request.clone()).await?);
        let reopen = move |retry: Retry| call(retry.typed(&request));
        Ok(self
            .suited_to(read.as_ref(), &body)
            .deltas(first, opening(reopen, chunks)))
    }
}

/// Reads chunks as deltas.
fn chunks<'a, S, C, E>(stream: S) -> Upstream<'a, TextDelta, E>
where
    S: Stream<Item = Result<C, E>> + Send + 'a,
    C: Serialize,
{
    let mut reader = ChatReader::new();
    mapped(stream, move |chunk| delta(&mut reader, &chunk))
}

/// Reads a chunk's delta of the first choice.
fn delta(reader: &mut ChatReader, chunk: &impl Serialize) -> TextDelta {
    let mut read = TextDelta::default();
    let Ok(data) = serde_json::to_string(chunk) else {
        return read;
    };
    let (mut finish, mut tokens) = (None, None);
    reader.read("message", &data, |delta| match delta {
        Delta::Text { slot: FIRST, text } => read.push_str(text),
        Delta::Reasoning { slot: FIRST, .. } => read.add_reasoning(),
        Delta::Finish {
            choice: 0, reason, ..
        } => finish = Some(reason),
        Delta::Usage { raw } => tokens = answer_tokens(raw),
        Delta::Refusal { text: "", .. } => {}
        Delta::Error { .. } | Delta::Done { .. } => {}
        _ => read.add_other(),
    });
    let read = finish.into_iter().fold(read, TextDelta::with_finish);
    tokens.into_iter().fold(read, TextDelta::with_tokens)
}
