//! A server that fails while answers are kept in it.

use tokio::sync::Notify;

use super::super::super::raw::*;
use super::*;

/// Asks for a kept answer, reads its first two events with two clients, breaks the server, and
/// checks the rest that both get.
async fn while_it_is(broken: impl AsyncFnOnce(&mut Redis)) {
    let Some(mut redis) = Redis::start().await else {
        return;
    };
    let (log, _listening) = listening();
    let (raw, go) = waiting().await;
    let proxy = proxy(&raw, &redis, keeping()).await;
    let (_, [(mut client, mut seen), (mut reader, mut again)]) = two_readers(&proxy).await;
    broken(&mut redis).await;
    go.notify_one();
    seen += &read_to_end(&mut client).await;
    again += &read_to_end(&mut reader).await;
    assert_eq!(body_of(&seen), (numbered(&five(), 1), true));
    assert_eq!(body_of(&again), (numbered(&five()[1..], 2), true));
    assert_eq!(raw.asked(), 1);
    let log = log.text();
    log.has("the store failed: only those who are reading the answer get its rest");
}

/// Those who are connected get their answers whatever becomes of the server.
#[tokio::test]
async fn who_reads_an_answer_gets_it_to_its_end_although_the_server_is_gone() {
    while_it_is(async |redis| redis.server.kill().await.unwrap()).await;
}

#[tokio::test]
async fn who_reads_an_answer_gets_it_to_its_end_although_the_server_hangs() {
    let freeze = async |redis: &mut Redis| {
        let process = redis.server.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-STOP", &process])
                .status()
                .await
                .unwrap()
                .success()
        );
    };
    while_it_is(freeze).await;
}

/// An answer leaves the store once, for its first reason.
#[tokio::test]
async fn an_answer_that_outgrows_a_server_that_is_gone_is_counted_once() {
    let Some(mut redis) = Redis::start().await else {
        return;
    };
    let go = Arc::new(Notify::new());
    let long = chunk(&"x".repeat(5000)) + &chunk("\"]") + &finish("stop");
    let raw = Raw::new(vec![vec![
        opening("[\""),
        Piece::Await(Arc::clone(&go)),
        send(long),
    ]])
    .await;
    let mut limits = keeping();
    limits.keep.max_kept_answer_bytes = 3000;
    let loopback = ([127, 0, 0, 1], 0).into();
    let proxy = raw.unbound(limits).store(redis.url());
    let proxy = proxy.admin(Some(loopback)).start().await;
    let mut client = begin(proxy.addr(), &ask_kept()).await;
    let mut seen = read_until(&mut client, "id: 1-1\n\n").await;
    redis.server.kill().await.unwrap();
    go.notify_one();
    seen += &read_to_end(&mut client).await;
    assert!(body_of(&seen).1, "{seen}");
    seen.has("[DONE]");
    let metrics = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let metrics = exchange(proxy.admin_addr().unwrap(), metrics).await;
    let counted =
        |line: &&str| line.starts_with("restitch_answers_not_kept_total{") && !line.ends_with(" 0");
    let counted: Vec<_> = metrics.lines().filter(counted).collect();
    assert_eq!(
        counted,
        [r#"restitch_answers_not_kept_total{reason="max_kept_answer_bytes"} 1"#]
    );
}

/// A client whose last event is not in the log, since the server had failed, is not given what
/// another process has written.
#[tokio::test]
async fn an_event_that_the_log_does_not_have_is_refused() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let raw = taken::cut().await;
    let (a, b) = (
        proxy(&raw, &redis, keeping()).await,
        proxy(&raw, &redis, keeping()).await,
    );
    let id = ask_and_leave(&a, &ask_kept()).await;
    let (rest, is_whole) = body_of(&taken::come_back(&redis, &b, &id, "1-2").await);
    assert!(is_whole, "{rest}");
    rest.has("id: 2-1\n");
    for position in ["1-3", "1-9", "2-90", "7-1"] {
        expect(b.addr(), &about("GET", &id, &after(position)), 400).await;
        let (epoch, seq) = position.split_once('-').unwrap();
        let durable = about("GET", &format!("{id}?offset={epoch:0>20}_{seq:0>20}"), "");
        expect(b.addr(), &durable, 400).await;
    }
    for position in ["1-1", "1-2", "2-1"] {
        expect(b.addr(), &about("GET", &id, &after(position)), 200).await;
    }
    // An answer without its log is gone, even if a client has events from it.
    redis.say(&format!("DEL restitch:{{{id}}}:log")).await;
    expect(b.addr(), &about("GET", &id, &after("1-2")), 410).await;
}

/// The proxy starts, warns, and keeps answers as soon as the server is there.
#[tokio::test]
async fn a_server_that_is_gone_does_not_keep_the_proxy_from_starting() {
    let Some(mut redis) = Redis::start().await else {
        return;
    };
    redis.server.kill().await.unwrap();
    let (log, _listening) = listening();
    let raw = Raw::new(vec![stream(&five().concat()); 200]).await;
    let proxy = proxy(&raw, &redis, keeping()).await;
    let warning = "the store can't be reached: no answer is kept until it can";
    log.text().has(warning);
    let answer = exchange(proxy.addr(), &ask_kept()).await;
    assert!(
        header(&answer, "x-restitch-keep").starts_with('0'),
        "{answer}"
    );
    answer.begins("HTTP/1.1 200 ");
    assert_eq!(body_of(&answer), (five().concat(), true));
    redis.restart().await;
    let kept = async {
        while !exchange(proxy.addr(), &ask_kept())
            .await
            .contains("\r\nx-restitch-stream: ")
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(HANGS, kept)
        .await
        .expect("the proxy does not connect to the store again");
}

#[tokio::test]
async fn a_store_in_which_nothing_may_be_kept_is_told() {
    let (log, _listening) = listening();
    let raw = Raw::new(vec![]).await;
    let _proxy = raw
        .unbound(Limits::default())
        .store("file:/never-opened".to_owned())
        .bind(([127, 0, 0, 1], 0).into())
        .await;
    let told = log.text();
    told.has("no answer is kept in the store: set max_keep_time above 0");
}
