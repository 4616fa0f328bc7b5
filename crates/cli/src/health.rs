//! `restitch health`: asks a running proxy whether it serves, for containers and service managers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Console, Exit, block_on, epilogue};
use restitch_http::{Body, Client, TlsFiles, Upstream};
use restitch_proxy::address::ListenAddress;
use restitch_proxy::config::ProxyConfig;

/// Arguments of `restitch health`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct HealthArgs {
    /// Where the proxy listens, as `restitch proxy --listen` takes it, or its URL. [default:
    /// 127.0.0.1:7378]
    #[arg(value_name = "ADDRESS", env = "RESTITCH_LISTEN")]
    address: Option<HealthTarget>,
    /// Certificates in PEM that are trusted in addition to the system's, for an `https` URL.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CA_FILE")]
    ca_file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  restitch health
  restitch health :7378                                # all addresses: asks on 127.0.0.1 or [::1]
  restitch health unix:/run/restitch/llm.sock
  restitch health https://llm.example:7378

Exit codes: 0 the proxy answers `/healthz` with 200 within 5 seconds, 1 it does not. The provider is not asked; `restitch
doctor` does that.";

/// Where to ask.
#[derive(Clone, Debug)]
enum HealthTarget {
    Address(ListenAddress),
    Url(String),
}

impl FromStr for HealthTarget {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        if !written.contains("://") {
            return written.parse().map(Self::Address);
        }
        Upstream::parse(written)
            .map(|_| Self::Url(written.to_owned()))
            .map_err(|error| error.to_string())
    }
}

pub(super) fn run(args: &HealthArgs, console: &mut Console) -> io::Result<()> {
    let target = args
        .address
        .clone()
        .unwrap_or(HealthTarget::Address(ProxyConfig::LISTEN.into()));
    let asked = block_on(async {
        let asked = timeout(PATIENCE, ask(&target, args.ca_file.clone())).await;
        Ok(asked
            .unwrap_or_else(|_| Err(format!("no answer within {} seconds", PATIENCE.as_secs()))))
    })?;
    match asked {
        Ok(StatusCode::OK) => {}
        Ok(status) => console.fail(
            Exit::Io,
            format_args!("the proxy is not healthy: it answers {status}"),
        ),
        Err(error) => console.fail(Exit::Io, format_args!("the proxy is not healthy: {error}")),
    }
    Ok(())
}

/// Returns the status of the answer to a question about health.
async fn ask(target: &HealthTarget, ca_file: Option<PathBuf>) -> Result<StatusCode, String> {
    match target {
        HealthTarget::Url(url) => {
            let upstream = Upstream::parse(url).map_err(|error| error.to_string())?;
            let files = TlsFiles {
                ca_file,
                ..TlsFiles::default()
            };
            let client = Client::with_tls(upstream, &files).map_err(|error| error.to_string())?;
            let uri = client
                .upstream()
                .uri_for("/healthz")
                .map_err(|error| error.to_string())?;
            let request = Request::get(uri)
                .body(Body::empty())
                .map_err(|error| error.to_string())?;
            client
                .send(request)
                .await
                .map(|response| response.status())
                .map_err(|error| error.to_string())
        }
        HealthTarget::Address(address) => ask_at(address)
            .await
            .map_err(|error| format!("{address}: {error}")),
    }
}

/// Asks without TLS. Leaves out the proxies of the environment: the address is one of this machine.
async fn ask_at(address: &ListenAddress) -> io::Result<StatusCode> {
    let at_loopback = |port| {
        vec![
            (Ipv4Addr::LOCALHOST, port).into(),
            (Ipv6Addr::LOCALHOST, port).into(),
        ]
    };
    let addresses: Vec<SocketAddr> = match address {
        #[cfg(unix)]
        ListenAddress::Unix(path) => {
            return ask_over(tokio::net::UnixStream::connect(path).await?).await;
        }
        #[cfg(not(unix))]
        ListenAddress::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        ListenAddress::Tcp(address) if address.ip().is_unspecified() => at_loopback(address.port()),
        ListenAddress::Tcp(address) => vec![*address],
        ListenAddress::Localhost(port) | ListenAddress::Any(port) => at_loopback(*port),
    };
    ask_over(TcpStream::connect(&addresses[..]).await?).await
}

async fn ask_over(stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<StatusCode> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = Request::get("/healthz")
        .header("host", "localhost")
        .body(Empty::<&[u8]>::new());
    let response = sender.send_request(request.map_err(io::Error::other)?);
    tokio::select! {
        response = response => response.map(|response| response.status()).map_err(io::Error::other),
        // It ends after its last answer only.
        ended = connection => Err(ended.map_or_else(io::Error::other, |()| io::ErrorKind::UnexpectedEof.into())),
    }
}

/// How long the proxy may take. Its answer needs no other machine.
const PATIENCE: Duration = Duration::from_secs(5);
