//! Admits or refuses a request by its syntax, its origin, its token, its path and its method.
//!
//! A refused request reaches no upstream, and its body is not read.

use std::iter::once;
use std::sync::Arc;

use http::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use http::uri::Authority;
use http::{Extensions, Method, Request, StatusCode, Version};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::refusal::Refusal;
use super::secret::Secret;
use crate::address::{ListenAddress, SocketMode};
use crate::config::AccessConfig;
use restitch_http::{Upstream, is_host_and_port};

/// The rules for access to the proxy, with the tokens of its clients.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) rules: AccessConfig,
    /// Every request must carry one of them. The proxy removes it before it calls the upstream.
    /// Empty: none is needed.
    pub(super) tokens: Vec<Token>,
}

/// A token of clients. Two tokens may have one name: the old and the new one of a rotation.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) name: Arc<str>,
    pub(super) secret: Secret,
}

/// The token of an admitted request, which is among the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct ClientToken {
    /// Its name, which is not secret.
    pub(super) name: Arc<str>,
    /// The header that had it.
    pub(super) header: HeaderName,
}

impl ClientToken {
    /// Returns the token of a request, if the proxy needs one.
    pub(super) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }
}

impl Access {
    /// Checks the head of a request, and removes the token from it. Adds a [`ClientToken`] to its
    /// extensions if the proxy needs a token.
    pub(super) fn admit<B>(
        &self,
        upstream: &Upstream,
        request: &mut Request<B>,
    ) -> Result<(), Refusal> {
        // First: the checks after it read a host and a path that the upstream would read alike.
        let host = check_form(request)?;
        // A path that can't be sent is refused here, before the body is read.
        upstream.uri_for(
            request
                .uri()
                .path_and_query()
                .map_or("/", |path| path.as_str()),
        )?;
        self.check_hosts(host.as_ref().into_iter().chain(request.uri().authority()))?;
        self.check_origin(request.headers())?;
        // Before the method and the path: only a client with the token learns which are allowed.
        if let Some(token) = self.take_token(request.headers_mut())? {
            request.extensions_mut().insert(token);
        }
        Self::check_method(request.method())?;
        self.check_path(request.uri().path())
    }

    /// Logs a warning if the address is open to other machines or users and no token protects it.
    /// `mode`: the mode of a Unix socket.
    pub(super) fn warn_if_open(&self, address: &ListenAddress, mode: SocketMode) {
        let is_open = match address {
            ListenAddress::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            ListenAddress::Localhost(_) => false,
            ListenAddress::Any(_) => true,
            ListenAddress::Unix(_) => mode.bits() & WRITE_OF_OTHERS != 0,
        };
        if !self.needs_token() && is_open {
            tracing::warn!(%address, "everybody who reaches this address may use the proxy: set a token, or listen on 127.0.0.1");
        }
    }

    /// Returns the names of two equal tokens with different names, if there are any: a request can't
    /// tell which one it has.
    pub(super) fn twins(&self) -> Option<[Arc<str>; 2]> {
        let is_twin = |one: &Token, other: &Token| {
            one.secret.value() == other.secret.value() && one.name != other.name
        };
        self.tokens.iter().enumerate().find_map(|(number, one)| {
            let other = self.tokens[number + 1..]
                .iter()
                .find(|other| is_twin(one, other))?;
            Some([Arc::clone(&one.name), Arc::clone(&other.name)])
        })
    }

    /// Logs a warning if clients may use an operator's key for every path of its upstream.
    pub(super) fn warn_of_key(&self) {
        if self.rules.allow_paths.is_empty() {
            tracing::warn!(
                "clients may use the operator's key for every path of the upstream: set `allow_paths`"
            );
        }
    }

    /// Returns whether a request needs a token.
    pub(super) fn needs_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Refuses DNS rebinding: a page whose host name resolves to this address sends that name as
    /// the host.
    fn check_hosts<'a>(
        &self,
        mut named: impl Iterator<Item = &'a Authority>,
    ) -> Result<(), Refusal> {
        let listed = &self.rules.allow_hosts;
        match named.next() {
            _ if listed.is_empty() => Ok(()),
            Some(first)
                if is_listed(first, listed) && named.all(|host| is_listed(host, listed)) =>
            {
                Ok(())
            }
            _ => Err(HOST_REFUSED),
        }
    }

    /// Refuses requests of pages that the operator has not listed: any page could use a proxy on
    /// the machine that runs the browser. Browsers send `Origin` with every request that changes
    /// something, and `Sec-Fetch-Site` with every request to this machine.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self
            .rules
            .allow_origins
            .iter()
            .any(|allowed| allowed == "*")
        {
            return Ok(());
        }
        let allows = |origin: &HeaderValue| {
            self.rules
                .allow_origins
                .iter()
                .any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
        };
        if headers.contains_key(ORIGIN) {
            return if headers.get_all(ORIGIN).iter().all(allows) {
                Ok(())
            } else {
                Err(ORIGIN_REFUSED)
            };
        }
        // `none`: a person typed the address. `same-origin`: the proxy itself delivered the page.
        let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
        if headers.get_all(FETCH_SITE).iter().all(is_own) {
            Ok(())
        } else {
            Err(SITE_REFUSED)
        }
    }

    /// Removes every header that holds a token, whatever its name, and returns the token of the
    /// first header that may hold one. A header that holds an API key stays, since the upstream
    /// needs it.
    fn take_token(&self, headers: &mut HeaderMap) -> Result<Option<ClientToken>, Refusal> {
        if !self.needs_token() {
            return Ok(None);
        }
        let found = once(TOKEN).chain(API_KEYS).find_map(|header| {
            let mut values = headers.get_all(&header).iter();
            let token = values.find_map(|value| self.token_in(value))?;
            Some(ClientToken {
                name: Arc::clone(&token.name),
                header,
            })
        });
        let found = found.ok_or(NO_TOKEN)?;
        let holding: Vec<_> = headers
            .iter()
            .filter(|(_, value)| self.token_in(value).is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in holding {
            headers.remove(name);
        }
        Ok(Some(found))
    }

    /// Returns the token that a header holds. Compares with all tokens, each in constant time: the
    /// time of a comparison that ends early depends on the right part of a guess.
    fn token_in(&self, value: &HeaderValue) -> Option<&Token> {
        let value = credential(value);
        let mut found = NOT_FOUND;
        for (number, token) in (0..NOT_FOUND).zip(&self.tokens) {
            found.conditional_assign(&number, token.secret.value().as_bytes().ct_eq(value));
        }
        self.tokens.get(usize::from(found))
    }

    fn check_method(method: &Method) -> Result<(), Refusal> {
        // The answer to `TRACE` quotes the request with all headers that proxies have added, which
        // may hold secrets.
        match method.as_str().eq_ignore_ascii_case("TRACE") {
            true => Err(METHOD_REFUSED),
            false => Ok(()),
        }
    }

    fn check_path(&self, path: &str) -> Result<(), Refusal> {
        let allows = |allowed: &String| match allowed.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == allowed,
        };
        if self.rules.allow_paths.is_empty() || self.rules.allow_paths.iter().any(allows) {
            Ok(())
        } else {
            Err(PATH_REFUSED)
        }
    }
}

/// Refuses requests that another server may read differently, and returns the host that the request
/// names.
fn check_form<B>(request: &Request<B>) -> Result<Option<Authority>, Refusal> {
    if request.method() == Method::CONNECT
        || request.uri().path_and_query().is_none()
        || request.uri().path() == "*"
    {
        return Err(NO_PATH);
    }
    // hyper decodes the chunks and the proxy drops `Transfer-Encoding`, so the upstream would not
    // learn of any other coding.
    let is_plain = |coding: &HeaderValue| {
        coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    };
    let codings = request.headers().get_all(TRANSFER_ENCODING);
    if codings.iter().count() > 1 || !codings.iter().all(is_plain) {
        return Err(CODING_REFUSED);
    }
    match named_host(request.headers())? {
        // HTTP/1.0 needs no `Host`.
        None if request.version() == Version::HTTP_11 => Err(BAD_HOST),
        host => Ok(host),
    }
}

/// Returns the one host that the headers of a request name.
pub(super) fn named_host(headers: &HeaderMap) -> Result<Option<Authority>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err(BAD_HOST),
        (None, _) => Ok(None),
        (Some(host), None) => {
            let host = host.to_str().ok();
            let host = host.and_then(|host| host.parse::<Authority>().ok());
            host.filter(is_host_and_port).map(Some).ok_or(BAD_HOST)
        }
    }
}

/// Returns whether a list has a host, with or without its port.
pub(super) fn is_listed(host: &Authority, list: &[String]) -> bool {
    let names = [host.as_str(), host.host()];
    list.iter()
        .any(|listed| names.iter().any(|name| name.eq_ignore_ascii_case(listed)))
}

/// Returns the secret in a header: the whole value, or the part after `Bearer`.
fn credential(value: &HeaderValue) -> &[u8] {
    let value = value.as_bytes().trim_ascii();
    match value.split_at_checked(BEARER.len()) {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case(BEARER) => secret.trim_ascii(),
        _ => value,
    }
}

/// The proxy's own header for a token.
const TOKEN: HeaderName = HeaderName::from_static("x-restitch-token");
/// The headers in which clients send the key of an API. They may hold a token, too.
pub(super) const API_KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];
/// The query parameter in which clients of Gemini send the key.
pub(super) const QUERY_KEY: &str = "key";
/// The number of no token: a configuration has fewer (`MAX_TOKENS`).
const NOT_FOUND: u16 = u16::MAX;
/// The permission bit that lets users connect to a Unix socket who neither own it nor belong to its
/// group.
const WRITE_OF_OTHERS: u32 = 0o002;
const BEARER: &[u8] = b"bearer ";
/// The header in which a browser reports the relation of the requesting site to this one.
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const NO_PATH: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "no_path",
    "a request needs a path: send one that starts with `/`",
);
const CODING_REFUSED: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "transfer_coding",
    "this proxy reads no transfer coding but `chunked`: compress the body with `content-encoding`, or not at all",
);
const BAD_HOST: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "bad_host",
    "a request needs one `Host` header: send `host` or `host:port`, once",
);
const HOST_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "host_refused",
    "the request's host is not among `allow_hosts` of this proxy: use one that is, or ask the operator to add it",
);
const ORIGIN_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "origin_refused",
    "the page that sends this request is not among `allow_origins` of this proxy: ask the operator to add its origin",
);
const SITE_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "site_refused",
    "a page of another site sends this request without its origin: send it in CORS mode, from an origin among \
     `allow_origins` of this proxy",
);
const NO_TOKEN: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "no_token",
    "this proxy needs a token: send it in the header `x-restitch-token`, or as the API key if the upstream needs none",
);
const METHOD_REFUSED: Refusal = Refusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method_refused",
    "this proxy passes no requests with this method on",
)
.allowing("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
const PATH_REFUSED: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "path_refused",
    "the path is not among `allow_paths` of this proxy: ask the operator to add it",
);
