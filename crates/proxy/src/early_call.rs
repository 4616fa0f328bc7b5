//! Begins a first call before its request is parsed: the upstream reads the request meanwhile.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::Response;

use super::Proxy;
use super::route::Route;
use super::upstream::{self, Head};
use restitch::provider::Dialect;
use restitch_http::{Body, Error, Received};

type Answer = Result<Response<Received>, Error>;
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A first call that has begun. Dropping it ends the call.
pub(super) struct EarlyCall(Call);

impl EarlyCall {
    /// Sends as much of a request as the socket accepts without waiting. `None`: what is sent may
    /// depend on the parsed body.
    pub(super) async fn begin(
        proxy: &Proxy,
        route: &Arc<Route>,
        (head, body, dialect): (&Head, &Bytes, Dialect),
    ) -> Option<Self> {
        if !sends_client_body(proxy, route) {
            return None;
        }
        let route = Arc::clone(route);
        let head = route.upstream_head(head.clone(), Some(dialect));
        let body = Body::full(body.clone());
        let limit = route.head_limit;
        let sent = async move { upstream::send(&route.own.client, &head, body, limit).await };
        let mut call: Call = Box::pin(sent);
        let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        if let Poll::Ready(answer) = polled {
            call = Box::pin(ready(answer));
        }
        Some(Self(call))
    }

    /// Waits for the head of the response.
    pub(super) async fn answer(self) -> Answer {
        self.0.await
    }
}

/// Returns whether the upstream of `route` gets each body as the client has written it, and no kept
/// answer replaces a call.
fn sends_client_body(proxy: &Proxy, route: &Route) -> bool {
    // A request whose answer passes unread keeps its own `accept-encoding`.
    route.is_asked()
        && !proxy.policy.adapts
        && route.config.min_output_tokens.is_none()
        && proxy.shared.kept.is_none()
        // The header of a trace names the call, which is noted with the request's model.
        && proxy.shared.otlp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Returns whether a proxy with these settings sends bodies before it parses them.
    fn is_early(settings: &str) -> bool {
        let text = format!("[proxy]\nupstream = \"http://127.0.0.1:9\"\n{settings}");
        let proxy = Proxy::new(Config::parse(&text).unwrap(), &|_| None).unwrap();
        let routes = &proxy.routes;
        sends_client_body(&proxy, routes.configured.first().unwrap_or(&routes.base))
    }

    #[test]
    fn a_body_that_decides_what_is_sent_is_parsed_first() {
        assert!(is_early(""));
        let route = "[[route]]\nname = \"r\"\n";
        assert!(is_early(route));
        // The first call goes to the route's own upstream.
        let fallback = "[[route.fallback]]\nupstream = \"http://127.0.0.1:9\"";
        assert!(is_early(&format!("{route}{fallback}")));
        for settings in [
            "adapt = true".to_owned(),
            format!("{route}min_output_tokens = 9"),
            format!("{route}continuation = \"off\""),
        ] {
            assert!(!is_early(&settings), "{settings}");
        }
    }
}
