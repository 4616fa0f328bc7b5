//! A page in a real browser that follows a kept answer with `EventSource`.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::super::page::driver::Browser;
use super::*;
use crate::proxy::made::Access;

/// Passes connections on to a proxy, until they are cut.
async fn cable(to: std::net::SocketAddr, cut: Arc<Notify>) -> std::net::SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                let mut proxy = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut proxy) => {}
                    () = cut.notified() => {}
                }
            });
        }
    });
    addr
}

#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn a_page_gets_each_event_once_although_its_connection_is_lost() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let (go, cut) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let page = "<!DOCTYPE html><link rel=icon href=data:,><p>page";
    let page = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let raw = Raw::new(vec![vec![send(page)], pausing(&go)]).await;
    let access = Access {
        origins: vec!["*".to_owned()],
        ..Access::default()
    };
    let proxy = raw.unbound(keeping()).access(access).start().await;
    let addr = cable(proxy.addr(), Arc::clone(&cut)).await;
    browser.open(&format!("http://{addr}/page")).await;
    let ask = json!({"method": "POST", "headers": {"x-restitch-keep": "60"}, "body": ASK});
    let asked = format!(
        "fetch('/v1/chat/completions', {ask}).then(answer => \
         {{ window.id = answer.headers.get('x-restitch-stream'); return answer.body.cancel(); }})"
    );
    browser.run(&asked).await;
    browser.wait("window.id").await;
    let follow = "window.got = []; window.opened = 0; const source = new EventSource('/streams/' + window.id); \
                  source.onopen = () => window.opened++; \
                  source.onmessage = event => { got.push(event.lastEventId + ' ' + event.data); \
                  if (event.data === '[DONE]') source.close(); }";
    browser.run(follow).await;
    browser.wait("window.got.length === 2").await;
    cut.notify_waiters();
    browser.wait("window.opened === 2").await;
    go.notify_one();
    browser.wait("window.got.length >= 5").await;
    let expected: Vec<_> = (1..)
        .zip(five())
        .map(|(n, event)| format!("1-{n} {}", event[6..].trim_end()))
        .collect();
    assert_eq!(browser.run("return window.got").await, json!(expected));
    assert_eq!(raw.asked(), 2);
    browser.end().await;
}
