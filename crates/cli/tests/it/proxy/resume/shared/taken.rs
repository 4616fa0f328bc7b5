//! Answers that another process takes over, and their room on the server.

use serde_json::{Value, json};

use super::super::super::fallbacks::messages;
use super::super::super::page::wait_for;
use super::super::super::raw::*;
use super::super::super::routes::with_routes;
use super::super::{room, slow};
use super::*;
use crate::proxy::made::TestProxy;

/// Counts the process that writes an answer as dead, and lets the client come back to another one.
pub(super) async fn come_back(redis: &Redis, to: &Server, id: &str, last: &str) -> String {
    let key = |part: &str| format!("'restitch:{{{id}}}:{part}'");
    let (meta, lease) = (key("meta"), key("lease"));
    // The process lives, and renews its lease until another one has the answer.
    let kill = format!(
        "EVAL \"if redis.call('HGET',{meta},'epoch') == '1' then redis.call('DEL',{lease}) end\" 0"
    );
    let request = about("GET", id, &after(last));
    let response = exchange(to.addr(), &request);
    tokio::pin!(response);
    loop {
        tokio::select! {
            response = &mut response => return response,
            () = sleep(Duration::from_millis(20)) => drop(redis.say(&kill).await),
        }
    }
}

/// An answer that is cut after two events, and its rest.
pub(super) async fn cut() -> Raw {
    Raw::new(vec![unfinished(), full("[1, 2, 3]")]).await
}

async fn bind(proxy: TestProxy, redis: &Redis) -> Server {
    proxy.store(redis.url()).start().await
}

#[tokio::test]
async fn an_answer_that_was_taken_over_is_shown_and_measured() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (log, _guard) = listening();
    let raw = cut().await;
    let a = bind(raw.unbound(keeping()), &redis).await;
    let b = bind(raw.unbound(keeping()).admin(Some(LOOPBACK)), &redis).await;
    let id = ask_and_leave(&a, &ask_kept()).await;
    let (rest, is_whole) = body_of(&come_back(&redis, &b, &id, "1-2").await);
    assert!(is_whole, "{rest}");
    rest.has("id: 2-1\n");
    // One name leads from the request to its takeover, and it is not the id.
    let told = log.text();
    let mut names: Vec<_> = told.split(" answer=").skip(1).collect();
    names.iter_mut().for_each(|name| *name = &name[..18]);
    assert!(names.len() >= 2, "{told}");
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    told.lacks(&id);
    let shown = wait_for(&b, |answer| answer["phase"] == "ended").await;
    assert_eq!(shown["end"], "whole", "{shown}");
    assert_eq!(shown["status"], 200, "{shown}");
    assert_eq!(shown["calls"], 1, "{shown}");
    let measured = get_at(b.admin_addr().unwrap(), "/metrics").await;
    measured.has_all([
        "restitch_running 0\n",
        "restitch_answers_total{route=\"default\",wire=\"openai-chat\"",
        "restitch_resumes_total{outcome=\"restored\"} 1",
    ]);
}

/// The request is kept without its `Host`, so its route is found by its name.
#[tokio::test]
async fn an_answer_that_was_taken_over_stays_on_its_route() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let route = "[[route]]\nname = \"two\"\nheader = { host = \"two\" }\nupstream = \"{0}\"\n";
    let off = route.to_owned() + "continuation = \"off\"\n";
    for (later, goes_on) in [(route, true), ("", false), (&off, false)] {
        let (base, two) = (cut().await, cut().await);
        let a = bind(with_routes(base.unbound(keeping()), &[&two], route), &redis).await;
        let b = bind(with_routes(base.unbound(keeping()), &[&two], later), &redis).await;
        let id = ask_and_leave(&a, &ask_kept().replace("host: h", "host: two")).await;
        let (_, is_whole) = body_of(&come_back(&redis, &b, &id, "1-2").await);
        assert_eq!(is_whole, goes_on, "{later}");
        let requests = [&base, &two].map(Raw::asked);
        assert_eq!(requests, [0, if goes_on { 2 } else { 1 }], "{later}");
        let response = exchange(b.addr(), &about("HEAD", &id, "")).await;
        assert_eq!(
            header(&response, "x-restitch-state"),
            if goes_on { "whole" } else { "broken" }
        );
    }
}

/// A process that takes over an answer asks the route's own upstream first, as for any rest, and
/// then its fallbacks.
#[tokio::test]
async fn an_answer_that_was_taken_over_has_the_fallbacks_of_its_route() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let refused = || respond("503 Service Unavailable", "");
    let rest = || full("[1, 2, 3]");
    let held = || held("[1, 2");
    let own =
        "[[route]]\nfallback = [{ upstream = \"{0}\", model = \"other\", key = \"env:K\" }]\n";
    let foreign = own.replace("\"env:K\"", "\"env:K\", wire = \"anthropic\"");
    for (case, routes, of_base, of_other) in [
        (
            "a fallback has begun, and goes on",
            own,
            vec![refused(), refused()],
            vec![held(), rest()],
        ),
        (
            "a fallback has begun, and the upstream is back",
            own,
            vec![refused(), rest()],
            vec![held()],
        ),
        (
            "a fallback goes on",
            own,
            vec![held(), refused()],
            vec![rest()],
        ),
        (
            "one of another API does",
            &foreign,
            vec![held(), refused()],
            vec![messages("[1, 2, 3]", "end_turn")],
        ),
        ("none does", own, vec![held(), refused()], vec![refused()]),
    ] {
        let calls = [of_base.len(), of_other.len()];
        let (base, other) = (Raw::new(of_base).await, Raw::new(of_other).await);
        let a = bind(
            with_routes(
                base.unbound(keeping().with_patience(Duration::ZERO)),
                &[&other],
                routes,
            ),
            &redis,
        )
        .await;
        let b = bind(
            with_routes(
                base.unbound(keeping().with_patience(Duration::ZERO)),
                &[&other],
                routes,
            ),
            &redis,
        )
        .await;
        let mut client = begin(a.addr(), &ask_kept()).await;
        let seen = read_until(&mut client, "[1, 2").await;
        let (body, is_whole) =
            body_of(&come_back(&redis, &b, header(&seen, "x-restitch-stream"), "").await);
        if case == "none does" {
            assert!(!is_whole && text_of(&body) == "[1, 2", "{case}: {body}");
            continue;
        }
        assert!(is_whole, "{case}: {body}");
        body.of(case).has("[DONE]").has("id: 2-1\n");
        assert_eq!(text_of(&body), "[1, 2, 3]", "{case}: {body}");
        assert_eq!([&base, &other].map(Raw::asked), calls, "{case}");
    }
}

/// The position of the last event may be one that the provider does not know.
#[tokio::test]
async fn an_answer_that_was_taken_over_is_asked_for_again_and_not_attached_to() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let place = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
    let with_place = |mut event: Value| {
        event
            .as_object_mut()
            .unwrap()
            .extend(place.as_object().unwrap().clone());
        event
    };
    let item = json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "store": true, "status": "in_progress", "model": "m", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        with_place(
            json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": "", "annotations": []}}),
        ),
        with_place(json!({"type": "response.output_text.delta", "delta": "[1, 2"})),
    ];
    let events = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    });
    let raw = Raw::new(vec![
        vec![
            send(format!("{STREAM}{}", events.collect::<String>())),
            Piece::Hold,
        ],
        Vec::new(),
    ])
    .await;
    let impatient = || keeping().with_patience(Duration::ZERO);
    let (a, b) = (
        proxy(&raw, &redis, impatient()).await,
        proxy(&raw, &redis, impatient()).await,
    );
    let ask = post(r#"{"model":"m","stream":true,"store":true,"input":"x"}"#)
        .replace("/v1/chat/completions", "/v1/responses");
    let ask = super::super::with(&ask, "x-restitch-keep: 30\r\nauthorization: Bearer sk-1");
    let mut client = begin(a.addr(), &ask).await;
    let seen = read_until(&mut client, "id: 1-4\n\n").await;
    let id = header(&seen, "x-restitch-stream");
    come_back(&redis, &b, id, "1-4").await;
    raw.wait(|state| state.requests >= 2).await;
    raw.request(1).begins("POST ");
}

#[tokio::test]
async fn readers_read_on_although_the_server_may_keep_no_more() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    room::reads_on(&redis.url()).await;
    let Some(redis) = Redis::start().await else {
        return;
    };
    room::make_room(&redis.url()).await;
}

#[tokio::test]
async fn an_answer_stays_on_the_server_while_its_client_is_behind() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    slow::makes_no_room(&redis.url()).await;
    // Twice the time between two looks of a proxy at the answers that are read.
    slow::does_not_expire(&redis.url(), Duration::from_secs(1)).await;
    slow::is_stopped_at_once(&redis.url()).await;
}

#[tokio::test]
async fn an_answer_that_could_not_be_named_takes_no_room() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let mut limits = keeping();
    limits.keep.max_kept_answers = 1;
    let raw = Raw::new(vec![
        unfinished(),
        stream(&five().concat()),
        stream(&five().concat()),
    ])
    .await;
    let proxy = proxy(&raw, &redis, limits).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    assert_eq!(
        redis
            .say(&format!("HEXISTS restitch:{{{id}}}:meta request"))
            .await,
        ":1\r\n"
    );
    expect(proxy.addr(), &about("DELETE", &id, ""), 204).await;
    // The same request has the same name, which the server refuses to add to.
    let named = redis.say("KEYS restitch:name:*").await;
    let name = named
        .lines()
        .find(|line| line.starts_with("restitch:name:"))
        .unwrap();
    redis.say(&format!("SET {name} wrong")).await;
    let response = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(header(&response, "x-restitch-keep"), "0; reason=\"store\"");
    redis.say(&format!("DEL {name}")).await;
    let response = exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(header(&response, "x-restitch-keep"), "30");
    // The request of an answer that has ended is of no use.
    let id = header(&response, "x-restitch-stream");
    assert_eq!(
        redis
            .say(&format!("HEXISTS restitch:{{{id}}}:meta request"))
            .await,
        ":0\r\n"
    );
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_to_whoever_asks_for_a_response() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let raw = Raw::new(vec![stream("data: theirs\n\n")]).await;
    let proxy = proxy(&raw, &redis, keeping()).await;
    drop(redis);
    let get =
        "GET /v1/responses/resp_1?stream=true HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let get = super::super::with(get, "authorization: Bearer sk-1");
    expect(proxy.addr(), &get, 503).await;
    assert_eq!(raw.asked(), 0);
}
