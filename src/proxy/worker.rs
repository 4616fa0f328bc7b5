//! A thread that serves connections, with a pool of upstream connections of its own.

use std::sync::Arc;
use std::{io, thread};

use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::Proxy;
use super::connections::Connections;
use super::gate::Permit;

/// A connection on its way to a thread.
struct Arrival {
    stream: std::net::TcpStream,
    permit: Permit,
    /// Counts the connections of the thread.
    count: Arc<()>,
}

/// A thread that serves connections.
#[derive(Debug)]
pub(super) struct Worker {
    arrivals: mpsc::UnboundedSender<Arrival>,
    /// Cloned for each open connection.
    count: Arc<()>,
    /// Whether all answers had ended when the thread did.
    ended: oneshot::Receiver<bool>,
}

impl Worker {
    /// Starts a thread.
    pub(super) fn start(number: usize, proxy: &Proxy) -> io::Result<Self> {
        let mut proxy = proxy.clone();
        proxy.client = proxy.client.apart();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (arrivals, received) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name(format!("restitch-{number}")).spawn(move || {
            // The server may have gone.
            let _ = end.send(runtime.block_on(serve(&proxy, received)));
        })?;
        Ok(Self { arrivals, count: Arc::default(), ended })
    }

    /// Returns how many connections the thread has.
    pub(super) fn open(&self) -> usize {
        Arc::strong_count(&self.count) - 1
    }

    /// Gives a connection to the thread.
    pub(super) fn serve(&self, stream: TcpStream, permit: Permit) {
        match stream.into_std() {
            // The thread ends after this handle alone.
            Ok(stream) => drop(self.arrivals.send(Arrival { stream, permit, count: Arc::clone(&self.count) })),
            Err(error) => tracing::warn!(%error, "lost a connection"),
        }
    }

    /// Lets the thread end its answers. What is returned is ready when they have ended, or were cut.
    pub(super) fn stop(self) -> oneshot::Receiver<bool> {
        self.ended
    }
}

async fn serve(proxy: &Proxy, mut arrivals: mpsc::UnboundedReceiver<Arrival>) -> bool {
    let mut connections = Connections::new(proxy);
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(Arrival { stream, permit, count }) => match TcpStream::from_std(stream) {
                    Ok(stream) => connections.add(stream, (permit, count)),
                    Err(error) => tracing::warn!(%error, "lost a connection"),
                },
                None => break,
            },
            () = connections.reap() => {}
        }
    }
    connections.drain(proxy.limits.server.drain_timeout).await
}
