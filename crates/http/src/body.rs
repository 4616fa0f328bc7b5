//! One type for all request bodies, so that the client has one connection pool.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// Why a body failed while it was sent.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request's body: complete bytes, or a stream of bytes.
pub struct Body(BodyContent);

enum BodyContent {
    Full(Full<Bytes>),
    /// Dropping the sender signals that the body is sent.
    Coming {
        body: UnsyncBoxBody<Bytes, BodyError>,
        _sent: Option<oneshot::Sender<Infallible>>,
    },
}

impl Body {
    /// Creates a body without bytes.
    pub fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// Creates a body of bytes that are all there. They are sent with their length.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self(BodyContent::Full(Full::new(bytes.into())))
    }

    /// Creates a body of bytes that a stream brings. They are sent in chunks.
    pub fn stream<S, T, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<T, E>> + Send + 'static,
        T: Into<Bytes> + 'static,
        E: Into<BodyError> + 'static,
    {
        Self::wrap(BodyOfStream(Box::pin(stream)))
    }

    /// Wraps another body, for example that of a request that is passed on.
    pub fn wrap<B>(body: B) -> Self
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        Self(BodyContent::Coming {
            body: body.map_err(Into::into).boxed_unsync(),
            _sent: None,
        })
    }

    /// Returns the same body once more, if its bytes are all there.
    pub(super) fn again(&self) -> Option<Self> {
        match &self.0 {
            BodyContent::Full(bytes) => Some(Self(BodyContent::Full(bytes.clone()))),
            BodyContent::Coming { .. } => None,
        }
    }

    /// Returns the same body, and a future that is ready when the body is sent or dropped. A
    /// complete body counts as sent.
    pub fn awaited(self) -> (Self, impl Future<Output = ()> + use<>) {
        let (content, sent) = match self.0 {
            BodyContent::Coming { body, .. } => {
                let (sender, sent) = oneshot::channel();
                (
                    BodyContent::Coming {
                        body,
                        _sent: Some(sender),
                    },
                    Some(sent),
                )
            }
            full @ BodyContent::Full(_) => (full, None),
        };
        let sent = async {
            if let Some(sent) = sent {
                let _is_dropped = sent.await;
            }
        };
        (Self(content), sent)
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Self::full(bytes)
    }
}

impl fmt::Debug for Body {
    /// Prints only the size, since bodies have private text of users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body")
            .field(&hyper::body::Body::size_hint(self))
            .finish()
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().0 {
            BodyContent::Full(bytes) => Pin::new(bytes)
                .poll_frame(cx)
                .map_err(|never| match never {}),
            BodyContent::Coming { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Full(bytes) => bytes.is_end_stream(),
            BodyContent::Coming { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Full(bytes) => bytes.size_hint(),
            BodyContent::Coming { body, .. } => body.size_hint(),
        }
    }
}

/// A body of the bytes of a stream.
struct BodyOfStream<S>(Pin<Box<S>>);

impl<S, T, E> hyper::body::Body for BodyOfStream<S>
where
    S: Stream<Item = Result<T, E>>,
    T: Into<Bytes>,
{
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let next = self.get_mut().0.as_mut().poll_next(cx);
        next.map(|item| item.map(|part| part.map(|part| Frame::data(part.into()))))
    }
}
