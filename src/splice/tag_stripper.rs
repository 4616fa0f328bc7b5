//! Takes the request's own mark and tags out of an answer.

use memchr::memchr2;

use super::seam::SpliceRequest;

/// A push filter for text that may hold the mark and the tags of the request.
#[derive(Clone, Debug)]
pub(super) struct TagStripper {
    mark: String,
    /// The tags as written, opening and closing.
    tags: Vec<String>,
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
        Self {
            mark: request.mark.clone().unwrap_or_default(),
            tags: tags.collect(),
            pending: String::new(),
        }
    }

    /// Nothing in the text can be a part of the mark or of a tag.
    pub(super) fn is_idle(&self, text: &str) -> bool {
        if self.tags.is_empty() && self.mark.is_empty() {
            return true;
        }
        let first = self.mark.as_bytes().first().copied().unwrap_or(b'<');
        let mut bytes = text.as_bytes().iter();
        // A loop finds a byte of a short text faster than a search that has to be prepared.
        let has_first = match text.len() {
            ..16 => bytes.any(|byte| *byte == b'<' || *byte == first),
            _ => memchr2(b'<', first, text.as_bytes()).is_some(),
        };
        self.pending.is_empty() && !has_first
    }

    /// Takes text, and returns its pieces. A beginning of the mark or of a tag waits.
    pub(super) fn feed(&mut self, text: &str) -> Vec<StrippedPiece> {
        let mut pieces = Vec::new();
        for c in text.chars() {
            self.pending.push(c);
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
                match pieces.last_mut() {
                    Some(StrippedPiece::Text(text)) => text.push(first),
                    _ => pieces.push(StrippedPiece::Text(first.into())),
                }
            }
        }
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
