//! Answers that are kept: clients that leave and come back.

mod browser;
mod callers;
mod durable;
mod ends;
mod files;
mod processes;
mod room;
#[cfg(feature = "redis")]
mod shared;
mod slow;
mod stored;
mod told;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use restitch::Limits;
use restitch_proxy::Server;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Setup;
use super::raw::*;

/// Limits with which answers may be kept, and no comments get between events.
fn keeping() -> Limits {
    let mut limits = Limits::default().with_keep_alive_interval(Duration::from_secs(60));
    limits.keep.max_keep_time = Duration::from_secs(60);
    limits
}

/// Adds header lines to a request.
fn with(request: &str, headers: &str) -> String {
    request.replacen("\r\n\r\n", &format!("\r\n{headers}\r\n\r\n"), 1)
}

/// Asks for an answer that is kept for 30 seconds.
fn ask_kept() -> String {
    with(
        &post(ASK),
        "x-restitch-keep: 30\r\nauthorization: Bearer sk-1",
    )
}

/// Returns a request about a kept answer, by the caller who asked for it.
fn about(method: &str, id: &str, headers: &str) -> String {
    let request =
        format!("{method} /streams/{id} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    with(&request, &format!("authorization: Bearer sk-1{headers}"))
}

fn after(position: &str) -> String {
    format!("\r\nlast-event-id: {position}")
}

/// Returns a header of a response.
fn header<'r>(response: &'r str, name: &str) -> &'r str {
    let (head, _) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name}: {response}"))
}

fn status(response: &str) -> &str {
    response
        .lines()
        .next()
        .unwrap_or_default()
        .strip_prefix("HTTP/1.1 ")
        .unwrap_or(response)
}

/// Sends a request whose answer has this status. Returns the answer.
async fn expect(addr: SocketAddr, request: &str, code: u16) -> String {
    let response = exchange(addr, request).await;
    let expected = format!("HTTP/1.1 {code} ");
    assert!(response.starts_with(&expected), "{request}{response}");
    response
}

/// Writes events with the numbers of a kept answer, the first one with the number `first`.
fn numbered(events: &[String], first: usize) -> String {
    let numbered = events.iter().enumerate().map(|(n, event)| {
        let event = event.strip_suffix("\n\n").unwrap();
        format!("{event}\nid: 1-{}\n\n", first + n)
    });
    numbered.collect()
}

/// The events of an answer in three texts: five events.
fn five() -> Vec<String> {
    let finish = finish("stop");
    let (last, done) = finish.split_once("\n\n").unwrap();
    vec![
        chunk("[1, "),
        chunk("2"),
        chunk(", 3]"),
        format!("{last}\n\n"),
        done.to_owned(),
    ]
}

/// The five events, with a wait after the second one.
fn pausing(go: &Arc<Notify>) -> Vec<Piece> {
    let events = five();
    vec![
        send(format!("{STREAM}{}", events[..2].concat())),
        Piece::Await(Arc::clone(go)),
        send(events[2..].concat()),
    ]
}

/// An upstream whose answer waits after its second event, with a proxy that keeps answers.
async fn waiting(answers: usize, limits: Limits) -> (Raw, Server, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let raw = Raw::new(vec![pausing(&go); answers]).await;
    let proxy = raw.proxy(limits).await;
    (raw, proxy, go)
}

/// Asks, reads until the second event, and leaves. Returns the id of the answer.
async fn ask_and_leave(proxy: &Server, request: &str) -> String {
    let mut client = begin(proxy.addr(), request).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    header(&seen, "x-restitch-stream").to_owned()
}

/// Two events, and no end.
fn unfinished() -> Vec<Piece> {
    vec![
        send(format!("{STREAM}{}", five()[..2].concat())),
        Piece::Hold,
    ]
}

/// Waits until a new answer, which its client leaves at once, has expired.
async fn expires(proxy: &Server) {
    let id = ask_and_leave(proxy, &ask_kept()).await;
    while status(&exchange(proxy.addr(), &about("HEAD", &id, "")).await) != "410 Gone" {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Google's clients take each event for its data alone. Who comes back gets ids all the same.
#[tokio::test]
async fn events_of_gemini_have_no_ids_until_a_client_comes_back() {
    let event = |text: &str, end: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}{end}}}]}}\r\n\r\n"
        )
    };
    let events = [event("[1, ", ""), event("2]", ",\"finishReason\":\"STOP\"")];
    let raw = Raw::new(vec![vec![send(format!("{STREAM}{}", events.concat()))]]).await;
    let mut limits = keeping();
    limits.transport.keep_alive_interval = Duration::from_millis(20);
    let proxy = raw.proxy(limits).await;
    let ask = post(r#"{"contents":[{"parts":[{"text":"x"}]}]}"#);
    let path = "/v1beta/models/g:streamGenerateContent?alt=sse";
    let response = exchange(
        proxy.addr(),
        &with(&ask, "x-restitch-keep: 30").replace("/v1/chat/completions", path),
    )
    .await;
    let (body, is_whole) = body_of(&response);
    assert!(
        is_whole
            && body
                .split_terminator("\n\n")
                .all(|event| event.trim().starts_with("data: ")),
        "{body}"
    );
    assert!(body.matches("data: ").count() == 2, "{body}");
    body.lacks("id:");
    let again = format!(
        "GET /streams/{} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
        header(&response, "x-restitch-stream")
    );
    let again = body_of(&exchange(proxy.addr(), &again).await).0;
    again.has("id: 1-1\n\n").has("id: 1-2\n\n");
}

/// Asks for a kept answer and reads its first two events, with a second client, too, which
/// reconnects after the first event. Returns the answer's id, and the clients with the text that
/// they have read.
async fn two_readers(proxy: &Server) -> (String, [(TcpStream, String); 2]) {
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    let mut reader = begin(proxy.addr(), &about("GET", &id, &after("1-1"))).await;
    let again = read_until(&mut reader, "id: 1-2\n\n").await;
    (id, [(client, seen), (reader, again)])
}

#[tokio::test]
async fn a_client_comes_back_before_the_first_event() {
    let go = Arc::new(Notify::new());
    let raw = Raw::new(vec![vec![
        send(STREAM),
        Piece::Await(Arc::clone(&go)),
        send(five().concat()),
    ]])
    .await;
    let proxy = raw.proxy(keeping()).await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let id = header(
        &read_until(&mut client, "\r\n\r\n").await,
        "x-restitch-stream",
    )
    .to_owned();
    drop(client);
    let mut readers = Vec::new();
    // Both clients know the stream, and neither has received an event.
    for headers in [String::new(), after("")] {
        let mut reader = begin(proxy.addr(), &about("GET", &id, &headers)).await;
        let seen = read_until(&mut reader, "\r\n\r\n").await;
        status(&seen).begins("200");
        seen.lacks("data: ");
        readers.push(reader);
    }
    go.notify_one();
    for reader in &mut readers {
        let rest = read_to_end(reader).await;
        let (body, is_whole) = body_of(&format!("transfer-encoding: chunked\r\n\r\n{rest}"));
        assert_eq!((body, is_whole), (numbered(&five(), 1), true));
    }
}

#[tokio::test]
async fn the_log_has_the_bytes_of_a_kept_answer() {
    let (log, _guard) = listening();
    let (_raw, proxy, go) = waiting(1, keeping()).await;
    ask_and_leave(&proxy, &ask_kept()).await;
    go.notify_one();
    for _ in 0..1000 {
        if log.text().contains("a kept answer has ended") {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    let told = log.text();
    told.has(format!(" bytes={} ", five().concat().len()));
}

#[tokio::test]
async fn a_kept_answer_goes_on_without_its_client() {
    let (raw, proxy, go) = waiting(1, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    // Before the end: one reader from the start, and two after the first of two events that came in
    // one chunk.
    let mut readers = Vec::new();
    for last in ["", "1-1", "1-1"] {
        let mut reader = connect(proxy.addr()).await;
        let headers = if last.is_empty() {
            String::new()
        } else {
            after(last)
        };
        reader
            .write_all(about("GET", &id, &headers).as_bytes())
            .await
            .unwrap();
        read_until(&mut reader, "id: 1-2\n\n").await;
        readers.push(reader);
    }
    go.notify_one();
    for reader in &mut readers {
        // The first bytes of its body are read already.
        let rest = read_to_end(reader).await;
        rest.has("id: 1-5").ends("0\r\n\r\n");
        rest.lacks("id: 1-2");
    }
    // After the end: each client gets the events that it lacks.
    let events = five();
    for has in 0..5 {
        let headers = if has == 0 {
            String::new()
        } else {
            after(&format!("1-{has}"))
        };
        let response = expect(proxy.addr(), &about("GET", &id, &headers), 200).await;
        assert_eq!(header(&response, "content-type"), "text/event-stream");
        assert_eq!(header(&response, "cache-control"), "no-store");
        assert_eq!(
            body_of(&response),
            (numbered(&events[has..], has + 1), true),
            "after {has}"
        );
    }
    assert_eq!(raw.asked(), 1);
    raw.request(0).lacks("x-restitch");
    proxy.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_is_cut_is_completed_without_its_client() {
    let rest = chunk("[1, 2, 3]") + &finish("stop");
    let raw = Raw::new(vec![
        vec![
            send(format!("{STREAM}{}{}", chunk("[1"), chunk(", 2"))),
            Piece::Reset,
        ],
        stream(&rest),
    ])
    .await;
    let proxy = raw.proxy(keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let response = exchange(proxy.addr(), &about("GET", &id, "")).await;
    let (body, is_whole) = body_of(&response);
    assert!(is_whole, "{body}");
    body.has(r#""content":", 3]""#).has("data: [DONE]\nid: 1-");
    assert_eq!(raw.asked(), 2);
    proxy.shutdown().await;
}

/// An answer that ends like a lost connection ends so for a later reader, too.
#[tokio::test]
async fn an_answer_that_broke_off_stays_broken() {
    let raw = Raw::new(vec![vec![
        send(format!("{STREAM}{}{}", chunk("Hel"), chunk("lo"))),
        Piece::Reset,
    ]])
    .await;
    let proxy = raw.proxy(keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    for _ in 0..2 {
        let response = exchange(proxy.addr(), &about("GET", &id, &after("1-1"))).await;
        assert_eq!(body_of(&response), (numbered(&[chunk("lo")], 2), false));
    }
    // A client that has both events must not take the answer for a whole one.
    let response = expect(proxy.addr(), &about("GET", &id, &after("1-2")), 410).await;
    response.has("\"broken_stream\"");
    let response = exchange(proxy.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "broken");
    proxy.shutdown().await;
}

#[tokio::test]
async fn nothing_is_kept_unless_the_operator_allows_it_and_the_request_asks() {
    let mut off = keeping();
    off.keep.max_keep_time = Duration::ZERO;
    for (limits, request, kept) in [
        (off, ask_kept(), Some("0; reason=\"off\"")),
        (keeping(), post(ASK), None),
        (keeping(), with(&post(ASK), "x-restitch-keep: 0"), None),
    ] {
        let (_raw, proxy, go) = waiting(1, limits).await;
        go.notify_one();
        let response = exchange(proxy.addr(), &request).await;
        assert_eq!(
            body_of(&response),
            (five().concat(), true),
            "the bytes are untouched"
        );
        assert_eq!(kept.map(|_| header(&response, "x-restitch-keep")), kept);
        assert_eq!(
            response.contains("x-restitch-keep"),
            kept.is_some(),
            "{response}"
        );
        response.lacks("x-restitch-stream");
        proxy.shutdown().await;
    }
    let (_raw, proxy, _) = waiting(1, keeping()).await;
    expect(
        proxy.addr(),
        &with(&post(ASK), "x-restitch-keep: soon"),
        400,
    )
    .await;
    // The proxy grants at most the operator's limit.
    let (_raw, proxy, go) = waiting(1, keeping()).await;
    go.notify_one();
    let response = exchange(proxy.addr(), &with(&post(ASK), "x-restitch-keep: 3600")).await;
    assert_eq!(header(&response, "x-restitch-keep"), "60");
}

#[tokio::test]
async fn the_operator_can_keep_all_answers() {
    let (raw, _, go) = waiting(1, keeping()).await;
    let proxy = raw
        .unbound(keeping())
        .keep_answers(Duration::from_secs(20))
        .start()
        .await;
    go.notify_one();
    let response = exchange(proxy.addr(), &post(ASK)).await;
    assert_eq!(header(&response, "x-restitch-keep"), "20");
    proxy.shutdown().await;
}

#[tokio::test]
async fn another_caller_finds_nothing() {
    let (raw, proxy, go) = waiting(1, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let own = about("GET", &id, "");
    for other in [
        own.replace("Bearer sk-1", "Bearer sk-2"),
        own.replace("authorization: Bearer sk-1", "x-api-key: sk-1"),
        own.replace("authorization: Bearer sk-1", "x-none: 1"),
        own.replace(" HTTP/1.1", "?key=1 HTTP/1.1"),
        own.replace("GET ", "DELETE ").replace("sk-1", "sk-2"),
        own.replace("GET ", "HEAD ").replace("sk-1", "sk-2"),
        about("GET", "00000000000000000000000000000000", ""),
        about("GET", "..", ""),
        about("GET", "x", ""),
        about("GET", &id.to_uppercase(), "").replace(&id, "x"),
    ] {
        let response = exchange(proxy.addr(), &other).await;
        let expected = if other.contains("/..") {
            "400 Bad Request"
        } else {
            "404 Not Found"
        };
        assert_eq!(status(&response), expected, "{other}");
        response.lacks(&id);
    }
    assert_eq!(raw.state.borrow().left, 0, "the answer goes on");
    let response = expect(proxy.addr(), &about("PUT", &id, ""), 405).await;
    assert_eq!(header(&response, "allow"), "GET, HEAD, DELETE");
    for (last, expected) in [
        ("1-9", "400 Bad Request"),
        ("x", "400 Bad Request"),
        ("2-0", "400 Bad Request"),
    ] {
        let response = exchange(proxy.addr(), &about("GET", &id, &after(last))).await;
        assert_eq!(status(&response), expected, "{last}");
    }
    go.notify_one();
    proxy.shutdown().await;
    assert_eq!(raw.asked(), 1, "nothing of this reaches the upstream");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_stopped_and_expires() {
    // The upstream sends no more, and notices that its client has left.
    let request = ask_kept();
    let mut limits = keeping();
    limits.keep.max_keep_time = Duration::from_millis(150);
    let held = Raw::new(vec![unfinished()]).await;
    let other = held.proxy(limits).await;
    let id = ask_and_leave(&other, &request).await;
    held.wait(|state| state.left == 1).await;
    expect(other.addr(), &about("GET", &id, ""), 410).await;
    expect(
        other.addr(),
        &about("GET", &id, "").replace("sk-1", "sk-2"),
        404,
    )
    .await;
    let repeat = with(&request, "last-event-id: 1-1");
    expect(other.addr(), &repeat, 410).await;
    assert_eq!(held.asked(), 1);
}

/// An `EventSource` connects again after the end of each stream, until it gets a 204. Such a read
/// does not keep the answer.
#[tokio::test]
async fn a_reader_of_the_last_event_is_told_to_stop() {
    let request = ask_kept();
    let mut limits = keeping();
    limits.keep.max_keep_time = Duration::from_millis(150);
    let (_raw, proxy, go) = waiting(1, limits).await;
    let id = ask_and_leave(&proxy, &request).await;
    go.notify_one();
    let rest = exchange(proxy.addr(), &about("GET", &id, "")).await;
    let last = rest
        .rsplit("id: ")
        .next()
        .unwrap()
        .split('\n')
        .next()
        .unwrap();
    let described = exchange(proxy.addr(), &about("HEAD", &id, "")).await;
    let offset = header(&described, "stream-next-offset");
    let reads = [
        about("GET", &id, &after(last)),
        about("GET", &format!("{id}?offset={offset}"), ""),
    ];
    for (number, read) in reads.iter().cycle().enumerate() {
        // The time of keeping has passed long before.
        assert!(number < 1000, "reading renews the time");
        let response = exchange(proxy.addr(), read).await;
        match (number % 2, status(&response)) {
            (0, "204 No Content") | (1, "200 OK") => {}
            (_, "410 Gone") => break,
            (_, other) => panic!("{other}: {response}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.shutdown().await;
}

#[tokio::test]
async fn delete_stops_an_answer() {
    let raw = Raw::new(vec![unfinished()]).await;
    let proxy = raw.unbound(keeping()).threads(2).start().await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    let id = header(&seen, "x-restitch-stream").to_owned();
    expect(proxy.addr(), &about("DELETE", &id, ""), 204).await;
    raw.wait(|state| state.left == 1).await;
    // A reader loses the connection: the answer is not whole.
    let rest = read_to_end(&mut client).await;
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    for method in ["GET", "HEAD", "DELETE"] {
        expect(proxy.addr(), &about(method, &id, ""), 404).await;
    }
    proxy.shutdown().await;
}

#[tokio::test]
async fn head_describes_an_answer() {
    let (_raw, proxy, go) = waiting(1, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let response = expect(proxy.addr(), &about("HEAD", &id, ""), 200).await;
    let described = [
        "content-type",
        "x-restitch-stream",
        "x-restitch-keep",
        "x-restitch-state",
        "last-event-id",
    ];
    assert_eq!(
        described.map(|name| header(&response, name)),
        ["text/event-stream", &id, "30", "running", "1-2"]
    );
    go.notify_one();
    exchange(proxy.addr(), &about("GET", &id, "")).await;
    let response = exchange(proxy.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(
        described.map(|name| header(&response, name))[3..],
        ["whole", "1-5"]
    );
    assert_eq!(response.split_once("\r\n\r\n").unwrap().1, "");
    proxy.shutdown().await;
}

#[tokio::test]
async fn a_request_that_is_sent_again_gets_the_rest() {
    let (raw, proxy, go) = waiting(2, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    go.notify_one();
    let events = five();
    let again = |headers: &str| {
        with(
            &post(ASK),
            &format!("authorization: Bearer sk-1\r\n{headers}"),
        )
    };
    let response = exchange(proxy.addr(), &again("last-event-id: 1-3")).await;
    assert_eq!(body_of(&response), (numbered(&events[3..], 4), true));
    assert_eq!(raw.asked(), 1);
    // A second answer to the same request: the client has to say which one it means.
    let second = ask_and_leave(&proxy, &ask_kept()).await;
    expect(proxy.addr(), &again("last-event-id: 1-3"), 409).await;
    go.notify_one();
    for id in [&id, &second] {
        let named = again(&format!("last-event-id: 1-3\r\nx-restitch-stream: {id}"));
        let response = exchange(proxy.addr(), &named).await;
        assert_eq!(body_of(&response), (numbered(&events[3..], 4), true));
        assert_eq!(header(&response, "x-restitch-stream"), id);
    }
    proxy.shutdown().await;
}

/// Another server may have numbered the events that its client has seen.
#[tokio::test]
async fn a_request_with_an_event_id_of_no_kept_answer_passes_without_it() {
    let whole = vec![send(format!("{STREAM}{}", five().concat()))];
    let raw = Raw::new(vec![whole; 5]).await;
    let proxy = raw.proxy(keeping()).await;
    exchange(proxy.addr(), &ask_kept()).await;
    let again = with(
        &post(ASK),
        "authorization: Bearer sk-1\r\nlast-event-id: 1-3",
    );
    let named = with(
        &again,
        "x-restitch-stream: 8c0f2a5b6d1e4f70a1b2c3d4e5f60718",
    );
    expect(proxy.addr(), &named, 404).await;
    let mut asked = 1;
    for other in [
        again.replace("\"m\"", "\"n\""),
        again.replace("sk-1", "sk-2"),
        again.replace("authorization: Bearer sk-1\r\n", ""),
        again
            .replace("1-3", "1526919030474-0")
            .replace("sk-1", "sk-3"),
    ] {
        let response = exchange(proxy.addr(), &other).await;
        assert_eq!(body_of(&response), (five().concat(), true), "{response}");
        asked += 1;
        assert_eq!(raw.asked(), asked);
        let sent = raw.request(asked - 1);
        sent.lacks("last-event-id").has("\r\n\r\n{\"model\"");
    }
    // The answer of this caller is still found.
    let response = exchange(proxy.addr(), &again).await;
    assert_eq!(body_of(&response), (numbered(&five()[3..], 4), true));
    assert_eq!(raw.asked(), asked);
    proxy.shutdown().await;
}

#[tokio::test]
async fn kept_answers_are_bounded() {
    let mut limits = keeping();
    limits.keep.max_kept_answers = 1;
    let raw = Raw::new(vec![
        unfinished(),
        vec![send(format!("{STREAM}{}", five().concat()))],
    ])
    .await;
    let proxy = raw.proxy(limits).await;
    ask_and_leave(&proxy, &ask_kept()).await;
    let response = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(
        header(&response, "x-restitch-keep"),
        "0; reason=\"max_kept_answers\""
    );
    assert_eq!(
        body_of(&response),
        (five().concat(), true),
        "it is answered as if it had not asked"
    );
    proxy.shutdown().await;

    let mut limits = keeping();
    limits.keep.max_kept_answer_bytes = 600;
    let (_raw, proxy, go) = waiting(1, limits).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    go.notify_one();
    let response = exchange(proxy.addr(), &about("GET", &id, &after("1-4"))).await;
    assert_eq!(body_of(&response), (numbered(&five()[4..], 5), true));
    let response = expect(proxy.addr(), &about("GET", &id, ""), 410).await;
    response.has("max_kept_answer_bytes");
    proxy.shutdown().await;
}

/// A proxy that stops ends the answers without readers.
#[tokio::test]
async fn answers_without_readers_end_with_the_proxy() {
    for threads in [0, 2] {
        let raw = Raw::new(vec![unfinished()]).await;
        let proxy = raw.unbound(keeping()).threads(threads).start().await;
        ask_and_leave(&proxy, &ask_kept()).await;
        assert!(proxy.shutdown().await);
        raw.wait(|state| state.left == 1).await;
    }
}

#[tokio::test]
async fn answers_without_readers_do_not_wait_for_those_that_have_some() {
    let go = Arc::new(Notify::new());
    let raw = Raw::new(vec![unfinished(), pausing(&go)]).await;
    let proxy = raw.unbound(keeping()).threads(2).start().await;
    ask_and_leave(&proxy, &ask_kept()).await;
    let mut reader = begin(proxy.addr(), &ask_kept()).await;
    read_until(&mut reader, "id: 1-2\n\n").await;
    let stopping = tokio::spawn(proxy.shutdown());
    raw.wait(|state| state.left == 1).await;
    go.notify_one();
    read_to_end(&mut reader).await.has("id: 1-5\n\n");
    assert!(stopping.await.unwrap());
}

#[tokio::test]
async fn silence_is_told_to_whoever_reads() {
    let limits = keeping().with_keep_alive_interval(Duration::from_millis(50));
    let (_raw, proxy, go) = waiting(1, limits).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let mut reader = begin(proxy.addr(), &about("GET", &id, &after("1-2"))).await;
    read_until(&mut reader, ": keep-alive\n\n").await;
    go.notify_one();
    read_to_end(&mut reader).await;
    // A comment is not an event: the proxy does not send it again.
    let response = exchange(proxy.addr(), &about("GET", &id, "")).await;
    assert_eq!(body_of(&response), (numbered(&five(), 1), true));
    proxy.shutdown().await;
}

#[tokio::test]
async fn a_response_is_retrieved_by_its_own_id() {
    let limits = keeping();
    let setup = Setup::of("answer@90!drop | anchor", |proxy| proxy.limits(limits)).await;
    let body = r#"{"model":"sim","stream":true,"input":"x"}"#;
    let ask = post(body).replace("/v1/chat/completions", "/v1/responses");
    let ask = with(&ask, "x-restitch-keep: 30\r\nauthorization: Bearer sk-1");
    let response = exchange(setup.proxy.addr(), &ask).await;
    let (whole, is_whole) = body_of(&response);
    assert!(is_whole, "{whole}");
    whole.has("response.completed");
    let id = whole
        .split("\"id\":\"resp")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let get = |id: &str, query: &str, key: &str| {
        let get = format!(
            "GET /v1/responses/{id}?{query} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
        );
        with(&get, &format!("authorization: Bearer {key}"))
    };
    let id = format!("resp{id}");
    let events: Vec<_> = whole.split_inclusive("\n\n").collect();
    for (number, event) in events.iter().enumerate() {
        event
            .of(number)
            .has(format!("\"sequence_number\":{number}"));
        let query = format!("stream=true&starting_after={number}");
        let rest = exchange(setup.proxy.addr(), &get(&id, &query, "sk-1")).await;
        assert_eq!(
            body_of(&rest),
            (events[number + 1..].concat(), true),
            "{number}"
        );
    }
    let rest = exchange(setup.proxy.addr(), &get(&id, "stream=true", "sk-1")).await;
    assert_eq!(body_of(&rest).0, whole);
    // The upstream deletes the answer, so the proxy drops its copy. The upstream responds.
    let delete =
        format!("DELETE /v1/responses/{id} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    exchange(
        setup.proxy.addr(),
        &with(&delete, "authorization: Bearer sk-1"),
    )
    .await;
    let rest = exchange(setup.proxy.addr(), &get(&id, "stream=true", "sk-1")).await;
    rest.lacks("response.completed");
    // Requests about other answers pass: another caller, another id, a body that is not streamed.
    let raw = Raw::new(vec![stream("data: theirs\n\n"); 3]).await;
    let proxy = raw.proxy(keeping()).await;
    for other in [
        get(&id, "stream=true", "sk-2"),
        get("resp_9", "stream=true", "sk-1"),
        get(&id, "", "sk-1"),
    ] {
        let response = exchange(proxy.addr(), &other).await;
        response.has("theirs");
    }
    setup.proxy.shutdown().await;
}

/// A provider that begins again to number its responses after a restart.
#[tokio::test]
async fn a_response_id_that_several_answers_have_finds_none_of_them() {
    let event = |number: u64, status: &str| {
        let kind = if status == "completed" {
            "response.completed"
        } else {
            "response.created"
        };
        let response = json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": []});
        let data = json!({"type": kind, "sequence_number": number, "response": response});
        format!("event: {kind}\ndata: {data}\n\n")
    };
    let raw = Raw::new(vec![
        stream(
            &(event(0, "in_progress") + &event(1, "completed"))
        );
        2
    ])
    .await;
    let proxy = raw.proxy(keeping()).await;
    let ask = post(r#"{"model":"m","stream":true,"input":"x"}"#)
        .replace("/v1/chat/completions", "/v1/responses");
    let ask = with(&ask, "x-restitch-keep: 30\r\nauthorization: Bearer sk-1");
    let get =
        "GET /v1/responses/resp_1?stream=true HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let get = with(get, "authorization: Bearer sk-1");
    let first = exchange(proxy.addr(), &ask).await;
    assert_eq!(
        body_of(&exchange(proxy.addr(), &get).await),
        body_of(&first)
    );
    let second = exchange(proxy.addr(), &ask).await;
    let response = expect(proxy.addr(), &get, 409).await;
    response.has("several_streams");
    let delete = about("DELETE", header(&first, "x-restitch-stream"), "");
    expect(proxy.addr(), &delete, 204).await;
    assert_eq!(
        body_of(&exchange(proxy.addr(), &get).await),
        body_of(&second)
    );
    assert_eq!(raw.asked(), 2);
    proxy.shutdown().await;
}

#[tokio::test]
async fn requests_for_the_rest_are_counted_and_their_ids_not_logged() {
    let (log, _listening) = listening();
    let (raw, _, go) = waiting(1, keeping()).await;
    let proxy = raw
        .unbound(keeping())
        .admin(Some(([127, 0, 0, 1], 0).into()))
        .start()
        .await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let mut reader = begin(proxy.addr(), &about("GET", &id, "")).await;
    read_until(&mut reader, "id: 1-2\n\n").await;
    go.notify_one();
    read_to_end(&mut reader).await;
    exchange(proxy.addr(), &about("GET", &id, "")).await;
    exchange(proxy.addr(), &about("GET", &id, "").replace("sk-1", "sk-2")).await;
    let metrics = get_at(proxy.admin_addr().unwrap(), "/metrics").await;
    for outcome in ["running", "ended", "unknown"] {
        let line = format!("restitch_resumes_total{{outcome=\"{outcome}\"}} 1");
        metrics.of(&line).has(&line);
    }
    proxy.shutdown().await;
    let log = log.text();
    log.has("path=\"/streams/*\"").lacks(&id).lacks("sk-1");
}

#[tokio::test]
async fn a_client_that_stays_gets_the_same_events() {
    let (_raw, proxy, go) = waiting(1, keeping()).await;
    go.notify_one();
    let response = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(header(&response, "x-restitch-keep"), "30");
    assert_eq!(body_of(&response), (numbered(&five(), 1), true));
    proxy.shutdown().await;
}
