//! The first call: repeats it while the server is busy, gives it up if the server is silent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::RunError;
use super::key::Key;
use super::target::Target;
use super::trace::Trace;
use crate::Console;
use restitch::Limits;
use restitch::provider::{Delta, Dialect};
use restitch_http::Body;
use restitch_proxy::{OwnError, Proxy, SHOULD_RETRY, Tap, is_stream, is_transient, retry_after};

/// How long asking for the first answer may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the body of a refusal. The proxy has its own limit for the head of an answer.
    silence: Duration,
    /// Between two calls.
    backoff: Duration,
}

impl Patience {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            silence: limits.transport.first_byte().time,
            backoff: limits.transport.max_backoff,
        }
    }
}

/// The server refused to answer, or answered without a stream.
struct RefusedCall {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
    /// The proxy itself refused: no server has answered.
    is_ours: bool,
    /// The proxy has repeated the call already, or the server wants no other one.
    is_final: bool,
}

/// Returns the first answer. Asks again while the server is busy.
pub(super) async fn ask(
    proxy: Arc<Proxy>,
    target: &Target,
    request: &Request<Bytes>,
    patience: Patience,
    key: &Key,
    trace: Option<&Trace>,
    console: &Console,
) -> Result<Body, RunError> {
    for attempt in 1.. {
        let refused = match once(
            Arc::clone(&proxy),
            target.dialect,
            request.clone(),
            patience.silence,
        )
        .await
        {
            Ok(body) => return Ok(body),
            Err(refused) => refused,
        };
        let RefusedCall {
            status,
            retry_after,
            body,
            is_ours,
            is_final,
        } = refused;
        if let Some(trace) = trace {
            trace.response(&body);
        }
        let reason = message(&body, target.dialect, key);
        if is_ours {
            return Err(RunError::Io(format!("{}: {}", target.upstream, reason)));
        }
        let what = if status.is_success() {
            " without a stream"
        } else {
            ""
        };
        let reason = format!("the server answered {status}{what}: {}", reason);
        if !is_transient(status) || is_final || attempt == ATTEMPTS {
            return Err(RunError::Io(reason));
        }
        let wait = retry_after
            .unwrap_or(Duration::from_secs(1 << attempt))
            .min(patience.backoff);
        console.notes.note(format_args!(
            "{reason}; asking again in {} s",
            wait.as_secs_f64()
        ));
        sleep(wait).await;
    }
    Err(RunError::Io(String::new()))
}

/// Asks once. `silence`: how long the body of a refusal may take.
async fn once(
    proxy: Arc<Proxy>,
    dialect: Dialect,
    request: Request<Bytes>,
    silence: Duration,
) -> Result<Body, RefusedCall> {
    let response = proxy.ask(dialect, request).await;
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    let is_ours = response.extensions().get::<OwnError>().is_some();
    let is_final = response
        .headers()
        .get(SHOULD_RETRY)
        .is_some_and(|value| value == "false");
    if status.is_success() && is_stream(response.headers(), dialect) {
        return Ok(response.into_body());
    }
    let body = timeout(silence, response.into_body().collect())
        .await
        .ok()
        .and_then(Result::ok);
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Err(RefusedCall {
        status,
        retry_after,
        body,
        is_ours,
        is_final,
    })
}

/// A busy server is asked this often.
const ATTEMPTS: u32 = 3;

/// Returns the message of an error body, without the key, and cut; the body itself, if it has no
/// member for a message. Reads a body as the API does. Reads errors from servers in front of the
/// API, in other formats, as events named `error`.
fn message(body: &[u8], dialect: Dialect, key: &Key) -> String {
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
