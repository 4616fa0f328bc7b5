//! Allowlists of the headers and query members that fallbacks and stores get. A credential may have
//! any name, so only names that hold no credential are listed. `provider::allowed` has the lists
//! for bodies.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::upstream::Head;

/// Headers that name the request, its trace, and the media type of its answer. Every fallback gets
/// them.
pub(super) static SHARED_HEADERS: [HeaderName; 4] = [
    ACCEPT,
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// Headers that name the version of an API. Fallbacks of the same API get them.
pub(super) static VERSION_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("openai-beta"),
];

/// The proxy's own headers that control an answer. Stores keep them.
static DIRECTIVES: [HeaderName; 6] = [
    HeaderName::from_static("x-restitch"),
    HeaderName::from_static("x-restitch-continuations"),
    HeaderName::from_static("x-restitch-max-risk"),
    HeaderName::from_static("x-restitch-give-up"),
    HeaderName::from_static("x-restitch-repair"),
    HeaderName::from_static("x-restitch-rungs"),
];

/// Members of a query that select the version or the encoding of an API.
const QUERY: [&str; 3] = ["alt", "api-version", "beta"];

/// Returns whether a store keeps a header of a request.
pub(super) fn is_stored(name: &HeaderName) -> bool {
    let mut listed = SHARED_HEADERS
        .iter()
        .chain(&VERSION_HEADERS)
        .chain(&DIRECTIVES);
    *name == CONTENT_TYPE || listed.any(|listed| listed == name)
}

/// Returns the proxy's own headers that control an answer.
pub(super) fn directives(headers: &HeaderMap) -> HeaderMap {
    let listed = |name: &HeaderName| DIRECTIVES.contains(name);
    headers
        .iter()
        .filter(|(name, _)| listed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns whether a member of a query has a listed name.
pub(super) fn is_listed(name: &str) -> bool {
    QUERY.contains(&name)
}

impl Head {
    /// Returns the listed members of the query, with a question mark before them.
    pub(super) fn listed_query(&self) -> String {
        let listed = members(self.query()).filter(|(name, _)| is_listed(name));
        query_of(listed.map(|(_, member)| member))
    }

    /// Returns the names of the unlisted members of the query.
    pub(super) fn unlisted_query(&self) -> impl Iterator<Item = &str> {
        let names = members(self.query()).map(|(name, _)| name);
        names.filter(|name| !is_listed(name))
    }
}

/// Returns the members of a query, each with its name before it.
pub(super) fn members(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let members = query.into_iter().flat_map(|query| query.split('&'));
    let members = members.filter(|member| !member.is_empty());
    members.map(|member| (member.split('=').next().unwrap_or(member), member))
}

/// Returns the values of a query's members with a name.
pub(super) fn values<'q>(query: Option<&'q str>, name: &str) -> impl Iterator<Item = &'q str> {
    let members = members(query).filter(move |(own, _)| *own == name);
    members.filter_map(|(_, member)| Some(member.split_once('=')?.1))
}

/// Returns a query with members, with a question mark before it if there are any.
pub(super) fn query_of<'m>(members: impl Iterator<Item = &'m str>) -> String {
    let members: Vec<_> = members.collect();
    let mark = if members.is_empty() { "" } else { "?" };
    [mark, &members.join("&")].concat()
}

/// Returns a header's value as text that a store can keep.
pub(super) fn stored_text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().filter(|_| !value.is_sensitive())
}
