//! One place where a fragment may begin, tried byte by byte on a copy of the machine.
//!
//! A trial never touches the document. It knows whether it is still legal and whether it has passed; which one of
//! several wins is the splice's business.

use super::Alignment;
use crate::document::Document;
use crate::json::Machine;

/// Where the fragment may begin, and what speaks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) alignment: Alignment,
    /// It was asked for, or repeats what was asked for: one legal byte is enough.
    pub(super) expected: bool,
    /// What is repeated can't well be anything else. Without it an alignment wins only if no other is left; but it
    /// keeps others from winning.
    pub(super) is_evidence: bool,
    pub(super) overlap: usize,
}

/// One place where the fragment may begin, tried on a copy of the machine.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) alignment: Alignment,
    pub(super) expected: bool,
    pub(super) is_evidence: bool,
    /// Offset in the fragment of the first byte that is new.
    pub(super) start: usize,
    pub(super) overlap: usize,
    /// How much of the white space at the end of the delivered text the fragment may still repeat.
    pub(super) skip: usize,
    pub(super) machine: Machine,
    pub(super) left_token: bool,
    pub(super) past_structure: bool,
    pub(super) passed: bool,
}

/// Places that are tried at once. An anchor that occurs more often in one fragment decides nothing, and each trial
/// takes every byte.
pub(super) const TRIALS: usize = 32;

impl Trial {
    pub(super) fn new(document: &Document, claim: Claim, start: usize, skip: usize, left_token: bool) -> Self {
        Self {
            alignment: claim.alignment,
            expected: claim.expected,
            is_evidence: claim.is_evidence,
            start,
            overlap: claim.overlap,
            skip,
            machine: document.machine().clone(),
            left_token,
            past_structure: false,
            passed: false,
        }
    }

    /// Takes the next byte of the fragment; `white` is the white space at the end of the delivered text. Whether the
    /// trial lives on.
    pub(super) fn feed(&mut self, byte: u8, white: &[u8], cut_token: Option<usize>) -> bool {
        if self.skip > 0 {
            let at = white.len() - self.skip;
            if white.get(at) == Some(&byte) {
                self.skip -= 1;
                self.start += 1;
                self.overlap += 1;
                return true;
            }
            self.skip = 0;
            // A character that only begins as that white space does is new from its first byte on.
            let is_inside = |&byte: &u8| (0x80..0xc0).contains(&byte);
            if white.get(at).is_some_and(is_inside) {
                let begun = 1 + white[..at].iter().rev().take_while(|&byte| is_inside(byte)).count();
                self.start -= begun;
                self.overlap -= begun;
                if self.machine.feed(&white[at - begun..at]).is_err() {
                    return false;
                }
            }
        }
        if self.machine.is_done() {
            return true;
        }
        let was_in_string = self.machine.in_string();
        if self.machine.feed(&[byte]).is_err() {
            return false;
        }
        let done = self.machine.is_done();
        let structural = !was_in_string && matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':');
        let significant = was_in_string || !byte.is_ascii_whitespace();
        self.left_token |= done || !self.machine.in_token() || Some(self.machine.token_start()) != cut_token;
        self.passed |=
            if self.expected { significant } else { self.left_token && (self.past_structure && significant || done) };
        self.past_structure |= self.left_token && structural;
        true
    }

    pub(super) fn rank(&self) -> u8 {
        match self.alignment {
            _ if self.expected => 3,
            Alignment::Anchor | Alignment::Restart => 2,
            Alignment::Overlap => 1,
            _ => 0,
        }
    }
}
