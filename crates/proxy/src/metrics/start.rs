//! The series that are shown with 0 before their first event: Prometheus sees no increase in a
//! series that starts at 1, so a query would miss the event.
//!
//! The configuration bounds these series. Those with an API begin with its first request on a
//! route, and those with a model when a call that an upstream has answered for it has ended.

use super::{Metrics, OTHER};
use crate::fallback::Part;
use crate::record::{REFUSED, slot_name};
use crate::route::Route;
use restitch::internal::record::CallKind;
use restitch::internal::wire::SlotKind;
use restitch::session::{CutCause, Rung, Status};
use restitch::splice::Alignment;

/// Shows the connections refused over each limit, and the failed handshakes of a proxy with a
/// certificate.
pub(crate) fn begin_connections(metrics: &Metrics, limits: &[&str], handshakes: Option<&[&str]>) {
    for limit in limits {
        metrics.requests.connections_refused.of([limit]);
    }
    for reason in handshakes.unwrap_or_default() {
        metrics.requests.handshakes.of([reason]);
    }
}

/// Shows the series of a configuration's routes, and of requests that are refused before they
/// have one.
pub(crate) fn begin_routes<'a>(metrics: &Metrics, routes: impl Iterator<Item = &'a Route>) {
    for status in STATUSES_WITHOUT_ROUTE {
        metrics.requests.all.of(["", "", status]);
    }
    for route in routes {
        begin_route(metrics, route);
    }
}

fn begin_route(metrics: &Metrics, route: &Route) {
    let name = route.config.name.as_str();
    for r#use in ["kept", "regenerated"] {
        metrics.calls.tokens.of([name, r#use]);
    }
    for kind in ALIGNMENTS.map(Alignment::as_str) {
        metrics.seams.joined.of([name, kind]);
    }
    metrics.seams.gap.of([name]);
    metrics.seams.pending.of([name]);
    for target in route.targets() {
        let upstream = target.client.upstream().authority();
        for status in STATUSES {
            metrics.requests.all.of([name, upstream, status]);
        }
        let rungs = Rung::ALL.map(CallKind::Rest).into_iter();
        for rung in rungs.chain([CallKind::Original]).map(CallKind::as_str) {
            for outcome in OUTCOMES {
                metrics.calls.further.of([name, upstream, rung, outcome]);
            }
        }
    }
    for fallback in &route.fallbacks {
        let upstream = fallback.client.upstream().authority();
        for part in [Part::Whole, Part::Rest].map(Part::as_str) {
            metrics.requests.fallbacks.of([name, upstream, part]);
        }
    }
}

/// Shows the ends of answers of an API on a route, for a token.
pub(crate) fn begin_wire(metrics: &Metrics, route: &str, wire: &'static str, token: &str) {
    let ended = &metrics.answers.ended;
    if ended.has([route, wire, "unread", "unread", token]) {
        return;
    }
    for status in STATUSES_OF_ANSWERS.map(Status::as_str) {
        for slot in [SlotKind::Text, SlotKind::Arguments].map(slot_name) {
            ended.of([route, wire, slot, status, token]);
        }
    }
    for status in [REFUSED, "left", "unread"] {
        ended.of([route, wire, "unread", status, token]);
    }
}

/// Shows the cuts of a model at an upstream.
pub(super) fn begin_model(metrics: &Metrics, route: &str, upstream: &str, model: &str) {
    let cuts = &metrics.seams.cuts;
    if !cuts.has([route, upstream, model, OTHER]) {
        for cause in CAUSES.map(CutCause::as_str).into_iter().chain([OTHER]) {
            cuts.of([route, upstream, model, cause]);
        }
    }
}

/// Shows the series of a proxy that keeps answers. `store`: the type of the store.
pub(crate) fn begin_kept(metrics: &Metrics, store: &'static str) {
    for outcome in RESUMED {
        metrics.kept.resumes.of([outcome]);
    }
    for reason in NOT_KEPT {
        metrics.kept.not_kept.of([reason]);
    }
    metrics.store(store, true);
    metrics.kept.duration.of([store]);
}

/// The causes of cuts, except [`OTHER`].
const CAUSES: [CutCause; 7] = [
    CutCause::Length,
    CutCause::Drop,
    CutCause::Eof,
    CutCause::Idle,
    CutCause::InBand,
    CutCause::PrematureStop,
    CutCause::UnknownFinish,
];

/// The ways in which continuations are joined.
const ALIGNMENTS: [Alignment; 7] = [
    Alignment::Anchor,
    Alignment::Exact,
    Alignment::Restart,
    Alignment::Reentry,
    Alignment::Overlap,
    Alignment::Repeat,
    Alignment::Start,
];

/// The ends of answers that the proxy reads.
const STATUSES_OF_ANSWERS: [Status; 5] = [
    Status::PassedThrough,
    Status::Complete,
    Status::Closed,
    Status::Incomplete,
    Status::Failed,
];

/// The outcomes of further calls.
const OUTCOMES: [&str; 5] = ["ok", "refused", "left", "repeats", "failed"];

/// The statuses that operators watch: of a healthy proxy, and of one whose upstream fails.
const STATUSES: [&str; 7] = ["200", "429", "500", "502", "503", "504", OTHER];

/// The statuses without a route that operators watch: of clients without access, of large requests,
/// and of a full proxy.
const STATUSES_WITHOUT_ROUTE: [&str; 5] = ["401", "403", "413", "431", "503"];

/// The outcomes of requests for the rest of kept answers.
const RESUMED: [&str; 7] = [
    "running", "ended", "restored", "unknown", "expired", "refused", "failed",
];

/// The reasons in `x-restitch-keep`, except `off`: such a proxy keeps no answers.
const NOT_KEPT: [&str; 6] = [
    "unread",
    "no_event_stream",
    "store",
    "max_kept_answers",
    "max_kept_bytes",
    "max_kept_answer_bytes",
];
