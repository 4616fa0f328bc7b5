//! The readings of a fragment's content that compete with the candidates: it begins again, or the
//! element that was cut is lost.

use crate::json::Machine;
use crate::splice::cursor::{CursorArrival, TokenAtCut};
use crate::splice::cut_context::CutContext;
use crate::splice::predictor::{Costs, Predictor};
use crate::splice::reader::{ContentReader, MatchInputs};
use crate::splice::slot::Slot;

/// The readings of the content, from its last beginning on.
#[derive(Clone, Debug)]
pub(in crate::splice) struct Readings {
    /// The content as separate JSON.
    readers: Vec<ContentReader>,
    /// The reading that the cut element is lost, while that is legal.
    lost: Option<LostElementReading>,
    /// The latest offset at which a reading as a restart contradicted the delivered text, and its
    /// score.
    contradicted: (Option<usize>, f32),
}

/// The reading in which the element that was cut is lost, and the content is the element after it.
#[derive(Clone, Debug)]
pub(in crate::splice) struct LostElementReading {
    machine: Machine,
    /// The cost of the content there.
    pub(in crate::splice) costs: Costs,
}

impl LostElementReading {
    fn new(cut: &CutContext) -> Option<Self> {
        let (machine, before) = cut.without_element()?;
        let mut costs = Costs::default();
        costs.begin(before);
        Some(Self { machine, costs })
    }

    /// Takes the next text; returns whether it is legal.
    fn take(&mut self, predictor: &Predictor, text: &str) -> bool {
        let bytes = text.as_bytes();
        if !self.costs.is_full() {
            bytes
                .iter()
                .for_each(|&byte| self.costs.push(predictor, byte));
        }
        self.machine.is_done() || self.machine.feed(bytes).is_ok()
    }
}

impl Readings {
    pub(super) fn new() -> Self {
        Self {
            readers: Vec::new(),
            lost: None,
            contradicted: (None, f32::NEG_INFINITY),
        }
    }

    /// Begins again with content that begins with `c`. At most `children` children of a container
    /// are compared.
    pub(super) fn begin(&mut self, slot: &Slot, cut: &CutContext, c: char, children: usize) {
        self.readers = ContentReader::all(slot, c, children);
        self.lost = LostElementReading::new(cut);
    }

    /// Lets the reading that the cut element is lost take the next text.
    pub(super) fn take_lost(&mut self, predictor: &Predictor, text: &str) {
        if let Some(lost) = &mut self.lost
            && !lost.take(predictor, text)
        {
            self.lost = None;
        }
    }

    /// Lets the readers take the next text; returns the cursors that have reached the cut.
    pub(super) fn read(
        &mut self,
        slot: &Slot,
        inputs: &MatchInputs<'_>,
        text: &str,
    ) -> Vec<CursorArrival> {
        let mut arrivals = Vec::new();
        for reader in &mut self.readers {
            reader.feed(slot, inputs, text, |arrival| arrivals.push(arrival));
        }
        arrivals
    }

    /// Remembers the contradictions that the readers have found.
    pub(in crate::splice) fn note_contradictions(&mut self, inputs: &MatchInputs<'_>) {
        let offset = self
            .readers
            .iter()
            .filter_map(ContentReader::contradicted)
            .max();
        self.contradicted = (self.contradicted.0.max(offset), self.differing(inputs));
    }

    /// Returns the latest offset at which a restart contradicted the delivered text, and its score.
    pub(in crate::splice) fn contradicted(&self) -> (Option<usize>, f32) {
        self.contradicted
    }

    pub(in crate::splice) fn lost(&self) -> Option<&LostElementReading> {
        self.lost.as_ref()
    }

    /// Returns the bytes of the content that repeat delivered values.
    pub(super) fn repeated(&self) -> usize {
        let repeated = self.readers.iter().filter_map(ContentReader::repeated);
        repeated.max().unwrap_or_default()
    }

    /// Whether further text makes a difference.
    pub(super) fn is_following(&self) -> bool {
        self.readers.iter().any(|reader| !reader.is_over())
    }

    /// Whether all content so far may repeat delivered text.
    pub(in crate::splice) fn is_repeat(&self) -> bool {
        self.readers.iter().any(ContentReader::is_repeat)
    }

    /// Returns the best score of a restart that may still reach the cut.
    pub(in crate::splice) fn following(&self, inputs: &MatchInputs<'_>) -> f32 {
        self.readers
            .iter()
            .map(|reader| reader.following(inputs))
            .fold(f32::NEG_INFINITY, f32::max)
    }

    /// Returns the best score of a restart that contradicted the delivered text.
    pub(in crate::splice) fn differing(&self, inputs: &MatchInputs<'_>) -> f32 {
        self.readers
            .iter()
            .map(|reader| reader.differing(inputs))
            .fold(self.contradicted.1, f32::max)
    }

    /// Whether the text of an open string makes no difference to the readers, or is only compared
    /// with the cut string.
    pub(super) fn is_in_text(&self, slot: &Slot) -> bool {
        self.readers.iter().all(|reader| reader.is_in_text(slot))
    }

    /// Returns how many bytes of `text` repeat the cut string without reaching its end, for all
    /// readers that compare them.
    pub(super) fn same_text_len(&self, token: &TokenAtCut, text: &[u8]) -> usize {
        self.readers
            .iter()
            .map(|reader| reader.same_text_len(token, text))
            .fold(text.len(), usize::min)
    }
}
