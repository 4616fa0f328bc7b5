//! Finds the request's own mark and tags, or words of its prompt, in an answer.

use memchr::{memchr, memchr2};

use super::seam::SpliceRequest;

/// A push filter for text that may hold the mark and the tags of the request.
#[derive(Clone, Debug)]
pub(super) struct TagStripper {
    mark: String,
    /// The tags as written, opening and closing, or the words of the prompt.
    tags: Vec<String>,
    /// The first bytes of the mark and the tags.
    starts: Vec<u8>,
    /// Text that may be the beginning of the mark or of a tag.
    pending: String,
}

/// The parts that the filter finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StrippedPiece {
    Text(String),
    Mark,
    /// A tag, as written.
    Tag(String),
}

impl TagStripper {
    pub(super) fn new(request: &SpliceRequest) -> Self {
        let tags = request
            .tags
            .iter()
            .flat_map(|name| [format!("<{name}>"), format!("</{name}>")]);
        Self::with(request.mark.clone().unwrap_or_default(), tags.collect())
    }

    /// Creates a filter for the words of the request's own prompt.
    pub(super) fn of_own_words(request: &SpliceRequest) -> Self {
        Self::with(String::new(), request.own_words.clone())
    }

    fn with(mark: String, tags: Vec<String>) -> Self {
        let texts = tags.iter().chain([&mark]);
        let mut starts: Vec<u8> = texts.filter_map(|text| text.bytes().next()).collect();
        starts.sort_unstable();
        starts.dedup();
        Self {
            mark,
            tags,
            starts,
            pending: String::new(),
        }
    }

    /// Nothing in the text can be a part of the mark or of a tag.
    // Each push asks, most of them without a mark and tags.
    #[inline]
    pub(super) fn is_idle(&self, text: &str) -> bool {
        self.starts.is_empty() || self.pending.is_empty() && !self.has_start(text)
    }

    /// Returns whether a text has a byte with which the mark or a tag begins.
    #[inline(never)]
    fn has_start(&self, text: &str) -> bool {
        let mut bytes = text.as_bytes().iter();
        // A loop finds a byte of a short text faster than a search that has to be prepared.
        match *self.starts.as_slice() {
            [first] if text.len() >= 16 => memchr(first, text.as_bytes()).is_some(),
            [first, other] if text.len() >= 16 => memchr2(first, other, text.as_bytes()).is_some(),
            _ => bytes.any(|byte| self.starts.contains(byte)),
        }
    }

    /// Returns the bytes that wait.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes text, and returns its pieces. A beginning of the mark or of a tag waits.
    pub(super) fn feed(&mut self, text: &str) -> Vec<StrippedPiece> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if self.pending.is_empty() {
                let start = rest.bytes().position(|byte| self.starts.contains(&byte));
                let (plain, after) = rest
                    .split_at_checked(start.unwrap_or(rest.len()))
                    .unwrap_or((rest, ""));
                push_text(&mut pieces, plain);
                rest = after;
            }
            let mut characters = rest.chars();
            self.pending.extend(characters.next());
            rest = characters.as_str();
            self.release(&mut pieces);
        }
        pieces
    }

    /// Ends the text: drops an incomplete mark or tag.
    pub(super) fn drop_pending(&mut self) {
        self.pending.clear();
    }

    /// Ends the text like [`drop_pending`](Self::drop_pending), and returns the waiting text.
    pub(super) fn take_pending(&mut self) -> String {
        std::mem::take(&mut self.pending)
    }

    fn release(&mut self, pieces: &mut Vec<StrippedPiece>) {
        while !self.pending.is_empty() {
            if self.pending == self.mark {
                self.pending.clear();
                pieces.push(StrippedPiece::Mark);
            } else if self.tags.contains(&self.pending) {
                pieces.push(StrippedPiece::Tag(std::mem::take(&mut self.pending)));
            } else if self.mark.starts_with(&self.pending)
                || self.tags.iter().any(|tag| tag.starts_with(&self.pending))
            {
                return;
            } else {
                // Only the first character is certain to be text: the mark or a tag may begin with the next one.
                let first = self.pending.remove(0);
                push_text(pieces, first.encode_utf8(&mut [0; 4]));
            }
        }
    }
}

/// Adds text after the last piece.
fn push_text(pieces: &mut Vec<StrippedPiece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(StrippedPiece::Text(last)) => last.push_str(text),
        _ => pieces.push(StrippedPiece::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_tags_are_found_in_any_chunks() {
        let request = SpliceRequest {
            mark: Some("~~7f~~".into()),
            tags: vec!["a".into()],
            ..SpliceRequest::default()
        };
        let text = "<<a>x~~~7f~~y</a><b>~~7";
        let pieces = |chunk: usize| {
            let mut strip = TagStripper::new(&request);
            let chars: Vec<char> = text.chars().collect();
            let mut found: Vec<StrippedPiece> = Vec::new();
            for chunk in chars.chunks(chunk) {
                for piece in strip.feed(&chunk.iter().collect::<String>()) {
                    match (found.last_mut(), piece) {
                        (Some(StrippedPiece::Text(text)), StrippedPiece::Text(more)) => {
                            text.push_str(&more);
                        }
                        (_, piece) => found.push(piece),
                    }
                }
            }
            let pending = strip.pending.clone();
            strip.drop_pending();
            assert!(strip.pending.is_empty());
            (found, pending)
        };
        let expected = [
            StrippedPiece::Text("<".into()),
            StrippedPiece::Tag("<a>".into()),
            StrippedPiece::Text("x~".into()),
            StrippedPiece::Mark,
            StrippedPiece::Text("y".into()),
            StrippedPiece::Tag("</a>".into()),
            StrippedPiece::Text("<b>".into()),
        ];
        for chunk in 1..10 {
            assert_eq!(pieces(chunk), (expected.to_vec(), "~~7".to_owned()));
        }
    }
}
