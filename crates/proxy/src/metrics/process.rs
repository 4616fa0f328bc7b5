//! The metrics of the process and of its configuration. Most are read when they are shown.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::labels::{OfBuild, OfUpstream};
use super::names;
use crate::recorded::{Number, Numbers, Sinks};

/// The state of the proxy at the time of a scrape.
#[derive(Debug)]
pub(in super::super) struct ProcessState {
    /// Open connections of clients.
    pub(in super::super) connections: usize,
    pub(in super::super) max_connections: usize,
    pub(in super::super) is_draining: bool,
    /// The upstreams of the present routes, and whether most calls of a model there fail.
    pub(in super::super) breakers: BTreeMap<String, bool>,
}

/// The metrics of the process.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    /// `None`: the system does not tell.
    memory: Option<Number>,
    open_files: Option<Number>,
    connections: Number,
    connection_limit: Number,
    reloaded: Number,
    reloaded_at: Number,
    draining: Number,
    breakers: Numbers<OfUpstream>,
}

impl ProcessMetrics {
    /// Creates the metrics of a process that starts now, with a valid configuration.
    pub(super) fn new(sinks: &mut Sinks<'_>) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        sinks.numbers(names::BUILD).set(&OfBuild { version }, true);
        sinks.number(names::START).set(now());
        let metrics = Self {
            memory: resident_memory().map(|_| sinks.number(names::MEMORY)),
            open_files: open_files().map(|_| sinks.number(names::OPEN_FILES)),
            connections: sinks.number(names::CONNECTIONS),
            connection_limit: sinks.number(names::CONNECTION_LIMIT),
            reloaded: sinks.number(names::RELOADED),
            reloaded_at: sinks.number(names::RELOADED_AT),
            draining: sinks.number(names::DRAINING),
            breakers: sinks.numbers(names::BREAKER_OPEN),
        };
        metrics.note_reload(true);
        metrics
    }

    /// Notes whether the configuration was read.
    pub(super) fn note_reload(&self, is_valid: bool) {
        self.reloaded.set(is_valid);
        if is_valid {
            self.reloaded_at.set(now());
        }
    }

    /// Takes over the state of this moment.
    pub(super) fn show(&self, state: &ProcessState) {
        let figures = [
            (self.memory.as_ref(), resident_memory()),
            (self.open_files.as_ref(), open_files()),
            (Some(&self.connections), Some(state.connections)),
            (Some(&self.connection_limit), Some(state.max_connections)),
            (Some(&self.draining), Some(usize::from(state.is_draining))),
        ];
        for (metric, figure) in figures {
            if let (Some(metric), Some(figure)) = (metric, figure) {
                metric.set(i64::try_from(figure).unwrap_or(i64::MAX));
            }
        }
        self.breakers
            .retain(|shown| state.breakers.contains_key(&shown.upstream));
        for (upstream, is_open) in &state.breakers {
            let upstream = upstream.clone();
            self.breakers.set(&OfUpstream { upstream }, *is_open);
        }
    }
}

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
    // The listing itself needs one.
    Some(
        std::fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}

/// Returns the seconds since 1970.
fn now() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy does I/O: it shows the time of a start or a reload"
    )]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.as_ref().map_or(0, Duration::as_secs)).unwrap_or(i64::MAX)
}
