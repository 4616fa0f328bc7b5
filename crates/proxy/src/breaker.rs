//! Counts how the calls of each model end, and spaces the calls for continuations while most calls
//! fail. It has no clock: `now` is the time since any fixed moment.

use std::time::Duration;

use restitch::ContinuationLimits;
use restitch::internal::capability::ByModel;

/// The recent calls of each model. Its owner locks it.
#[derive(Debug)]
pub(super) struct Breaker {
    models: ByModel<CallWindow>,
    window: Duration,
    min_calls: u32,
}

/// The recent calls of one model, in parts of the window.
#[derive(Debug, Default)]
struct CallWindow {
    parts: [Calls; PARTS as usize],
    /// Whether most calls had failed when the last one ended.
    is_open: bool,
    /// The time of the last call that was admitted although most calls fail.
    probed_at: Option<Duration>,
}

/// The calls that ended in one part of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    /// The number of the part, counted from moment zero.
    number: u128,
    pub(super) made: u32,
    /// The calls that got 429, 5xx or no answer.
    pub(super) failed: u32,
}

impl Breaker {
    pub(super) fn new(limits: &ContinuationLimits) -> Self {
        Self {
            models: ByModel::default(),
            window: limits.overload_window,
            min_calls: limits.overload_min_calls.max(1),
        }
    }

    /// Counts a call. Returns the counts if this call changes whether most calls fail.
    pub(super) fn count(
        &mut self,
        model: &str,
        now: Duration,
        failed: bool,
    ) -> Option<(bool, Calls)> {
        if self.window.is_zero() {
            return None;
        }
        let (number, min_calls) = (self.part(now), self.min_calls);
        let window = self.models.entry(model)?;
        let part = &mut window.parts[(number % u128::from(PARTS)) as usize];
        if part.number != number {
            *part = Calls {
                number,
                ..Calls::default()
            };
        }
        part.made = part.made.saturating_add(1);
        part.failed = part.failed.saturating_add(u32::from(failed));
        let calls = window.calls(number);
        // A success never opens the breaker.
        let is_open = calls.most_fail(min_calls) && failed;
        if window.is_open && !is_open {
            // The upstream answers again, so earlier failures no longer count.
            *window = CallWindow {
                is_open: true,
                ..CallWindow::default()
            };
        }
        (std::mem::replace(&mut window.is_open, is_open) != is_open).then_some((is_open, calls))
    }

    /// Returns whether a call of a model may be made now. While most of its calls fail, admits one
    /// call a second, to find out whether the upstream answers again.
    pub(super) fn admits(&mut self, model: &str, now: Duration) -> bool {
        let (number, min_calls) = (self.part(now), self.min_calls);
        let Some(window) = self
            .models
            .get_mut(model)
            .filter(|window| window.calls(number).most_fail(min_calls))
        else {
            return true;
        };
        let is_due = window
            .probed_at
            .is_none_or(|at| now.saturating_sub(at) >= PROBE);
        if is_due {
            window.probed_at = Some(now);
        }
        is_due
    }

    /// Returns whether most calls of a model fail now. `is_of`: chooses the models.
    pub(super) fn is_open(&self, now: Duration, is_of: impl Fn(&str) -> bool) -> bool {
        let (number, min_calls) = (self.part(now), self.min_calls);
        let mut models = self.models.iter().filter(|(model, _)| is_of(model));
        models.any(|(_, window)| window.calls(number).most_fail(min_calls))
    }

    /// Returns the number of the part that contains a moment.
    fn part(&self, now: Duration) -> u128 {
        now.as_nanos() * u128::from(PARTS) / self.window.as_nanos().max(1)
    }
}

impl CallWindow {
    /// Returns the sum of the calls in the window that ends with a part.
    fn calls(&self, number: u128) -> Calls {
        let counted = self
            .parts
            .iter()
            .filter(|part| part.number + u128::from(PARTS) > number);
        counted.fold(Calls::default(), |sum, part| Calls {
            number,
            made: sum.made.saturating_add(part.made),
            failed: sum.failed.saturating_add(part.failed),
        })
    }
}

impl Calls {
    fn most_fail(self, min_calls: u32) -> bool {
        self.made >= min_calls && self.failed > self.made / 2
    }
}

// One call a second harms no server, and an answer that waits loses little.
/// The time between two admitted calls while most calls fail.
const PROBE: Duration = Duration::from_secs(1);

// A window drops its oldest calls one part at a time, so its length varies by a tenth.
/// The parts of a window.
const PARTS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use restitch::Limits;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new(&Limits::default().continuation)
    }

    #[test]
    fn opens_when_most_calls_fail_and_lets_one_call_a_second_through() {
        let mut breaker = breaker();
        for n in 1..=9 {
            assert!(
                breaker.count("m", SECOND, true).is_none(),
                "{n} calls say nothing"
            );
        }
        assert!(breaker.admits("m", SECOND) && breaker.admits("m", SECOND));
        let (is_open, calls) = breaker.count("m", SECOND, true).unwrap();
        assert_eq!((is_open, calls.made, calls.failed), (true, 10, 10));
        assert!(
            breaker.count("m", SECOND, true).is_none(),
            "the change is reported once"
        );
        assert!(
            breaker.admits("m", SECOND),
            "the first call after that is a probe"
        );
        assert!(!breaker.admits("m", SECOND) && !breaker.admits("m", SECOND + SECOND / 2));
        assert!(breaker.admits("n", SECOND), "another model");
        let is_open = |model, now| breaker.is_open(now, |other| other == model);
        assert!(is_open("m", SECOND) && !is_open("n", SECOND) && !is_open("m", 11 * SECOND));
        assert!(breaker.admits("m", 2 * SECOND) && !breaker.admits("m", 2 * SECOND));
        assert!(
            breaker.admits("m", 11 * SECOND) && breaker.admits("m", 11 * SECOND),
            "ten seconds later"
        );
    }

    #[test]
    fn half_is_not_most() {
        let mut breaker = breaker();
        for n in 0..20 {
            assert!(breaker.count("m", SECOND, n % 2 == 1).is_none());
        }
        assert!(matches!(breaker.count("m", SECOND, true), Some((true, _))));
        assert!(matches!(
            breaker.count("m", SECOND, false),
            Some((false, _))
        ));
    }

    #[test]
    fn nothing_is_counted_without_a_window() {
        let limits = Limits::default()
            .with_overload_window(Duration::ZERO)
            .continuation;
        let mut breaker = Breaker::new(&limits);
        assert!(
            (0..100)
                .all(|_| breaker.count("m", SECOND, true).is_none() && breaker.admits("m", SECOND))
        );
    }

    #[test]
    fn models_are_bounded() {
        let mut breaker = breaker();
        for n in 0..5000 {
            breaker.count(&format!("m{n}"), SECOND, true);
        }
        assert!(breaker.models.models() <= 1024);
        breaker.count(&"a".repeat(257), SECOND, true);
        assert!(breaker.models.get(&"a".repeat(257)).is_none());
    }
}
