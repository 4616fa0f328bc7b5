//! The proxy's own errors, in the error format of the request's API.

use std::borrow::Cow;

use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};

use super::exchange::log_unread;
use super::metrics::Metrics;
use super::upstream::random_name;
use restitch::provider::Dialect;
use restitch_http::{Body, Error, PathError};

/// An error of the proxy's own for a request.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    /// One word for programs and for the log.
    reason: &'static str,
    /// A sentence for people: the problem, and its remedy.
    message: Cow<'static, str>,
    /// The accepted methods, if the request's is refused.
    allow: Option<String>,
    /// Calls were made, or repeated until [`patience`](restitch::ContinuationLimits::patience) was
    /// used up.
    is_after_calls: bool,
}

impl Refusal {
    pub(super) const fn new(
        status: StatusCode,
        reason: &'static str,
        message: &'static str,
    ) -> Self {
        Self {
            status,
            reason,
            message: Cow::Borrowed(message),
            allow: None,
            is_after_calls: false,
        }
    }

    /// Returns a refusal of a request with invalid headers or an invalid body.
    pub(super) fn of_mistake(message: String) -> Self {
        let message = Cow::Owned(message);
        Self {
            status: StatusCode::BAD_REQUEST,
            reason: "bad_request",
            message,
            allow: None,
            is_after_calls: false,
        }
    }

    /// Returns a refusal that names a limit and its value.
    pub(super) fn of_limit(status: StatusCode, limit: &'static str, message: String) -> Self {
        Self {
            status,
            reason: limit,
            message: Cow::Owned(message),
            allow: None,
            is_after_calls: false,
        }
    }

    /// Marks the refusal as one after upstream calls.
    pub(super) const fn after_calls(mut self) -> Self {
        self.is_after_calls = true;
        self
    }

    pub(super) fn with_allow(self, methods: String) -> Self {
        Self {
            allow: Some(methods),
            ..self
        }
    }

    /// Logs the refusal and returns the answer. Does not log the message, since it may quote the
    /// request.
    pub(super) fn answer(self, dialect: Option<Dialect>) -> Response<Body> {
        tracing::warn!(
            reason = self.reason,
            status = self.status.as_u16(),
            "refused a request"
        );
        self.response(dialect)
    }

    /// Logs and counts the refusal, and returns the bytes of the answer, which ends the connection.
    /// Uses the default API's format, since the proxy has read no request that names one.
    pub(super) fn plain(self, metrics: Option<&Metrics>) -> String {
        let id = random_name();
        let _entered = tracing::info_span!("request", id = %id).entered();
        tracing::warn!(
            reason = self.reason,
            status = self.status.as_u16(),
            "refused a connection"
        );
        log_unread(self.status, metrics);
        let body = Dialect::default().wire().own_error_body(
            self.status.as_u16(),
            self.reason,
            &self.message,
        );
        let (status, length, again) = (
            self.status,
            body.len(),
            should_retry(self.status, self.is_after_calls),
        );
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\nconnection: close\r\n\
            {SHOULD_RETRY}: {again}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    /// Returns the answer in the API's error format, or in OpenAI's if the path belongs to no API.
    pub(super) fn response(self, dialect: Option<Dialect>) -> Response<Body> {
        let wire = dialect.unwrap_or_default().wire();
        let mut response = Response::new(Body::full(wire.own_error_body(
            self.status.as_u16(),
            self.reason,
            &self.message,
        )));
        *response.status_mut() = self.status;
        response.extensions_mut().insert(OwnError);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            SHOULD_RETRY,
            HeaderValue::from_static(should_retry(self.status, self.is_after_calls)),
        );
        // RFC 9110 (sections 15.5.2 and 15.5.6) requires these headers of 401 and 405.
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self
            .allow
            .and_then(|methods| HeaderValue::try_from(methods).ok())
        {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// Returns whether a client's SDK should repeat a request: `true` if that may help and no call was
/// made. After calls, a repeat would be billed although the proxy has already tried it. A repeat
/// can't help a faulty request.
fn should_retry(status: StatusCode, is_after_calls: bool) -> &'static str {
    let may_pass = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
        );
    if may_pass && !is_after_calls {
        "true"
    } else {
        "false"
    }
}

/// The header that tells the SDKs of OpenAI and Anthropic whether to repeat a request, whatever the
/// status.
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        let (status, reason) = match error {
            PathError::DotSegment => (StatusCode::BAD_REQUEST, "dot_segment"),
            PathError::TwoSlashes => (StatusCode::BAD_REQUEST, "two_slashes"),
            PathError::TooLong => (StatusCode::URI_TOO_LONG, "path_too_long"),
        };
        Self {
            status,
            reason,
            message: Cow::Owned(error.to_string()),
            allow: None,
            is_after_calls: false,
        }
    }
}

/// Marks a response that no upstream has sent.
#[derive(Clone, Copy, Debug)]
pub struct OwnError;

/// Logs a call without a response, and returns the answer to its request.
pub(super) fn unreachable(dialect: Option<Dialect>, cause: &Error) -> Response<Body> {
    if let Error::Path(error) = cause {
        return Refusal::from(*error).answer(dialect);
    }
    let (status, reason, what) = match cause {
        Error::Late { limit, .. } => (
            StatusCode::GATEWAY_TIMEOUT,
            *limit,
            "the upstream does not answer",
        ),
        Error::Slow { limit, .. } => (
            StatusCode::GATEWAY_TIMEOUT,
            *limit,
            "the upstream can't be reached",
        ),
        _ => (
            StatusCode::BAD_GATEWAY,
            "unreachable",
            "the upstream can't be reached",
        ),
    };
    tracing::warn!(reason, %cause, "{what}");
    Refusal {
        status,
        reason,
        message: Cow::Owned(format!("{what}: {cause}")),
        allow: None,
        is_after_calls: true,
    }
    .response(dialect)
}
