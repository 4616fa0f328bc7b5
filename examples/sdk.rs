//! A typed client of a server that cuts its answers. Prints each section of the report as soon as
//! it is whole: `cargo run --example sdk --features stream`.
//!
//! The server is the scripted one, on a free loopback port. `Sdk` has the interface of the usual
//! SDKs, so that a user of one would write what `main` has.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::Body as _;
use restitch::session::SessionEvent;
use restitch::sse::Decoder;
use restitch::{Limits, Stitcher};
use restitch_http::{Body, Client, Received, Upstream};
use restitch_sim::Sim;
use serde::{Deserialize, Serialize};
use tokio_stream::{Stream, StreamExt};

/// The first answer ends at its output limit, the second one loses its connection.
const SCRIPT: &str = "answer@170!length | anchor@150!drop anchor";

const REPORT: &str = r#"{"title": "Tides", "sections": [
  {"title": "What draws the water", "pages": 3, "text": "The moon does, and where it is nearest it draws most."},
  {"title": "Spring and neap", "pages": 2, "text": "The sun helps twice a month: “springs” have nothing to do with spring."},
  {"title": "The Bay of Fundy", "pages": 7, "text": "A bay as long as a quarter of the wave lifts it by 16 m."}
]}"#;

#[derive(Deserialize)]
struct Section {
    title: String,
    pages: u32,
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Sim::new(REPORT, SCRIPT.parse()?)
        .bind(([127, 0, 0, 1], 0).into())
        .await?;
    let sdk = Sdk::new(&server.url())?;
    let question = vec![Message {
        role: "user".to_owned(),
        content: "A report on tides, as JSON.".to_owned(),
    }];
    let request = Request {
        model: "sim".to_owned(),
        messages: question,
        stream: true,
    };
    let text = Stitcher::new()
        .chat(request, async |request| sdk.create_stream(&request).await)
        .await?
        .observe(|event| {
            if let SessionEvent::Cut { offset, .. } = event {
                show(&format!(
                    "  … cut after {offset} bytes, asking for the rest"
                ));
            }
        });
    let mut sections = text.completed::<Section>("/sections/*");
    while let Some(section) = sections.next().await {
        let Section { title, pages, text } = section?;
        show(&format!("{title} ({pages} pages): {text}"));
    }

    // The document is whole; the outcome is known when its stream has ended.
    assert_eq!(sections.document().root(), Some(REPORT));
    let mut text = sections.into_inner();
    while text.next().await.transpose()?.is_some() {}
    let outcome = text.outcome().ok_or("the stream has ended")?;
    show(&outcome.to_string());
    drop(text);
    server.shutdown().await;
    Ok(())
}

/// A typed client with the interface of an SDK.
struct Sdk {
    http: Client,
}

impl Sdk {
    fn new(base_url: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            http: Client::new(Upstream::parse(base_url)?)?,
        })
    }

    /// Makes one call and returns its typed chunks as they come.
    async fn create_stream(
        &self,
        request: &Request,
    ) -> Result<impl Stream<Item = Result<ChatCompletionChunk, ApiError>> + use<>, ApiError> {
        let uri = self
            .http
            .upstream()
            .uri_for("/v1/chat/completions")
            .map_err(ApiError::new)?;
        let request = http::Request::post(uri)
            .header("content-type", "application/json")
            .body(Body::full(
                serde_json::to_vec(request).map_err(ApiError::new)?,
            ))
            .map_err(ApiError::new)?;
        let response = self.http.send(request).await.map_err(ApiError::new)?;
        if !response.status().is_success() {
            return Err(ApiError(format!("status {}", response.status())));
        }
        Ok(Chunks {
            body: response.into_body(),
            decoder: Decoder::new(&Limits::default()),
            ready: VecDeque::new(),
            is_done: false,
        })
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    stream: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Serialize, Deserialize)]
struct ChatCompletionChunk {
    choices: Vec<Choice>,
}

#[derive(Serialize, Deserialize)]
struct Choice {
    index: u32,
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Delta {
    content: Option<String>,
}

#[derive(Debug)]
struct ApiError(String);

impl ApiError {
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ApiError {}

/// The chunks of a response's body.
struct Chunks {
    body: Received,
    decoder: Decoder,
    ready: VecDeque<Result<ChatCompletionChunk, ApiError>>,
    is_done: bool,
}

impl Stream for Chunks {
    type Item = Result<ChatCompletionChunk, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(chunk) = this.ready.pop_front() {
                return Poll::Ready(Some(chunk));
            }
            if this.is_done {
                return Poll::Ready(None);
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(frame) => frame.map_err(ApiError::new)?,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let mut input: &[u8] = &data;
            while let Some(event) = this.decoder.next_event(&mut input).map_err(ApiError::new)? {
                if event.data == "[DONE]" {
                    this.is_done = true;
                    break;
                }
                this.ready
                    .push_back(serde_json::from_str(&event.data).map_err(ApiError::new));
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(line: &str) {
    println!("{line}");
}
