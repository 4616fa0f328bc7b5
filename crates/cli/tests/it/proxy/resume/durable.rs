//! Kept answers as a client of the Durable Streams protocol reads them.

use super::*;
use restitch_testing::says::Says;

/// Returns a request for bytes of a kept answer.
fn bytes(id: &str, query: &str) -> String {
    about("GET", id, "").replacen(" HTTP/1.1", &format!("?{query} HTTP/1.1"), 1)
}

fn offset(response: &str) -> &str {
    header(response, "stream-next-offset")
}

#[tokio::test]
async fn a_client_reads_from_offsets() {
    let (raw, proxy, go) = waiting(1, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let ask = async |query: &str| exchange(proxy.addr(), &bytes(&id, query)).await;
    let head = exchange(proxy.addr(), &about("HEAD", &id, "")).await;
    let first = ask("offset=-1").await;
    assert_eq!(body_of(&first), (numbered(&five()[..2], 1), true));
    assert_eq!(header(&first, "stream-up-to-date"), "true");
    first.of(&head).lacks("stream-closed");
    head.lacks("stream-closed");
    let tail = offset(&first).to_owned();
    assert_eq!(offset(&head), tail.as_str());
    assert_eq!(offset(&ask("offset=now").await), tail.as_str());
    // The poll waits for the next event.
    let mut poll = begin(
        proxy.addr(),
        &bytes(&id, &format!("offset={tail}&live=long-poll")),
    )
    .await;
    let mut live = begin(
        proxy.addr(),
        &bytes(&id, &format!("offset={tail}&live=sse")),
    )
    .await;
    let begun = read_until(&mut live, "\n\n").await;
    begun.has("\"upToDate\":true").has(&tail);
    go.notify_one();
    let polled = read_to_end(&mut poll).await;
    assert_eq!(status(&polled), "200 OK", "{polled}");
    assert!(offset(&polled) > tail.as_str(), "{polled}");
    body_of(&polled)
        .0
        .of(polled)
        .begins(numbered(&five()[2..3], 3));
    let events = read_to_end(&mut live).await;
    events.has("event: data\ndata:data: {");
    events.has("\"streamClosed\":true");
    // The whole text and its end; the reply for a client that has all events is empty.
    let whole = ask("offset=-1").await;
    assert_eq!(body_of(&whole), (numbered(&five(), 1), true));
    assert_eq!(header(&whole, "stream-closed"), "true");
    let end = offset(&whole).to_owned();
    let known = format!(
        "if-none-match: {}\r\nauthorization:",
        header(&whole, "etag")
    );
    let again = bytes(&id, "offset=-1").replace("authorization:", &known);
    expect(proxy.addr(), &again, 304).await;
    assert_eq!(
        body_of(&ask(&format!("offset={end}")).await),
        (String::new(), true)
    );
    let polled = ask(&format!("offset={end}&live=long-poll")).await;
    assert_eq!(status(&polled), "204 No Content");
    assert_eq!(header(&polled, "stream-closed"), "true");
    assert_eq!(raw.asked(), 1);
    proxy.shutdown().await;
}

#[tokio::test]
async fn what_is_no_offset_is_refused() {
    let (_raw, proxy, _) = waiting(1, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    for query in [
        "offset=",
        "offset=1-1",
        "offset=x",
        "offset=1_9",
        "offset=-1&offset=-1",
        "offset=1%2C2",
        "live=sse",
        "offset=-1&live=ws",
        "offset=99999999999999999999_0",
    ] {
        expect(proxy.addr(), &bytes(&id, query), 400).await;
    }
    let other = bytes(&id, "offset=-1").replace("sk-1", "sk-2");
    let response = expect(proxy.addr(), &other, 404).await;
    assert_eq!(header(&response, "x-content-type-options"), "nosniff");
    proxy.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_broke_off_says_so() {
    let raw = Raw::new(vec![vec![
        send(format!("{STREAM}{}{}", chunk("[1, "), chunk("2"))),
        Piece::Reset,
    ]])
    .await;
    let mut limits = keeping();
    limits.continuation.max_continuations = 0;
    let proxy = raw.proxy(limits).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let whole = loop {
        let response = exchange(proxy.addr(), &bytes(&id, "offset=-1&live=sse")).await;
        if response.contains("streamClosed") {
            break response;
        }
    };
    whole.has("\"restitchState\":\"broken\"");
    let read = exchange(proxy.addr(), &bytes(&id, "offset=-1")).await;
    assert_eq!(header(&read, "stream-closed"), "true");
    assert_eq!(header(&read, "x-restitch-state"), "broken");
    proxy.shutdown().await;
}
