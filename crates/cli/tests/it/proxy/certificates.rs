//! Certificates that expire, and handshakes that fail. The certificates are those of `tls.rs`;
//! `expired.pem` was valid until 3 February 2021, 04:05:06 UTC.

use std::path::{Path, PathBuf};
use std::time::Duration;

use restitch::Limits;
use restitch_proxy::{Listen, Listening, ServerTls};
use tokio::io::AsyncWriteExt;

use super::listeners::{at, file, handshake, tcp};
use super::raw::*;
use crate::proxy::made::TestProxy;

/// Starts a proxy that answers TLS with these files.
async fn started(proxy: TestProxy, cert: &Path, key: &Path) -> Listening {
    let tls = Some(ServerTls::from_files(cert, key).unwrap());
    proxy
        .admin(Some(LOOPBACK))
        .listen(&Listen {
            tls,
            ..at("127.0.0.1:0")
        })
        .await
        .unwrap()
}

async fn unasked(limits: Limits) -> TestProxy {
    Raw::new(Vec::new()).await.unbound(limits)
}

async fn metrics(proxy: &Listening) -> String {
    get_at(proxy.admin_addr().unwrap(), "/metrics").await
}

/// Returns the lines of the log about certificates.
fn warnings(log: &Log) -> Vec<String> {
    let log = log.text();
    log.split("message=")
        .filter(|line| line.contains("certificate"))
        .map(str::to_owned)
        .collect()
}

fn shows(role: &str, seconds: u64) -> String {
    format!("restitch_certificate_expiry_timestamp_seconds{{certificate=\"{role}\"}} {seconds}\n")
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_shown_at_the_start() {
    let (log, _listening) = listening();
    let proxy = TestProxy::new("http://127.0.0.1:9")
        .with(|config| config.tls.ca_file = Some(file("expired.pem")));
    let proxy = started(proxy, &file("expired.pem"), &file("expired.key")).await;
    let warnings = warnings(&log);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (warning, role) in warnings.iter().zip(["server", "ca"]) {
        warning.has_all([
            "a certificate has expired",
            &format!("certificate={role}"),
            "expired.pem",
            "expires=\"Wed, 03 Feb 2021 04:05:06 GMT\"",
        ]);
    }
    let metrics = metrics(&proxy).await;
    metrics.has(shows("server", 1_612_325_106));
    metrics.has(shows("ca", 1_612_325_106)).lacks("\"client\"");
    proxy.shutdown().await;
}

#[tokio::test]
async fn a_reload_shows_the_new_certificate() {
    let (log, _listening) = listening();
    let folder = std::env::temp_dir().join(format!("restitch-certificates-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let own: [PathBuf; 2] = [folder.join("x.pem"), folder.join("x.key")];
    let copy = |name: &str| {
        std::fs::copy(file(&format!("{name}.pem")), &own[0]).unwrap();
        std::fs::copy(file(&format!("{name}.key")), &own[1]).unwrap();
    };
    copy("server");
    let proxy = started(unasked(Limits::default()).await, &own[0], &own[1]).await;
    assert_eq!(warnings(&log), Vec::<String>::new());
    metrics(&proxy).await.has(shows("server", 4_949_047_119));
    copy("expired");
    proxy.reloader().reload().await.unwrap();
    let warned = warnings(&log);
    assert!(warned.len() == 1, "{warned:?}");
    warned[0].has("a certificate has expired");
    metrics(&proxy).await.has(shows("server", 1_612_325_106));
    std::fs::remove_file(&own[0]).unwrap();
    let missing = proxy.reloader().reload().await.unwrap_err().to_string();
    missing.has("x.pem");
    metrics(&proxy)
        .await
        .of("it is still the one in use")
        .has(shows("server", 1_612_325_106));
    proxy.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn failed_handshakes_are_counted_and_logged() {
    let (log, _listening) = listening();
    let mut limits = Limits::default();
    limits.server.handshake_timeout = Duration::from_millis(500);
    let proxy = started(
        unasked(limits).await,
        &file("expired.pem"),
        &file("expired.key"),
    )
    .await;
    let addr = tcp(&proxy);
    // It trusts another root.
    assert!(handshake(addr, &[]).await.is_err());
    assert!(handshake(addr, &["h2"]).await.is_err());
    let answer = exchange(addr, &post(ASK)).await;
    answer.lacks("HTTP");
    drop(connect(addr).await);
    let mut silent = connect(addr).await;
    silent.write_all(&[0x16]).await.unwrap();
    read_to_end(&mut silent).await;
    for reason in [
        "refused",
        "incompatible",
        "not_tls",
        "left",
        "handshake_timeout",
    ] {
        let line = format!("restitch_tls_handshake_failures_total{{reason=\"{reason}\"}} 1\n");
        let mut seen = String::new();
        for _ in 0..1000 {
            seen = metrics(&proxy).await;
            if seen.contains(&line) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        seen.of(&line).has(&line);
        let logged = format!("reason=\"{reason}\"");
        let log = log.text();
        let lines: Vec<_> = log
            .split("message=")
            .filter(|line| line.contains(&logged))
            .collect();
        assert!(lines.len() == 1, "{reason}: {log}");
        lines[0]
            .of(format!("{reason}: {log}"))
            .has("a TLS handshake failed");
    }
    proxy.shutdown().await;
}
