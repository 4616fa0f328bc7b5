//! Clients that are behind their answer: it is kept as long as they are connected.

use super::super::page::LOOPBACK;
use super::super::raw::*;
use super::*;

/// Events that do not fit into what the system buffers for a client that does not read: 8 MiB.
fn large() -> Vec<String> {
    let mut events = vec![chunk(&"x".repeat(1 << 16)); 128];
    let finish = finish("stop");
    let (last, done) = finish.split_once("\n\n").unwrap();
    events.extend([format!("{last}\n\n"), done.to_owned()]);
    events
}

/// Waits until an answer is in a state, without reading it.
async fn wait_for(proxy: &Server, id: &str, state: &str) {
    while header(&exchange(proxy.addr(), &about("HEAD", id, "")).await, "x-restitch-state") != state {
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
    let proxy = raw.unbound(limits).store(store).bind(LOOPBACK).await.unwrap();
    let mut client = connect_narrow(proxy.addr()).await;
    client.write_all(ask_kept().as_bytes()).await.unwrap();
    let mut seen = read_until(&mut client, "\r\n\r\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    wait_for(&proxy, &id, "whole").await;
    // There is no room for both: the second one goes on for its client, and is not kept.
    let second = exchange(proxy.addr(), &ask_kept()).await;
    assert!(body_of(&second) == (numbered(&events, 1), true), "the second answer is not whole");
    seen += &read_to_end(&mut client).await;
    assert!(body_of(&seen) == (numbered(&events, 1), true), "the first answer is not whole");
    let response = exchange(proxy.addr(), &about("HEAD", header(&second, "x-restitch-stream"), "")).await;
    assert_eq!(status(&response), "410 Gone");
    assert_eq!(status(&exchange(proxy.addr(), &about("HEAD", &id, "")).await), "200 OK");
    proxy.shutdown().await;
}

#[tokio::test]
async fn an_answer_does_not_expire_while_its_client_takes_nothing() {
    does_not_expire("").await;
}

pub(super) async fn does_not_expire(store: &str) {
    for is_running in [true, false] {
        let events = large();
        let go = Arc::new(Notify::new());
        let (text, end) = events.split_at(128);
        let pieces =
            vec![send(format!("{STREAM}{}", text.concat())), Piece::Await(Arc::clone(&go)), send(end.concat())];
        let raw = Raw::new(vec![pieces]).await;
        let proxy = raw.unbound(keeping()).store(store).bind(LOOPBACK).await.unwrap();
        let mut client = connect_narrow(proxy.addr()).await;
        let ask = ask_kept().replace("x-restitch-keep: 30", "x-restitch-keep: 1");
        client.write_all(ask.as_bytes()).await.unwrap();
        let mut seen = read_until(&mut client, "\r\n\r\n").await;
        let id = header(&seen, "x-restitch-stream").to_owned();
        if !is_running {
            go.notify_one();
            wait_for(&proxy, &id, "whole").await;
        }
        sleep(Duration::from_millis(3500)).await;
        go.notify_one();
        seen += &read_to_end(&mut client).await;
        assert!(body_of(&seen) == (numbered(&events, 1), true), "it is not whole, running: {is_running}");
        // It expires once its client has left.
        while status(&exchange(proxy.addr(), &about("HEAD", &id, "")).await) != "410 Gone" {
            sleep(Duration::from_millis(50)).await;
        }
        proxy.shutdown().await;
    }
}
