//! A document that repairs its text: a [`Repairer`] for each root reads the pushed text before the
//! parser does.

use super::Document;
use super::parser::TextAfterRoot;
use super::root_text::RootText;
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

    /// Appends text up to the end of a root; returns the rest.
    ///
    /// # Errors
    /// Returns a deviation that no repair explains.
    pub(super) fn push<S: Sink + ?Sized>(
        &mut self,
        roots: &mut RootText,
        text: &str,
        sink: &mut S,
    ) -> Result<Option<String>, SyntaxError> {
        let root;
        let mut text = text;
        if self.repairer.is_none() {
            self.unrepaired.clear();
            if !roots.parser.is_in_root() {
                let before = roots.text.len();
                roots.text.push_str(text);
                let found = roots.parser.find_root(&roots.text, before, sink);
                if let Err(error) = &found {
                    self.unrepaired = roots
                        .text
                        .get(error.offset..)
                        .unwrap_or_default()
                        .to_owned();
                    roots.reject(error.offset);
                }
                let end = found
                    .ok()
                    .flatten()
                    .map_or(roots.text.len(), |found| found.end);
                self.written += end - before;
                if found?.is_none() {
                    return Ok(None);
                }
                root = roots.text.split_off(end);
                text = &root;
                // After prose, a root is found only once its first bytes are known to be JSON.
                roots.parser.machine.feed_text(&roots.text, sink)?;
            }
            self.repairer = Some(Repairer::after(
                self.options.clone(),
                &roots.parser.machine,
                self.written,
            ));
        }
        let Some(repairer) = &mut self.repairer else {
            return Ok(None);
        };
        let result = repairer.feed(text, &mut roots.text);
        self.take_final(roots, result, sink)
    }

    /// Appends all of the text.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub(super) fn push_all<S: Sink + ?Sized>(
        &mut self,
        roots: &mut RootText,
        text: &str,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        let mut rest = self.push(roots, text, sink)?;
        while let Some(tail) = rest.filter(|tail| !tail.is_empty()) {
            rest = self.push(roots, &tail, sink)?;
        }
        Ok(())
    }

    /// Ends the repair of the open root, and of the roots in the text after it: appends the
    /// certain part of the withheld text.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub(super) fn finish<S: Sink + ?Sized>(
        &mut self,
        roots: &mut RootText,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        while let Some(repairer) = &mut self.repairer {
            let end = match repairer.finish(&mut roots.text) {
                Err(error) if !error.is_truncated() => Err(error),
                _ => Ok(()),
            };
            let tail = self.take_final(roots, end, sink)?;
            let Some(tail) = tail.filter(|tail| !tail.is_empty()) else {
                break;
            };
            self.push_all(roots, &tail, sink)?;
        }
        Ok(())
    }

    /// Ends the open root, and the roots after it, if the withheld text closes it. Otherwise
    /// nothing changes.
    fn finish_whole<S: Sink + ?Sized>(&mut self, roots: &mut RootText, sink: &mut S) {
        while let Some(repairer) = &mut self.repairer {
            repairer.finish_whole(&mut roots.text);
            let tail = self.take_final(roots, Ok(()), sink).ok().flatten();
            let Some(tail) = tail.filter(|tail| !tail.is_empty()) else {
                return;
            };
            if self.push_all(roots, &tail, sink).is_err() {
                // Text that touches the root is malformed, but still a part of the answer.
                roots.text.push_str(&std::mem::take(&mut self.unrepaired));
                roots.parser.tail = TextAfterRoot::Ignored;
                return;
            }
        }
    }

    /// Reads the text that the repairer has made final; returns the text after the root, if the
    /// root has ended.
    fn take_final<S: Sink + ?Sized>(
        &mut self,
        roots: &mut RootText,
        result: Result<(), SyntaxError>,
        sink: &mut S,
    ) -> Result<Option<String>, SyntaxError> {
        let Some(repairer) = &mut self.repairer else {
            return Ok(None);
        };
        if result.is_err() {
            repairer.release_all(&mut roots.text);
        }
        for repair in repairer.repairs().iter().skip(self.shown) {
            sink.repaired(repair);
        }
        self.shown = repairer.repairs().len();
        let read = roots.parser.machine.feed_text(&roots.text, sink);
        debug_assert!(read.is_ok(), "repaired text is valid: {read:?}");
        let tail = repairer.take_tail();
        // The byte that ends a number may be withheld: a comma, or in the tail the white space
        // after a root.
        if tail.is_some() || repairer.ends_with_value() && !self.ends_numbers_late {
            roots.parser.machine.end_number(&roots.text, sink);
        }
        match result {
            Err(error) => {
                let unrepaired = repairer.pending().to_owned();
                self.close();
                let offset = roots.text.len();
                roots.text.push_str(&unrepaired);
                // If a word may be a string, text after the root shows whether it is prose.
                let are_words_known = self.options.level() < repair::RepairLevel::Guess;
                if are_words_known && roots.parser.reject_prose(&roots.text, offset, sink) {
                    roots.text.truncate(offset);
                    return Ok(Some(unrepaired));
                }
                self.unrepaired = unrepaired;
                roots.reject(offset);
                Err(SyntaxError { offset, ..error })
            }
            Ok(()) => {
                if tail.is_some() {
                    self.close();
                    roots.mark_end();
                }
                Ok(tail)
            }
        }
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
        if self.roots.is_new() {
            self.tolerance = (!is_strict).then(|| Box::new(Tolerance::new(options)));
        }
        self
    }

    /// Makes the document repair all further text. The present text stays.
    #[must_use]
    pub(crate) fn repairing_rest(mut self, options: RepairOptions) -> Self {
        if options.level() > repair::RepairLevel::Strict {
            let written = self.roots.text.len() + self.roots.dropped.bytes;
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
        let ended = repairer.map(|mut repairer| repairer.finish(&mut self.roots.text.clone()));
        ended.is_some_and(|ended| ended.err().is_none_or(|error| !error.is_truncated()))
    }

    /// Ends the open root, and the roots after it, if the withheld text closes it. Otherwise
    /// nothing changes.
    pub(crate) fn finish_whole<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.finish_whole(&mut self.roots, sink);
        }
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
        let rest = repairer.cut(&mut self.roots.text);
        let result = tolerance.take_final(&mut self.roots, Ok(()), sink);
        debug_assert!(result.is_ok(), "a cut rejects nothing: {result:?}");
        rest
    }
}
