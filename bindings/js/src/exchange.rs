//! A request and its calls, for `lib/fetch.cjs`, which makes the calls and has the clock.

use std::time::Duration;

use bytes::Bytes;
use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi::{Error, Result, Status};
use napi_derive::napi;
use restitch::Limits;
use restitch::provider::Dialect;
use restitch::repair::RepairLevel;
use restitch::session::{
    CallEnd, Exchange as Engine, ExchangeOutput, GiveUp, Prose, ResponseHead, TransportEnd,
};

/// The settings of an exchange. Times are in milliseconds.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub struct Settings {
    pub max_continuations: Option<f64>,
    pub max_total_time: Option<f64>,
    pub idle_timeout: Option<f64>,
    pub first_byte_timeout: Option<f64>,
    pub on_give_up: Option<String>,
    pub repair: Option<String>,
    pub prose: Option<String>,
}

/// A call to make.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Call {
    /// The method.
    pub method: &'static str,
    /// The path with its query.
    pub path: String,
    /// The body. Empty for a `GET`.
    pub body: String,
    /// The earliest time of the call.
    pub at: f64,
}

/// How an answer ended.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Done {
    /// The report, as JSON.
    pub report: String,
    /// The stream must end as a lost connection.
    pub is_dropped: bool,
    /// The status for a response in one body.
    pub status: u32,
}

/// The outputs of an exchange.
#[napi(object, object_from_js = false)]
pub struct Outputs {
    /// Bytes for the client.
    pub bytes: Option<Buffer>,
    /// The steps of the loop, as JSON.
    pub events: Vec<String>,
    /// The next call: it ends the open one.
    pub call: Option<Call>,
    /// The end.
    pub done: Option<Done>,
}

/// A request and the calls that answer it. All times are milliseconds since the same moment.
#[napi]
#[derive(Debug)]
pub struct Exchange(Engine);

/// Returns whether a path, without its query, is one of a known API.
#[napi]
pub fn is_known_path(path: String) -> bool {
    Dialect::of_path(&path).is_some()
}

/// Reads a request; `None` if it is not one of a known API.
#[napi]
pub fn exchange_for_request(
    host: String,
    path: String,
    body: Uint8Array,
    settings: Settings,
) -> Result<Option<Exchange>> {
    let limits = Limits::of_exchange(
        settings.max_continuations.map(count).transpose()?,
        settings.max_total_time.map(time).transpose()?,
        settings.idle_timeout.map(time).transpose()?,
        settings.first_byte_timeout.map(time).transpose()?,
    );
    let give_up = match settings.on_give_up.as_deref() {
        Some(name) => name.parse().map_err(|error| invalid("onGiveUp", error))?,
        None => GiveUp::default(),
    };
    let repair = match settings.repair.as_deref() {
        Some(name) => RepairLevel::named(name).map_err(|error| invalid("repair", error))?,
        None => RepairLevel::Strict,
    };
    let prose = match settings.prose.as_deref() {
        Some(name) => name.parse().map_err(|error| invalid("prose", error))?,
        None => Prose::default(),
    };
    let engine = Engine::for_request(&host, &path, &body, limits);
    Ok(engine.map(|engine| Exchange(engine.give_up(give_up).repair(repair).prose(prose))))
}

#[napi]
impl Exchange {
    /// Whether the request asks for a stream.
    #[napi(getter)]
    pub fn is_stream(&self) -> bool {
        self.0.is_stream()
    }

    /// Takes the head of the response to the open call. Returns whether its body is read. `fetch`
    /// decodes the body, so the content coding is left out.
    #[napi]
    pub fn response(
        &mut self,
        now: f64,
        status: u32,
        content_type: String,
        retry_after: Option<f64>,
        server: Option<String>,
    ) -> Result<bool> {
        let status = u16::try_from(status).map_err(|error| invalid("status", error))?;
        let retry_after = retry_after.map(time).transpose()?;
        let head = ResponseHead::of(status, &content_type)
            .with_retry_after(retry_after)
            .with_server(server.as_deref());
        Ok(self.0.handle_response(time(now)?, &head))
    }

    /// Takes bytes of the open call.
    #[napi]
    pub fn bytes(&mut self, now: f64, data: Uint8Array) -> Result<()> {
        self.0
            .handle_bytes(time(now)?, Bytes::copy_from_slice(&data));
        Ok(())
    }

    /// Takes the end of the open call's body.
    #[napi]
    pub fn end(&mut self, now: f64, dropped: bool) -> Result<()> {
        let end = match dropped {
            true => TransportEnd::Dropped,
            false => TransportEnd::Closed,
        };
        self.0.handle_end(time(now)?, end);
        Ok(())
    }

    /// Takes the end of a requested call that has no response. The same call is made again.
    #[napi]
    pub fn call_failed(&mut self, now: f64, reason: String) -> Result<()> {
        let end = CallEnd::Unavailable {
            reason,
            retry_after: None,
        };
        self.0.handle_call_end(time(now)?, end);
        Ok(())
    }

    /// When [`timeout`](Self::timeout) is due.
    #[napi]
    pub fn timeout_at(&self) -> Option<f64> {
        self.0.poll_timeout().map(millis)
    }

    /// Handles a timeout.
    #[napi]
    pub fn timeout(&mut self, now: f64) -> Result<()> {
        self.0.handle_timeout(time(now)?);
        Ok(())
    }

    /// Takes all outputs.
    #[napi]
    pub fn poll(&mut self) -> Outputs {
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        let (mut call, mut done) = (None, None);
        while let Some(output) = self.0.poll_output() {
            match output {
                ExchangeOutput::Bytes(more) => append(&mut bytes, more),
                ExchangeOutput::Event(event) => events.push(event.to_json().to_string()),
                ExchangeOutput::Call(next) => {
                    call = Some(Call {
                        method: next.method,
                        path: next.path,
                        body: next.body,
                        at: millis(next.at),
                    });
                }
                ExchangeOutput::Done {
                    outcome,
                    last,
                    transport_end,
                    status,
                } => {
                    append(&mut bytes, last);
                    call = None;
                    done = Some(Done {
                        report: outcome.event(),
                        is_dropped: transport_end == TransportEnd::Dropped,
                        status: status.into(),
                    });
                }
                // Outputs that this version does not know are only for logs.
                _ => {}
            }
        }
        Outputs {
            bytes: (!bytes.is_empty()).then(|| bytes.into()),
            events,
            call,
            done,
        }
    }

    /// The report of an answer whose reader has left, as JSON.
    #[napi]
    pub fn abandoned(&self) -> String {
        self.0.outcome().event()
    }
}

/// Appends bytes. The first ones are moved, unless the engine keeps them, too.
fn append(bytes: &mut Vec<u8>, more: Bytes) {
    match bytes.is_empty() {
        true => *bytes = more.into(),
        false => bytes.extend_from_slice(&more),
    }
}

fn time(millis: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(millis / 1e3).map_err(|error| invalid("time", error))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn count(number: f64) -> Result<u32> {
    let is_count = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    match is_count {
        true => Ok(number as u32),
        false => Err(invalid("maxContinuations", "is a whole number, from 0 on")),
    }
}

fn invalid(setting: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Status::InvalidArg, format!("{setting}: {error}"))
}
