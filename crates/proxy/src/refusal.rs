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
    allow: Option<&'static str>,
    advice: RetryAdvice,
}

/// Whether a client's SDK should repeat a request, as [`SHOULD_RETRY`] tells it.
#[derive(Clone, Copy, Debug)]
pub(super) enum RetryAdvice {
    /// No call was made, so the status decides. A repeat can't help a faulty request.
    ByStatus,
    /// Calls were made, or repeated until [`patience`](restitch::ContinuationLimits::patience) was
    /// used up: a repeat would be billed although the proxy has already tried it.
    Never,
    /// The header is left out, and the SDK decides by its own rule.
    None,
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
            advice: RetryAdvice::ByStatus,
        }
    }

    /// Returns a refusal of a request with invalid headers or an invalid body.
    pub(super) fn of_mistake(message: String) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// Returns a refusal with a message of its own.
    pub(super) fn of(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            message: Cow::Owned(message),
            ..Self::new(status, reason, "")
        }
    }

    /// Marks the refusal as one after upstream calls.
    pub(super) const fn after_calls(mut self) -> Self {
        self.advice = RetryAdvice::Never;
        self
    }

    pub(super) const fn allowing(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }

    /// Logs the refusal and returns the answer.
    pub(super) fn answer(self, dialect: Option<Dialect>) -> Response<Body> {
        // The log leaves out the message, which may quote the request.
        tracing::warn!(
            reason = self.reason,
            status = self.status.as_u16(),
            "refused a request"
        );
        self.response(dialect)
    }

    /// Logs and counts the refusal, and returns the bytes of the answer.
    pub(super) fn plain(self, metrics: Option<&Metrics>) -> String {
        let id = random_name();
        let _entered = tracing::info_span!("request", id = %id).entered();
        tracing::warn!(
            reason = self.reason,
            status = self.status.as_u16(),
            "refused a connection"
        );
        log_unread(self.status, metrics);
        self.bytes(&id)
    }

    /// Returns the bytes of an answer with a request's id, which ends the connection. Uses the
    /// default API's format, since the proxy has read no request that names one.
    pub(super) fn bytes(self, id: &str) -> String {
        let body = Dialect::default().wire().own_error_body(
            self.status.as_u16(),
            self.reason,
            &self.message,
        );
        let (status, length) = (self.status, body.len());
        let advice = self
            .advice
            .value(status)
            .map(|again| format!("{SHOULD_RETRY}: {again}\r\n"));
        let advice = advice.unwrap_or_default();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\nconnection: close\r\n\
            {advice}content-length: {length}\r\n\r\n{body}"
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
        // `restitch run` distinguishes the proxy's own errors from the upstream's.
        response.extensions_mut().insert(OwnError);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(advice) = self.advice.value(self.status) {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(advice));
        }
        // RFC 9110 (sections 15.5.2 and 15.5.6) requires these headers of 401 and 405.
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(methods) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        response
    }
}

impl RetryAdvice {
    /// Returns the value of the header. `None`: the header is left out.
    fn value(self, status: StatusCode) -> Option<&'static str> {
        let may_pass = status.is_server_error()
            || matches!(
                status,
                StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
            );
        match self {
            Self::ByStatus if may_pass => Some("true"),
            Self::ByStatus | Self::Never => Some("false"),
            Self::None => None,
        }
    }
}

/// The header that tells the SDKs of OpenAI and Anthropic whether to repeat a request, whatever the
/// status.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        let (status, reason) = match error {
            PathError::DotSegment => (StatusCode::BAD_REQUEST, "dot_segment"),
            PathError::TwoSlashes => (StatusCode::BAD_REQUEST, "two_slashes"),
            PathError::TooLong => (StatusCode::URI_TOO_LONG, "path_too_long"),
        };
        Self::of(status, reason, error.to_string())
    }
}

/// Marks a response that no upstream has sent.
#[derive(Clone, Copy, Debug)]
pub struct OwnError;

/// Logs a call without a response, and returns the answer to its request.
pub(super) fn unreachable(
    dialect: Option<Dialect>,
    cause: &Error,
    advice: RetryAdvice,
) -> Response<Body> {
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
        advice,
        ..Refusal::of(status, reason, format!("{what}: {cause}"))
    }
    .response(dialect)
}
