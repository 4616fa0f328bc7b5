//! The answers that the operator's page shows: the running ones and the last finished ones.
//!
//! The list keeps facts about every answer, and text only if the operator wants it. A request
//! handler appends here and never waits for a reader: no lock is held for longer than a copy takes.

mod answer;
mod client_events;
mod observed_stream;
mod stop;
mod text;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

pub(super) use answer::ListedAnswer;
pub(super) use client_events::ClientChunk;
pub(super) use observed_stream::ObservedStream;
pub(super) use stop::{Stop, Stopped};

use parking_lot::{Mutex, MutexGuard};

use super::record::SharedRecord;
use super::upstream::random_name;
use restitch::ServerLimits;

/// The listed answers of a proxy. Its threads share them.
#[derive(Debug)]
pub(super) struct AnswerList {
    /// The number of last answers that keep their text.
    keeps: usize,
    most: Most,
    known: Mutex<Known>,
    /// Bytes of text that all answers keep together.
    kept: AtomicUsize,
}

/// The most bytes of text that are kept.
#[derive(Clone, Copy, Debug)]
struct Most {
    of_answer: usize,
    of_all: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Answers so far.
    count: u64,
    /// The names of all answers in the lists below.
    names: HashSet<String>,
    running: BTreeMap<u64, Arc<ListedAnswer>>,
    /// Those that have not failed, the oldest one first.
    ended: VecDeque<Arc<ListedAnswer>>,
    /// Those that have failed, so that others don't displace them. The oldest one first.
    failed: VecDeque<Arc<ListedAnswer>>,
    /// The answers that keep their text, the oldest one first.
    with_text: VecDeque<Weak<ListedAnswer>>,
}

impl AnswerList {
    /// Creates a list without answers. `keeps`: how many of the last answers keep their text.
    pub(super) fn new(keeps: usize, limits: &ServerLimits) -> Self {
        let most = Most {
            of_answer: limits.max_page_answer_bytes,
            of_all: limits.max_page_bytes,
        };
        Self {
            keeps,
            most,
            known: Mutex::default(),
            kept: AtomicUsize::new(0),
        }
    }

    /// Returns how many of the last answers keep their text.
    pub(super) fn keeps(&self) -> usize {
        self.keeps
    }

    /// Adds a new answer. Its name is the request's id, unless another answer has that name.
    pub(super) fn begin(
        self: &Arc<Self>,
        request_id: &str,
        record: SharedRecord,
    ) -> Arc<ListedAnswer> {
        let mut known = self.known.lock();
        let number = known.count;
        known.count += 1;
        // A browser removes dot segments from a path, so it could not name this answer.
        let id = if request_id.starts_with('.') || known.names.contains(request_id) {
            random_name()
        } else {
            request_id.to_owned()
        };
        known.names.insert(id.clone());
        let answer = Arc::new(ListedAnswer::new(number, id, record, self));
        known.running.insert(number, Arc::clone(&answer));
        if self.keeps > 0 {
            known.with_text.push_back(Arc::downgrade(&answer));
            if known.with_text.len() > self.keeps {
                drop_oldest_text(known, "page_answers");
            }
        }
        answer
    }

    /// Moves an answer to those that have ended.
    fn end(&self, answer: &ListedAnswer, has_failed: bool) {
        let mut known = self.known.lock();
        let Some(answer) = known.running.remove(&answer.number) else {
            return;
        };
        let (list, most) = match has_failed {
            true => (&mut known.failed, MOST_FAILED),
            false => (&mut known.ended, MOST_ENDED),
        };
        list.push_back(answer);
        let is_full = list.len() > most.max(self.keeps);
        let oldest = if is_full { list.pop_front() } else { None };
        if let Some(oldest) = &oldest {
            known.names.remove(&oldest.id);
        }
        // Frees the dropped answer without the lock.
        drop(known);
        drop(oldest);
    }

    /// Returns an answer by its name.
    pub(super) fn find(&self, id: &str) -> Option<Arc<ListedAnswer>> {
        let known = self.known.lock();
        let has_id = |answer: &&Arc<ListedAnswer>| answer.id == id;
        let ended = known.ended.iter().chain(&known.failed);
        ended.chain(known.running.values()).find(has_id).cloned()
    }

    /// Returns the answers, the newest one first: at most [`MOST_LISTED`] running ones, and all
    /// finished ones. Also returns the number of running ones.
    pub(super) fn list(&self) -> (Vec<Arc<ListedAnswer>>, usize) {
        let known = self.known.lock();
        let running = known.running.values().rev().take(MOST_LISTED);
        let ended = known.ended.iter().chain(&known.failed);
        let mut list: Vec<_> = running.chain(ended).cloned().collect();
        let count = known.running.len();
        drop(known);
        list.sort_unstable_by_key(|answer| std::cmp::Reverse(answer.number));
        (list, count)
    }

    /// Returns the number of running answers.
    pub(super) fn running(&self) -> usize {
        self.known.lock().running.len()
    }

    /// Reserves room for bytes of an answer's text, by dropping the oldest texts of other answers.
    /// The caller must not hold the lock of `answer`'s texts. Returns whether there is room: never,
    /// if these bytes alone exceed the limit.
    fn reserve(&self, bytes: usize, answer: &ListedAnswer) -> bool {
        if bytes > self.most.of_all {
            return false;
        }
        loop {
            let kept = self
                .kept
                .fetch_add(bytes, Ordering::Relaxed)
                .saturating_add(bytes);
            if kept <= self.most.of_all {
                return true;
            }
            self.release(bytes);
            let known = self.known.lock();
            match known.with_text.front().map(Weak::upgrade) {
                None => return false,
                Some(Some(oldest)) if oldest.number == answer.number => return false,
                Some(_) => drop_oldest_text(known, "max_page_bytes"),
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Drops the oldest text, and frees it without the lock.
fn drop_oldest_text(mut known: MutexGuard<'_, Known>, limit: &'static str) {
    let oldest = known.with_text.pop_front().as_ref().and_then(Weak::upgrade);
    drop(known);
    if let Some(oldest) = oldest {
        oldest.drop_text(limit);
    }
}

/// The number of finished answers in the list that have not failed, unless more keep their text:
/// some minutes of a busy proxy.
const MOST_ENDED: usize = 200;
/// The number of failed answers in the list, unless more keep their text: the operator looks at
/// them later.
const MOST_FAILED: usize = 100;
/// The most running answers in the list: more than people read.
const MOST_LISTED: usize = 500;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;
    use crate::record::{BodyEnd, Delivery, Event};

    /// Ends an answer with a status.
    fn end(answer: &ListedAnswer, record: &SharedRecord, status: u16) {
        let mut record = record.lock();
        record.apply(Event::Status(StatusCode::from_u16(status).unwrap()));
        record.apply(Event::Ended(Delivery {
            end: BodyEnd::Whole,
            duration: Some(Duration::ZERO),
            ..Delivery::default()
        }));
        answer.follow(&record, None);
    }

    /// An operator looks at a failure after many other answers.
    #[test]
    fn failed_answers_are_kept_apart() {
        let answers = Arc::new(AnswerList::new(0, &ServerLimits::default()));
        let end_one = |id: &str, status| {
            let record = SharedRecord::default();
            end(&answers.begin(id, record.clone()), &record, status);
        };
        (0..150).for_each(|n| end_one(&format!("failed-{n}"), 502));
        (0..500).for_each(|n| end_one(&format!("whole-{n}"), 200));
        let count = |of: &str| {
            let (list, _) = answers.list();
            list.iter()
                .filter(|answer| answer.id.starts_with(of))
                .count()
        };
        assert_eq!((count("failed"), count("whole")), (MOST_FAILED, MOST_ENDED));
        assert!(answers.find("failed-149").is_some() && answers.find("failed-0").is_none());
        assert_eq!(answers.known.lock().names.len(), MOST_FAILED + MOST_ENDED);
    }

    #[test]
    fn bytes_are_counted_as_long_as_they_are_kept() {
        let answers = Arc::new(AnswerList::new(2, &ServerLimits::default()));
        let begin = || {
            let record = SharedRecord::default();
            let answer = answers.begin("id", record.clone());
            answer.add_body(r#"{"choices":[{"index":0,"message":{"content":"[1]"}}]}"#);
            (answer, record)
        };
        let kept = || answers.kept.load(Ordering::Relaxed);
        let (first, second) = (begin(), begin());
        assert_eq!(kept(), 6);
        // A third answer, for which the list drops the text of the first.
        let third = begin();
        assert_eq!(
            (kept(), first.0.text(0), second.0.text(0)),
            (
                6,
                (None, Some("page_answers")),
                (Some("[1]".to_owned()), None)
            )
        );
        for (answer, record) in [first, second, third] {
            end(&answer, &record, 200);
        }
        assert_eq!((kept(), answers.list().1), (6, 0));
        // Drops the last references, which releases the texts' bytes.
        answers.known.lock().ended.clear();
        assert_eq!(kept(), 0);
    }
}
