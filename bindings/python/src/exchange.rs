//! A request and its calls, for the transports, which make the calls and have the clock.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use restitch::Limits;
use restitch::repair::RepairLevel;
use restitch::session::{CallEnd, Exchange as Engine, ExchangeOutput, ResponseHead, TransportEnd};

use crate::locked;
use crate::partial::from_json;

/// A request and the calls that answer it.
#[pyclass(frozen, module = "restitch._restitch")]
#[derive(Debug)]
pub(crate) struct Exchange(Mutex<Engine>);

/// A call: the method, the path with its query, the body, and the earliest time.
type Call = (&'static str, String, Py<PyBytes>, f64);

/// How the answer ended: the report, whether the stream must end as a lost connection, and the
/// status for a response in one body.
type Done = (Py<PyAny>, bool, u16);

/// Bytes for the client, the steps of the loop, the next call, and the end.
type Outputs = (Py<PyBytes>, Vec<Py<PyAny>>, Option<Call>, Option<Done>);

#[pymethods]
impl Exchange {
    /// Reads a request; `None` if it is not one of a known API.
    #[staticmethod]
    #[pyo3(signature = (
        host, path, body, *, max_continuations = None, max_total_time = None, idle_timeout = None,
        first_byte_timeout = None, on_give_up = "leave", repair = "strict", prose = "pass",
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn for_request(
        host: &str,
        path: &str,
        body: &[u8],
        max_continuations: Option<u32>,
        max_total_time: Option<f64>,
        idle_timeout: Option<f64>,
        first_byte_timeout: Option<f64>,
        on_give_up: &str,
        repair: &str,
        prose: &str,
    ) -> PyResult<Option<Self>> {
        let limits = Limits::of_exchange(
            max_continuations,
            max_total_time.map(time).transpose()?,
            idle_timeout.map(time).transpose()?,
            first_byte_timeout.map(time).transpose()?,
        );
        let give_up = on_give_up
            .parse()
            .map_err(|error| PyValueError::new_err(format!("on_give_up: {error}")))?;
        let repair = RepairLevel::named(repair)
            .map_err(|error| PyValueError::new_err(format!("repair: {error}")))?;
        let prose = prose
            .parse()
            .map_err(|error| PyValueError::new_err(format!("prose: {error}")))?;
        let engine = Engine::for_request(host, path, body, limits);
        Ok(engine.map(|engine| {
            Self(Mutex::new(
                engine.give_up(give_up).repair(repair).prose(prose),
            ))
        }))
    }

    /// Whether the request asks for a stream.
    #[getter]
    fn is_stream(&self, py: Python<'_>) -> bool {
        locked(&self.0, py).is_stream()
    }

    /// Takes the head of the response to the open call. Returns whether its body is read.
    #[expect(clippy::too_many_arguments, reason = "they are the head of a response")]
    fn response(
        &self,
        py: Python<'_>,
        now: f64,
        status: u16,
        content_type: &str,
        content_encoding: Option<&str>,
        retry_after: Option<f64>,
        server: Option<&str>,
    ) -> PyResult<bool> {
        let retry_after = retry_after.map(time).transpose()?;
        let head = ResponseHead::of(status, content_type)
            .with_encoding(content_encoding)
            .with_retry_after(retry_after)
            .with_server(server);
        Ok(locked(&self.0, py).handle_response(time(now)?, &head))
    }

    /// Takes bytes of the open call.
    fn bytes(&self, py: Python<'_>, now: f64, data: &[u8]) -> PyResult<()> {
        let (now, mut engine) = (time(now)?, locked(&self.0, py));
        let bytes = Bytes::copy_from_slice(data);
        let engine = &mut *engine;
        py.detach(|| engine.handle_bytes(now, bytes));
        Ok(())
    }

    /// Takes the end of the open call's body.
    fn end(&self, py: Python<'_>, now: f64, dropped: bool) -> PyResult<()> {
        let end = match dropped {
            true => TransportEnd::Dropped,
            false => TransportEnd::Closed,
        };
        let (now, mut engine) = (time(now)?, locked(&self.0, py));
        let engine = &mut *engine;
        py.detach(|| engine.handle_end(now, end));
        Ok(())
    }

    /// Takes the end of a requested call that has no response. `unavailable`: the upstream could
    /// not be reached, so the same call is made again.
    fn call_failed(
        &self,
        py: Python<'_>,
        now: f64,
        reason: String,
        unavailable: bool,
    ) -> PyResult<()> {
        let end = match unavailable {
            true => CallEnd::Unavailable {
                reason,
                retry_after: None,
            },
            false => CallEnd::Rejected {
                reason,
                transient: true,
                retry_after: None,
            },
        };
        locked(&self.0, py).handle_call_end(time(now)?, end);
        Ok(())
    }

    /// When silence ends the open call.
    fn silent_at(&self, py: Python<'_>) -> Option<f64> {
        locked(&self.0, py).silent_at().map(|at| at.as_secs_f64())
    }

    /// Handles a timeout.
    fn timeout(&self, py: Python<'_>, now: f64) -> PyResult<()> {
        locked(&self.0, py).handle_timeout(time(now)?);
        Ok(())
    }

    /// Takes all outputs: bytes for the client, the steps of the loop, the next call, and the end.
    fn poll(&self, py: Python<'_>) -> PyResult<Outputs> {
        let mut engine = locked(&self.0, py);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let (mut call, mut done) = (None, None);
        // The first bytes are moved, unless the engine keeps them, too.
        let mut push = |bytes: Bytes| match out.is_empty() {
            true => out = bytes.into(),
            false => out.extend_from_slice(&bytes),
        };
        while let Some(output) = engine.poll_output() {
            match output {
                ExchangeOutput::Bytes(bytes) => push(bytes),
                ExchangeOutput::Event(event) => {
                    events.push(from_json(py, &event.to_json().to_string())?);
                }
                ExchangeOutput::Call(next) => {
                    let body = PyBytes::new(py, next.body.as_bytes()).unbind();
                    call = Some((next.method, next.path, body, next.at.as_secs_f64()));
                }
                ExchangeOutput::Done {
                    outcome,
                    last,
                    transport_end,
                    status,
                } => {
                    push(last);
                    let is_dropped = transport_end == TransportEnd::Dropped;
                    call = None;
                    done = Some((from_json(py, &outcome.event())?, is_dropped, status));
                }
                // Outputs that this version does not know are only for logs.
                _ => {}
            }
        }
        Ok((PyBytes::new(py, &out).unbind(), events, call, done))
    }

    /// The report of an answer whose reader has left.
    fn abandoned(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        from_json(py, &locked(&self.0, py).outcome().event())
    }
}

fn time(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}
