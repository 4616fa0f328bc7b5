//! Answers that two proxies keep together, in a Redis server.

mod life;
mod lost;
mod taken;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use restitch::Limits;
use restitch_proxy::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::super::raw::*;
use super::{
    about, after, ask_and_leave, ask_kept, expect, five, header, keeping, numbered, pausing,
    processes, two_readers, unfinished,
};
use restitch_testing::skipped;

/// A Redis server on a Unix socket of its own. Dropping it ends it.
pub(super) struct Redis {
    folder: PathBuf,
    server: Child,
}

impl Redis {
    /// Starts a server. Returns `None`, with a message, if its program is missing.
    pub(super) async fn start() -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The path of a socket is short.
        let folder = std::env::temp_dir().join(format!("restitch-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = match Self::spawn(&folder) {
            Ok(server) => server,
            Err(error) => {
                skipped(&format!(
                    "redis-server: {error}; scripts/test-tools installs it"
                ));
                return None;
            }
        };
        let redis = Self { folder, server };
        redis.answers().await;
        Some(redis)
    }

    fn spawn(folder: &Path) -> std::io::Result<Child> {
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder);
        command.arg("--unixsocket").arg(folder.join("redis.sock"));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command.spawn()
    }

    async fn answers(&self) {
        let answers = async {
            while UnixStream::connect(self.socket()).await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(HANGS, answers)
            .await
            .expect("redis-server does not start");
    }

    /// Starts the server again after it was killed.
    async fn restart(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        self.server = Self::spawn(&self.folder).unwrap();
        self.answers().await;
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Sends a command, and returns the first bytes of its answer.
    pub(super) async fn say(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).await.unwrap();
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn proxy(raw: &Raw, redis: &Redis, limits: Limits) -> Server {
    let proxy = raw.unbound(limits).store(redis.url());
    proxy.start().await
}

/// An upstream whose answer waits after its second event.
async fn waiting() -> (Raw, Arc<tokio::sync::Notify>) {
    let go = Arc::new(tokio::sync::Notify::new());
    (Raw::new(vec![pausing(&go)]).await, go)
}

#[tokio::test]
async fn every_proxy_has_every_answer() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (raw, go) = waiting().await;
    let (a, b) = (
        proxy(&raw, &redis, keeping()).await,
        proxy(&raw, &redis, keeping()).await,
    );
    let id = ask_and_leave(&a, &ask_kept()).await;
    let response = exchange(b.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "running");
    assert_eq!(header(&response, "last-event-id"), "1-2");
    let mut reader = begin(b.addr(), &about("GET", &id, &after("1-1"))).await;
    read_until(&mut reader, "id: 1-2\n\n").await;
    go.notify_one();
    read_to_end(&mut reader).await.has("id: 1-5\n\n");
    let events = five();
    for proxy in [&a, &b] {
        for has in 0..=5 {
            let headers = if has == 0 {
                String::new()
            } else {
                after(&format!("1-{has}"))
            };
            let response = exchange(proxy.addr(), &about("GET", &id, &headers)).await;
            assert_eq!(
                body_of(&response),
                (numbered(&events[has..], has + 1), true),
                "after {has}"
            );
        }
        expect(
            proxy.addr(),
            &about("GET", &id, "").replace("sk-1", "sk-2"),
            404,
        )
        .await;
        expect(proxy.addr(), &about("GET", &id, &after("1-6")), 400).await;
        let again = super::with(
            &post(ASK),
            "authorization: Bearer sk-1\r\nlast-event-id: 1-3",
        );
        assert_eq!(
            body_of(&exchange(proxy.addr(), &again).await),
            (numbered(&events[3..], 4), true)
        );
    }
    assert_eq!(raw.asked(), 1);
    // No credential is in the store.
    for (kind, key) in [("HGETALL", "meta"), ("XRANGE", "log")] {
        let range = if kind == "XRANGE" { " - +" } else { "" };
        let stored = redis
            .say(&format!("{kind} restitch:{{{id}}}:{key}{range}"))
            .await;
        assert!(stored.len() > 50, "{stored}");
        stored.lacks("sk-1");
    }
    expect(b.addr(), &about("DELETE", &id, ""), 204).await;
    expect(a.addr(), &about("GET", &id, ""), 404).await;
}

#[tokio::test]
async fn an_answer_is_stopped_from_another_proxy_and_expires_for_all() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let raw = Raw::new(vec![unfinished(); 2]).await;
    let (a, b) = (
        proxy(&raw, &redis, keeping()).await,
        proxy(&raw, &redis, keeping()).await,
    );
    let (log, _listening) = listening();
    let said = |text: &str| log.text().contains(text);
    let id = ask_and_leave(&a, &ask_kept()).await;
    expect(b.addr(), &about("DELETE", &id, ""), 204).await;
    raw.wait(|state| state.left == 1).await;
    assert!(said("the store has it no longer") && !said("nobody has read it"));
    let id = ask_and_leave(
        &a,
        &ask_kept().replace("x-restitch-keep: 30", "x-restitch-keep: 1"),
    )
    .await;
    raw.wait(|state| state.left == 2).await;
    assert!(said("nobody has read it"));
    for proxy in [&a, &b] {
        expect(proxy.addr(), &about("GET", &id, ""), 410).await;
    }
}

/// A process that was taken for dead writes nothing more, also if it is not.
#[tokio::test]
async fn the_server_refuses_what_a_fenced_process_writes() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (log, _listening) = listening();
    let (raw, go) = waiting().await;
    let a = proxy(&raw, &redis, keeping()).await;
    let id = ask_and_leave(&a, &ask_kept()).await;
    assert_eq!(
        redis
            .say(&format!("XADD restitch:{{{id}}}:log 2-0 f other"))
            .await,
        "$3\r\n2-0\r\n"
    );
    let mut reader = begin(a.addr(), &about("GET", &id, "")).await;
    read_until(&mut reader, "id: 1-2\n\n").await;
    go.notify_one();
    let refused = async {
        while !log.text().contains("a kept answer cannot be written") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANGS, refused)
        .await
        .expect("the process notices no fence");
    // The proxy sends only the log's entries: an opening, two events, a fence.
    assert_eq!(
        redis.say(&format!("XLEN restitch:{{{id}}}:log")).await,
        ":4\r\n"
    );
    let response = exchange(a.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "running");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_at_the_start() {
    let (log, _guard) = listening();
    let raw = Raw::new(vec![full("[1]")]).await;
    let proxy = raw
        .unbound(keeping())
        .store("redis+unix:///nowhere/redis.sock")
        .start()
        .await;
    log.text().has("the store can't be reached");
    // Answers pass without being kept.
    let answer = exchange(proxy.addr(), &ask_kept()).await;
    assert!(body_of(&answer).1, "{answer}");
    answer.has("[1]");
}

#[tokio::test]
async fn clients_get_whole_documents_whichever_proxy_is_killed() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    processes::kill_again_and_again(&redis.url(), 2).await;
}
