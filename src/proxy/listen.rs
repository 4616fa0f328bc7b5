//! Accepts connections, and divides them among the threads that serve them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, sleep, timeout};

use super::Proxy;
use super::admin::Admin;
use super::connections::Connections;
use super::gate::{Gate, Permit};
use super::metrics::Metrics;
use super::refusal::Refusal;
use super::worker::Worker;

/// A proxy that listens. Dropping it closes the socket; answers under way are finished in the background, in the time of
/// [`drain_timeout`](crate::ServerLimits::drain_timeout).
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    admin: Option<SocketAddr>,
    /// Set when no more connections are to be accepted.
    stop: watch::Sender<bool>,
    accept: JoinHandle<bool>,
}

impl Server {
    /// Returns the address that the proxy listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address of the admin listener, with the real port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Returns `http://` and the address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Closes the socket and waits until every answer under way has ended, or
    /// [`drain_timeout`](crate::ServerLimits::drain_timeout) is over. Returns whether all have ended; the others are cut.
    pub async fn shutdown(self) -> bool {
        self.stop.send_replace(true);
        // The task ends on its own, and a panic in it has been reported.
        self.accept.await.unwrap_or_default()
    }

    /// Serves until `signal` is ready, then shuts down.
    pub async fn serve_until(self, signal: impl Future<Output = ()>) -> bool {
        signal.await;
        self.shutdown().await
    }
}

pub(super) async fn bind(mut proxy: Proxy, addr: SocketAddr) -> io::Result<Server> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    proxy.access.warn_if_open(addr);
    let (stop, stopped) = watch::channel(false);
    let (mut admin, mut admin_addr) = (JoinSet::new(), None);
    if let Some(addr) = proxy.admin {
        let listener = Admin::bind(addr).await?;
        admin_addr = Some(listener.addr);
        let metrics = Metrics::new(proxy.client.upstream().host(), proxy.limits.server.max_metric_models);
        let metrics = Arc::clone(proxy.metrics.insert(Arc::new(metrics)));
        admin.spawn(listener.serve(metrics, proxy.clone(), stopped.clone()));
    }
    let workers = (0..proxy.threads).map(|number| Worker::start(number, &proxy)).collect::<io::Result<_>>()?;
    let acceptor = Acceptor {
        gate: Gate::default(),
        workers,
        refused: JoinSet::new(),
        connections: Connections::new(&proxy),
        proxy,
        _admin: admin,
    };
    let accept = tokio::spawn(acceptor.run(listener, stopped));
    Ok(Server { addr, admin: admin_addr, stop, accept })
}

struct Acceptor {
    proxy: Proxy,
    gate: Gate,
    workers: Vec<Worker>,
    /// The connections that are served here, if there are no workers.
    connections: Connections,
    /// Clients that are told that there is no room for them.
    refused: JoinSet<()>,
    /// The admin listener's task, which ends with the last answer.
    _admin: JoinSet<()>,
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener, mut stopped: watch::Receiver<bool>) -> bool {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, client)) => self.accept(stream, client),
                    Err(error) => {
                        // Mostly the process has no file descriptors left, and other connections must give theirs back
                        // first.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                () = self.connections.reap() => {}
                Some(_) = self.refused.join_next() => {}
                // The server was told to stop, or was dropped.
                _ = stopped.changed() => break,
            }
        }
        drop(listener);
        let mut has_ended = self.connections.drain(self.proxy.limits.server.drain_timeout).await;
        let workers: Vec<_> = self.workers.into_iter().map(Worker::stop).collect();
        for worker in workers {
            has_ended &= worker.await.unwrap_or_default();
        }
        has_ended
    }

    fn accept(&mut self, stream: TcpStream, client: SocketAddr) {
        match self.gate.enter(client.ip(), &self.proxy.limits.server) {
            Ok(permit) => self.serve(stream, permit),
            Err(limit) => {
                if self.refused.len() < MOST_REFUSED {
                    self.refused.spawn(refuse(stream, limit));
                }
            }
        }
    }

    /// Gives a connection to the thread that has the fewest.
    fn serve(&mut self, stream: TcpStream, permit: Permit) {
        match self.workers.iter().min_by_key(|worker| worker.open()) {
            None => self.connections.add(stream, permit),
            Some(worker) => worker.serve(stream, permit),
        }
    }
}

/// Tells a client that there is no room for it, and waits for a moment until it has read that.
async fn refuse(mut stream: TcpStream, limit: &'static str) {
    let answer = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, limit, "too many connections: try again later").plain();
    let say = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection, and the answer with it.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL, say).await;
}

pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Clients that are told at a time that there is no room. The connections of further ones are just closed.
const MOST_REFUSED: usize = 16;
/// How long such a client may take.
const REFUSAL: Duration = Duration::from_secs(1);
