//! The client's connections: certificates from files, and a proxy of the environment. The
//! certificates in `tls/` were made for these tests and are valid for a hundred years; the key of
//! their root was thrown away.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};

use http::Request;
use http_body_util::BodyExt;
use restitch_http::{Body, Client, Error, TlsFiles, Upstream};
use restitch_testing::says::Says;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, Stream};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name)
}

fn files(ca: Option<&str>, cert: Option<&str>, key: Option<&str>) -> TlsFiles {
    TlsFiles {
        ca_file: ca.map(file),
        client_cert: cert.map(file),
        client_key: key.map(file),
    }
}

fn server_config(asks_for_certificate: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if asks_for_certificate {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(file("ca.pem")).unwrap())
            .unwrap();
        builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap(),
        )
    } else {
        builder.with_no_client_auth()
    };
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
}

/// Reads a request without a body.
fn head(stream: &mut impl Read) -> std::io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    Ok(String::from_utf8(text).unwrap())
}

fn answer(
    mut stream: TcpStream,
    config: &Arc<ServerConfig>,
) -> std::io::Result<Option<HandshakeKind>> {
    let mut connection = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = Stream::new(&mut connection, &mut stream);
    head(&mut stream)?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"data\":[]}",
    )?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(stream.conn.handshake_kind())
}

/// Starts a server that answers one request after the other. With `tunnels` it is a proxy that
/// leads to itself, and sends the requests for a tunnel.
fn serve(asks_for_certificate: bool, tunnels: Option<mpsc::Sender<String>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let config = server_config(asks_for_certificate);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if let Some(tunnels) = &tunnels {
                let Ok(request) = head(&mut stream) else {
                    continue;
                };
                let _ = tunnels.send(request);
                if stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_err() {
                    continue;
                }
            }
            // A client that does not trust the server, or is not trusted, leaves.
            let _ = answer(stream, &config);
        }
    });
    addr
}

async fn ask(addr: SocketAddr, files: &TlsFiles) -> Result<u16, Error> {
    let client = Client::with_tls(Upstream::parse(&format!("https://{addr}")).unwrap(), files)?;
    let uri = client.upstream().uri_for("/v1/models").unwrap();
    Ok(client
        .send(Request::get(uri).body(Body::empty()).unwrap())
        .await?
        .status()
        .as_u16())
}

#[tokio::test]
async fn a_root_of_a_file_is_trusted() {
    let addr = serve(false, None);
    assert_eq!(
        ask(addr, &files(Some("ca.pem"), None, None)).await.unwrap(),
        200
    );
    let error = ask(addr, &files(Some("client.pem"), None, None))
        .await
        .unwrap_err();
    assert!(error.is_connect(), "{error}");
    error.to_string().of(error).has("certificate");
}

/// A second connection to the same server resumes the session of the first.
#[tokio::test]
async fn sessions_are_resumed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let config = server_config(false);
    let (sender, kinds) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            sender
                .send(answer(stream, &config).unwrap().unwrap())
                .unwrap();
        }
    });
    let upstream = Upstream::parse(&format!("https://{addr}")).unwrap();
    let client = Client::with_tls(upstream, &files(Some("ca.pem"), None, None)).unwrap();
    for handshake in [
        HandshakeKind::Full,
        HandshakeKind::Resumed,
        HandshakeKind::Resumed,
    ] {
        let uri = client.upstream().uri_for("/v1/models").unwrap();
        let response = client
            .send(Request::get(uri).body(Body::empty()).unwrap())
            .await
            .unwrap();
        // The tickets come with the answer.
        response.into_body().collect().await.unwrap();
        assert_eq!(kinds.recv().unwrap(), handshake);
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_it() {
    let addr = serve(true, None);
    assert!(ask(addr, &files(Some("ca.pem"), None, None)).await.is_err());
    let own = files(Some("ca.pem"), Some("client.pem"), Some("client.key"));
    assert_eq!(ask(addr, &own).await.unwrap(), 200);
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_at_start() {
    let rows = [
        (files(Some("missing.pem"), None, None), "missing.pem: "),
        (
            files(Some("server.key"), None, None),
            "server.key has no certificate in PEM",
        ),
        (
            files(None, Some("client.pem"), None),
            "a client certificate needs its key",
        ),
        (
            files(None, None, Some("client.key")),
            "a client key needs its certificate",
        ),
        (
            files(None, Some("client.pem"), Some("server.key")),
            "client.pem and ",
        ),
    ];
    for (mut files, words) in rows {
        // The system may have no roots.
        files.ca_file.get_or_insert(file("ca.pem"));
        let error =
            Client::with_tls(Upstream::parse("https://llm.test").unwrap(), &files).unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        error.to_string().of(error).has(words);
        // They are not for `http`, and are read all the same.
        let error =
            Client::with_tls(Upstream::parse("http://127.0.0.1:9").unwrap(), &files).unwrap_err();
        error.to_string().of(error).has(words);
    }
}

mod commands {
    use restitch_proxy::ServerTls;

    use super::*;

    /// Runs a command with no variables for connections but these.
    fn run(args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command
            .args(args)
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES");
        command.env_remove("SSL_CERT_DIR");
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        let ran = crate::cli::Ran::of(command.envs(variables.iter().copied()));
        (ran.code, ran.out, ran.err)
    }

    #[test]
    fn the_proxy_does_not_start_without_its_roots() {
        let args = [
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "https://llm.test",
        ];
        for (name, words) in [
            ("missing.pem", "SSL_CERT_FILE: "),
            ("server.key", "SSL_CERT_FILE: "),
        ] {
            let path = file(name);
            let (code, _, err) = run(&args, &[("SSL_CERT_FILE", path.to_str().unwrap())]);
            assert!(code == 1, "{code}: {err}");
            err.of(code).has(words).has(name);
        }
        let ca = file("missing.pem");
        let set = format!("tls.ca_file={}", ca.display());
        let (code, _, err) = run(&[&args[..], &["--set", &set]].concat(), &[]);
        assert!(code == 1, "{code}: {err}");
        err.of(code).has("missing.pem");
    }

    /// A file whose copying broke off.
    #[test]
    fn a_file_that_is_cut_is_told_with_its_name() {
        let whole = std::fs::read_to_string(file("ca.pem")).unwrap();
        let end = whole.find("-----END").unwrap();
        let folder = crate::cli::folder(
            "tls-cut",
            &[
                ("body.pem", &whole.as_bytes()[..end - 100]),
                ("end.pem", &whole.as_bytes()[..end + 12]),
                ("second.pem", [&whole, &whole[..end]].concat().as_bytes()),
                ("begin.pem", b"-----BEGIN CERTI\n"),
                ("key.key", b"-----BEGIN PRIVATE KEY-----\nMIIE\n"),
            ],
        );
        let not_ended =
            "the block `CERTIFICATE` is not ended: the line `-----END CERTIFICATE-----` is missing";
        for (name, words) in [
            ("body.pem", not_ended),
            ("end.pem", not_ended),
            ("second.pem", not_ended),
            (
                "begin.pem",
                "a line that begins with `-----BEGIN` does not end with `-----`",
            ),
        ] {
            let files = TlsFiles {
                ca_file: Some(folder.join(name)),
                ..TlsFiles::default()
            };
            let error =
                Client::with_tls(Upstream::parse("https://llm.test").unwrap(), &files).unwrap_err();
            error.to_string().of(error).ends(format!("{name}: {words}"));
        }
        let error = ServerTls::from_files(&file("server.pem"), &folder.join("key.key"))
            .unwrap_err()
            .to_string();
        error.ends("key.key: the block `PRIVATE KEY` is not ended: the line `-----END PRIVATE KEY-----` is missing");
        let error = ServerTls::from_files(&file("server.pem"), &file("server.pem"))
            .unwrap_err()
            .to_string();
        error.ends("server.pem: there is no private key in PEM");
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_an_error_at_start() {
        let args = [
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "https://llm.test",
        ];
        let roots = ("SSL_CERT_FILE", file("ca.pem"));
        let roots = (roots.0, roots.1.to_str().unwrap());
        let values = ["http://user:pass@", "ftp://user:pass@h:1", "http://h:99999"];
        let names = ["https_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, values[0]));
        let of_https = values.map(|value| ("HTTPS_PROXY", value));
        for (name, value) in names.into_iter().chain(of_https) {
            let (code, _, err) = run(&args, &[roots, (name, value)]);
            assert_eq!(code, 1, "{name}={value}: {err}");
            err.has(format!("`{name}` names no proxy")).lacks("pass");
        }
        // `doctor` reads them, too, and those of `http` are not read for `https`.
        let (code, _, err) = run(
            &["doctor", "--upstream", "http://llm.test"],
            &[roots, ("http_proxy", "http://")],
        );
        assert!(code == 2, "{code}: {err}");
        err.of(code).has("`http_proxy` names no proxy");
        let all = [
            roots,
            ("HTTP_PROXY", "http://"),
            ("HTTPS_PROXY", ""),
            ("ALL_PROXY", "ftp://h"),
        ];
        let (code, _, err) = run(&args, &all);
        assert!(code == 1, "{code}: {err}");
        err.of(code).has("`ALL_PROXY` names no proxy");
    }

    /// A Redis server with TLS. Dropping it ends it. `None`, with a message, if its program is
    /// missing.
    #[cfg(feature = "redis")]
    struct Store(std::process::Child, u16);

    #[cfg(feature = "redis")]
    impl Store {
        fn start() -> Option<Self> {
            // The server takes no port 0: another process may be faster.
            for _ in 0..5 {
                let port = TcpListener::bind(("127.0.0.1", 0))
                    .unwrap()
                    .local_addr()
                    .unwrap()
                    .port();
                let mut command = Command::new("redis-server");
                command.args([
                    "--port",
                    "0",
                    "--save",
                    "",
                    "--tls-auth-clients",
                    "no",
                    "--bind",
                    "127.0.0.1",
                ]);
                command
                    .args([
                        "--requirepass",
                        "a-password",
                        "--tls-port",
                        &port.to_string(),
                        "--tls-ca-cert-file",
                    ])
                    .arg(file("ca.pem"));
                command
                    .arg("--tls-cert-file")
                    .arg(file("server.pem"))
                    .arg("--tls-key-file")
                    .arg(file("server.key"));
                command
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::null());
                let mut store = match command.spawn() {
                    Ok(server) => Self(server, port),
                    Err(error) => {
                        // Standard error is not captured, so that it is seen without a flag.
                        let _ = writeln!(
                            std::io::stderr(),
                            "skipped: redis-server: {error}; scripts/test-tools installs it"
                        );
                        return None;
                    }
                };
                while store.0.try_wait().unwrap().is_none() {
                    if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                        return Some(store);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
            // A build of the server without TLS ends at once.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: redis-server does not start with TLS"
            );
            None
        }
    }

    #[cfg(feature = "redis")]
    impl Drop for Store {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_store_with_tls_is_trusted_by_its_root() {
        let Some(store) = Store::start() else { return };
        let address = format!("rediss://:a-password@127.0.0.1:{}", store.1);
        let args = [
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "http://127.0.0.1:9",
            "--set",
            "proxy.keep=60",
            "--set",
            &format!("proxy.store={address}"),
        ];
        for (roots, is_trusted) in [("client.pem", false), ("ca.pem", true)] {
            let mut proxy = Command::new(env!("CARGO_BIN_EXE_restitch"));
            proxy
                .args(args)
                .env("SSL_CERT_FILE", file(roots))
                .env_remove("SSL_CERT_DIR");
            let mut proxy = proxy.stderr(std::process::Stdio::piped()).spawn().unwrap();
            let words = std::io::BufReader::new(proxy.stderr.take().unwrap());
            let said: Vec<_> = words
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.contains("listening on"))
                .collect();
            let has_ended = proxy.try_wait().unwrap().is_some();
            let _ = proxy.kill();
            let _ = proxy.wait();
            let said = said.concat();
            assert!(!has_ended, "{said}");
            said.lacks("a-password");
            assert_eq!(
                !said.contains("the store can't be reached"),
                is_trusted,
                "{said}"
            );
        }
    }

    #[test]
    fn a_proxy_of_the_environment_is_asked_for_a_tunnel() {
        let (tunnels, asked) = mpsc::channel();
        let through = serve(false, Some(tunnels));
        let proxy = format!("http://user:pass@{through}");
        let ca = file("ca.pem");
        let doctor = |url: &str, proxy: (&str, &str)| {
            let args = [
                "doctor",
                "--json",
                "--upstream",
                url,
                "--proxy",
                "http://127.0.0.1:1",
            ];
            let (_, out, err) = run(&args, &[proxy, ("SSL_CERT_FILE", ca.to_str().unwrap())]);
            let report: serde_json::Value =
                serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
            report["upstream"].clone()
        };
        // Only the proxy knows this name.
        let upstream = doctor("https://llm.test", ("HTTPS_PROXY", &proxy));
        assert_eq!(upstream["status"], 200, "{upstream}");
        let request = asked.try_recv().unwrap();
        request.begins("CONNECT llm.test:443 HTTP/1.1\r\n");
        request
            .to_lowercase()
            .of(request)
            .has("proxy-authorization: basic dxnlcjpwyxnz\r\n");
        // Behind the tunnel is a server that speaks TLS, so an `http` request gets no answer. The
        // port is that of `http`.
        let upstream = doctor("http://llm.test", ("http_proxy", &proxy));
        assert_ne!(upstream["status"], 200, "{upstream}");
        asked
            .try_recv()
            .unwrap()
            .begins("CONNECT llm.test:80 HTTP/1.1\r\n");
        // An upstream on this machine is reached directly.
        let upstream = doctor(
            &format!("https://{}", serve(false, None)),
            ("HTTPS_PROXY", &proxy),
        );
        assert_eq!(upstream["status"], 200, "{upstream}");
        assert!(asked.try_recv().is_err());
        // The error about an unusable proxy omits its password.
        let args = [
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "https://llm.test",
        ];
        let (code, _, err) = run(&args, &[("HTTPS_PROXY", "socks5://user:pass@127.0.0.1:1")]);
        assert!(code == 1, "{code}: {err}");
        err.of(code).has("socks5://").lacks("pass");
    }
}
