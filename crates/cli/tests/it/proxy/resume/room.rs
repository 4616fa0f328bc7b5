//! What becomes of answers when the store is full.

use super::super::raw::*;
use super::*;

/// Limits of a store that has room for a few events.
fn narrow() -> Limits {
    let mut limits = keeping();
    limits.keep.max_kept_bytes = 2000;
    limits
}

/// An answer of many events, which waits after its second one and its twentieth one.
async fn long(limits: Limits, store: &str) -> (Raw, Server, Arc<Notify>, Vec<String>) {
    let go = Arc::new(Notify::new());
    let mut events = vec![chunk("[1, "), chunk("2")];
    events.extend((3..40).map(|n| chunk(&format!(", {n}"))));
    events.push(chunk("]"));
    let finish = finish("stop");
    let (last, done) = finish.split_once("\n\n").unwrap();
    events.extend([format!("{last}\n\n"), done.to_owned()]);
    let pieces = vec![
        send(format!("{STREAM}{}", events[..2].concat())),
        Piece::Await(Arc::clone(&go)),
        send(events[2..20].concat()),
        Piece::Await(Arc::clone(&go)),
        send(events[20..].concat()),
    ];
    let raw = Raw::new(vec![pieces]).await;
    let proxy = raw.unbound(limits).store(store).start().await;
    (raw, proxy, go, events)
}

#[tokio::test]
async fn who_reads_an_answer_gets_it_to_its_end_although_the_store_is_full() {
    reads_on("").await;
}

pub(super) async fn reads_on(store: &str) {
    let (log, _listening) = listening();
    let (raw, proxy, go, events) = long(narrow(), store).await;
    let (id, [(mut client, mut seen), (mut reader, mut again)]) = two_readers(&proxy).await;
    go.notify_one();
    seen += &read_until(&mut client, "id: 1-20\n\n").await;
    // The answer runs on, and is not kept: a client that has left does not find it.
    for method in ["GET", "HEAD"] {
        let response = expect(proxy.addr(), &about(method, &id, ""), 410).await;
        assert!(
            method == "HEAD" || response.contains("max_kept_bytes"),
            "{response}"
        );
    }
    go.notify_one();
    seen += &read_to_end(&mut client).await;
    again += &read_to_end(&mut reader).await;
    assert_eq!(body_of(&seen), (numbered(&events, 1), true));
    assert_eq!(body_of(&again), (numbered(&events[1..], 2), true));
    assert_eq!(raw.asked(), 1);
    proxy.shutdown().await;
    let log = log.text();
    log.has("an answer is no longer kept").has("max_kept_bytes");
}

/// Events may arrive faster than the client reads, and be large: the client has an event before the
/// proxy drops it for a newer one.
#[tokio::test]
async fn large_events_reach_who_is_connected() {
    for (limit, sizes) in [
        (20_000, vec![3000; 30]),
        (20_000, vec![9000; 12]),
        (5000, vec![100, 6000, 100, 7000, 100]),
    ] {
        let mut events: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(n, size)| chunk(&format!("[\"{n}{}", "x".repeat(*size))))
            .collect();
        let finish = finish("stop");
        let (last, done) = finish.split_once("\n\n").unwrap();
        events.extend([format!("{last}\n\n"), done.to_owned()]);
        let raw = Raw::new(vec![vec![send(format!("{STREAM}{}", events.concat()))]]).await;
        let mut limits = keeping();
        limits.keep.max_kept_answer_bytes = limit;
        let proxy = raw.proxy(limits).await;
        let response = exchange(
            proxy.addr(),
            &with(&ask_kept(), "x-restitch-continuations: 0"),
        )
        .await;
        let (body, is_whole) = body_of(&response);
        assert!(
            is_whole && body == numbered(&events, 1),
            "{limit}, {sizes:?}: {} bytes",
            body.len()
        );
        proxy.shutdown().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_not_kept_any_more_ends_with_its_last_reader() {
    let events: Vec<_> = (1..=20).map(|n| chunk(&format!("[{n}"))).collect();
    let raw = Raw::new(vec![vec![
        send(format!("{STREAM}{}", events.concat())),
        Piece::Hold,
    ]])
    .await;
    let proxy = raw.proxy(narrow()).await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let seen = read_until(&mut client, "id: 1-20\n\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    assert_eq!(raw.state.borrow().left, 0);
    drop(client);
    raw.wait(|state| state.left == 1).await;
    expect(proxy.addr(), &about("GET", &id, ""), 410).await;
    assert!(proxy.shutdown().await);
}

/// The store remembers at most `max_kept_answers` evicted answers.
#[tokio::test]
async fn an_answer_that_the_store_has_forgotten_is_stopped_by_its_caller() {
    let events: Vec<_> = (1..=20).map(|n| chunk(&format!("[{n}"))).collect();
    let held = vec![send(format!("{STREAM}{}", events.concat())), Piece::Hold];
    let raw = Raw::new(vec![held; 2]).await;
    let mut limits = narrow();
    limits.keep.max_kept_answers = 1;
    let proxy = raw.proxy(limits).await;
    let (mut clients, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut client = begin(proxy.addr(), &ask_kept()).await;
        let seen = read_until(&mut client, "id: 1-20\n\n").await;
        ids.push(header(&seen, "x-restitch-stream").to_owned());
        clients.push(client);
    }
    while status(&exchange(proxy.addr(), &about("GET", &ids[0], "")).await) != "404 Not Found" {
        sleep(Duration::from_millis(20)).await;
    }
    let delete = about("DELETE", &ids[0], "");
    expect(proxy.addr(), &delete.replace("sk-1", "sk-2"), 404).await;
    assert_eq!(raw.state.borrow().left, 0);
    expect(proxy.addr(), &delete, 204).await;
    raw.wait(|state| state.left == 1).await;
    assert!(
        !read_to_end(&mut clients[0]).await.ends_with("0\r\n\r\n"),
        "a deleted answer is not whole"
    );
    expect(proxy.addr(), &delete, 404).await;
    drop(clients);
    proxy.shutdown().await;
}

#[tokio::test]
async fn ended_answers_make_room_for_those_that_run() {
    make_room("").await;
}

pub(super) async fn make_room(store: &str) {
    let mut limits = keeping();
    // Room for one answer: its size in this process, or in the server.
    limits.keep.max_kept_bytes = if store.starts_with("redis") {
        1300
    } else {
        3200
    };
    let (raw, _, go) = waiting(2, keeping()).await;
    let proxy = raw.unbound(limits).store(store).start().await;
    go.notify_one();
    let first = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(body_of(&first), (numbered(&five(), 1), true));
    let of = |response: &str| header(response, "x-restitch-stream").to_owned();
    expect(proxy.addr(), &about("GET", &of(&first), ""), 200).await;
    go.notify_one();
    let second = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(body_of(&second), (numbered(&five(), 1), true));
    let response = expect(proxy.addr(), &about("GET", &of(&first), ""), 410).await;
    response.has("max_kept_bytes");
    let response = exchange(proxy.addr(), &about("GET", &of(&second), "")).await;
    assert_eq!(body_of(&response), (numbered(&five(), 1), true));
    proxy.shutdown().await;
}

#[tokio::test]
async fn an_answer_is_not_kept_where_there_is_no_room_for_it() {
    let mut limits = keeping();
    limits.keep.max_kept_bytes = 10;
    let (_raw, proxy, go) = waiting(1, limits).await;
    go.notify_one();
    let response = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(
        header(&response, "x-restitch-keep"),
        "0; reason=\"max_kept_bytes\""
    );
    assert_eq!(body_of(&response), (five().concat(), true));
    proxy.shutdown().await;
}
