//! Clients that leave, slow clients, many clients, and a server that receives the signal to stop.

use std::sync::Arc;
use std::time::Duration;

use restitch::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::clock::Clock;
use super::raw::*;
use super::{DOCUMENT, ask, request};
use crate::proxy::Setup;
use restitch_testing::Rng;
use restitch_testing::rows::Rows;

/// Returns long limits, so that no step ends before the test looks at it.
fn patient() -> Limits {
    Limits::default().with_keep_alive_interval(Duration::from_secs(60))
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_call_along() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nretry-after: 9\r\nconnection: close\r\n\r\n";
    let cut = || limited("[1, 2");
    let silent = |bytes: &str| vec![send(bytes), Piece::Hold];
    let whole_head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{";
    let length = finish("length").replace("data: [DONE]\n\n", "");
    let withheld = silent(&format!("{STREAM}{}{length}", chunk("[1, 2")));
    // The upstream's behaviour, the text that the client waits for, and the number of requests.
    type Scene<'a> = (&'a str, &'a str, Vec<Vec<Piece>>, &'a str, usize, usize);
    let scenes: Vec<Scene<'_>> = vec![
        ("no head", ASK, vec![vec![Piece::Hold]], "", 1, 1),
        ("no byte", ASK, vec![silent(STREAM)], "\r\n\r\n", 1, 1),
        ("healthy", ASK, vec![held("[1, 2")], "[1, 2", 1, 1),
        ("prose", ASK, vec![held("Hello")], "Hello", 1, 1),
        ("withheld", ASK, vec![withheld], "[1, 2", 1, 1),
        (
            "busy",
            ASK,
            vec![cut(), vec![send(busy)]],
            ": restitch",
            2,
            0,
        ),
        (
            "no rest",
            ASK,
            vec![cut(), vec![Piece::Hold]],
            "[1, 2",
            2,
            1,
        ),
        ("a rest", ASK, vec![cut(), held("[1, 20")], "\":\"0", 2, 1),
        ("a body", ASK_WHOLE, vec![silent(whole_head)], "", 1, 1),
        ("no body", ASK_WHOLE, vec![vec![Piece::Hold]], "", 1, 1),
    ];
    for (scene, ask, answers, until, requests, left) in scenes {
        let raw = Raw::new(answers).await;
        let proxy = raw.proxy(patient()).await;
        let mut client = begin(proxy.addr(), &post(ask)).await;
        raw.wait(|state| state.requests == requests).await;
        if !until.is_empty() {
            let seen = read_until(&mut client, until).await;
            seen.of(scene).begins("HTTP/1.1 200 OK");
        }
        drop(client);
        raw.wait(|state| state.left == left).await;
        // No client is left, so no call is made.
        timeout(HANGS, proxy.shutdown())
            .await
            .unwrap_or_else(|_| panic!("{scene}: the proxy waits"));
        assert_eq!(raw.asked(), requests, "{scene}");
    }
}

/// The upstream is read a little ahead of a client that reads nothing, and then no further.
#[tokio::test]
async fn a_slow_client_slows_the_upstream() {
    const EVENTS: usize = 3000;
    let event = chunk(&"x".repeat(8000));
    let body = chunk("[\"") + &event.repeat(EVENTS) + &chunk("\"]") + &finish("stop");
    let total = body.len();
    let mut measured = Vec::new();
    for read_ahead in [1 << 16, 8 << 20] {
        let raw = Raw::new(vec![stream(&body)]).await;
        let proxy = raw
            .proxy(Limits::default().with_max_read_ahead_bytes(read_ahead))
            .await;
        let mut client = connect_narrow(proxy.addr()).await;
        client.write_all(post(ASK).as_bytes()).await.unwrap();
        raw.stalls().await;
        let ahead = raw.state.borrow().written;
        println!(
            "{read_ahead}: {ahead} of {total} bytes were written ahead of a client that reads nothing"
        );
        measured.push(ahead);
    }
    // The sockets' own buffers, which the system sizes, hold several megabytes more.
    assert!(measured[0] < 12 << 20, "{measured:?}");
    assert!(
        (measured[0] + (5 << 20)..measured[0] + (11 << 20)).contains(&measured[1]),
        "{measured:?}"
    );
}

/// Bytes that were read ahead before a reset still reach a slow client, and then the rest of the
/// document.
#[tokio::test]
async fn a_reset_loses_nothing_that_was_read_ahead() {
    let text = "0123456789abcdef".repeat(64);
    // This is more than the sockets on the way hold.
    let prose = chunk(&text).repeat(8000);
    let raw = Raw::new(vec![vec![send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{prose}\r\n",
        prose.len()
    ))]])
    .await;
    let proxy = raw
        .proxy(Limits::default().with_max_read_ahead_bytes(16 << 20))
        .await;
    let mut client = connect_narrow(proxy.addr()).await;
    client.write_all(post(ASK).as_bytes()).await.unwrap();
    raw.wait(|state| state.written > prose.len()).await;
    read_slowly(&mut client, &prose).await;
}

async fn read_slowly(client: &mut tokio::net::TcpStream, expected: &str) {
    let mut answer = Vec::new();
    let mut buffer = [0; 1500];
    loop {
        match timeout(HANGS, client.read(&mut buffer))
            .await
            .expect("the proxy hangs")
        {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
        tokio::task::yield_now().await;
    }
    let (body, whole) = body_of(&String::from_utf8(answer).unwrap());
    assert!(!whole, "a lost connection must not look like an end");
    assert!(
        body == expected,
        "{} of {} bytes came",
        body.len(),
        expected.len()
    );
}

/// A load balancer looks at `/readyz` from time to time, and sends requests until then.
#[tokio::test]
async fn a_proxy_that_will_stop_still_takes_requests() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let mut limits = Limits::default();
    limits.server.shutdown_delay = Duration::from_secs(1);
    let clock = Clock::paused();
    let proxy = raw
        .unbound(limits)
        .admin(Some(([127, 0, 0, 1], 0).into()))
        .start()
        .await;
    let (addr, admin) = (proxy.addr(), proxy.admin_addr().unwrap());
    let mut idle = connect(addr).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
        .await
        .unwrap();
    let before = read_until(&mut idle, "ok\n").await;
    before.lacks("connection: close");
    let stopping = tokio::spawn(proxy.shutdown());
    let ready = || get_at(admin, "/readyz");
    while ready().await.starts_with("HTTP/1.1 200") {}
    assert!(!stopping.is_finished());
    let answer = exchange(addr, &post(ASK)).await;
    answer.has("[1]");
    answer.has("connection: close\r\n");
    // The connection that was open before takes one more request, and no second one.
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
        .await
        .unwrap();
    let after = read_to_end(&mut idle).await;
    after.has("connection: close\r\n");
    assert!(clock.until(stopping).await.unwrap());
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn stopping_waits_for_answers_and_for_nothing_else() {
    let go = Arc::new(Notify::new());
    let raw = Raw::new(vec![
        vec![
            opening("[1, 2"),
            Piece::Await(Arc::clone(&go)),
            send(finish("length")),
        ],
        full("[1, 20]"),
    ])
    .await;
    let proxy = raw.proxy(Limits::default()).await;
    let addr = proxy.addr();
    // One client has sent nothing, one is between two requests, one waits for the rest of its
    // answer.
    let mut silent = connect(addr).await;
    let mut idle = connect(addr).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut idle, "ok\n")
        .await
        .begins("HTTP/1.1 200 OK");
    let mut busy = begin(addr, &post(ASK)).await;
    let mut seen = read_until(&mut busy, "[1, 2").await;

    let stopping = tokio::spawn(proxy.shutdown());
    assert_eq!(read_to_end(&mut idle).await, "");
    assert_eq!(read_to_end(&mut silent).await, "");
    while tokio::net::TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    go.notify_one();
    seen += &read_to_end(&mut busy).await;
    let (body, whole) = body_of(&seen);
    assert!(whole, "{body}");
    body.ends("data: [DONE]\n\n");
    timeout(HANGS, stopping)
        .await
        .expect("the proxy does not stop")
        .unwrap();
}

#[tokio::test]
async fn many_streams_at_once() {
    let limits = Limits::default().with_max_backoff(Duration::ZERO);
    let setup = Setup::with("answer", limits).await;
    let mut rng = Rng::new(23);
    let ends = ["length", "drop", "eof", "error", "stop", "done", "drop=900"];
    let ways = [
        "anchor",
        "refusal anchor",
        "fence",
        "preamble",
        "exact",
        "empty anchor",
        "anchor@40!drop anchor",
        "500~0 anchor",
        "drop anchor",
        "no-response anchor",
    ];
    let mut streams = tokio::task::JoinSet::new();
    for n in 0..200 {
        // An error in place of a whole body is the client's to see.
        let end = if n % 5 == 0 {
            "length"
        } else {
            rng.pick(&ends)
        };
        let script = format!(
            "answer@{}!{end} | {}",
            1 + rng.below(DOCUMENT.len() - 1),
            rng.pick(&ways)
        );
        let (url, n) = (setup.proxy.url(), n);
        streams.spawn(async move {
            let answer = ask(
                &url,
                &request(n % 5 != 0, &format!("{n} [[script: {script}]]")),
            )
            .await;
            (n, script, answer)
        });
    }
    while let Some(done) = streams.join_next().await {
        let (n, script, answer) = done.unwrap();
        if n % 5 != 0 {
            answer.assert_seamless(DOCUMENT, &script);
        } else {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(
                body["choices"][0]["message"]["content"], DOCUMENT,
                "{script}"
            );
        }
    }
    timeout(HANGS, setup.sim.idle()).await.unwrap();
}

/// Resets continuations at seeded places, several in a row.
#[tokio::test]
async fn resets_of_continuations() {
    // Two resets right after the anchor add nothing new twice, which ends the loop; another test
    // has that.
    let setup = Setup::with("answer", Limits::default().with_max_no_progress(3)).await;
    let mut rng = Rng::new(29);
    let mut rows = Rows::of("resets of continuations");
    for n in 0..120 {
        let cut = 1 + rng.below(DOCUMENT.len() - 1);
        let resets: Vec<_> = (0..1 + rng.below(2))
            .map(|_| format!("anchor!drop={}", rng.below(4000)))
            .collect();
        let script = format!("answer@{cut} | {} anchor", resets.join(" "));
        if !rows.runs_next() {
            continue;
        }
        let answer = ask(
            &setup.proxy.url(),
            &request(true, &format!("{n} [[script: {script}]]")),
        )
        .await;
        answer.assert_seamless(DOCUMENT, &script);
    }
}
