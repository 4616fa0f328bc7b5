//! The calls to upstreams for one answer: what is sent, and to which upstream.

use std::future::poll_fn;
use std::sync::Arc;

use http::header::SERVER;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::Proxy;
use super::body::Collected;
use super::client_request::{ClientRequest, UpstreamRequest};
use super::conversation::{REFUSAL, retry_after};
use super::early_call::EarlyCall;
use super::encoding;
use super::error_redactor::{ErrorRedactor, redact_head, redacted};
use super::exchange::Exchange;
use super::fallback::Part;
use super::kept::KeptStream;
use super::record::Event;
use super::route::Route;
use super::secret::Secret;
use super::upstream::{self, Head};
use super::upstreams::Upstreams;
use restitch::Limits;
use restitch::internal::record::CallKind;
use restitch::internal::request::Refused;
use restitch::internal::rest_call;
use restitch::internal::wire::Framing;
use restitch::provider::Dialect;
use restitch::provider::capability::{Capability, PrefillForm};
use restitch::session::{CallEnd, ContinuationStrategy, Redirect, Rung, Rungs};
use restitch_http::{Body, ConnectionError, Error, Received};

/// Calls upstreams for one request.
pub(super) struct Caller {
    pub(super) proxy: Arc<Proxy>,
    pub(super) route: Arc<Route>,
    /// The route's limits, lowered by the request.
    pub(super) limits: Limits,
    /// The route's rungs, restricted by the request.
    pub(super) rungs: Rungs,
    pub(super) request: ClientRequest,
    /// The first call, if it has begun already.
    pub(super) early: Mutex<Option<EarlyCall>>,
    pub(super) upstreams: Upstreams,
    pub(super) exchange: Arc<Exchange>,
}

impl Caller {
    pub(super) fn new(
        proxy: Arc<Proxy>,
        route: Arc<Route>,
        mut request: ClientRequest,
        exchange: Arc<Exchange>,
    ) -> Self {
        exchange.apply(Event::Route(&route));
        exchange.apply(Event::Request {
            dialect: request.dialect,
            model: &request.parsed.model,
            is_stream: request.parsed.stream,
        });
        // The raised limit counts below, so it is set first.
        let mut limits = route.limits.clone();
        if let Some(least) = route.config.min_output_tokens {
            request.raise_limit(u64::from(least));
        }
        // A client that limits an answer's tokens must not pay for many times as many, however often
        // the answer is cut.
        if let Some(own) = request.parsed.max_tokens {
            limits
                .continuation
                .limit_total_tokens(own.saturating_mul(request.parsed.n.max(1)));
        }
        let head = request.head.copied();
        request.head = route.upstream_head(head, Some(request.dialect));
        Self {
            limits,
            rungs: route.config.continuation.rungs(),
            upstreams: Upstreams::new(Arc::clone(&proxy), Arc::clone(&route)),
            proxy,
            route,
            request,
            early: Mutex::default(),
            exchange,
        }
    }

    /// Returns the model's name at the current upstream.
    pub(super) fn model(&self) -> &str {
        self.request.model_at(self.upstreams.target())
    }

    /// Returns the API of the current upstream.
    pub(super) fn asked_by(&self) -> Dialect {
        let wire = self.upstreams.target().wire;
        wire.unwrap_or(self.request.dialect)
    }

    /// Returns the capability of the current model.
    pub(super) fn capability(&self) -> Capability {
        let mut capability = self.upstreams.capability(self.model());
        capability.grammar = Some(self.asked_by().wire().grammar(capability.grammar));
        capability
    }

    /// Adapts the request to its model, if the operator has enabled that.
    pub(super) fn adapt(&mut self) {
        if self.proxy.policy.adapts {
            let upstreams = &self.upstreams;
            self.request.adapt(|model| upstreams.capability(model));
        }
    }

    /// Returns the client's request as the current upstream gets it.
    pub(super) fn sent(&self) -> Option<UpstreamRequest<'_>> {
        self.request.sent_to(self.upstreams.fallback())
    }

    /// Returns the strategy of the calls for the rest. `capability`: that of the current model.
    pub(super) fn strategy(&self, mut capability: Capability) -> ContinuationStrategy {
        let upstream = self.upstreams.client().upstream().prefix();
        let (asked_by, is_foreign) = (self.asked_by(), self.asked_by() != self.request.dialect);
        // A prefill path would replace the path that the operator has configured.
        let is_reachable = capability
            .prefill_path
            .as_ref()
            .is_none_or(|path| upstream.is_empty() || upstream.ends_with(path.as_str()));
        if !is_reachable {
            capability.prefill = PrefillForm::None;
        }
        // Behind a raised limit the same reasoning leaves room for text.
        let raises = self.proxy.policy.token_factor > 1 && self.request.parsed.max_tokens.is_some();
        let mut strategy =
            rest_call::strategy(&self.request.parsed, &capability, asked_by, is_foreign);
        strategy.prompt = Arc::clone(&self.proxy.policy.prompt);
        strategy.reduce_reasoning |= raises;
        strategy.allowing(self.rungs)
    }

    /// Returns whether the server keeps the requested stream if the request names it.
    pub(super) fn may_keep_stream(&self) -> bool {
        // The one server that keeps streams by name, llama.cpp, has the requests of Chat Completions.
        self.request.parsed.stream
            && self.rungs.contains(Rung::Reattach)
            && self.request.dialect.wire().has_chat_requests()
            && self.capability().keeps_streams
    }

    /// Returns the stream that the server keeps under a name that the proxy has given it.
    pub(super) fn kept_stream(&self) -> Option<KeptStream> {
        let head = self
            .request
            .head
            .stopping()
            .filter(|_| self.upstreams.fallback().is_none() && self.may_keep_stream())?;
        Some(KeptStream::new(self, head))
    }

    /// Asks the server to keep the stream, if the server keeps streams and stops them, and the
    /// client has not named the stream: a stream that can't be stopped would run on without a
    /// reader.
    pub(super) async fn name_stream(&mut self) {
        if !self.may_keep_stream() || self.request.head.stream_name().is_some() {
            return;
        }
        let Some(head) = self.request.head.stopping_none() else {
            return;
        };
        if KeptStream::new(self, head).can_be_stopped().await {
            self.request.name_stream();
        }
    }

    /// Switches to the next fallback that can take over, if there is one. A fallback with another
    /// API can only take over the rest of an answer. `why`: the failure of the current upstream,
    /// for the log.
    pub(super) fn move_on(&self, part: Part, why: &str) -> bool {
        if !self.upstreams.may_move_on() {
            return false;
        }
        let allowed = match self.request.allowed_body() {
            Ok(allowed) => allowed,
            Err(Refused(member)) => {
                self.upstreams.refuse();
                tracing::warn!(
                    why,
                    %member,
                    "no fallback is asked: a tool, a data source or a part of a message may hold a credential"
                );
                return false;
            }
        };
        let next = self.upstreams.move_on(|fallback| {
            match fallback.wire.filter(|wire| *wire != self.request.dialect) {
                None => true,
                // Another API can only continue a stream: the session can't read that API's whole
                // body as an answer.
                Some(_) if part == Part::Whole || !self.request.parsed.stream => false,
                Some(wire) => self
                    .request
                    .translated(&allowed.body, wire, fallback)
                    .is_some(),
            }
        });
        let Some(fallback) = next else { return false };
        let upstream = fallback.client.upstream().authority();
        let mut left_out = allowed.left_out;
        self.request
            .head
            .unlisted_query()
            .for_each(|name| left_out.add(&format!("?{name}")));
        tracing::warn!(upstream, part = part.as_str(), why, %left_out, "the next calls go to a fallback");
        self.exchange.apply(Event::Fallback { upstream, part });
        true
    }

    /// Switches to the next fallback if the previous call has failed and a fallback can take over.
    pub(super) fn leave_failed(&self, part: Part) -> Option<CallEnd> {
        let is_left = self.upstreams.take_failure()
            && self.move_on(part, "the last call fell silent, or brought nothing");
        is_left.then(|| self.redirected())
    }

    /// Returns the redirect that tells the session about the new upstream after
    /// [`move_on`](Self::move_on).
    pub(super) fn redirected(&self) -> CallEnd {
        let wire = self.asked_by();
        let foreign = (wire != self.request.dialect).then(|| (wire, wire.wire().framing()));
        let upstream = self.upstreams.address().to_owned();
        let model = self.model().to_owned();
        CallEnd::Redirected(Box::new(Redirect {
            strategy: self.strategy(self.capability()),
            foreign,
            upstream,
            model,
        }))
    }

    /// Makes an upstream call, with the trace headers of its span.
    pub(super) async fn make_call(
        &self,
        kind: CallKind,
        head: &Head,
        body: Body,
    ) -> Result<Response<Received>, Error> {
        let client = self.upstreams.client();
        self.exchange.apply(Event::Call {
            kind,
            upstream: client.upstream(),
            dialect: self.asked_by(),
            model: self.model(),
        });
        let traced = self.exchange.trace().map(|trace| head.with(trace));
        let early = self.early.lock().take();
        let mut response = match early {
            Some(early) => early.answer().await,
            None => {
                let head = traced.as_ref().unwrap_or(head);
                upstream::send(client, head, body, self.route.head_limit).await
            }
        };
        if let (Ok(response), Some(key)) = (&mut response, self.operator_key()) {
            redact_head(response, key);
        }
        let parts = |response| (Response::status(response), Response::headers(response));
        self.exchange
            .apply(Event::Head(response.as_ref().map(parts)));
        if let Ok(response) = &response {
            let capabilities = &self.proxy.policy.capabilities;
            let server = response.headers().get(SERVER);
            let server = server
                .and_then(|server| server.to_str().ok())
                .filter(|server| capabilities.knows_server(server));
            self.proxy
                .shared
                .note_server(client.upstream().authority(), server);
        }
        if let Some(metrics) = &self.proxy.shared.metrics {
            let is_up = response
                .as_ref()
                .err()
                .is_none_or(|error| !error.is_of_connection());
            metrics.reached(client.upstream().authority(), is_up);
        }
        response
    }

    /// Waits for the first byte of a successful stream.
    pub(super) async fn first_byte(&self, response: &mut Response<Received>) -> Result<(), Error> {
        if !self.request.parsed.stream {
            return Ok(());
        }
        let limit = self.route.head_limit;
        let error =
            match timeout(limit.time, poll_fn(|cx| response.body_mut().poll_first(cx))).await {
                Ok(true) => return Ok(()),
                // A head without a byte after it is not an answer: a fallback can still take over.
                Ok(false) => Error::Failed(ConnectionError::Closed),
                Err(_) => upstream::late(limit),
            };
        self.exchange.apply(Event::Head(Err(&error)));
        self.count(None);
        Err(error)
    }

    /// Counts a finished call by its status, or as failed if it has none.
    pub(super) fn count(&self, status: Option<StatusCode>) {
        self.upstreams.count(self.model(), status);
    }

    /// Counts a failed call. A 429 with `Retry-After` does not count.
    pub(super) fn count_failure(&self, answer: &Result<Response<Received>, Error>) {
        let status = answer.as_ref().ok().map(Response::status);
        // An upstream that names the time for the next call is not in trouble.
        let names_time = answer.as_ref().is_ok_and(|response| {
            response.status() == StatusCode::TOO_MANY_REQUESTS
                && retry_after(response.headers()).is_some()
        });
        if !names_time && !status.is_some_and(|status| status.is_success()) {
            self.count(status);
        }
    }

    /// The upstream has answered a call.
    pub(super) fn answered(&self) {
        self.count(Some(StatusCode::OK));
        self.exchange
            .apply(Event::Answered(self.upstreams.address()));
    }

    /// Passes a request to the tap.
    pub(super) fn show_request(&self, number: u32, body: &[u8]) {
        if let Some(tap) = &self.proxy.shared.tap {
            tap.request(number, body);
        }
    }

    /// Passes a refusal to the tap.
    pub(super) fn show_refusal(&self, body: &[u8]) {
        if let Some(tap) = &self.proxy.shared.tap {
            tap.response(body);
        }
    }

    /// Reads the body of a refusal. Returns an empty text if it can't be read.
    pub(super) async fn refusal(&self, response: Response<Received>) -> String {
        let Ok(response) = encoding::decoded(response) else {
            return String::new();
        };
        let idle = self.limits.transport.idle();
        match Collected::read(response.into_body(), REFUSAL, Some([idle, idle]), |_| true).await {
            Ok(Collected::Whole(body)) => {
                self.show_refusal(&body);
                String::from_utf8_lossy(&body).into_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns a mask that removes the operator's key from the current upstream's errors.
    pub(super) fn error_redactor(&self, framing: Option<Framing>) -> Option<ErrorRedactor> {
        ErrorRedactor::new(self.operator_key()?, self.asked_by(), framing, &self.limits)
    }

    /// Returns a mask that removes the operator's key from a refusal of the current upstream.
    pub(super) fn refusal_redactor(&self) -> Option<ErrorRedactor> {
        ErrorRedactor::of_refusal(self.operator_key()?, &self.limits)
    }

    /// Removes the operator's key from a body that is an error.
    pub(super) fn redacted(&self, body: String) -> String {
        match self.operator_key() {
            Some(key) => redacted(body, key, self.asked_by()),
            None => body,
        }
    }

    /// Returns the operator's key that the current upstream got. `None`: it got none, or the
    /// client's own, which it may quote to the client.
    fn operator_key(&self) -> Option<&str> {
        self.upstreams.target().key.as_ref().map(Secret::value)
    }
}
