//! Sends requests to the collector through the proxy's HTTP client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;
use tokio::time::timeout;

use restitch_http::{Body, Client, Error, Upstream};

/// A client for the requests of the exporter. Any thread may use it; the requests run in the runtime
/// that created it.
#[derive(Clone)]
pub(super) struct CollectorClient {
    runtime: Handle,
    client: Client,
    /// The last request has failed. Set so that each outage is logged once.
    is_failing: Arc<AtomicBool>,
}

impl CollectorClient {
    pub(super) fn new(collector: Upstream) -> Result<Self, Error> {
        Ok(Self {
            runtime: Handle::current(),
            client: Client::new(collector)?,
            is_failing: Arc::default(),
        })
    }

    /// Returns whether the last request has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Logs that the collector stops accepting spans, or accepts them again.
    fn report(&self, sent: &Result<Response<Bytes>, HttpError>) {
        let failure = match sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(error, "the collector does not take spans");
            }
            None if was_failing => tracing::info!("the collector takes spans again"),
            _ => {}
        }
    }
}

impl HttpClient for CollectorClient {
    fn send_bytes<'life, 'future>(
        &'life self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'future>>
    where
        'life: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let client = self.client.clone();
            let sending = async move { timeout(LONGEST, send(client, request)).await };
            // The exporter's thread has no runtime.
            let sent = self.runtime.spawn(sending).await;
            let sent = sent
                .map_err(HttpError::from)
                .and_then(|sent| sent.map_err(HttpError::from)?);
            self.report(&sent);
            sent
        })
    }
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let response = client.send(request.map(Body::full)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MOST).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

/// The longest time for a request. The exporter has its own timeout (`OTEL_EXPORTER_OTLP_TIMEOUT`)
/// but does not cancel the request; this one frees it.
const LONGEST: Duration = Duration::from_secs(60);
/// The most bytes that are read of a collector's answer.
const MOST: usize = 1 << 20;
