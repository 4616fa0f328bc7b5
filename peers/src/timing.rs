//! Rounds in turn: every party runs once a round, so that what disturbs the machine disturbs all of them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A party's turn is repeated until it has taken this long: a clock is coarse.
const TURN: Duration = Duration::from_millis(2);

/// One who races: a name, and a run over the input.
pub struct Party<'a> {
    /// The row's name.
    pub name: &'static str,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Party<'a> {
    /// `run` goes over the whole input once.
    pub fn new(name: &'static str, run: impl FnMut() + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// Nanoseconds of one run, of as many as fill a turn.
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

/// What the rounds gave: for each party the nanoseconds of a run, round by round.
pub struct Times(pub Vec<Vec<f64>>);

impl Times {
    /// Nanoseconds of a run, the median of all rounds.
    pub fn median(&self, party: usize) -> f64 {
        median(self.0[party].clone())
    }

    /// How many times as long `party` takes as `peer`: the median of the rounds' ratios.
    pub fn ratio(&self, party: usize, peer: usize) -> f64 {
        median(self.0[party].iter().zip(&self.0[peer]).map(|(a, b)| a / b).collect())
    }
}

/// The processor time that this thread has had, with the kernel's on its behalf.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// One round to warm up, then so many that count.
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

/// The middle one.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
