//! The tokens with which a provider continues its own answer, and the text that was received after
//! the newest one.

/// The newest token of an answer, and the text that a continuation from it sends again.
///
/// A *hop* is one call: the first one, or one that continues from a token.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// The newest token, raw JSON.
    token: Option<String>,
    /// The token from which the open hop continues.
    start: Option<String>,
    /// The text after the newest token: of the answer, and of its reasoning.
    texts: [TextAfterToken; 2],
    /// Content other than text came after the newest token, or too much text.
    is_incomparable: bool,
    /// The open hop has ended with the finish that asks for a continuation.
    is_asked: bool,
    /// A hop has had a higher limit on its tokens.
    has_raised: bool,
    /// The open hop has brought text.
    has_text: bool,
    /// How many hops in a row have brought neither text nor a token.
    stalled: u32,
    /// How many hops continued from a token.
    hops: u32,
}

/// The text of one kind that was received after a token.
#[derive(Debug, Default)]
struct TextAfterToken {
    text: String,
    /// The bytes of it that the open hop has brought. The rest is repeated.
    brought: usize,
}

impl TextAfterToken {
    fn again(&self) -> &str {
        self.text.get(self.brought..).unwrap_or_default()
    }
}

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Answer,
    Reasoning,
}

/// The continued answer differs from the text that was received before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs;

impl Checkpoints {
    /// Returns the newest token, raw JSON.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Forgets the token: the answer is not continued from it.
    pub fn close(&mut self) {
        self.token = None;
    }

    /// Returns whether the open hop can be continued. `is_finished`: the provider has ended it, and
    /// not a lost connection.
    pub fn can_hop(&self, is_finished: bool) -> bool {
        let is_new = self.token.is_some() && self.token != self.start;
        self.hops < MAX_HOPS
            && match is_finished {
                // The same token would only repeat the hop.
                true => is_new && self.is_asked,
                false => {
                    let has_progress = is_new || self.has_text;
                    self.token.is_some()
                        && !self.is_incomparable
                        && (has_progress || self.stalled + 1 < MAX_STALLED)
                }
            }
    }

    /// Returns whether the open hop, which reached the limit on its tokens, can be continued with a
    /// higher one.
    pub fn can_raise(&self) -> bool {
        // More raises would add up to more tokens than the operator allows.
        let is_new = self.token.is_some() && self.token != self.start;
        is_new && !self.has_raised && self.hops < MAX_HOPS
    }

    /// Takes note that the open hop has a higher limit on its tokens.
    pub fn note_raised(&mut self) {
        self.has_raised = true;
    }

    /// Begins a hop from the newest token.
    pub fn begin_hop(&mut self) {
        let has_progress = self.token != self.start || self.has_text;
        self.stalled = if has_progress { 0 } else { self.stalled + 1 };
        self.hops += 1;
        self.start.clone_from(&self.token);
        (self.has_text, self.is_asked) = (false, false);
        self.texts.iter_mut().for_each(|text| text.brought = 0);
    }

    /// Returns whether the open hop still has to repeat text that was received before.
    pub(super) fn is_repeating(&self) -> bool {
        self.texts.iter().any(|text| !text.again().is_empty())
    }

    /// Compares text of the open hop with the text that was received before. Returns the number of
    /// its bytes that repeat it.
    pub(super) fn repeat(&mut self, kind: TextKind, text: &str) -> Result<usize, Differs> {
        let after = &mut self.texts[kind as usize];
        let again = after.again();
        let repeated = again.len().min(text.len());
        // The shorter one begins the longer one, so its length is at a boundary of both.
        if !(again.starts_with(text) || text.starts_with(again)) {
            return Err(Differs);
        }
        after.brought += repeated;
        Ok(repeated)
    }

    /// Takes the finish of the open hop. `is_asked`: it asks for a continuation from the token.
    pub(super) fn note_finish(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
    }

    /// Takes the new text of an event of the open hop.
    pub(super) fn note_text(&mut self, kind: TextKind, text: &str) {
        self.has_text |= !text.is_empty();
        if text.is_empty() || self.token.is_none() || self.is_incomparable {
            return;
        }
        let after = &mut self.texts[kind as usize];
        if after.text.len().saturating_add(text.len()) > MAX_AFTER_TOKEN {
            return self.note_other();
        }
        after.text.push_str(text);
        after.brought = after.text.len();
    }

    /// Takes note of content that can't be compared.
    pub(super) fn note_other(&mut self) {
        self.is_incomparable = self.token.is_some();
        self.texts = Default::default();
    }

    /// Takes a token, raw JSON: a continuation from it begins after all text that was received.
    pub(super) fn note_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
        self.is_incomparable = false;
        for after in &mut self.texts {
            after.text.drain(..after.brought);
            after.brought = 0;
        }
    }
}

// As many as Google's own client allows.
/// The hops in a row without progress that end an answer.
const MAX_STALLED: u32 = 3;

// A provider that ends every hop with another token would otherwise be called for ever.
/// The most hops of one answer.
pub(crate) const MAX_HOPS: u32 = 64;

// A model writes some hundred KiB in the longest answer.
/// The most bytes of text after a token that are kept for the comparison.
const MAX_AFTER_TOKEN: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_allows_more_hops() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.note_token("\"a\"");
        for hop in 0..MAX_HOPS {
            assert!(checkpoints.can_hop(false), "{hop}");
            checkpoints.begin_hop();
            checkpoints.note_text(TextKind::Answer, "x");
        }
        assert!(!checkpoints.can_hop(false));
    }

    #[test]
    fn a_finish_needs_another_token() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.note_token("\"a\"");
        assert!(!checkpoints.can_hop(true));
        checkpoints.note_finish(true);
        assert!(checkpoints.can_hop(true));
        checkpoints.begin_hop();
        checkpoints.note_text(TextKind::Answer, "x");
        checkpoints.note_finish(true);
        assert!(!checkpoints.can_hop(true));
        checkpoints.note_token("\"b\"");
        assert!(checkpoints.can_hop(true));
    }

    #[test]
    fn content_that_can_not_be_compared_is_not_skipped() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.note_token("\"a\"");
        checkpoints.note_other();
        assert!(!checkpoints.can_hop(false));
        checkpoints.note_token("\"b\"");
        assert!(checkpoints.can_hop(false));
        let long = "x".repeat(MAX_AFTER_TOKEN + 1);
        checkpoints.note_text(TextKind::Answer, &long);
        assert!(!checkpoints.can_hop(false));
    }
}
