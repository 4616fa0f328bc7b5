//! The fallbacks: upstreams that take over when a route's own upstream fails.

use http::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING,
};

use super::conversation::is_transient;
use super::secret::Secret;
use restitch::provider::Dialect;
use restitch_http::{Client, Error, Received};

/// An upstream of a route: its own one, or a fallback, which takes over when others fail.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The client that connects to it.
    pub(super) client: Client,
    /// The model's name at a fallback. `None`: the name in the request.
    pub(super) model: Option<String>,
    /// The API of a fallback. `None`: the API of the request.
    pub(super) wire: Option<Dialect>,
    /// The operator's key for it. `None`: a fallback needs no key, and a route's own upstream gets
    /// the client's.
    pub(super) key: Option<Secret>,
}

/// The part of an answer that a fallback delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole answer, since nothing has arrived.
    Whole,
    Rest,
}

impl Part {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Rest => "rest",
        }
    }
}

/// Returns whether the result of a first call is a reason to ask a fallback.
pub(super) fn has_failed(answer: &Result<Response<Received>, Error>) -> bool {
    match answer {
        Ok(response) => is_transient(response.status()),
        // The fault lies in the request, so every upstream would fail alike.
        Err(Error::Path(_) | Error::Foreign(_)) => false,
        Err(_) => true,
    }
}

/// Returns for the log why an upstream has failed. Leaves out the upstream's own words, since they
/// may quote the request.
pub(super) fn why(answer: &Result<Response<Received>, Error>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(error) => error.to_string(),
    }
}

/// Keeps only the listed headers of a fallback's response ([`ANSWER_HEADERS`]), and names the
/// fallback. Other headers may describe the operator's account or quote its key.
pub(super) fn without_foreign_headers(
    response: Response<Received>,
    fallback: &Target,
) -> Response<Received> {
    let (mut parts, body) = response.into_parts();
    let mut headers = HeaderMap::new();
    for name in ANSWER_HEADERS {
        if let Some(value) = parts.headers.remove(&name) {
            headers.insert(name, value);
        }
    }
    if let Ok(host) = HeaderValue::from_str(fallback.client.upstream().authority()) {
        headers.insert(UPSTREAM, host);
    }
    parts.headers = headers;
    Response::from_parts(parts, body)
}

/// The headers of a fallback's response that the client gets.
const ANSWER_HEADERS: [HeaderName; 8] = [
    // They describe the body. Others, such as rate limits, may describe the operator's account.
    CONTENT_TYPE,
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    TRANSFER_ENCODING,
    CACHE_CONTROL,
    DATE,
    // With the id a person can ask the provider about a response.
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("request-id"),
];
/// The response header that names the fallback which has begun the answer.
const UPSTREAM: HeaderName = HeaderName::from_static("x-restitch-upstream");
