//! A thread that serves connections, with a pool of upstream connections of its own.

use std::sync::Arc;
use std::{io, thread};

use tokio::runtime;
use tokio::sync::{mpsc, oneshot, watch};

use super::connections::Connections;
use super::gate::Permit;
use super::listener::Accepted;
use super::reload::Current;
use super::tls::ServerTls;

/// A connection for a thread.
struct Arrival {
    accepted: Accepted,
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
    /// Receives whether all answers had ended when the thread closed its connections.
    ended: oneshot::Receiver<bool>,
}

impl Worker {
    /// Starts a thread. It ends once its own answers have ended and the sender of `released` is
    /// gone: readers on other threads may read kept answers that this thread writes.
    pub(super) fn start(
        number: usize,
        current: Current,
        tls: Option<ServerTls>,
        mut released: watch::Receiver<()>,
    ) -> io::Result<Self> {
        // A connection and its calls stay on one thread.
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // The gate bounds the connections, and so this channel.
        let (arrivals, received) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name(format!("restitch-{number}"))
            .spawn(move || {
                // The receiver may be gone.
                let _ = end.send(runtime.block_on(serve(current, tls, received)));
                runtime.block_on(async { while released.changed().await.is_ok() {} });
            })?;
        Ok(Self {
            arrivals,
            count: Arc::default(),
            ended,
        })
    }

    /// Returns the number of the thread's open connections.
    pub(super) fn open(&self) -> usize {
        // The handle itself has one.
        Arc::strong_count(&self.count) - 1
    }

    /// Gives a connection to the thread.
    pub(super) fn serve(&self, accepted: Accepted, permit: Permit) {
        // Sending can't fail, since the thread lives as long as this handle.
        drop(self.arrivals.send(Arrival {
            accepted,
            permit,
            count: Arc::clone(&self.count),
        }));
    }

    /// Lets the thread finish its answers. The returned receiver is ready when they have ended or
    /// were cut.
    pub(super) fn stop(self) -> oneshot::Receiver<bool> {
        self.ended
    }
}

async fn serve(
    current: Current,
    tls: Option<ServerTls>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
) -> bool {
    let mut connections = Connections::new(current.clone(), tls);
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(Arrival { accepted, permit, count }) => connections.add(accepted, permit.client(), (permit, count)),
                None => break,
            },
            () = connections.reap() => {}
        }
    }
    connections
        .drain(current.get().limits.server.drain_timeout)
        .await
}
