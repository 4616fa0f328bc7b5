//! A first call that begins before its request is parsed, so that the upstream reads the request in
//! that time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use tokio::time::timeout;

use super::Proxy;
use super::route::Route;
use super::upstream::Head;
use restitch::internal::limits::TimeLimit;
use restitch::provider::Dialect;
use restitch_http::{Body, Error, Received};

type Answer = Result<Response<Received>, Error>;

/// A first call that has begun. Dropping it ends the call.
pub(super) struct EarlyCall {
    call: Pin<Box<dyn Future<Output = Answer> + Send>>,
    /// Set once the call has its answer.
    answer: Option<Answer>,
    /// The limit for the head of the response.
    limit: TimeLimit,
}

impl EarlyCall {
    /// Sends a request, as far as the socket takes it at once. `None`: its body may decide what is
    /// sent, or its path has no address on the upstream.
    pub(super) async fn begin(
        proxy: &Proxy,
        route: &Arc<Route>,
        (head, body, dialect): (&Head, &Bytes, Dialect),
    ) -> Option<Self> {
        if !sends_client_body(proxy, route) {
            return None;
        }
        let route = Arc::clone(route);
        let head = route.upstream_head(head.clone(), dialect);
        let body = Body::full(body.clone());
        let request = head.into_request(&route.client, body).ok()?;
        let mut early = Self {
            limit: route.head_limit,
            call: Box::pin(async move { route.client.send(request).await }),
            answer: None,
        };
        poll_fn(|cx| {
            early.poll_call(cx);
            Poll::Ready(())
        })
        .await;
        Some(early)
    }

    /// Waits for the head of the response.
    pub(super) async fn answer(mut self) -> Answer {
        let limit = self.limit;
        let answer = poll_fn(|cx| {
            self.poll_call(cx);
            self.answer.take().map_or(Poll::Pending, Poll::Ready)
        });
        timeout(limit.time, answer)
            .await
            .unwrap_or_else(|_| Err(limit.into()))
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.call.as_mut().poll(cx)
        {
            self.answer = Some(answer);
        }
    }
}

/// Returns whether the upstream of `route` gets each body as the client has written it, and no kept
/// answer replaces a call.
fn sends_client_body(proxy: &Proxy, route: &Route) -> bool {
    // Else the upstream may be asked for a compressed answer, which depends on the body.
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
