//! Prose over sockets, with an upstream that breaks off at a byte.

use restitch::Limits;
use restitch::session::GiveUp;

use super::raw::*;
use super::routes::with_routes;

const TEXT: &str = "The harbour was quiet that morning. Nets hung over the rails, stiff with salt, and nobody spoke.\n\n\
    By noon the wind had turned. \"It will rain,\" said the pilot, and by evening it fell in torrents.";

/// Returns a whole answer, in events of a few letters.
fn events(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(11)
        .map(|piece| chunk(&piece.iter().collect::<String>()))
        .collect::<String>()
        + &finish("stop")
}

/// Returns a response in chunks that breaks off after `body`.
fn broken(body: &str) -> Vec<Piece> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![send(format!("{head}{:x}\r\n{body}\r\n", body.len()))]
}

#[tokio::test]
async fn a_route_says_whether_prose_is_continued() {
    let first: String = events(TEXT).split_inclusive("\n\n").take(8).collect();
    let upstream = Raw::new(vec![broken(&first), stream(&events(TEXT)), broken(&first)]).await;
    let routes = "[[route]]\nmodel = \"m\"\nprose = \"anchor\"\n[[route]]\nmodel = \"n\"\n";
    let proxy = with_routes(
        upstream.unbound(Limits::default()).give_up(GiveUp::Close),
        &[],
        routes,
    )
    .start()
    .await;
    let continued = exchange(proxy.addr(), &post(ASK)).await;
    assert_eq!(text_of(&body_of(&continued).0), TEXT);
    let passed = exchange(proxy.addr(), &post(&ASK.replace("\"m\"", "\"n\""))).await;
    assert_eq!(text_of(&body_of(&passed).0), text_of(&first));
}
