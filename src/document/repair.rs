//! A document that repairs its text: a [`Repairer`] for each root reads the pushed text before the
//! parser does.

use super::Document;
use crate::error::SyntaxError;
use crate::json::Sink;
use crate::json::repair::{self, Repair, RepairOptions, Repairer};

/// The state with which a document repairs its text.
#[derive(Clone, Debug)]
pub(super) struct Tolerance {
    options: RepairOptions,
    /// Reads the open root. `None` outside of roots, and after text that was rejected or dropped by
    /// a restore.
    repairer: Option<Repairer>,
    /// The changes in roots that have ended, and before text that was dropped by a restore.
    log: Vec<Repair>,
    /// How many changes of the open root the sinks have seen.
    shown: usize,
    /// The offset in the original text up to which the text is final; the repairer of the open root
    /// counts its own text.
    written: usize,
    /// The text as written from a deviation on, if the last push ended there.
    unrepaired: String,
    /// A number ends only when the repaired text shows it, for example by a comma.
    ends_numbers_late: bool,
}

impl Tolerance {
    pub(super) fn new(options: RepairOptions) -> Self {
        Self {
            options,
            repairer: None,
            log: Vec::new(),
            shown: 0,
            written: 0,
            unrepaired: String::new(),
            ends_numbers_late: false,
        }
    }

    fn repairs(&self) -> impl Iterator<Item = &Repair> {
        self.log
            .iter()
            .chain(self.repairer.iter().flat_map(Repairer::repairs))
    }

    /// Ends the repair of a root, or of its part before text that is dropped by a restore.
    fn close(&mut self) {
        if let Some(repairer) = self.repairer.take() {
            self.written = repairer.written();
            self.log.extend(repairer.into_repairs());
        }
        self.shown = 0;
        self.unrepaired.clear();
    }

    /// Forgets the text after the offset `end`, which counts all dropped text, too.
    pub(super) fn set_back(&mut self, end: usize) {
        self.close();
        self.written = repair::written(&self.log, end);
        let written = self.written;
        self.log
            .retain(|repair| repair.range.start < written || repair.range.end <= written);
    }
}

impl Document {
    /// Makes an empty document repair the text of its roots; their envelope is read as always. The
    /// text, the events and all offsets are those of the repaired text; [`repairs`](Self::repairs)
    /// has the changes. Has no effect once text was pushed, or at the level
    /// [`Strict`](crate::repair::RepairLevel::Strict).
    ///
    /// ```
    /// use restitch::Document;
    /// use restitch::repair::{RepairLevel, RepairOptions};
    ///
    /// let mut document = Document::new(16).repairing(RepairOptions::new(RepairLevel::Syntax));
    /// for delta in ["{'a': [1, ", "2,], // two", "\n'b': True}"] {
    ///     document.push(delta)?;
    /// }
    /// assert_eq!(document.root(), Some("{\"a\": [1, 2], \n\"b\": true}"));
    /// assert_eq!(document.repairs().count(), 7);
    /// # Ok::<(), restitch::SyntaxError>(())
    /// ```
    #[must_use]
    pub fn repairing(mut self, options: RepairOptions) -> Self {
        let is_strict = options.level() == repair::RepairLevel::Strict;
        if self.text.is_empty() && self.dropped.bytes == 0 {
            self.tolerance = (!is_strict).then(|| Box::new(Tolerance::new(options)));
        }
        self
    }

    /// Makes the document repair all further text. The present text stays.
    #[must_use]
    pub(crate) fn repairing_rest(mut self, options: RepairOptions) -> Self {
        if options.level() > repair::RepairLevel::Strict {
            let written = self.text.len() + self.dropped.bytes;
            self.tolerance = Some(Box::new(Tolerance {
                written,
                ..Tolerance::new(options)
            }));
        }
        self
    }

    /// Makes the repaired text alone decide where a number ends, so that it can be cut anywhere.
    pub(crate) fn ending_numbers_late(mut self) -> Self {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.ends_numbers_late = true;
        }
        self
    }

    /// Returns the final changes of the text so far. Their ranges are in the text as pushed.
    pub fn repairs(&self) -> impl Iterator<Item = &Repair> {
        self.tolerance
            .iter()
            .flat_map(|tolerance| tolerance.repairs())
    }

    /// Returns the pushed text that is withheld, because later text may change its repair. At the
    /// end of the text [`finish`](Self::finish) appends it. After an error: the text from the
    /// deviation to the end of that push.
    pub fn pending(&self) -> &str {
        let Some(tolerance) = &self.tolerance else {
            return "";
        };
        tolerance
            .repairer
            .as_ref()
            .map_or(&tolerance.unrepaired, Repairer::pending)
    }

    /// Returns whether the text that ends here is malformed rather than cut, after
    /// [`finish_whole`](Self::finish_whole) has not closed its root: no repair exists, or all
    /// closers are there and only a guess explains them.
    pub(crate) fn is_malformed_at_end(&self) -> bool {
        let repairer = self
            .tolerance
            .as_ref()
            .and_then(|tolerance| tolerance.repairer.clone());
        let ended = repairer.map(|mut repairer| repairer.finish(&mut self.text.clone()));
        ended.is_some_and(|ended| ended.err().is_none_or(|error| !error.is_truncated()))
    }

    /// Ends the open root, and the roots after it, if the withheld text closes it. Otherwise
    /// nothing changes.
    pub(crate) fn finish_whole<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        while self.finish_whole_root(sink) {}
    }

    /// Returns whether text follows in which another root may have begun.
    fn finish_whole_root<S: Sink + ?Sized>(&mut self, sink: &mut S) -> bool {
        let Some(mut tolerance) = self.tolerance.take() else {
            return false;
        };
        let mut tail = None;
        if let Some(repairer) = &mut tolerance.repairer {
            repairer.finish_whole(&mut self.text);
            tail = self.take_final(&mut tolerance, Ok(()), sink).ok().flatten();
        }
        self.tolerance = Some(tolerance);
        let Some(tail) = tail.filter(|tail| !tail.is_empty()) else {
            return false;
        };
        let is_read = self.push_with(&tail, sink).is_ok();
        if !is_read && let Some(tolerance) = &mut self.tolerance {
            // Text that touches the root is malformed, but still a part of the answer.
            self.text
                .push_str(&std::mem::take(&mut tolerance.unrepaired));
            self.parser.ignore_tail();
        }
        is_read
    }

    /// Ends the repair where the text was cut, and appends the repaired text. Returns the
    /// unrepaired rest. From then on the document reads text without repairing it.
    pub(crate) fn end_repair<S: Sink + ?Sized>(&mut self, sink: &mut S) -> String {
        let Some(mut tolerance) = self.tolerance.take() else {
            return String::new();
        };
        let Some(repairer) = &mut tolerance.repairer else {
            return String::new();
        };
        let rest = repairer.cut(&mut self.text);
        let result = self.take_final(&mut tolerance, Ok(()), sink);
        debug_assert!(result.is_ok(), "a cut rejects nothing: {result:?}");
        rest
    }

    /// Appends text up to the end of a root; returns the rest.
    pub(super) fn push_repaired<S: Sink + ?Sized>(
        &mut self,
        text: &str,
        sink: &mut S,
    ) -> Result<Option<String>, SyntaxError> {
        let Some(mut tolerance) = self.tolerance.take() else {
            return Ok(None);
        };
        let result = self.push_tolerant(&mut tolerance, text, sink);
        self.tolerance = Some(tolerance);
        result
    }

    fn push_tolerant<S: Sink + ?Sized>(
        &mut self,
        tolerance: &mut Tolerance,
        text: &str,
        sink: &mut S,
    ) -> Result<Option<String>, SyntaxError> {
        let root;
        let mut text = text;
        if tolerance.repairer.is_none() {
            tolerance.unrepaired.clear();
            if !self.parser.is_in_root() {
                let before = self.text.len();
                self.text.push_str(text);
                let found = self.parser.find_root(&self.text, before);
                if let Err(error) = &found {
                    tolerance.unrepaired =
                        self.text.get(error.offset..).unwrap_or_default().to_owned();
                    self.reject(error.offset);
                }
                let end = found
                    .ok()
                    .flatten()
                    .map_or(self.text.len(), |found| found.end);
                tolerance.written += end - before;
                if found?.is_none() {
                    return Ok(None);
                }
                root = self.text.split_off(end);
                text = &root;
                // After prose, a root is found only once its first bytes are known to be JSON.
                self.parser.machine.feed_text(&self.text, sink)?;
            }
            tolerance.repairer = Some(Repairer::after(
                tolerance.options.clone(),
                &self.parser.machine,
                tolerance.written,
            ));
        }
        let Some(repairer) = &mut tolerance.repairer else {
            return Ok(None);
        };
        let result = repairer.feed(text, &mut self.text);
        self.take_final(tolerance, result, sink)
    }

    /// Reads the text that the repairer has made final; returns the text after the root, if the
    /// root has ended.
    fn take_final<S: Sink + ?Sized>(
        &mut self,
        tolerance: &mut Tolerance,
        result: Result<(), SyntaxError>,
        sink: &mut S,
    ) -> Result<Option<String>, SyntaxError> {
        let Some(repairer) = &mut tolerance.repairer else {
            return Ok(None);
        };
        if result.is_err() {
            repairer.release_all(&mut self.text);
        }
        for repair in repairer.repairs().iter().skip(tolerance.shown) {
            sink.repaired(repair);
        }
        tolerance.shown = repairer.repairs().len();
        let read = self.parser.machine.feed_text(&self.text, sink);
        debug_assert!(read.is_ok(), "repaired text is valid: {read:?}");
        let tail = repairer.take_tail();
        // The byte that ends a number may be withheld: a comma, or in the tail the white space
        // after a root.
        if tail.is_some() || repairer.ends_with_value() && !tolerance.ends_numbers_late {
            self.parser.machine.end_number(&self.text, sink);
        }
        match result {
            Err(error) => {
                let unrepaired = repairer.pending().to_owned();
                tolerance.close();
                let offset = self.text.len();
                self.text.push_str(&unrepaired);
                // If a word may be a string, text after the root shows whether it is prose.
                let are_words_known = tolerance.options.level() < repair::RepairLevel::Guess;
                if are_words_known && self.parser.reject_prose(&self.text, offset) {
                    self.text.truncate(offset);
                    return Ok(Some(unrepaired));
                }
                tolerance.unrepaired = unrepaired;
                self.reject(offset);
                Err(SyntaxError { offset, ..error })
            }
            Ok(()) => {
                if tail.is_some() {
                    tolerance.close();
                    self.mark_end();
                }
                Ok(tail)
            }
        }
    }

    /// Ends the repair of the open root: appends the certain part of the withheld text. Returns
    /// whether text follows in which another root may have begun.
    pub(super) fn finish_repaired<S: Sink + ?Sized>(
        &mut self,
        sink: &mut S,
    ) -> Result<bool, SyntaxError> {
        let Some(mut tolerance) = self.tolerance.take() else {
            return Ok(false);
        };
        let mut result = Ok(None);
        if let Some(repairer) = &mut tolerance.repairer {
            let end = repairer.finish(&mut self.text);
            let end = end.or_else(|error| {
                if error.is_truncated() {
                    Ok(())
                } else {
                    Err(error)
                }
            });
            result = self.take_final(&mut tolerance, end, sink);
        }
        self.tolerance = Some(tolerance);
        let Some(tail) = result?.filter(|tail| !tail.is_empty()) else {
            return Ok(false);
        };
        self.push_with(&tail, sink)?;
        Ok(true)
    }
}
