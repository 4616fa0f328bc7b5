//! Answers that two proxies keep together, in a Redis server.

mod life;
mod taken;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use restitch::Limits;
use restitch::internal::client::{Body, Client, Upstream};
use restitch::internal::proxy::Server;
use restitch::sim::Sim;
use restitch::sse::Decoder;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::raw::*;
use super::super::{DOCUMENT, request};
use super::{about, after, ask_and_leave, ask_kept, five, header, keeping, numbered, status};
use crate::support::Rng;

/// A Redis server on a Unix socket of its own. Dropping it ends it.
struct Redis {
    folder: PathBuf,
    _server: Child,
}

impl Redis {
    /// Starts a server. `None`, which is told, if there is no program for it.
    async fn start() -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The path of a socket is short.
        let folder = std::env::temp_dir().join(format!("restitch-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"]).arg(&folder);
        command.arg("--unixsocket").arg(folder.join("redis.sock"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let server = match command.spawn() {
            Ok(server) => server,
            Err(error) => {
                // Standard error is not captured, so that it is seen without a flag.
                let _ = writeln!(io::stderr(), "SKIPPED: redis-server: {error}");
                return None;
            }
        };
        let redis = Self { folder, _server: server };
        let answers = async {
            while UnixStream::connect(redis.socket()).await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(HANGS, answers).await.expect("redis-server does not start");
        Some(redis)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Sends a command, and returns the first bytes of its answer.
    async fn say(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).await.unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
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
    proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap()
}

/// An upstream whose answer waits after its second event.
async fn waiting() -> (Raw, Arc<tokio::sync::Notify>) {
    let go = Arc::new(tokio::sync::Notify::new());
    let events = five();
    let pieces = vec![
        send(format!("{STREAM}{}", events[..2].concat())),
        Piece::Await(Arc::clone(&go)),
        send(events[2..].concat()),
    ];
    (Raw::new(vec![pieces]).await, go)
}

#[tokio::test]
async fn every_proxy_has_every_answer() {
    let Some(redis) = Redis::start().await else { return };
    let (raw, go) = waiting().await;
    let (a, b) = (proxy(&raw, &redis, keeping()).await, proxy(&raw, &redis, keeping()).await);
    let id = ask_and_leave(&a, &ask_kept()).await;
    let response = exchange(b.addr(), &about("HEAD", &id, "")).await;
    assert_eq!((header(&response, "x-restitch-state"), header(&response, "last-event-id")), ("running", "1-2"));
    let mut reader = connect(b.addr()).await;
    reader.write_all(about("GET", &id, &after("1-1")).as_bytes()).await.unwrap();
    read_until(&mut reader, "id: 1-2\n\n").await;
    go.notify_one();
    assert!(read_to_end(&mut reader).await.contains("id: 1-5\n\n"));
    let events = five();
    for proxy in [&a, &b] {
        for has in 0..=5 {
            let headers = if has == 0 { String::new() } else { after(&format!("1-{has}")) };
            let response = exchange(proxy.addr(), &about("GET", &id, &headers)).await;
            assert_eq!(body_of(&response), (numbered(&events[has..], has + 1), true), "after {has}");
        }
        let response = exchange(proxy.addr(), &about("GET", &id, "").replace("sk-1", "sk-2")).await;
        assert_eq!(status(&response), "404 Not Found");
        let response = exchange(proxy.addr(), &about("GET", &id, &after("1-6"))).await;
        assert_eq!(status(&response), "400 Bad Request");
        let again = super::with(&post(ASK), "authorization: Bearer sk-1\r\nlast-event-id: 1-3");
        assert_eq!(body_of(&exchange(proxy.addr(), &again).await), (numbered(&events[3..], 4), true));
    }
    assert_eq!(raw.state.borrow().requests, 1);
    // No credential is in the store.
    for (kind, key) in [("HGETALL", "meta"), ("XRANGE", "log")] {
        let range = if kind == "XRANGE" { " - +" } else { "" };
        let stored = redis.say(&format!("{kind} restitch:{{{id}}}:{key}{range}")).await;
        assert!(stored.len() > 50 && !stored.contains("sk-1"), "{stored}");
    }
    assert_eq!(status(&exchange(b.addr(), &about("DELETE", &id, "")).await), "204 No Content");
    assert_eq!(status(&exchange(a.addr(), &about("GET", &id, "")).await), "404 Not Found");
}

#[tokio::test]
async fn an_answer_is_stopped_from_another_proxy_and_expires_for_all() {
    let Some(redis) = Redis::start().await else { return };
    let held = vec![send(format!("{STREAM}{}{}", chunk("[1"), chunk(", 2"))), Piece::Hold];
    let raw = Raw::new(vec![held; 2]).await;
    let (a, b) = (proxy(&raw, &redis, keeping()).await, proxy(&raw, &redis, keeping()).await);
    let id = ask_and_leave(&a, &ask_kept()).await;
    assert_eq!(status(&exchange(b.addr(), &about("DELETE", &id, "")).await), "204 No Content");
    raw.wait(|state| state.left == 1).await;
    let id = ask_and_leave(&a, &ask_kept().replace("x-restitch-keep: 30", "x-restitch-keep: 1")).await;
    raw.wait(|state| state.left == 2).await;
    for proxy in [&a, &b] {
        assert_eq!(status(&exchange(proxy.addr(), &about("GET", &id, "")).await), "410 Gone");
    }
}

/// A process that was taken for dead writes nothing more, also if it is not.
#[tokio::test]
async fn the_server_refuses_what_a_fenced_process_writes() {
    let Some(redis) = Redis::start().await else { return };
    let (raw, go) = waiting().await;
    let a = proxy(&raw, &redis, keeping()).await;
    let id = ask_and_leave(&a, &ask_kept()).await;
    assert_eq!(redis.say(&format!("XADD restitch:{{{id}}}:log 2-0 f other")).await, "$3\r\n2-0\r\n");
    let mut reader = connect(a.addr()).await;
    reader.write_all(about("GET", &id, "").as_bytes()).await.unwrap();
    read_until(&mut reader, "id: 1-2\n\n").await;
    go.notify_one();
    // Only what is in the log is sent: an opening, two events, a fence.
    raw.wait(|state| state.written > 0).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(redis.say(&format!("XLEN restitch:{{{id}}}:log")).await, ":4\r\n");
    let response = exchange(a.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "running");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_at_the_start() {
    let raw = Raw::new(vec![]).await;
    let proxy = raw.unbound(keeping()).store("redis+unix:///nowhere/redis.sock");
    let error = proxy.bind(([127, 0, 0, 1], 0).into()).await.unwrap_err();
    assert!(error.to_string().starts_with("the store: "), "{error}");
}

/// The program, as a process that can be killed.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    async fn start(upstream: &str, redis: &Redis) -> Self {
        let args = ["proxy", "--listen", "127.0.0.1:0", "--threads", "1", "--max-keep", "60", "--upstream", upstream];
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command.args(args).args(["--store", &redis.url()]).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    return rest.split(',').next().unwrap().to_owned();
                }
            }
            panic!("the proxy does not start");
        };
        let url = timeout(HANGS, url).await.unwrap();
        // Nobody reads its log, and a full pipe would stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, url }
    }

    /// Kills the process as `kill -9` does.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// The proxies that are up.
type Urls = Arc<std::sync::Mutex<[String; 2]>>;

/// A client that comes back until it has the whole answer. Returns how often it had to.
async fn read_whole(urls: Urls, mut at: usize, prompt: String) -> usize {
    let url = |at: usize| urls.lock().unwrap()[at % 2].clone();
    let (mut stream, mut last, mut back) = (None::<String>, String::new(), 0);
    let (mut text, mut positions, mut done) = (String::new(), Vec::<(u64, u64)>::new(), 0);
    while done == 0 {
        let client = Client::new(Upstream::parse(&url(at)).unwrap()).unwrap();
        let response = match &stream {
            None => {
                let uri = client.upstream().uri_for("/v1/chat/completions").unwrap();
                let post = http::Request::post(uri).header("x-restitch-keep", "60");
                let post = post.header("authorization", "Bearer sk-1").header("content-type", "application/json");
                client.send(post.body(Body::full(request(true, &prompt).to_string())).unwrap()).await
            }
            Some(id) => {
                back += 1;
                assert!(back < 100, "{prompt}: no end, after {last}: {text}");
                let uri = client.upstream().uri_for(&format!("/streams/{id}")).unwrap();
                let get = http::Request::get(uri).header("authorization", "Bearer sk-1");
                let get = if last.is_empty() { get } else { get.header("last-event-id", &last) };
                client.send(get.body(Body::full("")).unwrap()).await
            }
        };
        at += 1;
        let Ok(response) = response else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        assert_eq!(response.status(), 200, "after {last} of {stream:?}");
        stream = Some(response.headers()["x-restitch-stream"].to_str().unwrap().to_owned());
        let mut decoder = Decoder::new(&Limits::default());
        let mut frames = response.into_body();
        while let Some(Ok(frame)) = timeout(HANGS, frames.frame()).await.expect("the proxy hangs") {
            let data = frame.into_data().unwrap_or_default();
            let mut input = &data[..];
            while let Some(event) = decoder.next_event(&mut input).unwrap() {
                last = event.id.into_owned();
                let (epoch, seq) = last.split_once('-').unwrap();
                positions.push((epoch.parse().unwrap(), seq.parse().unwrap()));
                done += usize::from(event.data == "[DONE]");
                let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
                text += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            }
        }
    }
    assert_eq!(text, DOCUMENT, "{prompt}");
    assert!(positions.is_sorted_by(|a, b| a < b), "an event came twice: {positions:?}");
    assert_eq!(done, 1);
    back
}

/// Kills one of two proxies again and again in the middle of answers. `RESTITCH_KILLS=200` for a long run.
#[tokio::test]
async fn clients_get_whole_documents_whichever_proxy_is_killed() {
    const CLIENTS: usize = 8;
    let Some(redis) = Redis::start().await else { return };
    #[expect(clippy::disallowed_methods, reason = "a test takes the length of its run from the environment")]
    let kills = std::env::var("RESTITCH_KILLS").ok().map_or(4, |kills| kills.parse().unwrap());
    let sim = Sim::new(DOCUMENT, "answer | anchor".parse().unwrap()).chunk(4).delay(Duration::from_millis(15));
    let sim = sim.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut processes = [Process::start(&sim.url(), &redis).await, Process::start(&sim.url(), &redis).await];
    let urls: Urls = Arc::new(std::sync::Mutex::new([processes[0].url.clone(), processes[1].url.clone()]));
    let mut clients = JoinSet::new();
    let mut rng = Rng::new(11);
    let (mut asked, mut answers, mut back) = (0, 0, 0);
    for kill in 0..kills {
        while clients.len() < CLIENTS {
            let prompt = format!("question {asked}");
            clients.spawn(read_whole(Arc::clone(&urls), rng.below(2), prompt));
            asked += 1;
        }
        // An answer takes about a second.
        sleep(Duration::from_millis(300 + rng.below(400) as u64)).await;
        let next = Process::start(&sim.url(), &redis).await;
        let old = std::mem::replace(&mut processes[kill % 2], next);
        old.kill().await;
        urls.lock().unwrap()[kill % 2].clone_from(&processes[kill % 2].url);
        while let Some(client) = clients.try_join_next() {
            (answers, back) = (answers + 1, back + client.unwrap());
        }
    }
    while let Some(client) = clients.join_next().await {
        (answers, back) = (answers + 1, back + client.unwrap());
    }
    println!("{kills} kills, {answers} answers, clients came back {back} times");
    assert!(answers == asked && back >= kills, "{answers} of {asked} answers, clients came back {back} times");
}
