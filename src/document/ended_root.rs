//! A root that has ended: it may be prose, or less than a root after it.

use super::search::SCALARS;

/// A root that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRoot<'t> {
    pub(super) text: &'t str,
    pub(super) is_scalar: bool,
    /// It is the first root, and has no fence.
    pub(super) may_be_prose: bool,
}

impl EndedRoot<'_> {
    /// Whether a following object would replace this root: it is a scalar or a short array of
    /// scalars, as at the start of a list of references.
    pub(super) fn is_weak(&self) -> bool {
        let root = self.text;
        let has_scalars = root.len() <= SCALARS && root.starts_with('[') && !root.contains('{');
        self.may_be_prose && (self.is_scalar || has_scalars)
    }

    /// Whether the root looks like a reference, `[12]`. It is one if its line continues as prose.
    pub(super) fn is_reference(&self) -> bool {
        let number = self
            .text
            .strip_prefix('[')
            .and_then(|root| root.strip_suffix(']'))
            .unwrap_or_default();
        let is_number = (1..=REFERENCE).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit());
        self.may_be_prose && is_number
    }
}

/// Digits of the longest reference. Few texts have a list of more.
// `[2024]` may be a year, with five digits `[10243]` is data: models number their references from
// 1.
const REFERENCE: usize = 4;
