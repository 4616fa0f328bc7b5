//! What a client is told of an answer that is not kept.

use super::super::page::LOOPBACK;
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
            let proxy = with_routes(raw.unbound(limits), &[&other], &routes).bind(LOOPBACK).await.unwrap();
            let response =
                exchange(proxy.addr(), &with(&post(body), &format!("x-restitch-keep: 30\r\n{header_line}"))).await;
            let expected = format!("0; reason=\"{reason}\"");
            assert_eq!(header(&response, "x-restitch-keep"), expected, "{routes}{header_line}: {}", body.len());
            assert_eq!(body_of(&response), (five().concat(), true));
            proxy.shutdown().await;
        }
    }
}
