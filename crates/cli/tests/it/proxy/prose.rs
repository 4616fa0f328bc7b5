//! Prose over sockets, with an upstream that breaks off at a byte.

use restitch::Limits;
use restitch::session::{GiveUp, Prose};
use serde_json::Value;

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

fn text_of(body: &str) -> String {
    let events = body
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    events
        .filter_map(|event| {
            event["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}

/// Returns a response in chunks that breaks off after `body`.
fn broken(body: &str) -> Vec<Piece> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![send(format!("{head}{:x}\r\n{body}\r\n", body.len()))]
}

/// Returns the client's answer and the upstream's requests.
async fn asked(prose: Prose, answers: Vec<Vec<Piece>>) -> (String, bool, Vec<String>) {
    let upstream = Raw::new(answers).await;
    let proxy = upstream
        .unbound(Limits::default())
        .prose(prose)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let (body, whole) = body_of(&exchange(proxy.addr(), &post(ASK)).await);
    let requests = upstream.requests.lock().unwrap().clone();
    (body, whole, requests)
}

#[tokio::test]
async fn prose_that_breaks_off_at_a_byte_goes_on_where_its_anchor_comes_again() {
    let whole = events(TEXT);
    for cut in (230..whole.len()).step_by(61) {
        let first = &whole[..cut];
        let delivered = text_of(&first[..first.rfind("\n\n").map_or(0, |at| at + 2)]);
        let is_finished = first.contains("\"stop\"}],\"id\"")
            || first.matches("\n\n").count() >= whole.matches("\n\n").count() - 1;
        // The model repeats the last letters, and continues.
        let from = delivered.trim_end().len().saturating_sub(48);
        let rest = events(&TEXT[from..]);
        let (body, ended, requests) = asked(
            Prose::Anchor,
            vec![broken(first), stream(&rest), stream(&rest)],
        )
        .await;
        if is_finished {
            assert_eq!(requests.len(), 1, "{body}");
            continue;
        }
        assert_eq!(text_of(&body), TEXT, "{cut}: {body}");
        assert!(
            ended && body.ends_with("data: [DONE]\n\n") && body.contains("\"status\":\"complete\""),
            "{body}"
        );
        // That nothing follows must be said twice.
        let calls = if delivered == TEXT { 3 } else { 2 };
        assert!(
            requests.len() == calls && requests[1].contains("overlap_context"),
            "{requests:?}"
        );
        // Without the setting the client has the delivered text and sees that it is incomplete.
        let (body, ended, requests) = asked(Prose::Pass, vec![broken(first)]).await;
        assert_eq!(
            (text_of(&body), ended, requests.len()),
            (delivered, false, 1),
            "{cut}"
        );
        assert!(first.starts_with(&body), "{body}");
    }
}

#[tokio::test]
async fn prose_that_no_answer_goes_on_with_ends_as_it_was_cut() {
    let first: String = events(TEXT).split_inclusive("\n\n").take(8).collect();
    let refusal =
        || stream(&(chunk("I am sorry, but I can't continue that text.") + &finish("stop")));
    let answers = vec![broken(&first), refusal(), refusal(), refusal()];
    let (body, whole, requests) = asked(Prose::Anchor, answers).await;
    assert_eq!(
        (text_of(&body), whole, requests.len()),
        (text_of(&first), false, 4),
        "{body}"
    );
    assert!(
        body.starts_with(&first) && !body.contains("[DONE]"),
        "{body}"
    );
    let limit = chunk(TEXT) + &finish("length");
    let (body, whole, requests) = asked(Prose::Anchor, vec![stream(&limit)]).await;
    assert_eq!(
        (body.as_str(), whole, requests.len()),
        (limit.as_str(), true, 1)
    );
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
    );
    let proxy = proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let continued = exchange(proxy.addr(), &post(ASK)).await;
    assert_eq!(text_of(&body_of(&continued).0), TEXT);
    let passed = exchange(proxy.addr(), &post(&ASK.replace("\"m\"", "\"n\""))).await;
    assert_eq!(text_of(&body_of(&passed).0), text_of(&first));
}
