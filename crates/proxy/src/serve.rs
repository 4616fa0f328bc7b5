//! Routes requests.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use parking_lot::Mutex;
use tokio::sync::SemaphorePermit;

use super::Proxy;
use super::access::ClientToken;
use super::allowed::directives as directives_of;
use super::body::{Collected, IdleTimeoutBody, ReadError, is_silence};
use super::caller::Caller;
use super::client_request::ClientRequest;
use super::conversation::{self, Conversation};
use super::early_call::EarlyCall;
use super::encoding;
use super::error_redactor::{ErrorRedactor, redact_head, without_key};
use super::exchange::Exchange;
use super::first_call;
use super::record::Event;
use super::refusal::{Refusal, RetryAdvice, unreachable};
use super::resume::{NotKept, ReadRequest, Repeat};
use super::route::Route;
use super::secret::Secret;
use super::upstream::{self, Head, RequestDirectives};
use super::whole::passed_unread;
use restitch::provider::Dialect;
use restitch_http::{Body, ConnectionError, Error, Received};

/// The liveness path: it answers as long as the proxy runs.
pub(super) const HEALTH: &str = "/healthz";

/// Answers a request.
pub(super) async fn respond(
    proxy: Arc<Proxy>,
    mut request: Request<Incoming>,
    exchange: &Arc<Exchange>,
) -> Response<Body> {
    // Before all checks: a probe has no token, and names the host by its address.
    if request.uri().path() == HEALTH {
        return Response::new(Body::full("ok\n"));
    }
    let dialect = Dialect::of_path(one_slash(request.uri().path()));
    let admitted = proxy.access.admit(proxy.upstream(), &mut request);
    let is_passed_on = || {
        if asks_for_websocket(request.headers()) {
            Err(NO_WEBSOCKET)
        } else {
            Ok(())
        }
    };
    if let Err(refusal) = admitted.and_then(|()| is_passed_on()) {
        return refusal.answer(dialect);
    }
    exchange.apply(Event::Token(ClientToken::of(request.extensions())));
    if let Some(asked) = proxy
        .shared
        .kept
        .as_ref()
        .and_then(|answers| ReadRequest::of(&proxy, answers, &request))
        && let Some(response) = Box::pin(asked.answer()).await
    {
        return response;
    }
    let mut response = dispatch(proxy, request, dialect, exchange).await;
    // The version and the framing of the upstream's connection don't apply to the client's.
    *response.version_mut() = Version::HTTP_11;
    if response.headers().contains_key(TRANSFER_ENCODING) {
        // Chunked framing overrides a length in the same response (RFC 9112, section 6.3). Without
        // the chunks, the length would frame another body here.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    upstream::remove_hop_by_hop(response.headers_mut());
    response
}

/// Returns a path with a single leading slash. The proxy refuses a path with several, and finds the
/// API for the error format by this one.
fn one_slash(path: &str) -> &str {
    let slashes = path.len() - path.trim_start_matches('/').len();
    path.get(slashes.saturating_sub(1)..).unwrap_or(path)
}

/// Returns whether a request asks for a WebSocket. Other upgrades are offers that a server may
/// ignore (RFC 9110, section 7.8).
fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers
            .get_all(name)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// The refusal of WebSockets, with advice.
const NO_WEBSOCKET: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "websocket",
    "this proxy passes no WebSockets on: connect to the upstream itself for them",
);

async fn dispatch(
    proxy: Arc<Proxy>,
    request: Request<Incoming>,
    of_path: Option<Dialect>,
    exchange: &Arc<Exchange>,
) -> Response<Body> {
    let dialect = of_path.filter(|_| request.method() == Method::POST);
    let (parts, body) = request.into_parts();
    let directives = RequestDirectives::read(&parts.headers);
    // Routes may have conditions on the proxy's own headers, so these are removed only afterwards.
    let candidates = proxy.routes.candidates(&parts);
    let repeat = proxy
        .shared
        .kept
        .as_ref()
        .and_then(|_| Repeat::of(&parts.headers));
    let own = proxy
        .shared
        .kept
        .as_ref()
        .map(|_| directives_of(&parts.headers))
        .unwrap_or_default();
    let mut head = Head::new(parts);
    let is_empty = body.is_end_stream();
    let body = IdleTimeoutBody::new(body, proxy.limits.server.body());
    let directives = match directives {
        Ok(directives) => directives,
        Err(mistake) if dialect.is_some() => return Refusal::of_mistake(mistake).answer(dialect),
        // The path belongs to no API, so the proxy reads neither the body nor the answer.
        Err(_) => RequestDirectives::default(),
    };
    let asks_keep = directives.asks_keep() && dialect.is_some();
    let unread = asks_keep.then(|| NotKept::of(&proxy, false));
    let Some(dialect) = dialect.filter(|_| !directives.off || candidates.need_body()) else {
        let route = candidates.choose(&proxy.routes, None);
        // An empty body can be sent again if the upstream has just closed its connection.
        let body = if is_empty {
            Body::empty()
        } else {
            Body::wrap(body)
        };
        return NotKept::told(pass(&route, &head, body, of_path, exchange).await, unread);
    };
    let max_body_bytes = proxy.limits.transport.max_body_bytes;
    let mut share = None;
    let collected = Collected::read(body, max_body_bytes, None, |bytes| {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let more = proxy.shared.unfinished.try_acquire_many(bytes);
        let Ok(more) = more else { return false };
        // One permit, however many chunks there are.
        match &mut share {
            Some(share) => SemaphorePermit::merge(share, more),
            None => share = Some(more),
        }
        true
    })
    .await;
    // The limit is on bodies that a slow client holds open, not on complete ones.
    drop(share);
    let body = match collected {
        Ok(Collected::Whole(body)) => body,
        Ok(Collected::Larger(body)) => {
            let route = candidates.choose(&proxy.routes, None);
            let response = pass(&route, &head, body, of_path, exchange).await;
            let response = passed_unread(response, "max_body_bytes", max_body_bytes);
            return NotKept::told(response, unread);
        }
        Err(ReadError::Dropped) => return BODY_BROKE_OFF.answer(Some(dialect)),
        Err(ReadError::TimedOut(_)) => return BODY_STOPPED.answer(Some(dialect)),
        Err(ReadError::NoRoom) => return TOO_MANY_BODIES.answer(Some(dialect)),
    };
    if let Some((repeat, answers)) = repeat.zip(proxy.shared.kept.as_ref())
        && let Some(response) =
            Box::pin(repeat.answer(&proxy, answers, &mut head, &body, dialect)).await
    {
        return response;
    }
    let early = if candidates.need_body() {
        None
    } else {
        let route = candidates.choose(&proxy.routes, None);
        EarlyCall::begin(&proxy, &route, (&head, &body, dialect)).await
    };
    let request = dialect.wire().parse(head.path(), &body);
    let route = candidates.choose(&proxy.routes, request.as_ref());
    let Some(request) =
        // A parsed request that the proxy may not continue passes with the client's own bytes.
        request.filter(|request| request.n <= MAX_CHOICES && !directives.off && route.is_asked())
    else {
        let response = match early {
            // Its answer is not compressed, although the proxy does not read it.
            Some(early) => {
                exchange.apply(Event::Route(&route));
                pass_answer(&route, early.answer().await, of_path, exchange)
            }
            None => pass(&route, &head, Body::full(body), of_path, exchange).await,
        };
        return NotKept::told(response, unread);
    };
    converse(
        proxy,
        (route, head, body, dialect, request),
        (&directives, &own),
        early,
        exchange,
    )
    .await
}

/// Answers a parsed request, and keeps the answer if the request or the route wants that. `early`:
/// the first call, if it has begun already.
async fn converse(
    proxy: Arc<Proxy>,
    asked: (
        Arc<Route>,
        Head,
        Bytes,
        Dialect,
        restitch::internal::chat::Request,
    ),
    (directives, own): (&RequestDirectives, &HeaderMap),
    early: Option<EarlyCall>,
    exchange: &Arc<Exchange>,
) -> Response<Body> {
    let (route, head, body, _, request) = &asked;
    let not_kept = directives
        .asks_keep()
        .then(|| NotKept::of(&proxy, route.continues()));
    let answers = proxy
        .shared
        .kept
        .as_ref()
        .filter(|_| request.stream && route.continues());
    let keep = answers
        .and_then(|answers| answers.wanted(directives.keep, (own, &route.config), head, body));
    let mut conversation = conversation(proxy, asked, directives, exchange);
    conversation.policy.keep = keep;
    conversation.caller.early = Mutex::new(early);
    NotKept::told(first_call::answer(conversation).await, not_kept)
}

/// Returns the conversation of a request, with the directives in its headers.
pub(super) fn conversation(
    proxy: Arc<Proxy>,
    (route, head, body, dialect, request): (
        Arc<Route>,
        Head,
        Bytes,
        Dialect,
        restitch::internal::chat::Request,
    ),
    directives: &RequestDirectives,
    exchange: &Arc<Exchange>,
) -> Box<Conversation> {
    let request = ClientRequest::new(head, body, dialect, request);
    let mut caller = Caller::new(proxy, route, request, Arc::clone(exchange));
    directives.lower(&mut caller.limits.continuation);
    caller.rungs = caller.rungs.and(directives.rungs.unwrap_or_default());
    let mut conversation = Conversation::new(caller);
    let policy = &mut conversation.policy;
    policy.give_up = directives.give_up.unwrap_or(policy.give_up);
    policy.repair = directives.repair.unwrap_or(policy.repair);
    conversation
}

/// Answers a request that did not arrive over a connection.
pub(crate) async fn ask(
    proxy: Arc<Proxy>,
    dialect: Dialect,
    request: Request<Bytes>,
) -> Response<Body> {
    let route = Arc::clone(&proxy.routes.base);
    let exchange = Arc::new(Exchange::begin(&request, &proxy.shared, None));
    let (parts, body) = request.into_parts();
    match dialect.wire().parse(parts.uri.path(), &body) {
        Some(request) => {
            let request = ClientRequest::new(Head::new(parts), body, dialect, request);
            let caller = Caller::new(proxy, route, request, exchange);
            first_call::answer(Conversation::new(caller)).await
        }
        None => Refusal::of_mistake(format!("the body is not a request of `{dialect}`"))
            .answer(Some(dialect)),
    }
}

/// Sends a request, and passes its answer on without reading it.
async fn pass(
    route: &Route,
    head: &Head,
    body: Body,
    dialect: Option<Dialect>,
    exchange: &Exchange,
) -> Response<Body> {
    exchange.apply(Event::Route(route));
    // Compression would hide the operator's key from the redactor.
    let with_key = route
        .own
        .key
        .is_some()
        .then(|| route.upstream_head(head.clone(), dialect));
    let head = with_key.as_ref().unwrap_or(head);
    // No fallback is asked: an unread request may hold a credential anywhere.
    let answer = upstream::send(&route.own.client, head, body, route.head_limit).await;
    pass_answer(route, answer, dialect, exchange)
}

/// Passes an upstream's answer on without reading it.
fn pass_answer(
    route: &Route,
    answer: Result<Response<Received>, Error>,
    dialect: Option<Dialect>,
    exchange: &Exchange,
) -> Response<Body> {
    match answer {
        Ok(mut response) => {
            let key = route.own.key.as_ref().map(Secret::value);
            if let Some(key) = key {
                redact_head(&mut response, key);
            }
            exchange.apply(Event::Unread(response.status(), response.headers()));
            let limits = &route.limits;
            // Nothing is parsed here, so the key is removed wherever it is. A file or a sound has none.
            let key =
                key.filter(|_| !response.status().is_success() || is_text(response.headers()));
            let Some(redactor) = key.and_then(|key| ErrorRedactor::of_refusal(key, limits)) else {
                return conversation::passed(response, &limits.transport);
            };
            match encoding::decoded(response) {
                Ok(response) => {
                    let response = without_key(response, Some(redactor));
                    conversation::passed(response, &limits.transport)
                }
                Err(_) => encoding::UNREADABLE.answer(dialect),
            }
        }
        Err(Error::Failed(ConnectionError::Body(cause))) => match is_silence(&*cause) {
            true => BODY_STOPPED.answer(dialect),
            false => BODY_BROKE_OFF.answer(dialect),
        },
        Err(cause) => unreachable(dialect, &cause, RetryAdvice::Never),
    }
}

/// Returns whether a response has text: an error, or an answer.
fn is_text(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
    media_type.starts_with(b"text/") || memchr::memmem::find(&media_type, b"json").is_some()
}

const BODY_BROKE_OFF: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "body_broke_off",
    "the request's body broke off, or its chunks are not valid: send the request again",
);
const BODY_STOPPED: Refusal = Refusal::new(
    StatusCode::REQUEST_TIMEOUT,
    "body_timeout",
    "the request's body stopped: send the request again",
);
const TOO_MANY_BODIES: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "max_unfinished_bytes",
    "too many requests are being received: try again later",
);
/// The most choices that the proxy continues in one answer. A request for more passes unchanged.
// OpenAI accepts no more.
const MAX_CHOICES: u64 = 128;
