//! Checks `[[route]]`: the errors that one route alone does not show.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::Config;
use super::ConfigError;
use super::proxy::without_password;
use crate::address;
use crate::route_config::{DEFAULT, FallbackConfig, RouteConfig};

/// Returns the routes, each with a name. `tokens`: the names of the file's tokens.
pub(super) fn checked(
    text: &str,
    routes: Vec<Spanned<RouteConfig>>,
    tokens: &[&str],
) -> Result<Vec<RouteConfig>, ConfigError> {
    let starts: Vec<usize> = routes.iter().map(|route| route.span().start).collect();
    let mut checked: Vec<RouteConfig> = Vec::with_capacity(routes.len());
    for (number, (route, start)) in routes
        .into_iter()
        .map(Spanned::into_inner)
        .zip(&starts)
        .enumerate()
    {
        let mut route = route;
        let at = |message: String| ConfigError::at(text, *start, &message);
        let line = |other: usize| {
            starts
                .get(other)
                .map_or(0, |start| ConfigError::at(text, *start, "").line)
        };
        if number >= MAX_ROUTES {
            return Err(at(format!("there can be {MAX_ROUTES} routes")));
        }
        // Before the search for equal names: an operator may have chosen `route-2`.
        if route.name.is_empty() {
            route.name = format!("route-{}", number + 1);
        }
        let taken = checked.iter().position(|other| other.name == route.name);
        let taken = taken.map(|other| {
            format!(
                "the route of line {} has the name `{}`, too",
                line(other),
                route.name
            )
        });
        if let Some(mistake) = mistake_of_name(&route.name).or(taken) {
            let name_start = Places::of(text).name_start(number).unwrap_or(*start);
            return Err(ConfigError::at(text, name_start, &mistake));
        }
        if route.key.is_some() && route.upstream.is_none() {
            return Err(at(NO_UPSTREAM.to_owned()));
        }
        let is_unknown = |name: &&String| *name != DEFAULT && !tokens.contains(&name.as_str());
        if let Some(unknown) = route.token.iter().find(is_unknown) {
            return Err(at(format!(
                "no token of `[access]` has the name `{unknown}`"
            )));
        }
        if let Some(other) = checked.iter().position(|other| other.covers(&route)) {
            let (name, line) = (&checked[other].name, line(other));
            return Err(at(format!(
                "this route is never reached: route `{name}` of line {line} takes its requests"
            )));
        }
        checked.push(route);
    }
    Ok(checked)
}

/// Returns the settings for the requests of a route, or of no route; see [`Config::effective`].
pub(super) fn effective(config: &Config, route: Option<&RouteConfig>) -> RouteConfig {
    let (limits, proxy) = (&config.limits, &config.proxy);
    let mut route = route.cloned().unwrap_or_default();
    if route.name.is_empty() {
        route.name = DEFAULT.to_owned();
    }
    (route.path, route.model, route.header) = (None, None, BTreeMap::new());
    route.token = Vec::new();
    if route.upstream.is_none() {
        route.key.clone_from(&proxy.upstream_key);
    }
    route.upstream = route
        .upstream
        .as_deref()
        .or(proxy.upstream.as_deref())
        .map(without_password);
    route.fallback = without_passwords(&route.fallback);
    let first_byte = config.all_limits().transport.first_byte().time;
    route.first_byte_timeout = route.first_byte_timeout.or(Some(first_byte.into()));
    route.repair = route.repair.or(Some(proxy.repair));
    route.on_give_up = route.on_give_up.or(Some(proxy.on_give_up));
    route.prose = route.prose.or(Some(proxy.prose));
    route.max_continuations = route.max_continuations.or(Some(limits.max_continuations));
    route.max_total_time = route.max_total_time.or(Some(limits.max_total_time));
    route
}

/// Returns fallbacks with `***` instead of passwords.
pub(super) fn without_passwords(fallbacks: &[FallbackConfig]) -> Vec<FallbackConfig> {
    let without = |fallback: &FallbackConfig| FallbackConfig {
        upstream: without_password(&fallback.upstream),
        ..fallback.clone()
    };
    fallbacks.iter().map(without).collect()
}

/// Returns whether a text is a name of a route or a token, which is a label in metrics.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

fn mistake_of_name(name: &str) -> Option<String> {
    if !is_name(name) {
        return Some(format!("`{name}` is no name of a route: {NAME}"));
    }
    (name == DEFAULT).then(|| format!("`{name}` is the name of what no route matches"))
}

/// Returns where the token with a number begins in a file whose text was read before.
pub(super) fn token_start(text: &str, number: usize) -> usize {
    let tokens = Places::of(text).access.token;
    tokens.get(number).map_or(0, |token| token.span().start)
}

/// Checks the upstreams of a file whose text is right otherwise. The addresses are not repeated,
/// since they may have passwords.
pub(super) fn check_upstreams(text: &str) -> Result<(), ConfigError> {
    let places = Places::of(text);
    let routes = places
        .route
        .iter()
        .flat_map(|route| std::iter::once(route).chain(&route.fallback));
    let routes = routes.filter_map(|place| place.upstream.as_ref());
    for upstream in places.proxy.upstream.iter().chain(routes) {
        address::upstream(upstream.get_ref())
            .map_err(|error| ConfigError::at(text, upstream.span().start, &error.to_string()))?;
    }
    Ok(())
}

/// The positions of the values in a file that are checked after it was read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Places {
    proxy: Place,
    access: AccessPlace,
    route: Vec<Place>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccessPlace {
    token: Vec<Spanned<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Place {
    name: Option<Spanned<IgnoredAny>>,
    upstream: Option<Spanned<String>>,
    fallback: Vec<Place>,
}

impl Places {
    fn of(text: &str) -> Self {
        // The text has been read before.
        toml::from_str(text).unwrap_or_default()
    }

    /// Returns where the name of a route is.
    fn name_start(&self, number: usize) -> Option<usize> {
        self.route
            .get(number)?
            .name
            .as_ref()
            .map(|name| name.span().start)
    }
}

/// Routes of a file. They are tried one after the other, for each request.
pub(super) const MAX_ROUTES: usize = 100;

/// Bytes of the longest name.
const LONGEST_NAME: usize = 64;

const NO_UPSTREAM: &str = "the key of a route needs the `upstream` that it is for";

/// What a name may have.
pub(super) const NAME: &str = "it has letters, digits, `-`, `_` and `.`, 64 at most";
