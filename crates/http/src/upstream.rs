//! The one server that a client talks to, and how a request's path becomes an address on it.
//!
//! This module does not know about connections.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use percent_encoding::percent_decode;

/// The address that requests go to: `http` or `https`, a host, and optionally a port and a path
/// before every request's own path.
///
/// Only the operator sets it. With any path, a request stays on this host and below this path.
///
/// ```
/// use restitch_http::Upstream;
///
/// let upstream = Upstream::parse("https://llm.example/tenant/")?;
/// assert_eq!(upstream.uri_for("/v1/models?limit=2")?, "https://llm.example/tenant/v1/models?limit=2");
/// assert_eq!(upstream.uri_for("http://evil.example/x")?, "https://llm.example/tenant/x");
/// assert!(upstream.uri_for("/..%2fadmin").is_err());
/// assert!(upstream.uri_for("//evil.example/x").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// There is another scheme, a user or password, a query, a fragment, a dot segment in the
    /// prefix, or no host.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        let fail = |reason| Err(UpstreamError(Cow::Borrowed(reason)));
        // `Uri` drops fragments without an error.
        if text.contains('#') {
            return fail("the upstream has a fragment");
        }
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        if !(scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")) {
            return fail("an upstream starts with `http://` or `https://`");
        }
        let parsed = text.parse::<Uri>().map(Uri::into_parts);
        let parts = parsed.map_err(|error| {
            UpstreamError(format!("the upstream is no address: {error}").into())
        })?;
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return fail("an upstream starts with `http://` or `https://`");
        };
        if authority.as_str().contains('@') {
            return fail("the upstream has a user or password: send the key in a header");
        }
        if authority.host().is_empty() {
            return fail("the upstream names no host");
        }
        if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() {
            return fail("the upstream's port is no number up to 65535");
        }
        let path = parts
            .path_and_query
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return fail("the upstream has a query");
        }
        if has_dot_segment(path.path()) {
            return fail("the upstream's path has a `.` or `..` segment");
        }
        Ok(Self {
            scheme,
            authority,
            prefix: path.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the address of a request's path and query: the prefix, then the path.
    ///
    /// If a request target has the absolute form, only its path counts. The bytes of the path stay
    /// unchanged, except that bytes which are illegal in an address are percent-encoded.
    ///
    /// If the prefix ends in `/v1` and the path starts with `/v1`, the address has one `/v1`:
    /// providers document their address with it, and clients send it.
    ///
    /// ```
    /// let upstream = restitch_http::Upstream::parse("https://llm.example/api/v1")?;
    /// assert_eq!(upstream.uri_for("/v1/models")?, "https://llm.example/api/v1/models");
    /// assert_eq!(upstream.uri_for("/models")?, "https://llm.example/api/v1/models");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PathError::DotSegment`] if the path could lead out of the prefix, [`PathError::TwoSlashes`] if a server could read a
    /// host in it, [`PathError::TooLong`] if the address would be longer than 64 KiB.
    pub fn uri_for(&self, path_and_query: &str) -> Result<Uri, PathError> {
        let (path, query) = match path_and_query.split_once('?') {
            None => (path_and_query, None),
            Some((path, query)) => (path, Some(query)),
        };
        let path = origin_path(path);
        if has_dot_segment(path) {
            return Err(PathError::DotSegment);
        }
        if path.starts_with('/') {
            return Err(PathError::TwoSlashes);
        }
        let is_versioned = path.split('/').next() == VERSION.strip_prefix('/');
        let prefix = match self.prefix.strip_suffix(VERSION) {
            Some(before) if is_versioned => before,
            _ => &self.prefix,
        };
        let (mark, query) = query.map_or(("", ""), |query| ("?", query));
        let text = || [prefix, "/", path, mark, query].concat();
        // Takes the text without a copy. Almost all are legal.
        let path =
            PathAndQuery::try_from(text()).or_else(|_| PathAndQuery::try_from(encoded(&text())));
        // Every byte is legal now, so only the length can be wrong.
        let path = path.map_err(|_| PathError::TooLong)?;
        let mut uri = Uri::default().into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(path);
        let uri = Uri::from_parts(uri);
        debug_assert!(
            uri.is_ok(),
            "scheme, authority and path are there, and have been read: {uri:?}"
        );
        Ok(uri.unwrap_or_default())
    }

    /// Returns the host, with the port if the address names one.
    pub fn authority(&self) -> &str {
        self.authority.as_str()
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
    pub(crate) fn owns(&self, uri: &Uri) -> bool {
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
pub struct UpstreamError(Cow<'static, str>);

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UpstreamError {}

/// Why a request's path has no address on the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It has a `.` or `..` segment, plain or after up to two percent-decodings.
    DotSegment,
    /// It begins with two slashes. Some servers read a host after them, and others take them for
    /// one.
    TwoSlashes,
    /// The address would be longer than 64 KiB.
    TooLong,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DotSegment => "the path has a `.` or `..` segment, plain or encoded: send the path without it",
            Self::TwoSlashes => {
                "the path begins with `//`: send it with one `/`, and the base URL without one at its end"
            }
            Self::TooLong => "the path and the query are longer than 64 KiB: send what is long in the body",
        })
    }
}

impl std::error::Error for PathError {}

/// Returns whether a host is named, and the port, if there is one, is a number up to 65,535.
/// [`Authority`] checks neither, nor the text in brackets.
pub fn is_host_and_port(authority: &Authority) -> bool {
    let host = authority.host();
    let is_host = match host.strip_prefix('[') {
        Some(address) => address
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty(),
    };
    let is_port = |port: &str| {
        let digits = port.strip_prefix(':').unwrap_or("-");
        port.is_empty()
            || digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits.is_empty() || digits.parse::<u16>().is_ok())
    };
    is_host && authority.as_str().strip_prefix(host).is_some_and(is_port)
}

/// Returns the path of a request target from its first segment on, without scheme, host and the
/// first slash.
fn origin_path(target: &str) -> &str {
    match target.split_once("://") {
        // A `://` after the first slash is part of the path.
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.split_once('/').map_or("", |(_, path)| path)
        }
        _ => target.strip_prefix('/').unwrap_or(target),
    }
}

/// Returns whether a path has a `.` or `..` segment for a server that decodes it up to
/// [`DECODINGS`] times. Such a server would leave the prefix. Clients resolve dot segments before
/// they send a path, so this refuses none of their requests.
fn has_dot_segment(path: &str) -> bool {
    let mut path = Cow::Borrowed(path.as_bytes());
    for _ in 0..DECODINGS {
        if has_plain_dot_segment(&path) {
            return true;
        }
        if !path.contains(&b'%') {
            return false;
        }
        path = Cow::Owned(percent_decode(&path).collect());
    }
    has_plain_dot_segment(&path)
}

/// How often a path may be decoded before a server uses it: once by a gateway, and once by the
/// server.
const DECODINGS: usize = 2;

fn has_plain_dot_segment(path: &[u8]) -> bool {
    path.split(|byte| SEGMENT_ENDS.contains(byte))
        .any(|segment| matches!(segment, b"." | b".."))
}

/// Bytes that end a segment for some server: Windows has `\`, Java servers drop the text after `;`,
/// and a server that decodes too early may find a query, a fragment or the end of a C string.
const SEGMENT_ENDS: &[u8] = b"/\\;?#\0";

/// Returns `text` with every byte percent-encoded that RFC 3986 lists neither as unreserved nor as
/// reserved.
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
            (
                "HTTPS://llm.example:443/a/b//",
                "https://llm.example:443/a/b",
            ),
        ] {
            assert_eq!(text.parse::<Upstream>().unwrap().to_string(), shown);
        }
        for (text, error) in [
            ("", "an upstream starts with `http://` or `https://`"),
            (
                "ftp://llm.example",
                "an upstream starts with `http://` or `https://`",
            ),
            (
                "https://user:key@llm.example",
                "the upstream has a user or password: send the key in a header",
            ),
            ("https://llm.example/?a=b", "the upstream has a query"),
            ("https://llm.example/#a", "the upstream has a fragment"),
            (
                "https://llm.example/a/../b",
                "the upstream's path has a `.` or `..` segment",
            ),
            (
                "https://llm.example:99999",
                "the upstream's port is no number up to 65535",
            ),
        ] {
            assert_eq!(
                Upstream::parse(text).unwrap_err().to_string(),
                error,
                "{text:?}"
            );
        }
        for text in [
            "https://",
            "https:///path",
            "https://:80",
            "https://a b",
            "https://[::1",
            "http://a\\b",
        ] {
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
            ("/.a/..b/c../%2e%2ed", "/.a/..b/c../%2e%2ed"),
            ("/a%2fb%5cc%00/%zz%2/%", "/a%2fb%5cc%00/%zz%2/%"),
            ("/x?..%2fy", "/x?..%2fy"),
            ("/%25252e%25252e/x", "/%25252e%25252e/x"),
            ("", "/"),
            ("/", "/"),
            ("?a=b", "/?a=b"),
            ("*", "/*"),
            ("v1", "/v1"),
            ("http://evil.example/x?y", "/x?y"),
            ("https://evil.example", "/"),
            ("https://evil.example?y", "/?y"),
            ("/x?http://evil.example/", "/x?http://evil.example/"),
            ("/http://evil.example/", "/http://evil.example/"),
            ("@evil.example", "/@evil.example"),
            (":80@evil.example/", "/:80@evil.example/"),
            ("/a b\u{e9}\r\nHost: evil", "/a%20b%C3%A9%0D%0AHost:%20evil"),
        ];
        for (path, expected) in cases {
            for (upstream, prefix) in [(&bare, ""), (&deep, "/t/v1")] {
                // A `/v1` that both the prefix and the path have is there once.
                let expected = if prefix.is_empty() {
                    expected
                } else {
                    expected.strip_prefix("/v1").unwrap_or(expected)
                };
                let uri = upstream.uri_for(path).unwrap();
                assert_eq!(
                    uri.to_string(),
                    format!("http://up.example:81{prefix}{expected}"),
                    "{path:?}"
                );
                assert!(upstream.owns(&uri));
            }
        }
        assert_eq!(deep.uri_for(&"/a".repeat(40_000)), Err(PathError::TooLong));
        assert_eq!(
            deep.uri_for(&format!("/a?{}", "b".repeat(70_000))),
            Err(PathError::TooLong)
        );
        assert!(!bare.owns(&Uri::from_static("http://up.example/")));
        assert!(!bare.owns(&Uri::from_static("https://up.example:81/")));
        assert!(!bare.owns(&Uri::from_static("/v1")));
    }

    #[test]
    fn hosts_and_ports() {
        let rows = [
            ("h", true),
            ("h:", true),
            ("h:0", true),
            ("h:65535", true),
            ("127.0.0.1:80", true),
            ("a_b.c-d", true),
            ("[::1]", true),
            ("[::1]:80", true),
            ("h:65536", false),
            ("h:99999", false),
            ("h:b", false),
            ("h:+1", false),
            (":80", false),
            ("u@h", false),
            ("u:p@h:1", false),
            ("[zz]", false),
            ("[127.0.0.1]", false),
        ];
        for (text, expected) in rows {
            assert_eq!(
                text.parse()
                    .is_ok_and(|authority| is_host_and_port(&authority)),
                expected,
                "{text}"
            );
        }
    }
}
