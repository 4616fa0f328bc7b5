//! The first call: repeats it while the server is busy, gives it up if the server is silent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::Failed;
use super::key::Key;
use super::trace::Trace;
use crate::Limits;
use crate::cli::Console;
use crate::client::Body;
use crate::proxy::{PROXY_ERROR, Proxy, Tap, is_transient, retry_after};

/// How long the first call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until the server answers.
    silence: Duration,
    /// Between two calls.
    backoff: Duration,
}

impl Patience {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            silence: limits.transport.first_byte_timeout.max(limits.transport.idle_timeout),
            backoff: limits.transport.max_backoff,
        }
    }
}

/// The server refused to answer.
struct Refused {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

/// Returns the first answer. Asks again while the server is busy.
pub(super) async fn ask(
    proxy: Arc<Proxy>,
    request: &Request<Bytes>,
    patience: Patience,
    key: &Key,
    trace: Option<&Trace>,
    console: &Console,
) -> Result<Body, Failed> {
    for attempt in 1.. {
        let answered = timeout(patience.silence, once(Arc::clone(&proxy), request.clone())).await;
        let silent = |_| Failed::Io(format!("the server was silent for {} s", patience.silence.as_secs_f64()));
        let Refused { status, retry_after, body } = match answered.map_err(silent)? {
            Ok(body) => return Ok(body),
            Err(refused) => refused,
        };
        if let Some(trace) = trace {
            trace.response(&body);
        }
        let reason = Reason::of(&body, key);
        if reason.is_ours {
            return Err(Failed::Io(reason.message));
        }
        let reason = format!("the server answered {status}: {}", reason.message);
        if !is_transient(status) || attempt == ATTEMPTS {
            return Err(Failed::Io(reason));
        }
        let wait = retry_after.unwrap_or(Duration::from_secs(1 << attempt)).min(patience.backoff);
        console.note(format_args!("{reason}; asking again in {} s", wait.as_secs_f64()));
        sleep(wait).await;
    }
    Err(Failed::Io(String::new()))
}

async fn once(proxy: Arc<Proxy>, request: Request<Bytes>) -> Result<Body, Refused> {
    let response = proxy.ask(request).await;
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    if status.is_success() {
        return Ok(response.into_body());
    }
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Err(Refused { status, retry_after, body })
}

/// A busy server is asked this often.
const ATTEMPTS: u32 = 3;

/// The message of an error body.
struct Reason {
    /// Without the key, and cut. The body itself, if it has no member for a message.
    message: String,
    /// It is ours: no server was asked.
    is_ours: bool,
}

impl Reason {
    fn of(body: &[u8], key: &Key) -> Self {
        let text = String::from_utf8_lossy(body);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let said = |pointer: &str| value.pointer(pointer).and_then(|said| said.as_str());
        let message = key.out_of(said("/error/message").unwrap_or(text.trim()));
        let message = message.chars().take(MESSAGE).collect();
        Self { message, is_ours: said("/error/type") == Some(PROXY_ERROR) }
    }
}

/// Characters of an error that are shown.
const MESSAGE: usize = 300;
