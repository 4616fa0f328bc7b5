//! The reply to a client whose answer is not kept, and limits after a reload.

use restitch_proxy::Loaded;
use tokio::time::timeout;

use super::super::raw::*;
use super::super::routes::with_routes;
use super::*;

#[tokio::test]
async fn an_answer_that_is_not_read_is_told_not_to_be_kept() {
    let off = "[[route]]\nmodel = \"m\"\ncontinuation = \"off\"\n";
    let fallback = "[[route.fallback]]\nupstream = \"{0}\"\n";
    let many = ASK.replace("\"stream\"", "\"n\":129,\"stream\"");
    let large = ASK.replace("\"x\"", &format!("\"{}\"", "x".repeat(3000)));
    for (routes, body, header_line) in [
        (String::new(), ASK, "x-restitch: off"),
        (off.to_owned(), ASK, "x-none: 1"),
        (off.to_owned() + fallback, ASK, "x-none: 1"),
        (String::new(), &many, "x-none: 1"),
        (String::new(), &large, "x-none: 1"),
    ] {
        for (allowed, reason) in [(60, "unread"), (0, "off")] {
            let mut limits = keeping().with_max_body_bytes(2000);
            limits.keep.max_keep_time = Duration::from_secs(allowed);
            let raw = Raw::new(vec![stream(&five().concat())]).await;
            let other = Raw::new(Vec::new()).await;
            let proxy = with_routes(raw.unbound(limits), &[&other], &routes)
                .start()
                .await;
            let response = exchange(
                proxy.addr(),
                &with(
                    &post(body),
                    &format!("x-restitch-keep: 30\r\n{header_line}"),
                ),
            )
            .await;
            let expected = format!("0; reason=\"{reason}\"");
            assert_eq!(
                header(&response, "x-restitch-keep"),
                expected,
                "{routes}{header_line}: {}",
                body.len()
            );
            assert_eq!(body_of(&response), (five().concat(), true));
            proxy.shutdown().await;
        }
    }
}

#[tokio::test]
async fn limits_of_kept_answers_are_read_again() {
    let (raw, _, go) = waiting(2, keeping()).await;
    let raw = Arc::new(raw);
    let loaded = Arc::clone(&raw);
    let loader = Arc::new(move || {
        let limits = keeping()
            .with_keep_alive_interval(Duration::from_millis(50))
            .with_max_line_bytes(100);
        Ok(Loaded {
            proxy: loaded.unbound(limits).build(),
            used: Box::new(|| ()),
        })
    });
    let proxy = raw.unbound(keeping()).loader(loader).start().await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    assert_eq!(proxy.reloader().reload().await, Ok(Vec::new()));
    let mut reader = begin(proxy.addr(), &about("GET", &id, &after("1-2"))).await;
    let told = timeout(
        Duration::from_secs(5),
        read_until(&mut reader, ": keep-alive\n\n"),
    );
    told.await.expect("the old interval holds");
    go.notify_one();
    // An answer that has begun keeps its limits.
    read_to_end(&mut reader).await.has("id: 1-5\n\n");
    proxy.shutdown().await;
}
