//! The text of requests and answers in the log, where the operator asks for it, and never a key.

use restitch::Limits;
use tokio::io::AsyncWriteExt;

use super::logged::{Log, listen};
use super::raw::*;
use crate::proxy::made::Access;

/// Returns the lines of the log that have text of requests and answers.
fn lines(log: &Log) -> Vec<String> {
    let log = log.0.lock().unwrap();
    log.split("message=")
        .filter(|line| line.contains(" from="))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn texts_are_logged_when_that_is_wanted_and_keys_are_not() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let raw = Raw::new(vec![
        stream(&(chunk("[\"said sk-se") + &chunk("cret-1\", 2") + &finish("length"))),
        vec![send("HTTP/1.1 404 x\r\ncontent-length: 17\r\nconnection: close\r\n\r\nno key sk-secret-")],
        stream(&(chunk("[\"said sk-secret-1\", 20]") + &finish("stop"))),
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 66\r\nconnection: close\r\n\r\n\
             {\"choices\":[{\"index\":0,\"message\":{\"content\":\"[1]\"},\"x\":\"token-2\"}]}",
        )],
    ])
    .await;
    let access = Access {
        token: Some("long-proxy-token-2".to_owned()),
        ..Access::default()
    };
    let proxy = raw
        .unbound(Limits::default())
        .access(access)
        .log_content(true);
    let proxy = proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    assert!(
        log.0
            .lock()
            .unwrap()
            .contains("message=log_content: the log has the text of requests and answers")
    );
    let keys = "host: h\r\nx-request-id: mine\r\nx-restitch-token: long-proxy-token-2\r\nauthorization: Bearer sk-secret-1";
    for body in [ASK, ASK_WHOLE] {
        let body = body.replace("\"x\"", "\"asked \\u0073k-secret-1 long-proxy-token-2\"");
        exchange(proxy.addr(), &post(&body).replace("host: h", keys)).await;
    }
    let seen = lines(&log);
    let all = seen.join("\n");
    assert!(
        !all.contains("secret-1") && !all.contains("proxy-token"),
        "{all}"
    );
    assert!(
        all.contains("request call=0 from=0 text=\"{\\\"model\\\":\\\"m\\\""),
        "{all}"
    );
    assert!(all.contains("asked [key] [key]"), "{all}");
    // The text is that which the client got, in as few lines as it fits in.
    assert!(
        all.contains("answer slot=text 0 from=0 text=\"[\\\"said [key]\\\", 20]\""),
        "{all}"
    );
    assert!(
        all.contains("answer call=0 from=0 text=\"{\\\"choices\\\""),
        "{all}"
    );
}

#[tokio::test]
async fn lines_of_texts_are_bounded() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let long = format!("[\"x{}\"]", "é".repeat(50_000));
    let raw = Raw::new(vec![stream(&(chunk(&long) + &finish("stop")))]).await;
    let proxy = raw
        .unbound(Limits::default())
        .log_content(true)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    exchange(proxy.addr(), &post(ASK)).await;
    let seen = lines(&log);
    assert!(
        seen.iter().all(|line| line.len() < 5_000),
        "{:?}",
        seen.iter().map(String::len).collect::<Vec<_>>()
    );
    // The log has 64 KiB of the 100,005 bytes, in lines of at most 4 KiB that end at a character.
    // The last line counts the rest.
    let left_out: Vec<_> = seen
        .iter()
        .filter(|line| line.contains("left_out=34469"))
        .collect();
    assert!(
        left_out.len() == 1 && seen.last() == left_out.first().copied(),
        "{left_out:?}"
    );
    assert_eq!(seen.len(), 1 + 17 + 1);
}

/// The log has the text that a client received, even if the client leaves.
#[tokio::test]
async fn the_text_of_a_client_that_leaves_is_logged() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let raw = Raw::new(vec![vec![
        send(format!("{STREAM}{}", chunk("[1, 2"))),
        Piece::Hold,
    ]])
    .await;
    let proxy = raw
        .unbound(Limits::default())
        .log_content(true)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let mut client = connect(proxy.addr()).await;
    client.write_all(post(ASK).as_bytes()).await.unwrap();
    read_until(&mut client, "[1, 2").await;
    drop(client);
    raw.wait(|state| state.left == 1).await;
    for _ in 0..1000 {
        if lines(&log)
            .iter()
            .any(|line| line.contains("text=\"[1, 2\""))
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:?}", lines(&log));
}

/// The operator's keys are no request's, and an upstream may quote them.
#[tokio::test]
async fn keys_of_fallbacks_are_not_logged() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let failed = "HTTP/1.1 500 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let base = Raw::new(vec![vec![send(failed)]]).await;
    let other = Raw::new(vec![stream(&(chunk("[\"key-of-K\"]") + &finish("stop")))]).await;
    let routes = "[[route]]\nfallback = [{ upstream = \"{0}\", key = \"env:K\" }]\n";
    let proxy = super::routes::with_routes(
        base.unbound(Limits::default()).log_content(true),
        &[&other],
        routes,
    );
    let proxy = proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    assert!(answer.contains("key-of-K"), "{answer}");
    let all = log.0.lock().unwrap().clone();
    assert!(
        all.contains("text=\"[\\\"[key]\\\"]\"") && !all.contains("key-of-K"),
        "{all}"
    );
}

/// Returns an event with text of one choice.
fn chunk_of(choice: u32, text: &str) -> String {
    let data =
        serde_json::json!({"id": "a", "choices": [{"index": choice, "delta": {"content": text}}]});
    format!("data: {data}\n\n")
}

/// A model that echoes a key writes it token by token, and with several choices in turn.
#[tokio::test]
async fn keys_are_not_logged_in_pieces() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let tokens = ["[\"sk-", "secr", "et-1", "\"]"];
    let choices = tokens
        .map(|token| chunk_of(0, token) + &chunk_of(1, token))
        .concat();
    let raw = Raw::new(vec![stream(&(choices + "data: [DONE]\n\n"))]).await;
    let proxy = raw
        .unbound(Limits::default())
        .log_content(true)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let asked = post(&ASK.replace("\"m\",", "\"m\",\"n\":2,"));
    exchange(
        proxy.addr(),
        &asked.replace("host: h", "host: h\r\nauthorization: Bearer sk-secret-1"),
    )
    .await;
    let all = lines(&log).join("\n");
    for choice in [0, 1] {
        assert!(
            all.contains(&format!(
                "answer slot=text {choice} from=0 text=\"[\\\"[key]\\\"]\""
            )),
            "{all}"
        );
    }
    assert!(!all.contains("secr") && !all.contains("et-1"), "{all}");
}

/// The limit for logged bytes may split a key: the log omits and counts half a key, too.
#[tokio::test]
async fn half_a_key_is_not_logged_at_the_limit() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let text = format!("[\"{}sk-secret-1\"]", "x".repeat((64 << 10) - 2 - 7));
    let raw = Raw::new(vec![stream(&(chunk(&text) + &finish("stop")))]).await;
    let proxy = raw
        .unbound(Limits::default())
        .log_content(true)
        .bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let asked = post(ASK).replace("host: h", "host: h\r\nauthorization: Bearer sk-secret-1");
    exchange(proxy.addr(), &asked).await;
    let seen = lines(&log);
    assert!(
        seen.iter().all(|line| !line.contains("sk-")),
        "{}",
        seen.last().unwrap()
    );
    // The key, a quote and a bracket.
    assert!(
        seen.last().unwrap().contains("left_out=13"),
        "{}",
        seen.last().unwrap()
    );
}
