//! Rounds in turn: every party runs once a round, so that a disturbance of the machine affects all
//! of them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A party's turn is repeated until it has taken this long, because a clock is coarse.
const TURN: Duration = Duration::from_millis(2);

/// One party: a name, and a run over the input.
pub struct Party<'a> {
    /// The row's name.
    pub name: &'static str,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Party<'a> {
    /// Takes a `run` that reads the whole input once.
    pub fn new(name: &'static str, run: impl FnMut() + 'a) -> Self {
        Self {
            name,
            run: Box::new(run),
        }
    }

    /// Returns the nanoseconds of one run, from as many runs as fill a turn.
    fn turn(&mut self) -> f64 {
        let start = now();
        let mut runs = 0;
        loop {
            (self.run)();
            runs += 1;
            let taken = now().saturating_sub(start);
            if taken >= TURN {
                return taken.as_nanos() as f64 / f64::from(runs);
            }
        }
    }
}

/// The result of the rounds: for each party the nanoseconds of a run, round by round.
pub struct Times(pub Vec<Vec<f64>>);

impl Times {
    /// Returns the nanoseconds of a run, the median of all rounds.
    pub fn median(&self, party: usize) -> f64 {
        median(self.0[party].clone())
    }

    /// Returns how many times longer `party` takes than `peer`: the median of the rounds' ratios.
    pub fn ratio(&self, party: usize, peer: usize) -> f64 {
        median(
            self.0[party]
                .iter()
                .zip(&self.0[peer])
                .map(|(a, b)| a / b)
                .collect(),
        )
    }
}

/// Returns the processor time of this thread, including the kernel's for it.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Runs one round to warm up, then the rounds that count.
pub fn race(parties: &mut [Party<'_>], rounds: usize) -> Times {
    for party in parties.iter_mut() {
        (party.run)();
    }
    let mut times = vec![Vec::new(); parties.len()];
    for _ in 0..rounds {
        for (party, times) in parties.iter_mut().zip(&mut times) {
            times.push(party.turn());
        }
    }
    Times(times)
}

/// Returns the median.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
