//! The first call. The proxy repeats it while the server is busy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::key::Key;
use super::target::Target;
use super::trace::Trace;
use crate::Failure;
use restitch::provider::{Delta, Dialect};
use restitch_http::Body;
use restitch_proxy::{OwnError, Proxy, Tap, is_stream};

/// Returns the first answer. `silence`: the time that the body of a refusal may take.
pub(super) async fn ask(
    proxy: Arc<Proxy>,
    target: &Target,
    request: Request<Bytes>,
    silence: Duration,
    key: &Key,
    trace: Option<&Trace>,
) -> Result<Body, Failure> {
    let response = proxy.ask(target.dialect, request).await;
    let status = response.status();
    if status.is_success() && is_stream(response.headers(), target.dialect) {
        return Ok(response.into_body());
    }
    let is_ours = response.extensions().get::<OwnError>().is_some();
    let body = timeout(silence, response.into_body().collect()).await;
    let body = body.ok().and_then(Result::ok);
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    if let Some(trace) = trace {
        trace.response(&body);
    }
    let reason = message(&body, target.dialect, key);
    Err(Failure::io(if is_ours {
        format!("{}: {reason}", target.upstream)
    } else if status.is_success() {
        format!("the server answered {status} without a stream: {reason}")
    } else {
        format!("the server answered {status}: {reason}")
    }))
}

/// Returns the message of an error body, without the key, and cut; the body itself, if it has no
/// member for a message. Reads a body as the API does. Reads errors from servers in front of the
/// API, in other formats, as events named `error`.
pub(crate) fn message(body: &[u8], dialect: Dialect, key: &Key) -> String {
    let text = String::from_utf8_lossy(body);
    let mut message = None;
    let mut take = |delta: Delta<'_>| {
        if let Delta::Error { message: said, .. } = delta {
            message.get_or_insert_with(|| said.to_owned());
        }
    };
    if !dialect.wire().read_body(&text, &mut take) {
        dialect.wire().reader().read("error", &text, &mut take);
    }
    key.out_of(message.as_deref().unwrap_or(&text).trim())
        .chars()
        .take(MESSAGE)
        .collect()
}

/// Characters of an error that are shown.
const MESSAGE: usize = 300;
