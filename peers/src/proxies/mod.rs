//! Proxies beside each other and beside a connection without one: an upstream, its clients, and the
//! kernel's figures of the processes.

pub mod client;
pub mod outages;
pub mod party;
pub mod upstream;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the clock that the upstream writes and its clients read, in nanoseconds.
pub fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32).as_nanos() as u64
}
