//! The series that are shown with 0 before their first event: Prometheus sees no increase in a
//! series that starts at 1, so a query would miss the event.
//!
//! The configuration bounds these series. Those with an API begin with its first request on a
//! route, and those with a model when an upstream has answered for it.

use std::sync::Arc;

use super::labels::{
    Cut, EndedAnswer, FailedHandshake, FallbackCall, FurtherCall, Joined, NotKept, OfAnswer,
    RefusedConnection, Resume, Routed, TokenUse,
};
use super::{Metrics, OTHER};
use crate::fallback::Part;
use crate::route::Route;
use restitch::internal::record::CallKind;
use restitch::internal::wire::SlotKind;
use restitch::session::{CutCause, Rung, Status};
use restitch::splice::Alignment;

impl Metrics {
    /// Shows the connections refused over each of these limits.
    pub(in super::super) fn begin_refused(&self, limits: &[&'static str]) {
        for reason in limits {
            let series = RefusedConnection { reason };
            self.requests.connections_refused.begin(&series);
        }
    }

    /// Shows the series of a configuration's routes, and of requests that are refused before they
    /// have one.
    pub(in super::super) fn begin_routes<'a>(&self, routes: impl Iterator<Item = &'a Route>) {
        for status in STATUSES_WITHOUT_ROUTE {
            self.requests.routed.begin(&Routed {
                route: String::new(),
                upstream: String::new(),
                status: status.to_owned(),
            });
        }
        for route in routes {
            self.begin_route(route);
        }
    }

    fn begin_route(&self, route: &Route) {
        let name: Arc<str> = Arc::from(route.config.name.as_str());
        let answer = OfAnswer { route: name };
        for r#use in ["kept", "regenerated"] {
            let answer = answer.clone();
            self.calls.tokens.begin(&TokenUse { answer, r#use });
        }
        for kind in ALIGNMENTS.map(Alignment::as_str) {
            let answer = answer.clone();
            self.seams.joined.begin(&Joined { answer, kind });
        }
        self.seams.gap.begin(&answer);
        self.seams.pending.begin(&answer);
        for client in route.clients() {
            let upstream: Arc<str> = Arc::from(client.upstream().authority());
            for status in STATUSES {
                self.requests.routed.begin(&Routed {
                    route: answer.route.to_string(),
                    upstream: upstream.to_string(),
                    status: status.to_owned(),
                });
            }
            let rungs = Rung::ALL.map(CallKind::Rest).into_iter();
            for rung in rungs.chain([CallKind::Original]).map(CallKind::as_str) {
                for outcome in OUTCOMES {
                    self.calls.further.begin(&FurtherCall {
                        answer: answer.clone(),
                        upstream: Arc::clone(&upstream),
                        rung,
                        outcome,
                    });
                }
            }
        }
        for fallback in &route.fallbacks {
            for part in [Part::Whole, Part::Rest].map(Part::as_str) {
                self.requests.fallbacks.begin(&FallbackCall {
                    route: answer.route.to_string(),
                    upstream: fallback.client.upstream().authority().to_owned(),
                    part,
                });
            }
        }
    }

    /// Shows the ends of answers of an API on a route, for a token.
    pub(in super::super) fn begin_wire(
        &self,
        answer: &OfAnswer,
        wire: &'static str,
        token: &Arc<str>,
    ) {
        let series = |slot, status| EndedAnswer {
            answer: answer.clone(),
            wire,
            slot,
            status,
            token: Arc::clone(token),
        };
        let ended = &self.answers.ended;
        for status in STATUSES_OF_ANSWERS.map(Status::as_str) {
            for slot in [SlotKind::Text, SlotKind::Arguments].map(slot_name) {
                ended.begin(&series(slot, status));
            }
        }
        for status in ["refused", "left", "unread"] {
            ended.begin(&series("unread", status));
        }
    }

    /// Shows the cuts of a model at an upstream.
    pub(super) fn begin_model(&self, answer: &OfAnswer, upstream: &Arc<str>, model: &Arc<str>) {
        let series = |cause| Cut {
            answer: answer.clone(),
            upstream: Arc::clone(upstream),
            model: Arc::clone(model),
            cause,
        };
        let cuts = &self.seams.cuts;
        if !cuts.has(&series(OTHER)) {
            let causes = CAUSES.map(CutCause::as_str).into_iter();
            causes
                .chain([OTHER])
                .for_each(|cause| cuts.begin(&series(cause)));
        }
    }

    /// Shows the series of a proxy that keeps answers. `store`: the type of the store.
    pub(in super::super) fn begin_kept(&self, store: &'static str) {
        let kept = &self.kept;
        for outcome in [
            "running", "ended", "restored", "unknown", "expired", "refused", "failed",
        ] {
            kept.resumes.begin(&Resume { outcome });
        }
        for reason in NOT_KEPT {
            kept.not_kept.begin(&NotKept { reason });
        }
        kept.note_store(store, true);
        kept.begin_store_time(store);
    }

    /// Shows the failed handshakes of a proxy with a certificate.
    pub(in super::super) fn begin_handshakes(&self, reasons: &[&'static str]) {
        for reason in reasons {
            self.tls.handshakes.begin(&FailedHandshake { reason });
        }
    }
}

/// Returns the label of a slot's content.
pub(in super::super) fn slot_name(slot: SlotKind) -> &'static str {
    match slot {
        SlotKind::Text => "text",
        SlotKind::Arguments => "arguments",
    }
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

/// The reasons in `x-restitch-keep`, except `off`: such a proxy keeps no answers.
const NOT_KEPT: [&str; 6] = [
    "unread",
    "no_event_stream",
    "store",
    "max_kept_answers",
    "max_kept_bytes",
    "max_kept_answer_bytes",
];
