//! The one server that a client talks to, and how a request's path becomes an address on it.
//!
//! This module does not know about connections.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// The address that requests go to: `http` or `https`, a host, and optionally a port and a path before every request's
/// own path.
///
/// It comes from the operator alone. Whatever a request's path holds, the request stays on this host and below this
/// path.
///
/// ```
/// use restitch::internal::client::Upstream;
///
/// let upstream = Upstream::parse("https://llm.example/tenant/")?;
/// assert_eq!(upstream.uri_for("/v1/models?limit=2"), "https://llm.example/tenant/v1/models?limit=2");
/// assert_eq!(upstream.uri_for("//evil.example/x"), "https://llm.example/tenant/evil.example/x");
/// assert_eq!(upstream.uri_for("http://evil.example/x"), "https://llm.example/tenant/x");
/// assert_eq!(upstream.uri_for("/../../admin"), "https://llm.example/tenant/admin");
/// # Ok::<(), restitch::internal::client::UpstreamError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// Empty, or a path that starts with `/` and does not end with one.
    prefix: String,
}

impl Upstream {
    /// Parses `http[s]://host[:port][/prefix]`.
    ///
    /// # Errors
    /// There is another scheme, a user or password, a query, a fragment, a dot segment in the prefix, or no host.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        // `Uri` drops fragments without an error.
        if text.contains('#') {
            return Err(UpstreamError::Fragment);
        }
        let (scheme, _) = text.split_once("://").ok_or(UpstreamError::Scheme)?;
        if !(scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")) {
            return Err(UpstreamError::Scheme);
        }
        let parts = text.parse::<Uri>().map_err(UpstreamError::Invalid)?.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(UpstreamError::Scheme);
        };
        if authority.as_str().contains('@') {
            return Err(UpstreamError::UserInfo);
        }
        if authority.host().is_empty() {
            return Err(UpstreamError::Host);
        }
        if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() {
            return Err(UpstreamError::Port);
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(UpstreamError::Query);
        }
        if path.path().split('/').any(|segment| dots(segment).is_some()) {
            return Err(UpstreamError::DotSegment);
        }
        Ok(Self { scheme, authority, prefix: path.path().trim_end_matches('/').to_owned() })
    }

    /// Returns the address of a request's path and query: the prefix, then the path.
    ///
    /// Of a request target in absolute form only the path counts. Several leading slashes become one. Dot segments
    /// (`.`, `..`, also written with `%2e`) are resolved before the prefix is added, so that none leads out of it. All
    /// other bytes stay as they are; bytes that are illegal in an address are percent-encoded. A path that is too long
    /// for an address (64 KiB) gives the prefix alone.
    ///
    /// If the prefix ends in `/v1` and the path starts with `/v1`, the address has one `/v1`: providers document their
    /// address with it, and clients send it.
    ///
    /// ```
    /// let upstream = restitch::internal::client::Upstream::parse("https://llm.example/api/v1")?;
    /// assert_eq!(upstream.uri_for("/v1/models"), "https://llm.example/api/v1/models");
    /// assert_eq!(upstream.uri_for("/models"), "https://llm.example/api/v1/models");
    /// # Ok::<(), restitch::internal::client::UpstreamError>(())
    /// ```
    pub fn uri_for(&self, path_and_query: &str) -> Uri {
        let (path, query) = match path_and_query.split_once('?') {
            None => (path_and_query, None),
            Some((path, query)) => (path, Some(query)),
        };
        let below = resolved(origin_path(path));
        let is_doubled = self.prefix.ends_with(VERSION) && (below == VERSION || below.starts_with("/v1/"));
        let below = if is_doubled { &below[VERSION.len()..] } else { &below };
        let mut text = format!("{}{below}", self.prefix);
        if let Some(query) = query {
            text.push('?');
            text.push_str(query);
        }
        let path = PathAndQuery::try_from(text.as_str())
            .or_else(|_| PathAndQuery::try_from(encoded(&text)))
            .or_else(|_| PathAndQuery::try_from(format!("{}/", self.prefix)))
            .unwrap_or_else(|_| PathAndQuery::from_static("/"));
        let mut uri = Uri::default().into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(path);
        let uri = Uri::from_parts(uri);
        debug_assert!(uri.is_ok(), "scheme, authority and path are there, and have been read: {uri:?}");
        uri.unwrap_or_default()
    }

    /// Returns the host, without a port.
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns the path that precedes every request's own path. Empty if there is none.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether `uri` has this upstream's scheme, host and port.
    pub fn owns(&self, uri: &Uri) -> bool {
        uri.scheme() == Some(&self.scheme) && uri.authority() == Some(&self.authority)
    }

    /// Returns whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }
}

/// The segment that both the address of a provider and the paths of its clients have.
const VERSION: &str = "/v1";

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        Self::parse(text)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

/// Why a text is not an upstream's address.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It starts with neither `http://` nor `https://`.
    Scheme,
    /// It has no host.
    Host,
    /// Its port is not a number up to 65,535.
    Port,
    /// It has a user or a password. Keys belong in headers.
    UserInfo,
    /// It has a query, which can't precede a request's path.
    Query,
    /// It has a fragment, which is never sent.
    Fragment,
    /// Its path has a `.` or `..` segment.
    DotSegment,
    /// It is not an address.
    Invalid(http::uri::InvalidUri),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("an upstream starts with `http://` or `https://`"),
            Self::Host => f.write_str("the upstream names no host"),
            Self::Port => f.write_str("the upstream's port is no number up to 65535"),
            Self::UserInfo => f.write_str("the upstream has a user or password: send the key in a header"),
            Self::Query => f.write_str("the upstream has a query"),
            Self::Fragment => f.write_str("the upstream has a fragment"),
            Self::DotSegment => f.write_str("the upstream's path has a `.` or `..` segment"),
            Self::Invalid(error) => write!(f, "the upstream is no address: {error}"),
        }
    }
}

impl std::error::Error for UpstreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            _ => None,
        }
    }
}

/// Returns the path of a request target from its first segment on, without scheme, host and leading slashes.
fn origin_path(target: &str) -> &str {
    let path = match target.split_once("://") {
        // A `://` after the first slash is part of the path.
        Some((scheme, rest)) if !scheme.contains('/') => rest.split_once('/').map_or("", |(_, path)| path),
        _ => target,
    };
    path.trim_start_matches('/')
}

/// Returns `/` and `path` without dot segments (RFC 3986, section 5.2.4).
fn resolved(path: &str) -> String {
    let mut text = String::new();
    let mut ends_in_slash = true;
    for segment in path.split('/') {
        let dots = dots(segment);
        match dots {
            None => {
                text.push('/');
                text.push_str(segment);
            }
            Some(2) => text.truncate(text.rfind('/').unwrap_or(0)),
            Some(_) => {}
        }
        ends_in_slash = dots.is_some();
    }
    if ends_in_slash {
        text.push('/');
    }
    text
}

/// Returns how many dots a segment consists of, if it is one or two dots, plain or percent-encoded.
fn dots(segment: &str) -> Option<usize> {
    let mut rest = segment;
    let mut count = 0;
    while !rest.is_empty() {
        let dot = if rest.starts_with('.') { 1 } else { 3 };
        if dot == 3 && !rest.get(..3).is_some_and(|dot| dot.eq_ignore_ascii_case("%2e")) {
            return None;
        }
        rest = &rest[dot..];
        count += 1;
    }
    (1..=2).contains(&count).then_some(count)
}

/// Returns `text` with every byte percent-encoded that RFC 3986 lists neither as unreserved nor as reserved.
fn encoded(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams() {
        for (text, shown) in [
            ("https://llm.example", "https://llm.example"),
            ("https://llm.example/", "https://llm.example"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("HTTPS://llm.example:443/a/b//", "https://llm.example:443/a/b"),
        ] {
            assert_eq!(text.parse::<Upstream>().unwrap().to_string(), shown);
        }
        for (text, error) in [
            ("", "an upstream starts with `http://` or `https://`"),
            ("llm.example:443", "an upstream starts with `http://` or `https://`"),
            ("/v1", "an upstream starts with `http://` or `https://`"),
            ("ftp://llm.example", "an upstream starts with `http://` or `https://`"),
            ("https://user:key@llm.example", "the upstream has a user or password: send the key in a header"),
            ("https://@llm.example", "the upstream has a user or password: send the key in a header"),
            ("https://llm.example/?a=b", "the upstream has a query"),
            ("https://llm.example?", "the upstream has a query"),
            ("https://llm.example/#a", "the upstream has a fragment"),
            ("https://llm.example/a/../b", "the upstream's path has a `.` or `..` segment"),
            ("https://llm.example/%2E%2e", "the upstream's path has a `.` or `..` segment"),
            ("https://llm.example:99999", "the upstream's port is no number up to 65535"),
            ("https://llm.example:", "the upstream's port is no number up to 65535"),
        ] {
            assert_eq!(Upstream::parse(text).unwrap_err().to_string(), error, "{text:?}");
        }
        for text in ["https://", "https:///path", "https://:80", "https://a b", "https://[::1", "http://a\\b"] {
            assert!(Upstream::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_path_stays_below_the_prefix() {
        let bare = Upstream::parse("http://up.example:81").unwrap();
        let deep = Upstream::parse("http://up.example:81/t/v1").unwrap();
        let cases = [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/models?a=b?c&d=../x", "/v1/models?a=b?c&d=../x"),
            ("/a//b/", "/a//b/"),
            ("/a%2Fb/%41..", "/a%2Fb/%41.."),
            ("/...", "/..."),
            ("", "/"),
            ("/", "/"),
            ("?a=b", "/?a=b"),
            ("*", "/*"),
            ("v1", "/v1"),
            ("//evil.example/x", "/evil.example/x"),
            ("///evil.example", "/evil.example"),
            ("http://evil.example/x?y", "/x?y"),
            ("https://evil.example", "/"),
            ("https://evil.example?y", "/?y"),
            ("http://evil.example//x", "/x"),
            ("/x?http://evil.example/", "/x?http://evil.example/"),
            ("/http://evil.example/", "/http://evil.example/"),
            ("/../../etc", "/etc"),
            ("/a/../../etc", "/etc"),
            ("/a/./b/../c", "/a/c"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/%2e%2E/.%2e/etc", "/etc"),
            ("/..//evil.example", "//evil.example"),
            ("@evil.example", "/@evil.example"),
            (":80@evil.example/", "/:80@evil.example/"),
            ("/a b\u{e9}\r\nHost: evil", "/a%20b%C3%A9%0D%0AHost:%20evil"),
        ];
        for (path, expected) in cases {
            for (upstream, prefix) in [(&bare, ""), (&deep, "/t/v1")] {
                // A `/v1` that both the prefix and the path have is there once.
                let expected =
                    if prefix.is_empty() { expected } else { expected.strip_prefix("/v1").unwrap_or(expected) };
                let uri = upstream.uri_for(path);
                assert_eq!(uri.to_string(), format!("http://up.example:81{prefix}{expected}"), "{path:?}");
                assert!(upstream.owns(&uri));
            }
        }
        let long = "/a".repeat(40_000);
        assert_eq!(deep.uri_for(&long), "http://up.example:81/t/v1/");
        assert!(!bare.owns(&Uri::from_static("http://up.example/")));
        assert!(!bare.owns(&Uri::from_static("https://up.example:81/")));
        assert!(!bare.owns(&Uri::from_static("/v1")));
    }
}
