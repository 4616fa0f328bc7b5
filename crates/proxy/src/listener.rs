//! The sockets that a proxy listens on, and the connections that they accept.

use std::fmt::Debug;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
#[cfg(any(target_os = "linux", target_os = "android"))]
use tokio::io::Interest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use super::gate::Peer;
#[cfg(unix)]
use super::socket_file::SocketFile;
use crate::address::{ListenAddress, SocketMode};

/// One socket that accepts connections.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// The file is removed when the listener is dropped.
    #[cfg(unix)]
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Opens the sockets of an address: one, or one for each family.
    pub(super) async fn open(address: &ListenAddress, mode: SocketMode) -> io::Result<Vec<Self>> {
        match address {
            ListenAddress::Tcp(address) => Ok(vec![Self::Tcp(TcpListener::bind(address).await?)]),
            ListenAddress::Localhost(port) => {
                both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, *port).await
            }
            ListenAddress::Any(port) => {
                both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, *port).await
            }
            #[cfg(unix)]
            ListenAddress::Unix(path) => {
                let (listener, file) = SocketFile::listen(path, mode).await?;
                Ok(vec![Self::Unix(listener, file)])
            }
            #[cfg(not(unix))]
            ListenAddress::Unix(_) => {
                let _ = mode;
                Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "this system has no Unix sockets",
                ))
            }
        }
    }

    /// Returns the address with the port that the system has assigned.
    pub(super) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            #[cfg(unix)]
            Self::Unix(_, file) => Ok(ListenAddress::Unix(file.path().to_owned())),
        }
    }

    /// Accepts a connection.
    pub(super) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Accepted, Peer)>> {
        Poll::Ready(match self {
            Self::Tcp(listener) => {
                let (stream, client) = ready!(listener.poll_accept(cx))?;
                Ok((
                    Accepted::Tcp(stream.into_std()?),
                    Peer::Address(client.ip()),
                ))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                Ok((Accepted::Unix(stream.into_std()?), Peer::Local))
            }
        })
    }
}

/// Listens on an address of each family, with one port. Skips a family that the machine does not
/// support.
async fn both(v4: Ipv4Addr, v6: Ipv6Addr, port: u16) -> io::Result<Vec<Listener>> {
    let mut tries = 1;
    loop {
        let first = TcpListener::bind((v4, port)).await;
        let bound = first
            .as_ref()
            .ok()
            .and_then(|listener| listener.local_addr().ok());
        let second = v6_only(SocketAddr::from((
            v6,
            bound.map_or(port, |address| address.port()),
        )));
        match (first, second) {
            (Ok(first), Ok(second)) => {
                return Ok(vec![Listener::Tcp(first), Listener::Tcp(second)]);
            }
            // A port that is free for IPv4 may be taken for IPv6.
            (Ok(_), Err(error)) if port == 0 && is_taken(&error) && tries < PORT_TRIES => {
                tries += 1;
            }
            // With one family alone, half of the clients would reach the process that has the
            // other.
            (Err(error), _) | (_, Err(error)) if is_taken(&error) => return Err(error),
            (Ok(listener), Err(_)) | (Err(_), Ok(listener)) => {
                return Ok(vec![Listener::Tcp(listener)]);
            }
            (Err(error), Err(_)) => return Err(error),
        }
    }
}

/// Returns whether the machine has the address but this process can't use it.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
    )
}

/// Listens on an IPv6 address, but not on the IPv4 address with the same port. tokio's own
/// listeners leave that choice to the system.
fn v6_only(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_only_v6(true)?;
    // On Windows, this would let another process take the port.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// An accepted connection that belongs to no runtime yet: one thread accepts it, and another one
/// may serve it.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(std::net::TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// Gives the connection to the runtime of this thread.
    pub(super) fn register(self) -> io::Result<Transport> {
        Ok(match self {
            Self::Tcp(stream) => {
                let stream = TcpStream::from_std(stream)?;
                configure(&stream);
                Box::new(stream)
            }
            #[cfg(unix)]
            Self::Unix(stream) => Box::new(UnixStream::from_std(stream)?),
        })
    }
}

/// The byte stream of a connection: TCP, a Unix socket, or TLS over one of them. A call through the
/// box costs far less than the system call that follows.
pub(super) type Transport = Box<dyn Stream>;

/// The operations that a server needs from a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Debug + Send + Unpin {
    /// Returns a future that is ready when the client has closed its side, even while unread bytes
    /// are left. It is never ready on systems that can't report this.
    fn closed(&self) -> Closed {
        Closed(Box::pin(pending()))
    }
}

/// A future that waits until a client has closed its side.
pub(super) struct Closed(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Closed {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Stream for TcpStream {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn closed(&self) -> Closed {
        closed(self)
    }
}

#[cfg(unix)]
impl Stream for UnixStream {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn closed(&self) -> Closed {
        closed(self)
    }
}

impl Stream for TlsStream<Transport> {
    fn closed(&self) -> Closed {
        self.get_ref().0.closed()
    }
}

/// Waits on a duplicated descriptor: unread bytes would wake a task that waits on the socket
/// itself. Only the readiness of the duplicate matters, so a `TcpStream` serves for every type of
/// socket.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn closed(socket: &impl AsFd) -> Closed {
    let second = socket
        .as_fd()
        .try_clone_to_owned()
        .map(std::net::TcpStream::from)
        .and_then(TcpStream::from_std);
    Closed(Box::pin(async move {
        let Ok(second) = second else {
            return pending().await;
        };
        // With `PRIORITY`, unread bytes don't wake the task, but the end of the client's bytes
        // does.
        if second
            .ready(Interest::PRIORITY | Interest::ERROR)
            .await
            .is_err()
        {
            pending::<()>().await;
        }
    }))
}

fn configure(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    // Nagle's algorithm would hold a small event until the client acknowledges the previous one.
    let set = stream.set_nodelay(true);
    let set =
        set.and_then(|()| socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE)));
    let set = set.and_then(|()| socket.set_send_buffer_size(SEND_BUFFER));
    if let Err(error) = set {
        tracing::debug!(%error, "a socket could not be configured");
    }
}

// The system chooses the first port, and few of the others are taken. The bound ends a loop on a
// machine where all are.
/// The number of tries to find a port that is free in both families.
const PORT_TRIES: u32 = 16;
/// The most connections that wait to be accepted, as in tokio's own listeners.
pub(super) const BACKLOG: i32 = 1024;
/// The silence after which the kernel probes whether a client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
// Without a value Linux would let the buffer of a slow client grow to megabytes. It doubles the
// value.
/// The kernel's send buffer for a client, in bytes.
const SEND_BUFFER: usize = 256 << 10;
