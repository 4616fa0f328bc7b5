//! A request that is sent again for the rest of its kept answer.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{HeaderMap, HeaderName};

use super::restore::Heir;
use super::routes::{LAST_EVENT_ID, NAMELESS, UNKNOWN};
use super::{Answers, STREAM, request_name};
use crate::client::Body;
use crate::provider::Dialect;
use crate::proxy::Proxy;
use crate::proxy::refusal::Refusal;
use crate::proxy::upstream::Head;
use crate::store::{AnswerId, NotAnId, Position};

/// A request that is sent again for the rest of its answer: its `Last-Event-ID` is one of ours.
pub(in crate::proxy) struct Repeat {
    last: Position,
    /// `x-restitch-stream`, where the client names the answer.
    stream: Option<Result<AnswerId, NotAnId>>,
}

impl Repeat {
    /// Reads the headers of a request. `None`: it is sent for the first time.
    pub(in crate::proxy) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
        let last = text(LAST_EVENT_ID)?.parse().ok()?;
        Some(Self { last, stream: text(STREAM).map(str::parse) })
    }

    /// Answers with the rest.
    pub(in crate::proxy) async fn answer(
        self,
        proxy: &Arc<Proxy>,
        answers: &Arc<Answers>,
        head: &Head,
        body: &Bytes,
        dialect: Dialect,
    ) -> Response<Body> {
        let name = request_name(&head.credential(), head, body);
        let repeated = name.map(|name| (name, body.clone()));
        let heir = Heir::new(proxy, answers, head.headers(), head.query(), repeated);
        match self.rest(answers, head, body, &heir).await {
            Ok(response) => response,
            Err(refusal) => refusal.answer(Some(dialect)),
        }
    }

    async fn rest(
        self,
        answers: &Arc<Answers>,
        head: &Head,
        body: &Bytes,
        heir: &Arc<Heir>,
    ) -> Result<Response<Body>, Refusal> {
        let credential = head.credential();
        let (id, found) = match self.stream {
            Some(Ok(id)) => (id, answers.find(id, &credential).await?),
            Some(Err(_)) => return Err(answers.refuse("unknown", UNKNOWN)),
            None => {
                let name = request_name(&credential, head, body);
                let name = name.ok_or_else(|| answers.refuse("unknown", NAMELESS))?;
                answers.one_named(name, &credential).await?.ok_or_else(|| answers.refuse("unknown", UNKNOWN))?
            }
        };
        found.log.map_err(|gone| answers.refused(&gone.into()))?;
        answers.rest(id, &found, (self.last, None), heir).await
    }
}
