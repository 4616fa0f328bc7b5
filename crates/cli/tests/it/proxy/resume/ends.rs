//! How kept answers end: with their task, with the proxy, by the operator; and their metrics.

use std::net::SocketAddr;

use serde_json::json;

use super::super::page::{stop, wait_for};
use super::super::raw::*;
use super::*;

/// Waits until a draining proxy refuses connections, and a moment more, in which its idle threads
/// end.
async fn drains(addr: SocketAddr) {
    while TcpStream::connect(addr).await.is_ok() {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(50)).await;
}

/// Asks, reads until the second event, and leaves. Returns the id of the answer after the proxy has
/// closed its side, too.
async fn ask_and_be_left(proxy: &Server, request: &str) -> String {
    let mut client = begin(proxy.addr(), request).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    client.shutdown().await.unwrap();
    read_to_end(&mut client).await;
    header(&seen, "x-restitch-stream").to_owned()
}

/// The proxy reports an answer whose task ends early as broken off, without delay.
#[tokio::test]
async fn an_answer_breaks_off_for_its_readers_when_its_task_panics() {
    let go = Arc::new(Notify::new());
    let pieces = vec![
        send(format!("{STREAM}{}{}", chunk("[1"), chunk(", 2"))),
        Piece::Await(Arc::clone(&go)),
        send(finish("stop")),
    ];
    let raw = Raw::new(vec![pieces]).await;
    let proxy = raw
        .unbound(keeping())
        .observe(Arc::new(|_| panic!("an observer that is wrong")))
        .start()
        .await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    go.notify_one();
    let rest = read_to_end(&mut client).await;
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    let id = header(&seen, "x-restitch-stream");
    let response = exchange(proxy.addr(), &about("HEAD", id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "broken");
    proxy.shutdown().await;
}

/// The thread that an answer was asked on has nothing left to do, and another thread has its
/// reader.
#[tokio::test]
async fn an_answer_goes_on_while_another_thread_has_its_reader() {
    let (raw, _, go) = waiting(1, keeping()).await;
    let proxy = raw.unbound(keeping()).threads(2).start().await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    let mut reader = begin(proxy.addr(), &about("GET", &id, "")).await;
    let mut read = read_until(&mut reader, "id: 1-2\n\n").await;
    drop(client);
    let addr = proxy.addr();
    let stopped = tokio::spawn(proxy.shutdown());
    drains(addr).await;
    go.notify_one();
    read += &read_to_end(&mut reader).await;
    assert_eq!(body_of(&read), (numbered(&five(), 1), true));
    assert!(stopped.await.unwrap());
    assert_eq!(raw.asked(), 1);
}

#[tokio::test]
async fn an_answer_whose_reader_leaves_while_the_proxy_drains_is_stopped() {
    let go = Arc::new(Notify::new());
    let slow = vec![
        opening("[1"),
        Piece::Await(Arc::clone(&go)),
        send(chunk("]") + &finish("stop")),
    ];
    let raw = Raw::new(vec![slow, held("[1")]).await;
    let proxy = raw.proxy(keeping()).await;
    let (mut plain, mut reader) = (connect(proxy.addr()).await, connect(proxy.addr()).await);
    plain.write_all(post(ASK).as_bytes()).await.unwrap();
    let mut read = read_until(&mut plain, "[1").await;
    reader.write_all(ask_kept().as_bytes()).await.unwrap();
    read_until(&mut reader, "[1").await;
    let addr = proxy.addr();
    let stopped = tokio::spawn(proxy.shutdown());
    drains(addr).await;
    let mut state = raw.state.clone();
    assert_eq!(state.borrow().left, 0);
    drop(reader);
    // The other answer is still open.
    tokio::time::timeout(HANGS, state.wait_for(|state| state.left == 1))
        .await
        .unwrap()
        .unwrap();
    go.notify_one();
    read += &read_to_end(&mut plain).await;
    assert!(body_of(&read).1, "{read}");
    assert!(stopped.await.unwrap());
}

/// In memory no other process can resume a kept answer: it ends as all others do.
#[tokio::test]
async fn a_kept_answer_ends_with_its_process_when_the_time_to_drain_is_over() {
    let raw = Raw::new(vec![unfinished()]).await;
    let mut limits = keeping();
    limits.server.drain_timeout = Duration::from_millis(50);
    let proxy = raw.proxy(limits).await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    read_until(&mut client, "id: 1-2\n\n").await;
    assert!(!tokio::time::timeout(HANGS, proxy.shutdown()).await.unwrap());
    let rest = read_to_end(&mut client).await;
    rest.has("\"limit\":{\"name\":\"drain_timeout\"");
}

#[tokio::test]
async fn the_operator_stops_an_answer_whose_client_has_left() {
    let raw = Raw::new(vec![unfinished()]).await;
    let proxy = raw.unbound(keeping()).admin(Some(LOOPBACK)).start().await;
    let ask = with(&ask_kept(), "x-request-id: mine");
    ask_and_be_left(&proxy, &ask).await;
    let shown = wait_for(&proxy, |answer| answer["id"] == "mine").await;
    assert_eq!(shown["phase"], "running", "{shown}");
    assert_eq!(shown["end"], json!(null), "{shown}");
    let stopped = stop(&proxy, "mine").await;
    stopped.begins("HTTP/1.1 202");
    raw.wait(|state| state.left == 1).await;
    let shown = wait_for(&proxy, |answer| answer["phase"] == "ended").await;
    assert_eq!(shown["stop"], "stopped", "{shown}");
    assert_eq!(shown["status"], 200, "{shown}");
    proxy.shutdown().await;
}

#[tokio::test]
async fn what_an_answer_does_without_its_client_is_measured() {
    let go = Arc::new(Notify::new());
    let cut = vec![
        send(format!("{STREAM}{}{}", chunk("[1"), chunk(", 2"))),
        Piece::Await(Arc::clone(&go)),
        Piece::Reset,
    ];
    let raw = Raw::new(vec![cut, full("[1, 2, 3]")]).await;
    let proxy = raw.unbound(keeping()).admin(Some(LOOPBACK)).start().await;
    let id = ask_and_be_left(&proxy, &ask_kept()).await;
    let metrics = async || get_at(proxy.admin_addr().unwrap(), "/metrics").await;
    let running = metrics().await;
    running.has("restitch_running 1\n");
    go.notify_one();
    exchange(proxy.addr(), &about("GET", &id, "")).await;
    let shown = wait_for(&proxy, |answer| answer["phase"] == "ended").await;
    assert_eq!(shown["end"], "whole", "{shown}");
    assert_eq!(shown["calls"], 2, "{shown}");
    let measured = metrics().await;
    measured.has_all([
        "restitch_running 0\n",
        "model=\"m\",cause=\"drop\"} 1\n",
        "restitch_seams_total{",
        "restitch_answers_total{route=\"default\",wire=\"openai-chat\",slot=\"",
    ]);
    proxy.shutdown().await;
}
