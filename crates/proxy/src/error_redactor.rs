//! Removes the operator's key from the errors and headers of the upstream that got it, since clients
//! read both. The model's text stays unchanged.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use memchr::memmem::rfind;
use memchr::memrchr;

use super::redactor::{Redactor, finds};
use super::upstream::SHORTEST_KEY;
use restitch::Limits;
use restitch::internal::wire::Framed;
use restitch::internal::wire::Framing;
use restitch::provider::{Delta, Dialect};
use restitch_http::BodyError;

/// Returns a whole body without the key, if the body is an error.
pub(super) fn redacted(body: String, key: &str, dialect: Dialect) -> String {
    // A key this short may occur in any text.
    if key.len() < SHORTEST_KEY {
        return body;
    }
    // Only errors are changed: a model's answer that has the key's characters is the model's own.
    let mut redactor = Redactor::new(key);
    if !redactor.finds(body.as_bytes()) || !has_error(|on| dialect.wire().read_body(&body, on)) {
        return body;
    }
    String::from_utf8(redactor.whole(body.as_bytes())).unwrap_or(body)
}

/// Removes a key from the headers of a response. Its reason phrase is dropped if it has the key.
pub(super) fn redact_head<B>(response: &mut Response<B>, key: &str) {
    if key.len() < SHORTEST_KEY {
        return;
    }
    let reason = response.extensions().get::<ReasonPhrase>();
    if reason.is_some_and(|reason| finds(reason.as_bytes(), key)) {
        response.extensions_mut().remove::<ReasonPhrase>();
    }
    for value in response.headers_mut().values_mut() {
        if finds(value.as_bytes(), key)
            && let Ok(redacted) =
                HeaderValue::from_bytes(&Redactor::new(key).whole(value.as_bytes()))
        {
            *value = redacted;
        }
    }
}

/// Returns whether `read` yields an error.
fn has_error<R>(read: impl FnOnce(&mut dyn FnMut(Delta<'_>)) -> R) -> bool {
    let mut found = false;
    read(&mut |delta| found |= matches!(delta, Delta::Error { .. }));
    found
}

/// Removes a key from errors. Releases a stream in whole blocks, each when it is complete, and any
/// other body at its end. Decodes only blocks with the key, since the reader of the stream decodes
/// all of them.
pub(super) struct ErrorRedactor {
    key: String,
    redactor: Redactor,
    dialect: Dialect,
    /// `None`: the body is not a stream, and is released when it is complete.
    decoder: Option<Framed>,
    /// The most bytes that may be withheld.
    most: usize,
    /// The withheld bytes of an incomplete block or body: they may contain half of a key, or half
    /// of an error.
    waiting: BytesMut,
    /// The number of bytes that the decoder has taken and that were released.
    left: u64,
    /// The body can't be parsed any further, so the key is removed from all of its text.
    is_unread: bool,
}

impl ErrorRedactor {
    /// `framing`: `None` for a body that is not a stream. Returns `None` if the key is so short
    /// that any text may contain it.
    pub(super) fn new(
        key: &str,
        dialect: Dialect,
        framing: Option<Framing>,
        limits: &Limits,
    ) -> Option<Self> {
        (key.len() >= SHORTEST_KEY).then(|| Self {
            key: key.to_owned(),
            redactor: Redactor::new(key),
            dialect,
            decoder: framing.map(|framing| Framed::new(framing, limits)),
            // The limit counts the fields of an event; names of fields and line ends come on top.
            most: limits.parser.max_event_bytes.saturating_mul(2),
            waiting: BytesMut::new(),
            left: 0,
            is_unread: false,
        })
    }

    /// Returns a redactor for the body of a refusal, which has no text of a model: it removes the key
    /// wherever it is. `None`: as in [`new`](Self::new).
    pub(super) fn of_refusal(key: &str, limits: &Limits) -> Option<Self> {
        // Nothing is parsed, so the API does not matter.
        let redactor = Self::new(key, Dialect::Chat, None, limits)?;
        Some(Self {
            is_unread: true,
            ..redactor
        })
    }

    /// Adds bytes, and returns the complete blocks.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Bytes {
        if self.is_unread {
            return self.redactor.push(bytes).into();
        }
        let before = self.waiting.len();
        self.waiting.extend_from_slice(bytes);
        let mut out = match &self.decoder {
            None => BytesMut::new(),
            // Only a decoder finds the ends of an array's elements.
            Some(Framed::Array(_)) => self.decode(bytes),
            Some(_) => {
                let open = self.waiting.split_off(self.end_of_blocks(before));
                let blocks = match self.redactor.finds(&self.waiting) {
                    false => std::mem::take(&mut self.waiting),
                    true => self.decode(&self.waiting.clone()),
                };
                self.waiting.unsplit(open);
                blocks
            }
        };
        // A block without an end must not fill the memory. Half of a key may be in the withheld bytes,
        // so from here on the key is removed from every byte.
        self.is_unread |= self.waiting.len() > self.most;
        if self.is_unread {
            let waiting = std::mem::take(&mut self.waiting);
            out.extend_from_slice(&self.redactor.push(&waiting));
        }
        out.freeze()
    }

    /// Returns the offset in the withheld bytes after the last complete block. `before`: the length
    /// of the bytes that were withheld before the last ones, and end no block.
    fn end_of_blocks(&self, before: usize) -> usize {
        // The longest end has three bytes.
        let from = before.saturating_sub(2);
        let tail = self.waiting.get(from..).unwrap_or_default();
        let end = match &self.decoder {
            Some(Framed::Lines(_)) => memrchr(b'\n', tail).map(|at| at + 1),
            _ => [&b"\n\n"[..], b"\r\r", b"\n\r\n"]
                .into_iter()
                .filter_map(|end| rfind(tail, end).map(|at| at + end.len()))
                .max(),
        };
        end.map_or(0, |end| from + end)
    }

    /// Decodes the last withheld bytes, and returns the complete blocks without the key in errors.
    fn decode(&mut self, mut input: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        while let Some(decoder) = &mut self.decoder {
            match decoder.next_event(&mut input) {
                Ok(Some(event)) => {
                    let block = take(&mut self.waiting, &mut self.left, event.range.end);
                    // Other blocks don't have the key, so the search comes before the parser.
                    let masked = self.redactor.whole(&block);
                    let reader = || self.dialect.wire().reader();
                    let is_error = || has_error(|on| reader().read(&event.event, &event.data, on));
                    out.extend_from_slice(if masked != block && is_error() {
                        &masked
                    } else {
                        &block
                    });
                }
                Ok(None) => {
                    out.unsplit(take(&mut self.waiting, &mut self.left, decoder.boundary()));
                    break;
                }
                Err(_) => {
                    self.is_unread = true;
                    break;
                }
            }
        }
        out
    }

    /// Returns the withheld bytes. An incomplete block of a stream may be part of an error, so the
    /// key is removed from it without parsing.
    pub(super) fn finish(&mut self) -> Bytes {
        let waiting = std::mem::take(&mut self.waiting);
        if self.is_unread || self.decoder.is_some() {
            return self.redactor.whole(&waiting).into();
        }
        // A body that is not UTF-8 can't be parsed as an error, and passes unchanged.
        let body = String::from_utf8(waiting.into());
        body.map_or_else(
            |body| body.into_bytes().into(),
            |body| redacted(body, &self.key, self.dialect).into(),
        )
    }
}

/// Takes the withheld bytes up to an offset of the stream.
fn take(waiting: &mut BytesMut, left: &mut u64, to: u64) -> BytesMut {
    let length = usize::try_from(to.saturating_sub(*left))
        .map_or(waiting.len(), |length| length.min(waiting.len()));
    *left += length as u64;
    waiting.split_to(length)
}

/// Removes the key from the errors in a response. `redactor`: `None` if it passes unchanged.
pub(super) fn without_key<B>(
    mut response: Response<B>,
    redactor: Option<ErrorRedactor>,
) -> Response<RedactedBody<B>> {
    if redactor.is_some() {
        // `[key]` is shorter than the key that it replaces.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response.map(|body| RedactedBody::new(body, redactor))
}

/// A body whose errors don't contain a key.
pub(super) struct RedactedBody<B> {
    body: B,
    /// `None`: the body passes unchanged.
    mask: Option<ErrorRedactor>,
    /// The end of the body, once all withheld bytes were returned.
    end: Option<Option<BodyError>>,
}

impl<B> RedactedBody<B> {
    pub(super) fn new(body: B, mask: Option<ErrorRedactor>) -> Self {
        Self {
            body,
            mask,
            end: None,
        }
    }
}

impl<B> Body for RedactedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        loop {
            if let Some(error) = this.end.as_mut().map(Option::take) {
                return Poll::Ready(error.map(Err));
            }
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx))
                .transpose()
                .map_err(Into::into);
            let Some(mask) = &mut this.mask else {
                return Poll::Ready(frame.transpose());
            };
            let bytes = match frame.map(|frame| frame.map(Frame::into_data)) {
                Ok(Some(Ok(data))) => mask.push(&data),
                // Trailers are headers, which carry no error.
                Ok(Some(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Ok(None) => {
                    this.end = Some(None);
                    mask.finish()
                }
                Err(error) => {
                    this.end = Some(Some(error));
                    mask.finish()
                }
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Withheld bytes may follow the end of the inner body.
        self.mask.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Removing a key changes the length.
        if self.mask.is_some() {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}

#[cfg(test)]
mod tests {
    use restitch::internal::work::BYTES_FRAMED;

    use super::*;

    const KEY: &str = "sk-operator";
    const SAID: &str = r#"{"choices":[{"index":0,"delta":{"content":"a sk-operator b"}}]}"#;
    const ERROR: &str = r#"{"error":{"message":"bad sk-operator"}}"#;

    fn redactor(framing: Framing) -> ErrorRedactor {
        ErrorRedactor::new(KEY, Dialect::Chat, Some(framing), &Limits::default()).unwrap()
    }

    fn passed(framing: Framing, chunks: &[&[u8]]) -> String {
        let mut redactor = redactor(framing);
        let mut out: Vec<_> = chunks.iter().map(|chunk| redactor.push(chunk)).collect();
        out.push(redactor.finish());
        String::from_utf8(out.concat()).unwrap()
    }

    #[test]
    fn only_errors_lose_the_key_however_they_are_chunked() {
        let events = |end: &str| {
            let (said, error) = (format!("data: {SAID}"), format!("data: {ERROR}"));
            let blocks = [":sk-operator", "event: x", &said, &error, &said, &error];
            blocks.map(|block| format!("{block}{end}{end}")).concat()
        };
        for (framing, stream) in [
            (Framing::Events, events("\n")),
            (Framing::Events, events("\r")),
            (Framing::Events, events("\r\n")),
            (
                Framing::Lines,
                format!("{SAID}\n{ERROR}\n{SAID}\r\n{ERROR}\n"),
            ),
            (Framing::Array, format!("[{SAID},\n{ERROR},{SAID},{ERROR}]")),
        ] {
            let expected = stream.replace("bad sk-operator", "bad [key]");
            let bytes = stream.as_bytes();
            assert_eq!(passed(framing, &[bytes]), expected);
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(passed(framing, &single), expected);
            for at in 0..bytes.len() {
                let halves = [&bytes[..at], &bytes[at..]];
                assert_eq!(passed(framing, &halves), expected, "{framing:?} at {at}");
            }
        }
    }

    /// The relay decodes all blocks, and must get each without a delay.
    #[test]
    fn a_complete_block_leaves_immediately_and_is_decoded_only_if_it_has_the_key() {
        let event = |data: &str, end: &str| format!("data: {data}{end}{end}");
        for (framing, block, keyed) in [
            (Framing::Events, event("{}", "\n"), event(ERROR, "\n")),
            (Framing::Events, event("{}", "\r"), event(ERROR, "\r")),
            (Framing::Events, event("{}", "\r\n"), event(ERROR, "\r\n")),
            (Framing::Lines, "{}\n".to_owned(), format!("{ERROR}\n")),
        ] {
            for at in 0..block.len() {
                let mut redactor = redactor(framing);
                BYTES_FRAMED.set(0);
                let (start, rest) = block.as_bytes().split_at(at);
                let out = [redactor.push(start), redactor.push(rest)].concat();
                assert_eq!(out, block.as_bytes(), "{block:?} at {at}");
                assert_eq!(BYTES_FRAMED.get(), 0);
                redactor.push(keyed.as_bytes());
                assert_eq!(BYTES_FRAMED.get(), keyed.len());
            }
        }
    }
}
