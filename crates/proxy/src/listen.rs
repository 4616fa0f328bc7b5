//! Accepts connections, and distributes them among the serving threads.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, sleep};

use super::Proxy;
use super::admin::Admin;
use super::answers::AnswerList;
use super::certificates;
use super::connections::Connections;
use super::gate::{Gate, LIMITS, Peer, Permit};
use super::listener::{Accepted, Listener};
use super::metrics::{self, Metrics};
use super::refused::RefusedConnections;
use super::reload::{Current, Reloader};
use super::resume;
use super::tls::{REASONS, ServerTls};
use super::worker::Worker;
use crate::address::{ListenAddress, SocketMode};

/// The address of a proxy, and how it accepts connections there.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The address.
    pub address: ListenAddress,
    /// The permissions of a Unix socket's file, which admit or refuse local users.
    pub socket_mode: SocketMode,
    /// The certificate. `None`: connections are not encrypted.
    pub tls: Option<ServerTls>,
}

/// A proxy that listens at one TCP address. Dropping it closes the socket; running answers finish
/// in the background, within [`drain_timeout`](restitch::ServerLimits::drain_timeout).
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    listening: Listening,
}

impl Server {
    /// Returns the address that the proxy listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address of the admin listener, with the real port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.listening.admin_addr()
    }

    /// Returns the handle that reloads the configuration, as [`Listening::reloader`] does.
    pub fn reloader(&self) -> Reloader {
        self.listening.reloader()
    }

    /// Returns `http://` and the address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Shuts the proxy down, as [`Listening::shutdown`] does.
    pub async fn shutdown(self) -> bool {
        self.listening.shutdown().await
    }
}

/// A proxy that listens at a TCP address or a Unix socket. Dropping it closes the sockets, as with
/// [`Server`].
#[derive(Debug)]
pub struct Listening {
    urls: Vec<String>,
    admin: Option<SocketAddr>,
    reloader: Reloader,
    /// Set when no more connections are to be accepted.
    stop: watch::Sender<bool>,
    accept: JoinHandle<bool>,
}

impl Listening {
    /// Returns the addresses that the proxy listens on, with the real port:
    /// `http://127.0.0.1:7378`, `https://[::1]:7378`, `unix:/path/to.sock`. An address such as
    /// `localhost` opens several sockets, and yields a URL for each.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the address of the admin listener, with the real port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Returns the handle that reloads the configuration.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Takes requests for [`shutdown_delay`](restitch::ServerLimits::shutdown_delay) more. Then
    /// closes the sockets and waits until every running answer has ended, or
    /// [`drain_timeout`](restitch::ServerLimits::drain_timeout) is over. Returns whether all have
    /// ended, and cuts the others.
    pub async fn shutdown(self) -> bool {
        self.stop.send_replace(true);
        // The task ends on its own, and a panic in it has been reported.
        self.accept.await.unwrap_or_default()
    }
}

pub(super) async fn bind(proxy: Proxy, addr: SocketAddr) -> io::Result<Server> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    Ok(Server {
        addr,
        listening: start(
            proxy,
            vec![Listener::Tcp(listener)],
            None,
            SocketMode::default(),
        )
        .await?,
    })
}

pub(super) async fn listen(proxy: Proxy, listen: &Listen) -> io::Result<Listening> {
    let listeners = Listener::open(&listen.address, listen.socket_mode).await?;
    start(proxy, listeners, listen.tls.clone(), listen.socket_mode).await
}

/// Accepts connections from now on.
async fn start(
    mut proxy: Proxy,
    listeners: Vec<Listener>,
    tls: Option<ServerTls>,
    mode: SocketMode,
) -> io::Result<Listening> {
    let addresses = listeners
        .iter()
        .map(Listener::address)
        .collect::<io::Result<Vec<_>>>()?;
    for address in &addresses {
        proxy.access.warn_if_open(address, mode);
    }
    if proxy.routes.have_key() {
        proxy.access.warn_of_key();
    }
    let urls = addresses
        .iter()
        .map(|address| url(address, tls.is_some()))
        .collect();
    let (stop, stopped) = watch::channel(false);
    let (mut background, mut admin_addr) = (JoinSet::new(), None);
    if proxy.config.proxy.admin.is_some() {
        let metrics = Metrics::new(proxy.limits.server.max_metric_models);
        metrics::begin_routes(&metrics, proxy.routes.all());
        metrics::begin_connections(&metrics, &LIMITS, tls.is_some().then_some(&REASONS));
        proxy.shared.metrics = Some(Arc::new(metrics));
    }
    // After the metrics, which get the times of expiry.
    certificates::check(&proxy, tls.as_ref());
    let mut bound = None;
    if let Some(addr) = proxy.config.proxy.admin {
        let listener = bound.insert(Admin::bind(addr).await?);
        admin_addr = Some(listener.addr);
        proxy.shared.answers = Some(Arc::new(AnswerList::new(
            proxy.config.proxy.page_answers,
            &proxy.limits.server,
        )));
    }
    let own = &proxy.config.proxy;
    let keeping = (own.keep.into(), own.store.as_str());
    proxy.shared.kept =
        resume::KeptAnswers::open(&proxy.limits, keeping, proxy.shared.metrics.clone()).await?;
    if let Some(answers) = &proxy.shared.kept {
        background.spawn(Arc::clone(answers).sweep());
    }
    // From here on each thread has a copy of the proxy, so everything that they share is set above.
    let threads: Vec<_> = (0..proxy.config.proxy.threads)
        .map(|_| Current::new(proxy.apart()))
        .collect();
    let loader = proxy.loader.clone();
    let current = Current::new(proxy);
    let reloader = Reloader::new(
        loader,
        tls.clone(),
        std::iter::once(current.clone()).chain(threads.iter().cloned()),
    );
    background.spawn(reloader.clone().poll_secrets());
    let gate = Gate::default();
    if let Some(listener) = bound {
        background.spawn(listener.serve((current.clone(), gate.clone()), reloader.clone()));
    }
    let (release, released) = watch::channel(());
    let start = |(number, thread)| Worker::start(number, thread, tls.clone(), released.clone());
    let workers = threads
        .into_iter()
        .enumerate()
        .map(start)
        .collect::<io::Result<_>>()?;
    let acceptor = Acceptor {
        gate,
        workers,
        release,
        refused: RefusedConnections::new(tls.is_none()),
        connections: Connections::new(current.clone(), tls),
        current,
        _background: background,
    };
    let accept = tokio::spawn(acceptor.run(listeners, stopped));
    Ok(Listening {
        urls,
        admin: admin_addr,
        reloader,
        stop,
        accept,
    })
}

/// Returns an address as the log and [`Listening::urls`] show it.
fn url(address: &ListenAddress, is_tls: bool) -> String {
    match (address, is_tls) {
        (ListenAddress::Unix(_), true) => format!("{address} with TLS"),
        (ListenAddress::Unix(_), false) => address.to_string(),
        (_, true) => format!("https://{address}"),
        (_, false) => format!("http://{address}"),
    }
}

struct Acceptor {
    current: Current,
    gate: Gate,
    workers: Vec<Worker>,
    /// Dropping it lets the workers' threads end.
    release: watch::Sender<()>,
    /// The connections of this thread, which serves them if there are no workers.
    connections: Connections,
    refused: RefusedConnections,
    /// The tasks that end with the last answer: the admin listener, the removal of expired answers,
    /// and the reading of secrets.
    _background: JoinSet<()>,
}

impl Acceptor {
    async fn run(
        mut self,
        mut listeners: Vec<Listener>,
        mut stopped: watch::Receiver<bool>,
    ) -> bool {
        let current = self.current.clone();
        let mut closing = pin!(async move {
            let told = stopped.changed().await;
            let proxy = current.get();
            proxy.shared.stopping.store(true, Ordering::Relaxed);
            // A dropped server closes its sockets.
            if told.is_ok() {
                sleep(proxy.limits.server.shutdown_delay).await;
            }
        });
        loop {
            tokio::select! {
                accepted = poll_fn(|cx| poll_accept(&mut listeners, cx)) => match accepted {
                    Ok((accepted, client)) => self.accept(accepted, client),
                    Err(error) => {
                        // Usually the process has no file descriptors left, and other connections
                        // must end first.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                () = self.connections.reap() => {}
                () = self.refused.tend() => {}
                () = &mut closing => break,
            }
        }
        // Another process may listen at the address while the open answers end.
        drop(listeners);
        self.refused.finish();
        let kept = self.current.get().shared.kept.clone();
        // A reader that leaves now can't reconnect, so its answer may end.
        let unread = async {
            loop {
                kept.iter().for_each(|answers| answers.stop_unread());
                sleep(UNREAD).await;
            }
        };
        let ended = async {
            // Either this thread has connections or the workers have, so the two waits do not add
            // up.
            let mut has_ended = self
                .connections
                .drain(self.current.get().limits.server.drain_timeout)
                .await;
            // All workers begin to drain before the first one is awaited.
            let workers: Vec<_> = self.workers.into_iter().map(Worker::stop).collect();
            for worker in workers {
                has_ended &= worker.await.unwrap_or_default();
            }
            has_ended
        };
        let has_ended = tokio::select! {
            has_ended = ended => has_ended,
            () = unread => false,
        };
        kept.iter().for_each(|answers| answers.stop());
        drop(self.release);
        has_ended
    }

    fn accept(&mut self, accepted: Accepted, client: Peer) {
        let proxy = self.current.get();
        let needs_token = proxy.access.needs_token();
        match self.gate.enter(client, &proxy.limits.server, needs_token) {
            Ok(permit) => self.serve(accepted, permit),
            Err(limit) => self
                .refused
                .refuse(accepted, limit, proxy.shared.metrics.clone()),
        }
    }

    /// Gives a connection to the thread with the fewest connections.
    fn serve(&mut self, accepted: Accepted, permit: Permit) {
        match self.workers.iter().min_by_key(|worker| worker.open()) {
            None => self.connections.add(accepted, permit.client(), permit),
            Some(worker) => worker.serve(accepted, permit),
        }
    }
}

/// Accepts the next connection of any listener. The listener of the last connection is polled last,
/// so that none starves.
fn poll_accept(
    listeners: &mut [Listener],
    cx: &mut Context<'_>,
) -> Poll<io::Result<(Accepted, Peer)>> {
    for at in 0..listeners.len() {
        let accepted = listeners[at].poll_accept(cx);
        if accepted.is_ready() {
            listeners.rotate_left(at + 1);
            return accepted;
        }
    }
    Poll::Pending
}

// Short beside the time to drain, so that an answer ends soon after its last reader has left.
/// The interval between checks for kept answers without readers, while connections drain.
const UNREAD: Duration = Duration::from_millis(250);
// Meanwhile other connections may end and free their file descriptors. Without a wait the loop
// would take a whole processor.
/// The wait after a failed accept.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);
