//! The routes of requests.

use std::iter::once;
use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;

use super::access::ClientToken;
use super::fallback::Target;
use super::secret::Secret;
use super::upstream::Head;
use crate::config::ProxyConfig;
use crate::route_config::{Asked, ContinueBy, DEFAULT, RouteConfig};
use restitch::internal::chat::Request;
use restitch::internal::limits::{FIRST_BYTE, TimeLimit};
use restitch::provider::Dialect;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prose};
use restitch::{Limits, TransportLimits};
use restitch_http::{Client, ConnectionLimits};

/// A route: the upstreams and the limits of its requests, and the treatment of their answers.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Its name and its conditions.
    pub(super) config: Arc<RouteConfig>,
    /// Its own upstream.
    pub(super) own: Target,
    /// The operator's limits. A request can only lower them.
    pub(super) limits: Limits,
    /// The ending of an answer that can't be completed, if the request does not choose one.
    pub(super) give_up: GiveUp,
    /// The handling of prose answers that lose their connection.
    pub(super) prose: Prose,
    /// How much repair may change the JSON in an answer, if the request does not choose a level.
    pub(super) repair: RepairLevel,
    /// The upstreams that take over in turn when the first one fails.
    pub(super) fallbacks: Vec<Target>,
    /// The most repeats of a call to the same upstream before a fallback takes over.
    pub(super) retries: u32,
    /// The time limit for the head of a response.
    pub(super) head_limit: TimeLimit,
}

impl Route {
    /// Creates the route of requests that no other route matches.
    pub(super) fn new(target: Target, limits: Limits, own: &ProxyConfig) -> Self {
        let config = RouteConfig {
            name: DEFAULT.to_owned(),
            ..RouteConfig::default()
        };
        Self {
            config: Arc::new(config),
            own: target.limited(&limits.transport),
            head_limit: limits.transport.first_byte(),
            limits,
            give_up: own.on_give_up,
            prose: own.prose,
            repair: own.repair,
            fallbacks: Vec::new(),
            retries: 0,
        }
    }

    /// Creates a route that inherits unset settings from this one. `own`: its own upstream.
    pub(super) fn with(
        &self,
        config: RouteConfig,
        own: Option<Target>,
        fallbacks: Vec<Target>,
    ) -> Self {
        let mut limits = self.limits.clone();
        let loop_limits = &mut limits.continuation;
        loop_limits.max_continuations = config
            .max_continuations
            .unwrap_or(loop_limits.max_continuations);
        // 0 lifts the limit of all requests.
        loop_limits.max_total_time = config
            .max_total_time
            .map_or(loop_limits.max_total_time, Into::into);
        let own_head_limit = config.first_byte_timeout.map(|time| TimeLimit {
            name: FIRST_BYTE,
            time: time.into(),
        });
        let limited = |target: Target| target.limited(&limits.transport);
        let fallbacks = fallbacks.into_iter().map(limited).collect();
        Self {
            own: own.map_or_else(|| self.own.clone(), limited),
            head_limit: own_head_limit.unwrap_or(limits.transport.first_byte()),
            limits,
            fallbacks,
            give_up: config.on_give_up.unwrap_or(self.give_up),
            prose: config.prose.unwrap_or(self.prose),
            repair: config.repair.unwrap_or(self.repair),
            retries: config.retries.unwrap_or(self.retries),
            config: Arc::new(config),
        }
    }

    /// Returns all its upstreams.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        once(&self.own).chain(&self.fallbacks)
    }

    /// Returns all its upstreams, to be changed.
    fn targets_mut(&mut self) -> impl Iterator<Item = &mut Target> {
        once(&mut self.own).chain(&mut self.fallbacks)
    }

    /// Returns the head of a client's request for the route's own upstream, with the operator's key
    /// if there is one. The answer is not compressed, so that the proxy can read it. `dialect`: the
    /// path's API.
    pub(super) fn upstream_head(&self, head: Head, dialect: Option<Dialect>) -> Head {
        let mut head = head.uncompressed();
        if let Some(key) = &self.own.key {
            head.replace_key(key, dialect);
        }
        head
    }

    /// Returns whether the proxy reads and continues answers.
    pub(super) fn continues(&self) -> bool {
        self.config.continuation != ContinueBy::Off
    }

    /// Returns whether the proxy reads requests, so that it can send them again.
    pub(super) fn is_asked(&self) -> bool {
        self.continues() || !self.fallbacks.is_empty()
    }
}

/// The routes whose conditions on a request's head hold.
pub(super) struct Candidates(Vec<Arc<Route>>);

/// The routes of a proxy.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// The route of requests that no other route matches.
    pub(super) base: Arc<Route>,
    /// The first one that matches a request answers it.
    pub(super) configured: Vec<Arc<Route>>,
}

impl Routes {
    /// Returns the clients of all upstreams.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Client> {
        let targets = self.all().flat_map(Route::targets);
        targets.map(|target| &target.client)
    }

    /// Returns all routes.
    pub(super) fn all(&self) -> impl Iterator<Item = &Route> {
        once(&self.base)
            .chain(&self.configured)
            .map(|route| &**route)
    }

    /// Returns whether requests of clients go out with a key of the operator.
    pub(super) fn have_key(&self) -> bool {
        self.all().any(|route| route.own.key.is_some())
    }

    /// Returns the operator's keys for all upstreams.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Secret> {
        let targets = self.all().flat_map(Route::targets);
        targets.filter_map(|target| target.key.as_ref())
    }

    /// Takes over newer values of keys.
    pub(super) fn update_keys(&mut self, newer: &[Secret]) {
        for route in once(&mut self.base).chain(&mut self.configured) {
            if route.targets().any(|target| target.key.is_some()) {
                let targets = Arc::make_mut(route).targets_mut();
                let keys = targets.filter_map(|target| target.key.as_mut());
                keys.for_each(|key| key.update(newer));
            }
        }
    }

    /// Gives all routes connections of their own. Routes to one upstream share theirs.
    pub(super) fn part(&mut self) {
        let mut clients: Vec<Client> = Vec::new();
        for route in once(&mut self.base).chain(&mut self.configured) {
            for target in Arc::make_mut(route).targets_mut() {
                let client = &mut target.client;
                let known = clients
                    .iter()
                    .find(|known| known.upstream() == client.upstream())
                    .cloned();
                *client = known.unwrap_or_else(|| client.apart());
                clients.push(client.clone());
            }
        }
    }

    /// Returns the first route with a name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Route>> {
        self.configured
            .iter()
            .chain([&self.base])
            .find(|route| route.config.name == name)
            .cloned()
    }

    /// Returns the routes whose conditions about the head of a request hold, in their order, up to
    /// the first one without conditions on the body.
    pub(super) fn candidates(&self, head: &Parts) -> Candidates {
        let mut candidates = Vec::new();
        let token = ClientToken::of(&head.extensions).map(|token| &*token.name);
        for route in &self.configured {
            let values = |name: &str| values(&head.headers, name);
            if route
                .config
                .head_mismatch(head.uri.path(), token, &values)
                .is_none()
            {
                candidates.push(Arc::clone(route));
                if !route.config.needs_body() {
                    return Candidates(candidates);
                }
            }
        }
        candidates.push(Arc::clone(&self.base));
        Candidates(candidates)
    }
}

impl Candidates {
    /// Returns whether the choice depends on the request's body.
    pub(super) fn need_body(&self) -> bool {
        // The last candidate has no condition on the body.
        self.0.len() > 1
    }

    /// Returns the first route that matches. `request`: the parsed body; `None` if the proxy does
    /// not read it.
    pub(super) fn choose(&self, routes: &Routes, request: Option<&Request>) -> Arc<Route> {
        let asked = request.map(|request| Asked {
            model: &request.model,
        });
        let found = self
            .0
            .iter()
            .find(|route| route.config.body_mismatch(asked.as_ref()).is_none());
        Arc::clone(found.unwrap_or(&routes.base))
    }
}

impl Target {
    /// Sets the limits of the connections.
    fn limited(mut self, limits: &TransportLimits) -> Self {
        self.client = self.client.limited(ConnectionLimits {
            connect_timeout: limits.connect_timeout,
            tls_timeout: limits.tls_timeout,
            max_idle: limits.max_idle_connections,
        });
        self
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        .collect()
}
