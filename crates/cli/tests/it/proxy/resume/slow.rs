//! Clients that are behind their answer: the proxy keeps it while they are connected, and can stop
//! it.

use tokio::net::TcpStream;

use super::super::page::{stop, wait_for as wait_for_answer};
use super::super::raw::*;
use super::*;

/// Events that exceed the system's buffers for a client that does not read: 8 MiB.
fn large() -> Vec<String> {
    let mut events = vec![chunk(&"x".repeat(1 << 16)); 128];
    let finish = finish("stop");
    let (last, done) = finish.split_once("\n\n").unwrap();
    events.extend([format!("{last}\n\n"), done.to_owned()]);
    events
}

/// Begins an answer for a client that reads only its head. Returns the client, the text that it has
/// read, and the answer's id.
async fn begun(proxy: &Server, ask: &str) -> (TcpStream, String, String) {
    let mut client = connect_narrow(proxy.addr()).await;
    client.write_all(ask.as_bytes()).await.unwrap();
    let seen = read_until(&mut client, "\r\n\r\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    (client, seen, id)
}

/// Waits until an answer is in a state, without reading it.
async fn wait_for(proxy: &Server, id: &str, state: &str) {
    while header(
        &exchange(proxy.addr(), &about("HEAD", id, "")).await,
        "x-restitch-state",
    ) != state
    {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_answer_makes_no_room_for_another_one_while_its_client_is_behind() {
    makes_no_room("").await;
}

pub(super) async fn makes_no_room(store: &str) {
    let mut limits = keeping();
    limits.keep.max_kept_bytes = 9 << 20;
    let events = large();
    let raw = Raw::new(vec![stream(&events.concat()); 2]).await;
    let proxy = raw.unbound(limits).store(store).start().await;
    let (mut client, mut seen, id) = begun(&proxy, &ask_kept()).await;
    wait_for(&proxy, &id, "whole").await;
    // There is no room for both: the second one continues for its client, and is not kept.
    let second = exchange(proxy.addr(), &ask_kept()).await;
    assert!(
        body_of(&second) == (numbered(&events, 1), true),
        "the second answer is not whole"
    );
    seen += &read_to_end(&mut client).await;
    assert!(
        body_of(&seen) == (numbered(&events, 1), true),
        "the first answer is not whole"
    );
    let response = exchange(
        proxy.addr(),
        &about("HEAD", header(&second, "x-restitch-stream"), ""),
    )
    .await;
    assert_eq!(status(&response), "410 Gone");
    expect(proxy.addr(), &about("HEAD", &id, ""), 200).await;
    proxy.shutdown().await;
}

#[tokio::test]
async fn an_answer_does_not_expire_while_its_client_takes_nothing() {
    does_not_expire("", Duration::from_millis(150)).await;
}

pub(super) async fn does_not_expire(store: &str, keep: Duration) {
    let with_end = |is_running| does_not_expire_while(store, keep, is_running);
    tokio::join!(with_end(true), with_end(false));
}

async fn does_not_expire_while(store: &str, keep: Duration, is_running: bool) {
    let mut limits = keeping();
    limits.keep.max_keep_time = keep;
    let events = large();
    let go = Arc::new(Notify::new());
    let (text, end) = events.split_at(128);
    let pieces = vec![
        send(format!("{STREAM}{}", text.concat())),
        Piece::Await(Arc::clone(&go)),
        send(end.concat()),
    ];
    let raw = Raw::new(vec![pieces, unfinished(), unfinished()]).await;
    let proxy = raw.unbound(limits).store(store).start().await;
    let (mut client, mut seen, id) = begun(&proxy, &ask_kept()).await;
    if !is_running {
        go.notify_one();
        wait_for(&proxy, &id, "whole").await;
    }
    // Twice the time after which the answer expires without a client.
    expires(&proxy).await;
    expires(&proxy).await;
    go.notify_one();
    seen += &read_to_end(&mut client).await;
    assert!(
        body_of(&seen) == (numbered(&events, 1), true),
        "it is not whole, running: {is_running}"
    );
    // It expires once its client has left.
    while status(&exchange(proxy.addr(), &about("HEAD", &id, "")).await) != "410 Gone" {
        sleep(Duration::from_millis(50)).await;
    }
    proxy.shutdown().await;
}

/// The upstream waits for the client, as it does where nothing is kept.
#[tokio::test]
async fn a_client_that_is_behind_loses_nothing_of_a_longer_answer() {
    let mut limits = keeping();
    limits.keep.max_kept_answer_bytes = 1 << 20;
    let events = large();
    let raw = Raw::new(vec![stream(&events.concat())]).await;
    let proxy = raw.unbound(limits).start().await;
    let (mut client, mut seen, id) = begun(&proxy, &ask_kept()).await;
    raw.stalls().await;
    seen += &read_to_end(&mut client).await;
    assert!(
        body_of(&seen) == (numbered(&events, 1), true),
        "the answer is not whole"
    );
    wait_for(&proxy, &id, "whole").await;
    // The store has dropped the first events.
    let response = exchange(proxy.addr(), &about("GET", &id, "")).await;
    assert!(status(&response) == "410 Gone", "{response}");
    response.has("max_kept_answer_bytes");
    proxy.shutdown().await;
}

/// The store has no room for the answer, and its only reader takes nothing.
#[tokio::test]
async fn an_answer_that_waits_for_its_reader_is_stopped_at_once() {
    is_stopped_at_once("").await;
}

pub(super) async fn is_stopped_at_once(store: &str) {
    for is_deleted in [true, false] {
        let mut limits = keeping();
        limits.keep.max_kept_bytes = 2000;
        let raw = Raw::new(vec![stream(&large().concat())]).await;
        let proxy = raw
            .unbound(limits)
            .store(store)
            .admin(Some(LOOPBACK))
            .start()
            .await;
        let (mut client, _, id) = begun(&proxy, &with(&ask_kept(), "x-request-id: mine")).await;
        let id = id.as_str();
        while status(&exchange(proxy.addr(), &about("HEAD", id, "")).await) != "410 Gone" {
            sleep(Duration::from_millis(20)).await;
        }
        if is_deleted {
            let other = about("DELETE", id, "").replace("sk-1", "sk-2");
            expect(proxy.addr(), &other, 404).await;
            expect(proxy.addr(), &about("DELETE", id, ""), 204).await;
        } else {
            // Nothing more comes from the upstream until the reader takes something.
            raw.stalls().await;
            stop(&proxy, "mine").await.begins("HTTP/1.1 202");
        }
        raw.wait(|state| state.left == 1).await;
        wait_for_answer(&proxy, |answer| answer["phase"] == "ended").await;
        let rest = read_to_end(&mut client).await;
        assert!(
            !is_deleted || !rest.ends_with("0\r\n\r\n"),
            "a deleted answer is not whole"
        );
        let gone = if is_deleted {
            "404 Not Found"
        } else {
            "410 Gone"
        };
        for method in ["DELETE", "GET"] {
            assert_eq!(
                status(&exchange(proxy.addr(), &about(method, id, "")).await),
                gone,
                "{method}"
            );
        }
        proxy.shutdown().await;
    }
}
