//! The addresses that a proxy listens on: TCP in its forms, Unix sockets, TLS. The certificates are
//! those of `tls.rs`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use restitch::Limits;
use restitch_proxy::address::{ListenAddress, SocketMode};
use restitch_proxy::{Listen, Listening, ServerTls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::raw::*;
use crate::proxy::made::TestProxy;
use restitch_testing::skipped;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";

#[test]
fn addresses_as_they_are_written() {
    let tcp = |address: &str| ListenAddress::Tcp(address.parse().unwrap());
    for (written, address) in [
        ("127.0.0.1:7378", tcp("127.0.0.1:7378")),
        ("[::1]:7378", tcp("[::1]:7378")),
        ("localhost:7378", ListenAddress::Localhost(7378)),
        (":7378", ListenAddress::Any(7378)),
        (
            "unix:/run/a b.sock",
            ListenAddress::Unix("/run/a b.sock".into()),
        ),
    ] {
        assert_eq!(written.parse(), Ok(address.clone()), "{written}");
        assert_eq!(address.to_string(), written);
    }
    let no_address = "is no address to listen on: write";
    for (written, words) in [
        ("", no_address),
        ("127.0.0.1", no_address),
        ("llm.example:7378", no_address),
        ("::1:7378", no_address),
        ("http://127.0.0.1:7378", no_address),
        ("localhost:65536", "`65536` is no port"),
        (":http", "`http` is no port"),
        ("unix:", "names no file"),
    ] {
        let error = written.parse::<ListenAddress>().unwrap_err();
        error.of(written).has(words);
    }
    for (written, bits) in [("0600", 0o600), ("660", 0o660), ("0777", 0o777)] {
        assert_eq!(written.parse::<SocketMode>().unwrap().bits(), bits);
    }
    for written in ["", "6", "0o600", "+600", "0680", "1777", "00600", "rw"] {
        assert!(written.parse::<SocketMode>().is_err(), "{written}");
    }
}

pub(super) fn at(address: &str) -> Listen {
    Listen {
        address: address.parse().unwrap(),
        socket_mode: SocketMode::default(),
        tls: None,
    }
}

/// Returns a proxy whose upstream gets no request.
async fn unasked() -> TestProxy {
    Raw::new(Vec::new()).await.unbound(Limits::default())
}

/// Returns whether the machine has IPv6.
async fn has_v6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok();
    if !has {
        skipped("this machine has no IPv6");
    }
    has
}

#[tokio::test]
async fn each_form_is_listened_on() {
    let v6 = has_v6().await;
    let loopback_v6 = Ipv6Addr::LOCALHOST.to_string();
    for (form, hosts) in [
        ("127.0.0.1:0", vec!["127.0.0.1"]),
        ("[::1]:0", vec!["[::1]"]),
        ("localhost:0", vec!["127.0.0.1", "[::1]"]),
        (":0", vec!["0.0.0.0", "[::]"]),
    ] {
        let hosts: Vec<&str> = hosts
            .into_iter()
            .filter(|host| v6 || !host.starts_with('['))
            .collect();
        if hosts.is_empty() {
            continue;
        }
        let proxy = unasked().await.listen(&at(form)).await.unwrap();
        let ports: Vec<u16> = proxy
            .urls()
            .iter()
            .map(|url| url.rsplit_once(':').unwrap().1.parse().unwrap())
            .collect();
        let urls: Vec<String> = hosts
            .iter()
            .map(|host| format!("http://{host}:{}", ports[0]))
            .collect();
        assert_eq!(proxy.urls(), urls, "{form}");
        for host in hosts {
            let host = host
                .replace("0.0.0.0", "127.0.0.1")
                .replace("[::]", "[::1]")
                .replace("[::1]", &loopback_v6);
            let answer = exchange(SocketAddr::new(host.parse().unwrap(), ports[0]), HEALTH).await;
            answer
                .of(format!("{form} {host}"))
                .begins("HTTP/1.1 200 OK");
        }
        assert!(proxy.shutdown().await);
    }
}

/// Half of the clients would reach another process.
#[tokio::test]
async fn a_port_that_one_family_has_taken_is_an_error() {
    if !has_v6().await {
        return;
    }
    for family in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
    ] {
        let taken = TcpListener::bind(family).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = unasked()
            .await
            .listen(&at(&format!("localhost:{port}")))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{family}");
    }
}

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name)
}

pub(super) fn certificate() -> ServerTls {
    ServerTls::from_files(&file("server.pem"), &file("server.key")).unwrap()
}

/// Bytes of a client, of whatever kind.
trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// The kinds of listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Tls,
    #[cfg(unix)]
    Unix,
}

const KINDS: &[Kind] = &[
    Kind::Tcp,
    Kind::Tls,
    #[cfg(unix)]
    Kind::Unix,
];

impl Kind {
    fn listen(self, name: &str) -> Listen {
        let _ = name;
        match self {
            Self::Tcp => at("127.0.0.1:0"),
            Self::Tls => Listen {
                tls: Some(certificate()),
                ..at("127.0.0.1:0")
            },
            #[cfg(unix)]
            Self::Unix => at(&format!("unix:{}", unix::path(name).display())),
        }
    }

    /// Starts a proxy. `name`: of its socket.
    async fn start(self, proxy: TestProxy, name: &str) -> Listening {
        proxy.listen(&self.listen(name)).await.unwrap()
    }

    async fn connect(self, proxy: &Listening) -> Box<dyn Bytes> {
        match self {
            Self::Tcp => Box::new(connect(tcp(proxy)).await),
            Self::Tls => Box::new(handshake(tcp(proxy), &["http/1.1"]).await.unwrap()),
            #[cfg(unix)]
            Self::Unix => Box::new(
                tokio::net::UnixStream::connect(proxy.urls()[0].strip_prefix("unix:").unwrap())
                    .await
                    .unwrap(),
            ),
        }
    }
}

pub(super) fn tcp(proxy: &Listening) -> SocketAddr {
    proxy.urls()[0].rsplit_once('/').unwrap().1.parse().unwrap()
}

pub(super) async fn handshake(
    addr: SocketAddr,
    protocols: &[&str],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let stream = connect(addr).await;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("llm.test").unwrap(), stream)
        .await
}

#[tokio::test]
async fn an_answer_is_continued_over_each_kind() {
    for (threads, kind) in [0, 2]
        .into_iter()
        .flat_map(|n| KINDS.iter().map(move |k| (n, k)))
    {
        let raw = Raw::new(vec![limited("[1, 2"), full("[1, 20]")]).await;
        let proxy = raw.unbound(Limits::default()).threads(threads);
        let proxy = kind.start(proxy, &format!("continued-{threads}")).await;
        let mut client = kind.connect(&proxy).await;
        client.write_all(post(ASK).as_bytes()).await.unwrap();
        let (body, is_whole) = body_of(&read_to_end(&mut client).await);
        assert!(is_whole, "{kind:?}: {body}");
        body.of(kind)
            .ends("data: [DONE]\n\n")
            .has(r#""status":"complete""#);
        assert!(timeout(HANGS, proxy.shutdown()).await.unwrap());
    }
}

/// hyper reads nothing more while bytes wait behind a request. The proxy notices all the same that
/// the client leaves, before the head and in the answer.
#[tokio::test]
async fn a_client_that_leaves_is_noticed_behind_bytes_that_wait() {
    let get = "GET /x HTTP/1.1\r\nhost: h\r\n\r\n";
    let long = get.replace("h\r\n", &format!("h\r\nx: {}\r\n", "a".repeat(20_000)));
    for (kind, stray) in KINDS
        .iter()
        .flat_map(|kind| ["", "\r\n", "G", get, &long].map(|stray| (kind, stray)))
    {
        for (is_answered, says_so) in [(false, false), (true, false), (true, true)] {
            let answer = if is_answered {
                held("[1, 2")
            } else {
                vec![Piece::Hold]
            };
            let raw = Raw::new(vec![answer]).await;
            let limits = Limits::default().with_keep_alive_interval(Duration::from_secs(60));
            let proxy = kind.start(raw.unbound(limits), "leaves").await;
            let mut client = kind.connect(&proxy).await;
            let ask = post(ASK).replace("connection: close\r\n", "") + stray;
            client.write_all(ask.as_bytes()).await.unwrap();
            raw.wait(|state| state.requests == 1).await;
            if is_answered {
                read_until(&mut client, "[1, 2").await;
            }
            if says_so {
                // TLS announces the end; the others end their half of the connection.
                client.shutdown().await.unwrap();
            } else {
                drop(client);
            }
            raw.wait(|state| state.left == 1).await;
            let ended = timeout(HANGS, proxy.shutdown()).await;
            assert!(
                ended.unwrap(),
                "{kind:?} {stray:?} {says_so}: the proxy waits"
            );
            assert_eq!(raw.asked(), 1, "{kind:?} {stray:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_left() {
    for kind in KINDS {
        let events = chunk(&"x".repeat(8000)).repeat(4000);
        let raw = Raw::new(vec![vec![send(format!("{STREAM}{events}")), Piece::Hold]]).await;
        let mut limits = Limits::default();
        limits.server.write_timeout = Duration::from_millis(50);
        let proxy = kind.start(raw.unbound(limits), "reads-nothing").await;
        let mut client = kind.connect(&proxy).await;
        client.write_all(post(ASK).as_bytes()).await.unwrap();
        raw.wait(|state| state.left == 1).await;
        assert!(timeout(HANGS, proxy.shutdown()).await.unwrap(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_is_refused() {
    for kind in KINDS {
        let mut limits = Limits::default();
        limits.server.head_timeout = Duration::from_millis(50);
        let proxy = kind.start(unasked().await.limits(limits), "head").await;
        for begun in ["", "P", "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n"] {
            let mut client = kind.connect(&proxy).await;
            client.write_all(begun.as_bytes()).await.unwrap();
            let answer = read_to_end(&mut client).await;
            let (body, is_whole) = body_of(&answer);
            body.of(kind).has("head_timeout").begins("{");
            assert!(is_whole && answer.starts_with("HTTP/1.1 408 "), "{answer}");
        }
    }
}

/// A client of TLS beyond the limit is closed; all clients of a Unix socket count as one address.
#[tokio::test]
async fn connections_are_counted_on_each_kind() {
    for kind in KINDS {
        let mut limits = Limits::default();
        limits.server.max_connections_per_client = Some(2);
        let proxy = kind.start(unasked().await.limits(limits), "counted").await;
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut client = kind.connect(&proxy).await;
            let ask = HEALTH.replace("connection: close\r\n", "");
            client.write_all(ask.as_bytes()).await.unwrap();
            read_until(&mut client, "ok\n").await;
            open.push(client);
        }
        if *kind == Kind::Tls {
            assert!(handshake(tcp(&proxy), &[]).await.is_err());
        } else {
            let answer = read_to_end(&mut kind.connect(&proxy).await).await;
            answer
                .of(kind)
                .begins("HTTP/1.1 503 ")
                .has("max_connections_per_client");
        }
    }
}

#[tokio::test]
async fn tls_speaks_http_1_alone() {
    let proxy = Kind::Tls.start(unasked().await, "").await;
    proxy.urls()[0]
        .of(format!("{:?}", proxy.urls()))
        .begins("https://127.0.0.1:");
    for (offered, agreed) in [
        (&[][..], None),
        (&["h2", "http/1.1"], Some(&b"http/1.1"[..])),
    ] {
        let mut client = handshake(tcp(&proxy), offered).await.unwrap();
        assert_eq!(client.get_ref().1.alpn_protocol(), agreed);
        client.write_all(HEALTH.as_bytes()).await.unwrap();
        read_to_end(&mut client).await.ends("ok\n");
    }
    assert!(handshake(tcp(&proxy), &["h2"]).await.is_err());
}

/// The proxy closes a client that does not finish its handshake, and accepts others meanwhile.
#[tokio::test]
async fn a_slow_handshake_is_closed_and_blocks_nobody() {
    for threads in [0, 1] {
        // One limit is soon over, the other one is not.
        for limit in [Duration::from_millis(50), 10 * HANGS] {
            let mut limits = Limits::default();
            limits.server.handshake_timeout = limit;
            let proxy = unasked().await.limits(limits).threads(threads);
            let proxy = Kind::Tls.start(proxy, "").await;
            let mut silent = Vec::new();
            for _ in 0..32 {
                silent.push(connect(tcp(&proxy)).await);
            }
            if limit < HANGS {
                for client in &mut silent {
                    assert_eq!(read_to_end(client).await, "");
                }
            } else {
                let mut client = Kind::Tls.connect(&proxy).await;
                client.write_all(HEALTH.as_bytes()).await.unwrap();
                read_to_end(&mut client).await.ends("ok\n");
            }
        }
    }
}

/// A client that has not finished its handshake has asked for nothing.
#[tokio::test]
async fn stopping_does_not_wait_for_handshakes() {
    for threads in [0, 1] {
        let limits = {
            let mut limits = Limits::default();
            limits.server.handshake_timeout = 10 * HANGS;
            limits.server.drain_timeout = 10 * HANGS;
            limits
        };
        let proxy = unasked().await.limits(limits).threads(threads);
        let proxy = Kind::Tls.start(proxy, "").await;
        let mut silent = connect(tcp(&proxy)).await;
        // The proxy accepts in the order of arrival, so this client's answer means that it has the
        // silent one.
        let mut client = Kind::Tls.connect(&proxy).await;
        client.write_all(HEALTH.as_bytes()).await.unwrap();
        read_to_end(&mut client).await;
        assert!(
            timeout(HANGS, proxy.shutdown())
                .await
                .expect("the proxy waits")
        );
        assert_eq!(read_to_end(&mut silent).await, "");
    }
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Returns the path of a socket that does not exist yet.
    pub(super) fn path(name: &str) -> PathBuf {
        let mut folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sockets");
        // The path of a socket has at most 107 bytes.
        if folder.as_os_str().len() > 80 {
            folder = std::env::temp_dir().join("restitch-sockets");
        }
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.sock"));
        let _ = fs::remove_file(&path);
        path
    }

    fn listen(path: &Path) -> Listen {
        at(&format!("unix:{}", path.display()))
    }

    async fn is_served(path: &Path) -> bool {
        let mut client = tokio::net::UnixStream::connect(path).await.unwrap();
        client.write_all(HEALTH.as_bytes()).await.unwrap();
        read_to_end(&mut client).await.ends_with("ok\n")
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_until_the_end() {
        let path = path("owner");
        for (mode, bits) in [("0600", 0o600), ("0660", 0o660)] {
            let listen = Listen {
                socket_mode: mode.parse().unwrap(),
                ..listen(&path)
            };
            let proxy = unasked().await.listen(&listen).await.unwrap();
            assert_eq!(proxy.urls(), [format!("unix:{}", path.display())]);
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                bits
            );
            assert!(is_served(&path).await);
            assert!(proxy.shutdown().await);
            assert!(!path.exists());
        }
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_process_is_replaced() {
        let path = path("stale");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let proxy = unasked().await.listen(&listen(&path)).await.unwrap();
        assert!(is_served(&path).await);
        assert!(proxy.shutdown().await);
    }

    #[tokio::test]
    async fn the_socket_of_a_live_process_is_an_error() {
        let path = path("live");
        let first = unasked().await.listen(&listen(&path)).await.unwrap();
        let error = unasked().await.listen(&listen(&path)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::AddrInUse, "{error}");
        error.to_string().of(error).has("a process listens");
        assert!(is_served(&path).await);
        assert!(first.shutdown().await);
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_a_socket_is_an_error() {
        let file = path("file");
        fs::write(&file, "kept").unwrap();
        let error = unasked().await.listen(&listen(&file)).await.unwrap_err();
        error.to_string().of(error).has("is no socket");
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        for path in [
            Path::new("/missing/llm.sock"),
            &file.with_file_name("x".repeat(200)),
        ] {
            assert!(unasked().await.listen(&listen(path)).await.is_err());
            assert!(!path.exists());
        }
    }

    /// Another process may have put its own socket there.
    #[tokio::test]
    async fn a_file_that_is_not_its_own_is_left() {
        let path = path("other");
        let proxy = unasked().await.listen(&listen(&path)).await.unwrap();
        fs::rename(&path, path.with_extension("old")).unwrap();
        fs::write(&path, "kept").unwrap();
        assert!(proxy.shutdown().await);
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }
}
