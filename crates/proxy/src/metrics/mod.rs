//! The metrics of the proxy, in the text format of OpenMetrics, which Prometheus reads.
//!
//! `gen_ai_…` are those of the [conventions of
//! OpenTelemetry](https://github.com/open-telemetry/semantic-conventions-genai), with their names,
//! labels and buckets as exporters for Prometheus write them. `restitch_…` are our own.
//! [`metric_rows`] describes each. [`series`] records a call or an answer when it has ended.

mod models;
mod series;
mod start;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::StatusCode;
pub(super) use models::provider_name;
#[cfg(feature = "otlp")]
pub(super) use models::shown_model;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
pub(super) use series::{Ended, record};
pub(super) use start::{begin_connections, begin_kept, begin_routes, begin_wire};
pub use table::MetricRow;

use models::Models;
use restitch::session::CutCause;
use restitch_http::{Expiry, Role};
use table::{Counters, Histograms, Table};

/// All metrics of a proxy. Its threads share them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    models: Models,
    calls: CallMetrics,
    answers: AnswerMetrics,
    seams: SeamMetrics,
    pub(super) requests: RequestMetrics,
    pub(super) kept: KeptMetrics,
    states: Mutex<States>,
}

impl Metrics {
    /// Creates metrics without a sample. `max_models`: see
    /// [`max_metric_models`](restitch::ServerLimits::max_metric_models).
    pub(super) fn new(max_models: usize) -> Self {
        Self::described(max_models).0
    }

    fn described(max_models: usize) -> (Self, Vec<MetricRow>) {
        let mut table = Table::default();
        let metrics = Self {
            models: Models::new(max_models),
            requests: RequestMetrics::new(&mut table),
            answers: AnswerMetrics::new(&mut table),
            calls: CallMetrics::new(&mut table),
            seams: SeamMetrics::new(&mut table),
            kept: KeptMetrics::new(&mut table),
            states: Mutex::new(States::new()),
            registry: table.registry,
        };
        (metrics, table.rows)
    }

    /// Returns all samples as text.
    pub(super) fn text(&self, moment: &Moment) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &self.gauges(moment).registry)?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }

    /// Returns the gauges, with their values at this moment.
    fn gauges(&self, moment: &Moment) -> Table {
        let (mut table, states) = (Table::default(), self.states.lock());
        table.gauge(
            "restitch_running",
            of_count(moment.running),
            "Requests of an API in progress",
        );
        table.gauge(
            "restitch_connections",
            of_count(moment.connections),
            "Open connections of clients",
        );
        table.gauge(
            "restitch_connections_limit",
            of_count(moment.max_connections),
            "The most open connections of clients: `max_connections`",
        );
        table.gauge(
            "restitch_draining",
            i64::from(moment.is_draining),
            "1 after the signal to stop, else 0",
        );
        let breakers = moment.upstreams.iter();
        table.gauges(
            "restitch_breaker_open",
            "upstream",
            breakers.map(|(upstream, is_failing)| (upstream.as_str(), (*is_failing).into())),
            "1 while most calls of a model at the upstream fail, so that few continuations are asked for, else 0",
        );
        // An open answer may still call an upstream of earlier routes.
        let reached = states.reached.iter();
        let reached = reached.filter(|(upstream, _)| moment.upstreams.contains_key(*upstream));
        table.gauges(
            "restitch_upstream_up",
            "upstream",
            reached.map(|(upstream, is_up)| (upstream.as_str(), (*is_up).into())),
            "1 if the last call of the upstream, or the last `/readyz?verbose`, found a connection, else 0",
        );
        let store = states.store;
        table.gauges(
            "restitch_store_up",
            "store",
            store.map(|(store, is_up)| (store, is_up.into())),
            "1 if the last operation of the store of kept answers succeeded, else 0",
        );
        let expiries = &states.expiries;
        table.gauges(
            "restitch_certificate_expiry_timestamp_seconds",
            "certificate",
            expiries.iter().copied(),
            "When the first certificate of each role (`server`, `client`, `ca`) expires, in seconds since 1970",
        );
        table.gauge(
            "restitch_config_last_reload_successful",
            i64::from(states.is_reloaded),
            "0 if the last reload found no valid configuration, else 1",
        );
        table.gauge(
            "restitch_config_last_reload_success_timestamp_seconds",
            states.reloaded_at,
            "When a valid configuration was last read, in seconds since 1970",
        );
        table.gauges(
            "restitch_build_info",
            "version",
            [(env!("CARGO_PKG_VERSION"), 1)],
            "1, with the version of the program",
        );
        table.gauge(
            "process_start_time_seconds",
            states.started_at,
            "When the process started, in seconds since 1970",
        );
        table.gauge(
            "process_resident_memory_bytes",
            resident_memory().map(of_count),
            "Memory of the process",
        );
        table.gauge(
            "process_open_fds",
            open_files().map(of_count),
            "Open file descriptors of the process",
        );
        table
    }

    /// Notes whether an upstream was reachable.
    pub(super) fn reached(&self, upstream: &str, is_up: bool) {
        let mut states = self.states.lock();
        match states.reached.get_mut(upstream) {
            Some(known) => *known = is_up,
            None => drop(states.reached.insert(upstream.to_owned(), is_up)),
        }
    }

    /// Takes over the earliest expiry of the certificates of each role.
    pub(super) fn certificates(&self, expiries: &[&Expiry]) {
        let of_role = |role: Role| {
            let of_role = expiries.iter().filter(|expiry| expiry.role == role);
            let end = of_role.filter_map(|expiry| expiry.at).min()?;
            Some((role.as_str(), seconds(end)))
        };
        self.states.lock().expiries = Role::ALL.into_iter().filter_map(of_role).collect();
    }

    /// Notes whether a reload has read a valid configuration.
    pub(super) fn reloaded(&self, is_valid: bool) {
        let mut states = self.states.lock();
        states.is_reloaded = is_valid;
        if is_valid {
            states.reloaded_at = now();
        }
    }

    /// Notes whether the store has carried out an operation.
    pub(super) fn store(&self, store: &'static str, is_up: bool) {
        self.states.lock().store = Some((store, is_up));
        self.kept.errors.of([store]).inc_by(u64::from(!is_up));
    }

    /// Counts a request that has ended. `route`, `upstream`: empty if the request was refused before
    /// it had a route. A server may send any status, so unknown ones share a label.
    pub(super) fn request(&self, route: &str, upstream: &str, status: Option<StatusCode>) {
        let known = status.filter(|status| status.canonical_reason().is_some());
        let status = known.as_ref().map_or(OTHER, StatusCode::as_str);
        self.requests.all.of([route, upstream, status]).inc();
    }
}

/// Returns a row for each metric of `/metrics`.
pub fn metric_rows() -> Vec<MetricRow> {
    let (metrics, mut rows) = Metrics::described(0);
    rows.extend(metrics.gauges(&Moment::default()).rows);
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// The state of the proxy at the time of a scrape.
#[derive(Debug, Default)]
pub(super) struct Moment {
    /// Requests of an API in progress.
    pub(super) running: usize,
    /// Open connections of clients.
    pub(super) connections: usize,
    pub(super) max_connections: usize,
    pub(super) is_draining: bool,
    /// The upstreams of the present routes, and whether most calls of a model there fail.
    pub(super) upstreams: BTreeMap<String, bool>,
}

/// The results of events that gauges show.
#[derive(Debug)]
struct States {
    started_at: i64,
    is_reloaded: bool,
    reloaded_at: i64,
    /// The upstreams that were called, and whether the last call found a connection.
    reached: BTreeMap<String, bool>,
    /// The roles of certificates, and when they expire.
    expiries: Vec<(&'static str, i64)>,
    /// The type of the store, and whether its last operation succeeded.
    store: Option<(&'static str, bool)>,
}

impl States {
    /// Returns the states of a process that starts now, with a valid configuration.
    fn new() -> Self {
        Self {
            started_at: now(),
            is_reloaded: true,
            reloaded_at: now(),
            reached: BTreeMap::new(),
            expiries: Vec::new(),
            store: None,
        }
    }
}

/// The metrics of all requests, including those that pass unread. A client can choose only among
/// the operator's routes and upstreams, so the labels are bounded.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    all: Counters<3>,
    fallbacks: Counters<3>,
    pub(super) connections_refused: Counters<1>,
    pub(super) handshakes: Counters<1>,
}

impl RequestMetrics {
    fn new(table: &mut Table) -> Self {
        Self {
            all: table.counters(
                "restitch_requests",
                ["route", "upstream", "status"],
                "Requests except `/healthz`, by the client's status. `route` and `upstream` are empty for refusals before a route was chosen",
            ),
            fallbacks: table.counters(
                "restitch_fallbacks",
                ["route", "upstream", "part"],
                "Switches to the fallback `upstream`, for the `whole` answer or its `rest`, counted when the answer has ended",
            ),
            connections_refused: table.counters(
                "restitch_connections_refused",
                ["reason"],
                "Connections of clients over the limit `reason`",
            ),
            handshakes: table.counters(
                "restitch_tls_handshake_failures",
                ["reason"],
                "TLS handshakes with clients that have failed",
            ),
        }
    }
}

/// The metrics of each answer to a client.
#[derive(Debug)]
struct AnswerMetrics {
    ended: Counters<5>,
    errors: Counters<3>,
    given_up: Counters<3>,
    duration: Histograms<5>,
    first_token: Histograms<4>,
    per_token: Histograms<4>,
}

impl AnswerMetrics {
    fn new(table: &mut Table) -> Self {
        Self {
            ended: table.counters(
                "restitch_answers",
                ["route", "wire", "slot", "status", "token"],
                "Answers to requests of an API, by their end and the client's token; `slot` is the content that ended worst",
            ),
            errors: table.counters(
                "restitch_answer_errors",
                ["route", "model", "error_type"],
                "Answers that ended with an error: a status, the outcome, `left` or `broken`",
            ),
            given_up: table.counters(
                "restitch_given_up",
                ["route", "model", "stop"],
                "Answers that were given up, by the reason `stop`",
            ),
            duration: table.histograms(
                "gen_ai_server_request_duration_seconds",
                ENDED,
                &CALL,
                "Time from a request to the last byte for its client",
            ),
            first_token: table.histograms(
                "gen_ai_server_time_to_first_token_seconds",
                OPERATION,
                &[0.1, 0.25, 0.5, 1.0, 2.5, 10.0],
                "Time from a request to the first bytes of its stream, without answers that ended with an error",
            ),
            per_token: table.histograms(
                "gen_ai_server_time_per_output_token_seconds",
                OPERATION,
                &[0.01, 0.025, 0.05, 0.1, 0.3],
                "Time for each output token of a stream after its first bytes, if the upstreams report the tokens of all calls",
            ),
        }
    }
}

/// The metrics of each upstream call.
#[derive(Debug)]
struct CallMetrics {
    further: Counters<4>,
    errors: Counters<4>,
    tokens: Counters<2>,
    duration: Histograms<5>,
    first_chunk: Histograms<4>,
    usage: Histograms<5>,
}

impl CallMetrics {
    fn new(table: &mut Table) -> Self {
        Self {
            further: table.counters(
                "restitch_calls",
                ["route", "upstream", "rung", "outcome"],
                "Calls after the first one of an answer; `repeats`: the call brought only text that the answer already had",
            ),
            errors: table.counters(
                "restitch_call_errors",
                ["route", "upstream", "model", "error_type"],
                "Calls that ended with an error: a status, or how the connection was lost",
            ),
            tokens: table.counters(
                "restitch_tokens",
                ["route", "use"],
                "Output tokens that upstreams report: `kept` of first, reattached and `token` calls, `regenerated` of all others",
            ),
            duration: table.histograms(
                "gen_ai_client_operation_duration_seconds",
                ENDED,
                &CALL,
                "Time of an upstream call, from its request to the end of its response",
            ),
            first_chunk: table.histograms(
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                OPERATION,
                &[0.16, 0.32, 0.64, 1.28, 2.56, 10.24],
                "Time from the request of an upstream call to the first bytes of its stream",
            ),
            usage: table.histograms(
                "gen_ai_client_token_usage",
                [
                    "route",
                    "gen_ai_provider_name",
                    "gen_ai_operation_name",
                    "gen_ai_request_model",
                    "gen_ai_token_type",
                ],
                &[16.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0],
                "Tokens of an upstream call, `input` or `output`, that the upstream reports",
            ),
        }
    }
}

/// The metrics of cuts and of joined continuations.
#[derive(Debug)]
struct SeamMetrics {
    cuts: Counters<4>,
    joined: Counters<2>,
    flagged: Counters<3>,
    gap: Histograms<1>,
    pending: Histograms<1>,
}

impl SeamMetrics {
    fn new(table: &mut Table) -> Self {
        Self {
            cuts: table.counters(
                "restitch_cuts",
                ["route", "upstream", "model", "cause"],
                "Cut slots of first calls, and cut calls for the rest that brought text, counted when the answer has ended",
            ),
            joined: table.counters(
                "restitch_seams",
                ["route", "kind"],
                "Continuations that were joined, by the alignment `kind`",
            ),
            flagged: table.counters(
                "restitch_flagged_seams",
                ["route", "model", "flag"],
                "Joined continuations that may be wrong: `ambiguous` or `early_end`",
            ),
            gap: table.histograms(
                "restitch_gap_seconds",
                ["route"],
                &CALL,
                "Time from a cut to the first text of the continuation that was joined",
            ),
            pending: table.histograms(
                "restitch_pending_bytes",
                ["route"],
                // Up to the default `max_pending_bytes`.
                &[16.0, 256.0, 1024.0, 4096.0, 65536.0],
                "Bytes of a joined continuation that waited until its offset was decided",
            ),
        }
    }
}

/// The metrics of kept answers.
#[derive(Debug)]
pub(super) struct KeptMetrics {
    pub(super) resumes: Counters<1>,
    pub(super) not_kept: Counters<1>,
    errors: Counters<1>,
    pub(super) duration: Histograms<1>,
}

impl KeptMetrics {
    fn new(table: &mut Table) -> Self {
        Self {
            resumes: table.counters(
                "restitch_resumes",
                ["outcome"],
                "Requests for the rest of a kept answer",
            ),
            not_kept: table.counters(
                "restitch_answers_not_kept",
                ["reason"],
                "Answers that are not kept, or not to their end, although the client or the operator asks for it",
            ),
            errors: table.counters(
                "restitch_store_errors",
                ["store"],
                "Operations that the store of kept answers has not carried out",
            ),
            duration: table.histograms(
                "restitch_store_duration_seconds",
                ["store"],
                // Up to the time after which an operation fails.
                &[0.001, 0.005, 0.025, 0.1, 0.5, 2.0],
                "Time of an operation of the store of kept answers, except in memory",
            ),
        }
    }
}

/// The labels of an operation that a request asks of a model.
const OPERATION: [&str; 4] = [
    "route",
    "gen_ai_provider_name",
    "gen_ai_operation_name",
    "gen_ai_request_model",
];
/// The labels of an operation that has ended. Its error is empty or [`ERROR`]: each error of each
/// model would need a histogram of its own.
const ENDED: [&str; 5] = [
    "route",
    "gen_ai_provider_name",
    "gen_ai_operation_name",
    "gen_ai_request_model",
    "error_type",
];
/// The bounds of the seconds of a call, an answer and a gap: most calls with text take 2 to 20
/// seconds. Like those of the other `gen_ai_…`, they are some of the conventions' boundaries: all of
/// them would make `/metrics` half as long again, since each route, provider and model has
/// histograms of its own.
const CALL: [f64; 8] = [0.16, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 81.92];
/// The value that the conventions have for errors without a name.
const ERROR: &str = "_OTHER";

/// Returns the name of why a call was cut.
pub(super) fn cause_name(cause: Option<CutCause>) -> &'static str {
    cause.map_or(OTHER, CutCause::as_str)
}

/// The label of all models without their own label, and of all other values without a name.
pub(super) const OTHER: &str = "other";

/// Returns the memory of the process in bytes. `None`: the system has no `/proc`.
fn resident_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = size.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the number of open file descriptors. `None`: the system has no `/proc`.
fn open_files() -> Option<usize> {
    let listed = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // The listing itself needs one.
    Some(listed.saturating_sub(1))
}

fn of_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy does I/O: it shows the time of a start or a reload"
    )]
    seconds(SystemTime::now())
}

/// Returns the seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.as_ref().map_or(0, Duration::as_secs)).unwrap_or(i64::MAX)
}
