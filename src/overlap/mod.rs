//! Finds the offset at which a continuation meets the delivered text, by comparing text only: its
//! meaning is unknown here.

mod anchor;
mod borders;
mod fold;
mod matcher;
mod near;

pub use anchor::Anchor;
pub(crate) use anchor::{
    EVIDENCE, PROOF, is_inside_escape, is_unbordered, may_come_again, proves_place, proving_tail,
};
pub(crate) use matcher::Run;
pub use matcher::{Hits, Matcher};
pub use near::{EditCount, NearAnchor};
