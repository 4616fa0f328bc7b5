//! Which route answers a request, and how.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;

use super::Proxy;
use super::fallback::Fallback;
use crate::Limits;
use crate::client::Client;
use crate::limits::{FIRST_BYTE, TimeLimit};
use crate::provider::capability::Capability;
use crate::provider::wire::Request;
use crate::repair::RepairLevel;
use crate::route::{Asked, ContinueBy, DEFAULT, RouteConfig};
use crate::session::{GiveUp, Prose};

/// How requests are answered: by which upstream, within which limits, and what may become of an answer.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Its name and its conditions.
    pub(super) config: Arc<RouteConfig>,
    pub(super) client: Client,
    /// The most that a request may ask for.
    pub(super) limits: Limits,
    /// What becomes of an answer if its rest can't be had, where the request does not say.
    pub(super) give_up: GiveUp,
    /// What becomes of an answer that is prose when its connection is lost.
    pub(super) prose: Prose,
    /// How much of the JSON in an answer may be changed, where the request does not say.
    pub(super) repair: RepairLevel,
    /// The upstreams that are asked where the first one fails.
    pub(super) fallbacks: Vec<Fallback>,
    /// How often the same upstream gets a call again before a fallback is asked.
    pub(super) retries: u32,
    /// How long the head of a response may take.
    pub(super) head_limit: TimeLimit,
}

impl Route {
    /// Creates the route of the requests that no other one matches.
    pub(super) fn new(client: Client, limits: Limits) -> Self {
        let config = RouteConfig { name: DEFAULT.to_owned(), ..RouteConfig::default() };
        Self {
            config: Arc::new(config),
            client,
            head_limit: limits.transport.first_byte(),
            limits,
            give_up: GiveUp::Leave,
            prose: Prose::default(),
            repair: RepairLevel::Strict,
            fallbacks: Vec::new(),
            retries: 0,
        }
    }

    /// Creates a route. What its configuration does not set is as here. `client`: that of its own upstream.
    pub(super) fn with(&self, config: RouteConfig, client: Option<Client>, fallbacks: Vec<Fallback>) -> Self {
        let mut limits = self.limits.clone();
        let own = &mut limits.continuation;
        own.max_risk = config.max_risk.unwrap_or(own.max_risk);
        own.max_continuations = config.max_continuations.unwrap_or(own.max_continuations);
        // In both, 0 lifts the limit of all requests.
        own.max_extra_share =
            config.max_extra_share.map_or(own.max_extra_share, |share| Some(share).filter(|share| *share > 0.0));
        let time = config.max_total_time.map(duration);
        own.max_total_time = time.map_or(own.max_total_time, |time| Some(time).filter(|time| !time.is_zero()));
        let own_head_limit =
            config.first_byte_timeout.map(|seconds| TimeLimit { name: FIRST_BYTE, time: duration(seconds) });
        let limited = |client: Client| client.limited(&limits.transport);
        let fallbacks = fallbacks.into_iter();
        let fallbacks = fallbacks.map(|fallback| Fallback { client: limited(fallback.client), ..fallback }).collect();
        Self {
            client: client.map_or_else(|| self.client.clone(), limited),
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

    /// Returns the clients of all its upstreams.
    pub(super) fn clients(&mut self) -> impl Iterator<Item = &mut Client> {
        std::iter::once(&mut self.client).chain(self.fallbacks.iter_mut().map(|fallback| &mut fallback.client))
    }

    /// Returns whether a failed call is repeated, at the same upstream or a fallback, before the client gets an error.
    pub(super) fn asks_again(&self) -> bool {
        self.retries > 0 || !self.fallbacks.is_empty()
    }

    /// Returns whether answers are read.
    pub(super) fn continues(&self) -> bool {
        self.config.continuation != ContinueBy::Off
    }

    /// Returns whether the operator allows prefills.
    pub(super) fn may_prefill(&self) -> bool {
        self.config.continuation != ContinueBy::Reprompt
    }

    /// Returns whether requests are read, so that they can be sent again.
    pub(super) fn is_asked(&self) -> bool {
        self.continues() || !self.fallbacks.is_empty()
    }

    /// Changes what the table says about a model to how the operator wants the rest to be asked for. What a refusal has said
    /// corrects it afterwards.
    pub(super) fn direct(&self, mut capability: Capability) -> Capability {
        capability.prefill = self.config.continuation.direct(capability.prefill);
        capability
    }
}

/// The routes that may answer a request, as far as its head says it.
pub(super) struct Candidates(Vec<Arc<Route>>);

impl Proxy {
    /// Returns the first route with a name.
    pub(super) fn route_named(&self, name: &str) -> Option<Arc<Route>> {
        self.routes.iter().chain([&self.base]).find(|route| route.config.name == name).cloned()
    }

    /// Returns the routes whose conditions about the head of a request hold, in their order, up to the first one that has no
    /// others.
    pub(super) fn candidates(&self, head: &Parts) -> Candidates {
        let mut candidates = Vec::new();
        for route in &self.routes {
            let values = |name: &str| values(&head.headers, name);
            if route.config.head_mismatch(head.uri.path(), &values).is_none() {
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
    /// Returns whether the request's body decides.
    pub(super) fn need_body(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the first route that matches. `request`: what the body asks for; `None` where it is not read.
    pub(super) fn choose(&self, proxy: &Proxy, request: Option<&Request>) -> Arc<Route> {
        let asked = request.map(|request| Asked {
            model: &request.model,
            is_json: request.has_json_mode,
            has_schema: request.has_schema,
        });
        let found = self.0.iter().find(|route| route.config.body_mismatch(asked.as_ref()).is_none());
        Arc::clone(found.unwrap_or(&proxy.base))
    }
}

/// Returns seconds as a file has them, which were checked when it was read.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned()).collect()
}
