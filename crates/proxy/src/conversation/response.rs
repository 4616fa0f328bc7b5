//! Reads the status and the headers of a response.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};

use restitch::internal::rest_call;
use restitch::internal::wire::Framing;
use restitch::provider::Dialect;

/// Returns whether the headers of a response announce a stream of this API.
pub fn is_stream(headers: &HeaderMap, dialect: Dialect) -> bool {
    media_type(headers).and_then(Framing::of_content_type) == Some(dialect.wire().framing())
}

/// Returns the media type, if answers can have it.
pub(super) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let name = value.split(';').next()?.trim();
    [EVENT_STREAM, JSON, LINES]
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known))
}

/// Returns the first characters of a response's content type for the log, with invisible bytes
/// escaped.
pub(super) fn media_type_in_log(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    Some(
        value
            .as_bytes()
            .escape_ascii()
            .take(LONGEST_TYPE)
            .map(char::from)
            .collect(),
    )
}

/// Returns whether the same request may succeed a little later.
pub(crate) fn is_transient(status: StatusCode) -> bool {
    rest_call::is_transient(status.as_u16())
}

/// Returns whether a status means that the upstream can't take requests now.
pub(crate) fn is_unavailable(status: StatusCode) -> bool {
    rest_call::is_unavailable(status.as_u16())
}

/// Returns `Retry-After`, given in seconds or as a date ([RFC 9110, section
/// 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3)).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy does I/O: a date is compared with the clock"
    )]
    let now = SystemTime::now();
    Some(date.duration_since(now).unwrap_or_default())
}

/// Returns whether a status means that the request's body is invalid.
pub(crate) fn is_invalid_request(status: StatusCode) -> bool {
    rest_call::is_invalid_request(status.as_u16())
}

pub(super) const EVENT_STREAM: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
/// The most characters that are logged of a content type: registered types are shorter.
const LONGEST_TYPE: usize = 100;
