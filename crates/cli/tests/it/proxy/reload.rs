//! Reading the configuration again: its effect on running and later requests, and its errors.

use std::sync::{Arc, Mutex};

use restitch::Limits;
use restitch_proxy::config::Config;
use restitch_proxy::{Loaded, Loader, Server};
use tokio::sync::Notify;

use super::raw::*;
use super::routes::{named, with_routes};

/// A configuration that a test changes. The test replaces `{0}` by the other upstream.
#[derive(Clone, Default)]
struct File(Arc<Mutex<String>>);

impl File {
    fn write(&self, text: &str) {
        text.clone_into(&mut self.0.lock().unwrap());
    }

    fn loader(&self, base: &Arc<Raw>, other: &Arc<Raw>) -> Loader {
        let (file, base, other) = (self.clone(), Arc::clone(base), Arc::clone(other));
        Arc::new(move || {
            let text = file
                .0
                .lock()
                .unwrap()
                .replace("{0}", &format!("http://{}", other.addr));
            let config =
                Config::parse_checked(&text).map_err(|error| format!("the file: {error}"))?;
            let threads = if text.contains("threads") {
                config.proxy.threads
            } else {
                2
            };
            let proxy = base
                .unbound(config.all_limits())
                .threads(threads)
                .admin(Some(LOOPBACK))
                .with(|own| own.proxy.listen = config.proxy.listen);
            Ok(Loaded {
                proxy: with_routes(proxy, &[&other], &text).build(),
                used: Box::new(|| ()),
            })
        })
    }
}

async fn two_upstreams() -> (Arc<Raw>, Arc<Raw>) {
    (
        Arc::new(named("base").await),
        Arc::new(named("other").await),
    )
}

async fn started(base: &Arc<Raw>, other: &Arc<Raw>, file: &File) -> Server {
    let loader = file.loader(base, other);
    loader()
        .unwrap_or_else(|error| panic!("{error}"))
        .proxy
        .loader(loader)
        .start()
        .await
}

async fn admin(proxy: &Server, method: &str, path: &str, line: &str) -> String {
    exchange(
        proxy.admin_addr().unwrap(),
        &format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{line}\r\n"),
    )
    .await
}

async fn upstream_of(proxy: &Server) -> String {
    body_of(&exchange(proxy.addr(), &post(ASK_WHOLE)).await).0
}

/// The metrics tell whether the last reload was valid, and the series of new routes begin with 0.
#[tokio::test]
async fn a_reload_is_measured() {
    let (base, other) = two_upstreams().await;
    let file = File::default();
    let proxy = started(&base, &other, &file).await;
    for (text, status, line) in [
        ("", "200", "restitch_config_last_reload_successful 1\n"),
        (
            "[nothing]\n",
            "422",
            "restitch_config_last_reload_successful 0\n",
        ),
        (
            "[[route]]\nname = \"new\"\nupstream = \"{0}\"\n",
            "200",
            "restitch_tokens_total{route=\"new\",use=\"kept\"} 0\n",
        ),
        ("", "200", "restitch_config_last_reload_successful 1\n"),
    ] {
        file.write(text);
        let answer = admin(&proxy, "POST", "/reload", "x-request-id: mine\r\n").await;
        answer.begins(format!("HTTP/1.1 {status} "));
        answer.has("x-request-id: mine\r\n");
        let seen = admin(&proxy, "GET", "/metrics", "").await;
        seen.has(line);
    }
}

/// An upstream that no route has any more keeps no state in the metrics, also if an answer that has
/// begun before still calls it.
#[tokio::test]
async fn the_state_of_a_removed_upstream_is_not_shown() {
    let (base, other) = two_upstreams().await;
    let file = File::default();
    file.write("[[route]]\nmodel = \"m\"\nupstream = \"{0}\"\n");
    let proxy = started(&base, &other, &file).await;
    assert_eq!(upstream_of(&proxy).await, "other");
    let shows = |seen: &str, name: &str, upstream: &Raw| {
        seen.contains(&format!("\n{name}{{upstream=\"{}\"}} ", upstream.addr))
    };
    let (up, open) = ("restitch_upstream_up", "restitch_breaker_open");
    let seen = admin(&proxy, "GET", "/metrics", "").await;
    assert!(
        shows(&seen, up, &other) && shows(&seen, open, &other),
        "{seen}"
    );
    file.write("");
    assert_eq!(proxy.reloader().reload().await, Ok(vec![]));
    assert_eq!(upstream_of(&proxy).await, "base");
    let seen = admin(&proxy, "GET", "/metrics", "").await;
    assert!(
        shows(&seen, up, &base) && shows(&seen, open, &base),
        "{seen}"
    );
    assert!(
        !shows(&seen, up, &other) && !shows(&seen, open, &other),
        "{seen}"
    );
}

#[tokio::test]
async fn the_next_request_is_answered_by_the_new_routes() {
    let (base, other) = two_upstreams().await;
    let file = File::default();
    let proxy = started(&base, &other, &file).await;
    assert_eq!(upstream_of(&proxy).await, "base");
    file.write("[[route]]\nmodel = \"m\"\nupstream = \"{0}\"\n");
    assert_eq!(upstream_of(&proxy).await, "base", "nobody has said so");
    admin(&proxy, "POST", "/reload", "")
        .await
        .ends("\r\n\r\nreloaded\n");
    // Connections are divided among both threads.
    for _ in 0..4 {
        assert_eq!(upstream_of(&proxy).await, "other");
    }
    file.write("");
    assert_eq!(proxy.reloader().reload().await, Ok(vec![]));
    assert_eq!(upstream_of(&proxy).await, "base");
    // The counters continue from their values before the change.
    let counted = |route: &str, upstream: &Raw, count: u32| {
        format!(
            "route=\"{route}\",upstream=\"{}\",status=\"200\"}} {count}\n",
            upstream.addr
        )
    };
    let mut seen = String::new();
    for _ in 0..1000 {
        seen = admin(&proxy, "GET", "/metrics", "").await;
        if seen.contains(&counted("default", &base, 3)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    seen.has(counted("default", &base, 3));
    seen.has(counted("route-1", &other, 4));
}

#[tokio::test]
async fn a_wrong_file_changes_nothing() {
    let (log, _guard) = listening();
    let (base, other) = two_upstreams().await;
    let file = File::default();
    file.write("[[route]]\nmodel = \"m\"\nupstream = \"{0}\"\n");
    let proxy = started(&base, &other, &file).await;
    for (text, mistake) in [
        (
            "[limits]\n\nidel = 1\n",
            "the file: line 3, column 1: unknown field `idel`",
        ),
        (
            "[[route]]\nupstream = \"ftp://x\"\n",
            "the file: line 2, column 12: an upstream starts with",
        ),
    ] {
        file.write(text);
        let answer = admin(&proxy, "POST", "/reload", "content-type: text/plain\r\n").await;
        answer.begins("HTTP/1.1 422 ").has(mistake);
        assert_eq!(upstream_of(&proxy).await, "other");
        let told = log.text();
        told.has("the configuration stays as it was").has(mistake);
    }
}

#[tokio::test]
async fn what_needs_a_restart_is_told() {
    let (base, other) = two_upstreams().await;
    let file = File::default();
    let proxy = started(&base, &other, &file).await;
    file.write("[proxy]\nlisten = \":1\"\nthreads = 3\n[limits]\nmax_continuations = 3\nmax_kept_answers = 7\n");
    for _ in 0..2 {
        let answer = admin(&proxy, "POST", "/reload", "").await;
        let told = "reloaded; these differ and hold only after a restart: listen, threads, max_kept_answers\n";
        answer.begins("HTTP/1.1 200 ").ends(told);
    }
}

/// A page in a browser can make the browser send a POST without a preflight.
#[tokio::test]
async fn pages_and_other_methods_reload_nothing() {
    let (base, other) = two_upstreams().await;
    let file = File::default();
    let proxy = started(&base, &other, &file).await;
    file.write("[[route]]\nupstream = \"{0}\"\n");
    for (method, line, status) in [
        ("POST", "origin: https://evil.example\r\n", "403"),
        ("POST", "origin: null\r\n", "403"),
        (
            "POST",
            "origin: http://h\r\nsec-fetch-site: same-origin\r\n",
            "403",
        ),
        (
            "POST",
            "sec-fetch-site: cross-site\r\ncontent-type: text/plain\r\n",
            "403",
        ),
        ("GET", "", "405"),
        ("HEAD", "", "405"),
        ("PUT", "", "405"),
    ] {
        let answer = admin(&proxy, method, "/reload", line).await;
        answer
            .of(format!("{method} {line}"))
            .begins(format!("HTTP/1.1 {status} "));
    }
    assert_eq!(upstream_of(&proxy).await, "base");
    // The main listener does not serve the page.
    let answer = exchange(
        proxy.addr(),
        "POST /reload HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(body_of(&answer).0, "base", "{answer}");
    // Without a file there is nothing to read.
    let proxy = base
        .unbound(Limits::default())
        .admin(Some(LOOPBACK))
        .start()
        .await;
    let answer = admin(&proxy, "POST", "/reload", "").await;
    answer.begins("HTTP/1.1 409 ");
}

#[tokio::test]
async fn an_answer_keeps_what_it_began_with() {
    let go = Arc::new(Notify::new());
    let head = opening("[1, 2");
    let cut = vec![head, Piece::Await(Arc::clone(&go)), send(finish("length"))];
    let rest = full("[1, 2, 3]");
    let base = Arc::new(Raw::new(vec![cut, rest]).await);
    let other = Arc::new(named("other").await);
    let file = File::default();
    let proxy = started(&base, &other, &file).await;
    let mut client = connect(proxy.addr()).await;
    tokio::io::AsyncWriteExt::write_all(&mut client, post(ASK).as_bytes())
        .await
        .unwrap();
    read_until(&mut client, "[1, 2").await;
    file.write("[[route]]\nupstream = \"{0}\"\nmax_continuations = 0\n");
    assert_eq!(proxy.reloader().reload().await, Ok(vec![]));
    assert_eq!(upstream_of(&proxy).await, "other");
    go.notify_one();
    let answer = read_to_end(&mut client).await;
    answer.has("\"status\":\"complete\"");
    assert_eq!(base.asked(), 2);
}
