//! Repeated requests that ask for the rest of their kept answer.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{HeaderMap, HeaderName};

use super::restore::TakeoverContext;
use super::routes::{LAST_EVENT_ID, UNKNOWN};
use super::{KeptAnswers, STREAM, request_name};
use crate::Proxy;
use crate::refusal::Refusal;
use crate::store::{AnswerId, NotAnId, Position};
use crate::upstream::Head;
use restitch::provider::Dialect;
use restitch_http::Body;

/// A repeated request for the rest of its answer: its `Last-Event-ID` is one of the proxy's.
pub(crate) struct Repeat {
    last: Position,
    /// `x-restitch-stream`, if the client names the answer.
    stream: Option<Result<AnswerId, NotAnId>>,
}

impl Repeat {
    /// Reads the headers of a request. `None`: the request is not a repeated one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| {
            headers
                .get(name)
                .map(|value| value.to_str().unwrap_or_default().trim())
        };
        let last = text(LAST_EVENT_ID)?.parse().ok()?;
        Some(Self {
            last,
            stream: text(STREAM).map(str::parse),
        })
    }

    /// Answers with the rest. `None`: this caller has no kept answer to such a request, so the
    /// request goes to the upstream. Removes the id then, since an upstream that knows the event
    /// would omit the answer's beginning, and the proxy could not read the rest.
    pub(crate) async fn answer(
        self,
        proxy: &Arc<Proxy>,
        answers: &Arc<KeptAnswers>,
        head: &mut Head,
        body: &Bytes,
        dialect: Dialect,
    ) -> Option<Response<Body>> {
        let name = request_name(&head.credential(), head, body);
        let repeated = name.map(|name| (name, body.clone()));
        let (headers, query) = (head.headers(), head.query());
        let takeover = TakeoverContext::new(proxy, answers, headers, query, head.token(), repeated);
        match self.rest(answers, head, body, &takeover).await {
            Ok(Some(response)) => Some(response),
            Ok(None) => {
                answers.count("unknown");
                tracing::debug!(
                    "a request with an id of an event has no kept answer: it passes without the id"
                );
                // The proxy has written the id, and the upstream does not know it.
                head.headers_mut().remove(LAST_EVENT_ID);
                None
            }
            Err(refusal) => Some(refusal.answer(Some(dialect))),
        }
    }

    async fn rest(
        self,
        answers: &Arc<KeptAnswers>,
        head: &Head,
        body: &Bytes,
        takeover: &Arc<TakeoverContext>,
    ) -> Result<Option<Response<Body>>, Refusal> {
        let credential = head.credential();
        let found = match self.stream {
            Some(Ok(id)) => Some((id, answers.find(id, &credential).await?)),
            Some(Err(_)) => return Err(answers.refuse("unknown", UNKNOWN)),
            None => match request_name(&credential, head, body) {
                Some(name) => answers.one_named(name, &credential).await?,
                None => None,
            },
        };
        match found {
            Some(found) => answers
                .rest_of(found, (self.last, None), takeover)
                .await
                .map(Some),
            None => Ok(None),
        }
    }
}
