//! Callers that may find a kept answer by its request.

use super::super::Setup;
use super::super::raw::*;
use super::*;

/// A request without a credential has no known caller: the proxy can't tell whether a repeated
/// request comes from the same one.
#[tokio::test]
async fn without_a_credential_an_answer_is_found_by_its_id_alone() {
    for none in ["authorization: Bearer ", "cookie: session=1"] {
        let (raw, proxy, go) = waiting(2, keeping()).await;
        let id = ask_and_leave(
            &proxy,
            &with(&post(ASK), &format!("x-restitch-keep: 30\r\n{none}")),
        )
        .await;
        go.notify_one();
        let again = |headers: &str| {
            with(
                &post(ASK),
                &format!("{none}\r\nlast-event-id: 1-3{headers}"),
            )
        };
        let rest = numbered(&five()[3..], 4);
        let response = exchange(
            proxy.addr(),
            &again(&format!("\r\nx-restitch-stream: {id}")),
        )
        .await;
        assert_eq!(body_of(&response), (rest.clone(), true), "{none}");
        let by_id = about("GET", &id, &after("1-3")).replace("authorization: Bearer sk-1", none);
        assert_eq!(
            body_of(&exchange(proxy.addr(), &by_id).await),
            (rest, true),
            "{none}"
        );
        assert_eq!(raw.asked(), 1);
        // Without the id it is a request like any other.
        let mut client = begin(proxy.addr(), &again("")).await;
        raw.wait(|state| state.requests == 2).await;
        go.notify_one();
        let response = read_to_end(&mut client).await;
        assert_eq!(
            body_of(&response),
            (five().concat(), true),
            "{none}: {response}"
        );
        proxy.shutdown().await;
    }
}

/// The id of a response is the upstream's, and may be a number that somebody counts on.
#[tokio::test]
async fn without_a_credential_the_id_of_a_response_finds_nothing() {
    let setup = Setup::of("answer", |proxy| proxy.limits(keeping())).await;
    let ask = post(r#"{"model":"sim","stream":true,"input":"x"}"#)
        .replace("/v1/chat/completions", "/v1/responses");
    let response = exchange(setup.proxy.addr(), &with(&ask, "x-restitch-keep: 30")).await;
    let (whole, _) = body_of(&response);
    let id = whole
        .split("\"id\":\"resp")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let get = format!(
        "GET /v1/responses/resp{id}?stream=true HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
    );
    let response = exchange(setup.proxy.addr(), &get).await;
    response.lacks("x-restitch-stream");
    setup.proxy.shutdown().await;
}

/// One caller's answers fill the room: they make room for each other, and for another caller.
#[tokio::test]
async fn a_caller_with_many_answers_drops_none_of_another() {
    let raw = Raw::new(vec![vec![send(format!("{STREAM}{}", five().concat()))]; 6]).await;
    let mut limits = keeping();
    limits.keep.max_kept_answers = 3;
    let proxy = raw.proxy(limits).await;
    let as_other = |request: &str| request.replace("sk-1", "sk-2");
    let ask = async |request: &str| {
        let response = exchange(proxy.addr(), request).await;
        assert_eq!(header(&response, "x-restitch-keep"), "30", "{response}");
        header(&response, "x-restitch-stream").to_owned()
    };
    let other = ask(&as_other(&ask_kept())).await;
    let mut own = Vec::new();
    for _ in 0..5 {
        own.push(ask(&ask_kept()).await);
    }
    let response = exchange(proxy.addr(), &as_other(&about("GET", &other, ""))).await;
    assert_eq!(body_of(&response), (numbered(&five(), 1), true));
    let response = exchange(proxy.addr(), &about("GET", &own[2], "")).await;
    assert!(status(&response) == "410 Gone", "{response}");
    response.has("max_kept_answers");
    expect(proxy.addr(), &about("GET", &own[4], ""), 200).await;
    proxy.shutdown().await;
}
