//! How a saved document writes its parts: names and 64-bit numbers that stay what they are, whatever the crate's own
//! types become.

use serde::{Deserialize, Serialize};

use super::Trailing;
use crate::envelope::AllowedRoots;
use crate::json::{Frame, Kind, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RootsForm {
    Containers,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TrailingForm {
    Stop,
    Error,
    Next,
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RootForm {
    /// Its first byte.
    pub(super) start: u64,
    /// Behind its last byte, once it is closed.
    pub(super) end: Option<u64>,
    /// AllowedRoots before it.
    pub(super) before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FrameForm {
    pub(super) kind: KindForm,
    pub(super) start: u64,
    /// The newest key, between its quotes.
    pub(super) key: Option<(u64, u64)>,
    pub(super) count: u64,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindForm {
    Object,
    Array,
}

impl From<AllowedRoots> for RootsForm {
    fn from(roots: AllowedRoots) -> Self {
        match roots {
            AllowedRoots::Containers => Self::Containers,
            AllowedRoots::Any => Self::Any,
        }
    }
}

impl From<RootsForm> for AllowedRoots {
    fn from(form: RootsForm) -> Self {
        match form {
            RootsForm::Containers => Self::Containers,
            RootsForm::Any => Self::Any,
        }
    }
}

impl From<Trailing> for TrailingForm {
    fn from(trailing: Trailing) -> Self {
        match trailing {
            Trailing::Stop => Self::Stop,
            Trailing::Error => Self::Error,
            Trailing::Next => Self::Next,
            Trailing::Block => Self::Block,
        }
    }
}

impl From<TrailingForm> for Trailing {
    fn from(form: TrailingForm) -> Self {
        match form {
            TrailingForm::Stop => Self::Stop,
            TrailingForm::Error => Self::Error,
            TrailingForm::Next => Self::Next,
            TrailingForm::Block => Self::Block,
        }
    }
}

impl FrameForm {
    pub(super) fn of(frame: &Frame) -> Self {
        Self {
            kind: match frame.kind {
                Kind::Object => KindForm::Object,
                Kind::Array => KindForm::Array,
            },
            start: frame.start as u64,
            key: (frame.key != Span::default()).then_some((frame.key.start as u64, frame.key.end as u64)),
            count: frame.count as u64,
            end: frame.end as u64,
        }
    }

    /// The frame, if this platform has such offsets.
    pub(super) fn frame(&self) -> Option<Frame> {
        let key = match self.key {
            Some((start, end)) => Span { start: usize::try_from(start).ok()?, end: usize::try_from(end).ok()? },
            None => Span::default(),
        };
        let kind = match self.kind {
            KindForm::Object => Kind::Object,
            KindForm::Array => Kind::Array,
        };
        let (start, count) = (usize::try_from(self.start).ok()?, usize::try_from(self.count).ok()?);
        Some(Frame::known(kind, start, key, count, usize::try_from(self.end).ok()?))
    }
}
