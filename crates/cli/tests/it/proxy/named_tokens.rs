//! Tokens with names and keys of upstreams: where a name shows, and files that change while the
//! proxy runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use restitch::Limits;
use restitch_proxy::config::{Config, SecretSource};
use restitch_proxy::{Loaded, Loader, Server};
use serde_json::Value;
use tokio::sync::RwLock;

use super::raw::*;
use super::routes::{named, request, with_routes};
use crate::cli::folder;
use crate::proxy::made::TestProxy;

const TEAM_A: &str = "t0ken-of-the-team-a";
const TEAM_B: &str = "t0ken-of-the-team-b";

/// Returns the settings of a file, without its comments.
fn with_file(proxy: TestProxy, text: &str) -> TestProxy {
    let config = Config::parse(text).unwrap();
    proxy.with(|own| {
        own.access = config.access;
        own.routes = config.routes;
        own.proxy.upstream_key = config.proxy.upstream_key;
    })
}

/// Returns the key in a variable.
fn variable(name: &str) -> Option<SecretSource> {
    format!("env:{name}").try_into().ok()
}

fn token_of_file(name: &str, file: &Path) -> String {
    let file = file.display().to_string();
    format!("[[access.token]]\nname = {name:?}\nsecret = \"file:{file}\"\n")
}

/// Returns the answer to a request that carries a token.
async fn ask(proxy: &Server, token: &str) -> String {
    let line = format!("x-restitch-token: {token}");
    exchange(proxy.addr(), &request("/v1/x", &line, ASK_WHOLE)).await
}

async fn is_admitted(proxy: &Server, token: &str) -> bool {
    let answer = ask(proxy, token).await;
    let is_refused = answer.starts_with("HTTP/1.1 401 ") && answer.contains("no_token");
    assert!(
        is_refused || answer.starts_with("HTTP/1.1 200 "),
        "{answer}"
    );
    !is_refused
}

/// Returns how often the log has some words.
fn count(log: &Log, words: &str) -> usize {
    log.text().matches(words).count()
}

#[tokio::test]
async fn a_token_has_its_name_in_the_log_and_on_the_page() {
    let (log, _guard) = listening();
    let body = r#"{"choices":[{"index":0,"message":{"content":"[1]"},"finish_reason":"stop"}]}"#;
    let raw = Raw::new(vec![respond("200 OK", body); 2]).await;
    let proxy = raw.unbound(Limits::default()).admin(Some(LOOPBACK));
    let proxy = proxy
        .token("team-a", TEAM_A)
        .token("team-b", TEAM_B)
        .start()
        .await;
    let addr = proxy.addr();
    let ask = |token: &str| {
        let line = format!("authorization: Bearer {token}");
        let request = request("/v1/chat/completions", &line, ASK_WHOLE);
        async move { exchange(addr, &request).await }
    };
    for (token, field) in [(TEAM_A, "token=\"team-a\""), (TEAM_B, "token=\"team-b\"")] {
        log.clear();
        let answer = ask(token).await;
        answer.begins("HTTP/1.1 200 ");
        assert_eq!(count(&log, field), 1, "{}", log.text());
    }
    log.clear();
    let answer = ask("t0ken-of-the-team-c").await;
    answer.begins("HTTP/1.1 401 ");
    assert_eq!(count(&log, "reason=\"no_token\""), 1);
    assert_eq!(count(&log, "token=\"team") + count(&log, "t0ken"), 0);
    assert_eq!(raw.asked(), 2);
    for sent in raw.requests.lock().unwrap().iter() {
        sent.lacks("t0ken");
    }
    let list = "GET /answers HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let list = exchange(proxy.admin_addr().unwrap(), list).await;
    let list: Value = serde_json::from_str(&body_of(&list).0).unwrap();
    let tokens: Vec<_> = list["answers"].as_array().unwrap().iter().collect();
    let tokens: Vec<_> = tokens.iter().map(|answer| &answer["token"]).collect();
    assert_eq!(tokens, ["team-b", "team-a"]);
    // A token's other outcomes begin at 0.
    let metrics = get_at(proxy.admin_addr().unwrap(), "/metrics").await;
    for token in ["team-a", "team-b"] {
        metrics.has(format!("status=\"incomplete\",token=\"{token}\"}} 0\n"));
    }
}

#[tokio::test]
async fn a_token_chooses_the_route() {
    let (base, other) = (named("base").await, named("other").await);
    let proxy = base.unbound(Limits::default());
    let proxy = proxy.token("team-a", TEAM_A).token("team-b", TEAM_B);
    let routes = "[[access.token]]\nname = \"team-a\"\nsecret = \"file:none\"\n[[route]]\ntoken = [\"team-a\"]\nupstream = \"{0}\"\n";
    let proxy = with_routes(proxy, &[&other], routes).start().await;
    for (token, upstream) in [(TEAM_A, "other"), (TEAM_B, "base"), (TEAM_A, "other")] {
        assert_eq!(body_of(&ask(&proxy, token).await).0, upstream);
    }
}

/// Clients that send without a pause change to a new token while the old one is still valid.
#[tokio::test]
async fn two_tokens_are_rotated_under_load_and_no_request_is_refused() {
    let folder = folder("tokens-rotated", &[]);
    let files = ["first", "second"].map(|name| folder.join(name));
    let token = |number: usize| format!("t0ken-of-rotation-{number}");
    for (number, file) in files.iter().enumerate() {
        std::fs::write(file, token(number)).unwrap();
    }
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let raw = Raw::new(vec![vec![send(ok)]; 20_000]).await;
    // Two entries have one name.
    let text = files.each_ref().map(|file| token_of_file("team", file));
    let proxy = with_file(raw.unbound(Limits::default()), &text.concat()).threads(2);
    let proxy = Arc::new(proxy.start().await);
    // A request holds it, so that no request with the old token is open when that token goes.
    let current = Arc::new(RwLock::new(token(1)));
    let (has_ended, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (proxy, current) = (Arc::clone(&proxy), Arc::clone(&current));
            let (has_ended, answered) = (Arc::clone(&has_ended), Arc::clone(&answered));
            tokio::spawn(async move {
                while !has_ended.load(Ordering::Relaxed) {
                    let token = current.read().await;
                    assert!(is_admitted(&proxy, &token).await);
                    drop(token);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for number in 2..8 {
        let until = answered.load(Ordering::Relaxed) + 20;
        let some = async {
            while answered.load(Ordering::Relaxed) < until {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANGS, some)
            .await
            .expect("clients are refused");
        // The clients use the other file's token.
        std::fs::write(&files[number % 2], token(number)).unwrap();
        proxy.reloader().read_secrets().await;
        *current.write().await = token(number);
    }
    has_ended.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(answered.load(Ordering::Relaxed) >= 100);
    for number in 0..8 {
        assert_eq!(
            is_admitted(&proxy, &token(number)).await,
            number >= 6,
            "{number}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_gone_or_empty_leaves_its_last_token() {
    let (log, _guard) = listening();
    let file = folder("tokens-gone", &[]).join("token");
    std::fs::write(&file, format!("{TEAM_A}\n")).unwrap();
    let raw = named("base").await;
    let proxy = with_file(
        raw.unbound(Limits::default()),
        &token_of_file("team-a", &file),
    )
    .start()
    .await;
    let reloader = proxy.reloader();
    let warnings = || count(&log, "the file of a secret can't be used");
    let bad: [(&str, &dyn Fn()); 3] = [
        ("gone", &|| std::fs::remove_file(&file).unwrap()),
        ("empty", &|| std::fs::write(&file, "\n").unwrap()),
        ("short", &|| std::fs::write(&file, "short").unwrap()),
    ];
    for (number, (name, change)) in bad.into_iter().enumerate() {
        change();
        for _ in 0..3 {
            reloader.read_secrets().await;
            assert!(is_admitted(&proxy, TEAM_A).await, "{name}");
            assert_eq!(warnings(), number + 1, "{name}");
        }
        std::fs::write(&file, TEAM_B).unwrap();
        reloader.read_secrets().await;
        assert!(is_admitted(&proxy, TEAM_B).await, "{name}");
        assert!(!is_admitted(&proxy, TEAM_A).await, "{name}");
        std::fs::write(&file, TEAM_A).unwrap();
        reloader.read_secrets().await;
        assert_eq!(warnings(), number + 1, "{name}");
    }
    assert_eq!(count(&log, "read a new secret"), 6);
    assert_eq!(count(&log, "t0ken"), 0);
}

#[tokio::test]
async fn a_reload_reads_the_files_of_tokens() {
    let file = folder("tokens-reload", &[]).join("token");
    std::fs::write(&file, TEAM_A).unwrap();
    let raw = Arc::new(named("base").await);
    let loader: Loader = {
        let (raw, file) = (Arc::clone(&raw), file.clone());
        Arc::new(move || {
            let text = token_of_file("team-a", &file);
            let made = with_file(raw.unbound(Limits::default()), &text).try_build();
            Ok(Loaded {
                proxy: made.map_err(|error| error.to_string())?,
                used: Box::new(|| ()),
            })
        })
    };
    let proxy = loader().unwrap_or_else(|error| panic!("{error}")).proxy;
    let proxy = proxy.loader(loader).start().await;
    std::fs::write(&file, TEAM_B).unwrap();
    assert!(is_admitted(&proxy, TEAM_A).await, "nobody has said so");
    proxy.reloader().reload().await.unwrap();
    assert!(is_admitted(&proxy, TEAM_B).await && !is_admitted(&proxy, TEAM_A).await);
    std::fs::write(&file, "").unwrap();
    let error = proxy.reloader().reload().await.unwrap_err().to_string();
    error.has("the file is empty").has(file.to_str().unwrap());
    assert!(is_admitted(&proxy, TEAM_B).await);
}

/// Writes keys to the files of an upstream and of a fallback.
fn write_keys(folder: &Path, number: usize) -> [PathBuf; 2] {
    ["own", "fallback"].map(|name| {
        let file = folder.join(name);
        std::fs::write(&file, format!("{name}-key-{number}\n")).unwrap();
        file
    })
}

#[tokio::test]
async fn keys_of_upstreams_are_read_again() {
    let folder = folder("tokens-keys", &[]);
    let [own, of_fallback] = write_keys(&folder, 1);
    let failed = "HTTP/1.1 503 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let raw = Raw::new(vec![vec![send(failed)]; 2]).await;
    let other = named("other").await;
    let text = format!(
        "[proxy]\nupstream_key = \"file:{}\"\n[[route]]\nfallback = [{{ upstream = \"http://{}\", key = \"file:{}\" }}]\n",
        own.display(),
        other.addr,
        of_fallback.display()
    );
    let proxy = with_file(raw.unbound(Limits::default()), &text)
        .start()
        .await;
    for number in 1..=2 {
        let line = "authorization: Bearer sk-1";
        let request = request("/v1/chat/completions", line, ASK_WHOLE);
        let answer = exchange(proxy.addr(), &request).await;
        assert_eq!(body_of(&answer).0, "other");
        for (raw, name) in [(&raw, "own"), (&other, "fallback")] {
            let sent = raw.request(number - 1).to_ascii_lowercase();
            let key = format!("\r\nauthorization: bearer {name}-key-{number}\r\n");
            sent.has(&key).lacks("sk-1");
        }
        write_keys(&folder, number + 1);
        proxy.reloader().read_secrets().await;
    }
}

/// The operator's key goes where the client had its token or its own key.
#[tokio::test]
async fn the_key_of_the_upstream_takes_the_place_of_the_clients() {
    let raw = named("base").await;
    let proxy = raw.unbound(Limits::default()).token("team-a", TEAM_A);
    let proxy = proxy
        .with(|config| config.proxy.upstream_key = variable("K"))
        .start()
        .await;
    let rows = [
        (
            "/v1/models",
            format!("authorization: Bearer {TEAM_A}"),
            "authorization: Bearer key-of-K",
        ),
        (
            "/v1/models",
            format!("x-restitch-token: {TEAM_A}"),
            "authorization: Bearer key-of-K",
        ),
        (
            "/v1/messages",
            format!("x-restitch-token: {TEAM_A}"),
            "x-api-key: key-of-K",
        ),
        // Anthropic's SDK sends a token so, but the API takes keys in its own header alone.
        (
            "/v1/messages",
            format!("authorization: Bearer {TEAM_A}"),
            "x-api-key: key-of-K",
        ),
        (
            "/v1beta/models/m:generateContent?key=sk-1",
            format!("x-restitch-token: {TEAM_A}"),
            "x-goog-api-key: key-of-K",
        ),
        (
            "/v1/chat/completions?a=1&key=sk-1",
            format!("x-restitch-token: {TEAM_A}\r\napi-key: sk-1"),
            "api-key: key-of-K",
        ),
    ];
    for (number, (path, line, key)) in rows.iter().enumerate() {
        let answer = exchange(proxy.addr(), &request(path, line, ASK_WHOLE)).await;
        answer.of(path).begins("HTTP/1.1 200 ");
        let sent = raw.request(number);
        sent.of(format!("{path} {line}"))
            .has(format!("\r\n{key}\r\n"));
        assert_eq!(sent.matches("key-of-K").count(), 1, "{path} {line}: {sent}");
        sent.of(format!("{path} {line}")).lacks("t0ken");
        sent.of(format!("{path} {line}")).lacks("sk-1");
    }
    raw.request(5)
        .begins("POST /prefix/v1/chat/completions?a=1 ");
}

/// The log would name the wrong team.
#[test]
fn two_names_need_two_tokens() {
    let made = |names: [&str; 2]| {
        let tokens =
            names.map(|name| format!("[[access.token]]\nname = {name:?}\nsecret = \"env:T\"\n"));
        let text = format!("[proxy]\nupstream = \"http://a\"\n{}", tokens.concat());
        let config = Config::parse(&text).unwrap();
        restitch_proxy::Proxy::new(config, &|_| Some(TEAM_A.to_owned())).map(|_| ())
    };
    assert!(made(["team-a", "team-a"]).is_ok());
    let error = made(["team-a", "team-b"]).unwrap_err().to_string();
    assert_eq!(error, "the tokens `team-a` and `team-b` are the same");
}

/// A route with an upstream of its own does not get the key of another one.
#[tokio::test]
async fn a_key_goes_to_its_own_upstream_alone() {
    let (base, other) = (named("base").await, named("other").await);
    let proxy = base.unbound(Limits::default());
    let proxy = proxy.with(|config| config.proxy.upstream_key = variable("K"));
    let routes = "[[route]]\npath = \"/v1/x\"\nupstream = \"{0}\"\n[[route]]\npath = \"/v1/y\"\nupstream = \"{0}\"\nkey = \"env:Y\"\n";
    let proxy = with_routes(proxy, &[&other], routes).start().await;
    for (number, (path, key)) in [("/v1/x", "sk-1"), ("/v1/y", "key-of-Y")]
        .into_iter()
        .enumerate()
    {
        let request = request(path, "authorization: Bearer sk-1", ASK_WHOLE);
        assert_eq!(body_of(&exchange(proxy.addr(), &request).await).0, "other");
        let sent = other.request(number);
        sent.of(path)
            .has(format!("authorization: Bearer {key}\r\n"));
        sent.of(path).lacks("key-of-K");
    }
}

/// The client must not learn the operator's key from an upstream that quotes it.
#[tokio::test]
async fn a_refusal_of_the_upstream_does_not_give_the_operators_key_away() {
    let body = r#"{"error":{"message":"wrong key key-of-K, sent as Bearer key-of-K"}}"#;
    let answer = |status: &str, of: &str| {
        vec![send(format!(
            "HTTP/1.1 {status}\r\ncontent-type: {of}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))]
    };
    let raw = Raw::new(vec![
        answer("401 x", "application/json"),
        answer("401 x", "text/html"),
        answer("400 x", "application/json"),
        answer("200 x", "application/json"),
        answer("200 x", "application/json"),
        answer("200 x", "application/json"),
        answer("200 x", "text/event-stream"),
    ])
    .await;
    let proxy = raw.unbound(Limits::default()).adapt(true);
    let proxy = proxy
        .with(|config| config.proxy.upstream_key = variable("K"))
        .start()
        .await;
    let off = "x-restitch: off";
    for (path, header) in [
        ("/v1/models", ""),
        ("/v1/chat/completions", ""),
        ("/v1/chat/completions", ""),
        ("/v1/chat/completions", ""),
        // Answers that are not read.
        ("/v1/chat/completions", off),
        ("/v1/embeddings", ""),
        ("/v1/chat/completions", off),
    ] {
        let answer = exchange(proxy.addr(), &request(path, header, ASK_WHOLE)).await;
        answer.of(path).has("wrong key [key], sent as Bearer [key]");
        answer.of(path).lacks("key-of-K");
    }
    raw.request(0).has("authorization: Bearer key-of-K\r\n");
}

/// Whatever the body is: headers of refusals, answers and unread responses are those of the upstream.
#[tokio::test]
async fn a_header_of_the_upstream_does_not_give_the_operators_key_away() {
    let quoting = "x-debug: Bearer key-of-K, key-of-K\r\nx-debug: other\r\nlocation: /v1/x?key=%6Bey-of-K\r\n";
    let answer = |status: &str, of: &str, body: &str| {
        vec![send(format!(
            "HTTP/1.1 {status}\r\ncontent-type: {of}\r\n{quoting}www-authenticate: Bearer key=\"key-of-K\"\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))]
    };
    let whole = r#"{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"[1]"},"finish_reason":"stop"}]}"#;
    let events = chunk("[1]") + &finish("stop");
    let (off, chat) = ("x-restitch: off", "/v1/chat/completions");
    let cases = [
        ("/v1/files/1/content", "", "200 x", "audio/mpeg", "sound"),
        ("/v1/embeddings", "", "200 x", "application/json", "{}"),
        (
            "/v1/models",
            "",
            "401 no key-of-K",
            "application/json",
            "{}",
        ),
        (chat, off, "200 x", "application/json", whole),
        (chat, off, "200 x", "text/event-stream", &events),
        (chat, "", "401 no key-of-K", "application/json", "{}"),
        (chat, "", "400 no key-of-K", "application/json", "{}"),
        (chat, "", "200 x", "application/json", whole),
        (chat, "", "200 x", "text/event-stream", &events),
    ];
    for key in [Some("K"), None] {
        let answers = cases.map(|(_, _, status, of, body)| answer(status, of, body));
        let raw = Raw::new(answers.into()).await;
        let proxy = raw.unbound(Limits::default()).adapt(true);
        let proxy = proxy.with(|config| {
            config.proxy.upstream_key = key.and_then(variable);
        });
        let proxy = proxy.start().await;
        for (path, header, status, of, body) in cases {
            let ask = match of {
                "text/event-stream" => ASK,
                _ => ASK_WHOLE,
            };
            let answer = exchange(proxy.addr(), &request(path, header, ask)).await;
            let name = format!("{path} {header} {status} {of}: {answer}");
            answer
                .of(&name)
                .begins(format!("HTTP/1.1 {}", &status[..3]));
            assert_eq!(body_of(&answer).0, body, "{name}");
            // The reason phrase may have it, too.
            assert!(key.is_none() || !answer.contains("key-of-K"), "{name}");
            let expected = format!("{quoting}www-authenticate: Bearer key=\"key-of-K\"\r\n");
            let expected = match key {
                Some(_) => expected
                    .replace("key-of-K", "[key]")
                    .replace("%6Bey-of-K", "[key]"),
                // The upstream may send the client its own key.
                None => expected,
            };
            for line in expected.lines() {
                answer
                    .of(format!("{line}: {name}"))
                    .has(format!("{line}\r\n"));
            }
        }
    }
}
