//! The operator's page on the admin listener, and its data: the answers as JSON and as text. The page
//! polls once a second for the text that it lacks.
//!
//! Answers are hostile, and other sites may send requests to an address of this machine. So the
//! page itself is the only HTML, and shows text as text. A request must name this listener as its
//! host, which stops DNS rebinding: a page whose host name resolves to this address can't read an
//! answer. A request that changes something needs a header that no other site can send.

mod guard;

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::answers::{AnswerList, ListedAnswer};
use super::refusal::Refusal;
use restitch::Document;
use restitch::ParserLimits;
use restitch_http::Body;

pub(super) use guard::Guard;

/// The routes of the page.
pub(super) struct Page {
    answers: Arc<AnswerList>,
}

impl Page {
    pub(super) fn new(answers: Arc<AnswerList>) -> Self {
        Self { answers }
    }

    /// Answers a request for the page. `None`: the page has no such path.
    pub(super) fn respond<B>(
        &self,
        request: &Request<B>,
        guard: Guard<'_>,
    ) -> Option<Response<Body>> {
        let route = PageRoute::of(request.uri().path())?;
        let mut response = match guard
            .admit(request)
            .and_then(|()| route.check_method(request))
        {
            Ok(()) => self.route(&route, request),
            Err(refusal) => refusal.response(None),
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        // Texts of users must not stay in the cache of a browser.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }

    fn route<B>(&self, route: &PageRoute<'_>, request: &Request<B>) -> Response<Body> {
        match *route {
            PageRoute::File(media_type, text) => with_type(StatusCode::OK, media_type, text),
            PageRoute::List => self.list(),
            PageRoute::Answer(id) => match self.answers.find(&decoded(id)) {
                Some(answer) => view(&answer, request.uri().query().unwrap_or_default()),
                None => UNKNOWN.response(None),
            },
            PageRoute::Stop(id) => match self.answers.find(&decoded(id)) {
                Some(answer) => stop(&answer),
                None => UNKNOWN.response(None),
            },
        }
    }

    fn list(&self) -> Response<Body> {
        let (answers, running) = self.answers.list();
        let answers: Vec<_> = answers.iter().map(|answer| answer.summary()).collect();
        json(
            StatusCode::OK,
            &json!({
                "keeps_text": self.answers.keeps(),
                "running": running,
                "answers": answers,
            }),
        )
    }
}

fn view(answer: &ListedAnswer, query: &str) -> Response<Body> {
    let (mut view, mut slot, mut restarts, mut from) = ("closed", 0, 0, Vec::new());
    for (name, value) in query.split('&').filter_map(|member| member.split_once('=')) {
        match (name, value.parse()) {
            ("view", _) => view = value,
            ("slot", Ok(number)) => slot = number,
            ("slot", Err(_)) => return BAD_SLOT.response(None),
            ("restarts", _) => restarts = value.parse().unwrap_or_default(),
            ("from", _) => from = value.split(',').map_while(|at| at.parse().ok()).collect(),
            _ => {}
        }
    }
    match view {
        "report" => json(StatusCode::OK, &answer.report()),
        "text" => text(answer, slot, |text| {
            Some(with_type(StatusCode::OK, "text/plain; charset=utf-8", text))
        }),
        "closed" => text(answer, slot, |text| {
            closed(&text).map(|text| with_type(StatusCode::OK, JSON, text))
        }),
        "added" => match answer.added(restarts, &from) {
            Some(added) => json(StatusCode::OK, &added),
            None => NOT_KEPT.response(None),
        },
        _ => BAD_VIEW.response(None),
    }
}

/// Answers with a response that `made` builds from a slot's text. `made` returns `None` if the text
/// has no JSON.
fn text(
    answer: &ListedAnswer,
    slot: usize,
    made: impl FnOnce(String) -> Option<Response<Body>>,
) -> Response<Body> {
    let (text, missing) = answer.text(slot);
    let mut response = match text {
        Some(text) => made(text).unwrap_or_else(|| NO_JSON.response(None)),
        None if !answer.keeps_text() => NOT_KEPT.response(None),
        None => NO_TEXT.response(None),
    };
    if let Some(limit) = missing {
        response
            .headers_mut()
            .insert("x-restitch-limit", HeaderValue::from_static(limit));
    }
    response
}

/// The target of a path on the page.
enum PageRoute<'p> {
    /// A file of the page: its media type and its text.
    File(&'static str, &'static str),
    List,
    Answer(&'p str),
    Stop(&'p str),
}

impl<'p> PageRoute<'p> {
    fn of(path: &'p str) -> Option<Self> {
        Some(match path {
            "/" => Self::File("text/html; charset=utf-8", include_str!("page.html")),
            "/page.css" => Self::File("text/css; charset=utf-8", include_str!("page.css")),
            "/page.js" => Self::File("text/javascript; charset=utf-8", include_str!("page.js")),
            "/answers" => Self::List,
            _ => {
                let id = path.strip_prefix("/answers/")?;
                match id.split_once('/') {
                    None => Self::Answer(id),
                    Some((id, "stop")) => Self::Stop(id),
                    Some(_) => return None,
                }
            }
        })
    }

    fn check_method<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let (takes, allow) = match self {
            Self::Stop(_) => (request.method() == Method::POST, "POST"),
            _ => (
                matches!(*request.method(), Method::GET | Method::HEAD),
                "GET, HEAD",
            ),
        };
        if takes {
            Ok(())
        } else {
            Err(WRONG_METHOD.allowing(allow))
        }
    }
}

/// Decodes an id in a path. Of the characters that an id may have, clients encode only the colon.
fn decoded(id: &str) -> String {
    id.replace("%3A", ":").replace("%3a", ":")
}

/// Ends an answer.
fn stop(answer: &ListedAnswer) -> Response<Body> {
    if answer.has_ended() {
        return HAS_ENDED.response(None);
    }
    tracing::info!(id = %answer.id, "the operator has stopped an answer");
    answer.stop();
    json(StatusCode::ACCEPTED, &json!({"stopped": true}))
}

/// Returns the complete part of the JSON in a text.
fn closed(text: &str) -> Option<String> {
    let mut document = Document::new(ParserLimits::default().max_depth);
    // After invalid JSON, the document keeps the part before it.
    let _ = document.push(text);
    document.complete()
}

const WRONG_METHOD: Refusal = Refusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method",
    "the path takes other methods",
);
const UNKNOWN: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "unknown",
    "no answer has this name, or it is no longer known",
);
const NOT_KEPT: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "page_answers",
    "texts are not kept: start the proxy with `--page-answers N` to keep those of the last N answers, or read the facts by \
     `?view=report`",
);
const NO_TEXT: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "no_text",
    "there is no text of this slot: where it was dropped, the header `x-restitch-limit` names the limit that was reached",
);
const NO_JSON: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "no_json",
    "the text has no JSON so far",
);
const BAD_SLOT: Refusal = Refusal::new(StatusCode::BAD_REQUEST, "slot", "`slot` is no number");
const BAD_VIEW: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "view",
    "`view` is report, text, closed or added",
);
const HAS_ENDED: Refusal = Refusal::new(StatusCode::CONFLICT, "ended", "the answer has ended");

fn json(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, JSON, value.to_string())
}

pub(super) fn with_type(
    status: StatusCode,
    media_type: &'static str,
    text: impl Into<bytes::Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

const JSON: &str = "application/json";

/// Lets the browser run and load the page's own files only, and forbids other pages to show it in a
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";
const HEADERS: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];
