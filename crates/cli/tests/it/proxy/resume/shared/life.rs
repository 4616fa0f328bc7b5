//! How long entries on the server live, and the outcome for an answer whose process renews its
//! lease late.

use std::path::PathBuf;

use tokio::net::UnixListener;
use tokio::sync::Notify;

use super::*;

#[tokio::test]
async fn the_names_of_an_answer_live_as_long_as_what_is_known_of_it() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (raw, go) = waiting().await;
    let proxy = proxy(&raw, &redis, keeping()).await;
    let id = ask_and_leave(&proxy, &ask_kept()).await;
    let named = redis.say("KEYS restitch:name:*").await;
    let name = named
        .lines()
        .find(|line| line.starts_with("restitch:name:"))
        .unwrap();
    // It was named long ago.
    assert_eq!(redis.say(&format!("PEXPIRE {name} 1000")).await, ":1\r\n");
    let mut reader = begin(proxy.addr(), &about("GET", &id, "")).await;
    read_until(&mut reader, "id: 1-2\n\n").await;
    // Reading has given the name the life of the answer: twice its 30 seconds, and a minute.
    let left = redis.say(&format!("PTTL {name}")).await;
    let left: u64 = left.trim().trim_start_matches(':').parse().unwrap();
    assert!((110_000..=120_000).contains(&left), "{left}");
    go.notify_one();
    read_to_end(&mut reader).await;
    let again = super::super::with(
        &post(ASK),
        "authorization: Bearer sk-1\r\nlast-event-id: 1-3",
    );
    assert_eq!(
        body_of(&exchange(proxy.addr(), &again).await),
        (numbered(&five()[3..], 4), true)
    );
    // An answer that is gone is known for a while, by its names, too.
    redis.say(&format!("PEXPIRE {name} 1000")).await;
    redis.say(&format!("DEL restitch:{{{id}}}:log")).await;
    expect(proxy.addr(), &again, 410).await;
}

/// A request may be repeated for ever.
#[tokio::test]
async fn a_name_has_no_answers_of_which_nothing_is_known() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let raw = Raw::new(vec![stream(&five().concat()); 3]).await;
    let proxy = proxy(&raw, &redis, keeping()).await;
    for _ in 0..3 {
        let response = exchange(proxy.addr(), &ask_kept()).await;
        let named = redis.say("KEYS restitch:name:*").await;
        let name = named
            .lines()
            .find(|line| line.starts_with("restitch:name:"))
            .unwrap();
        assert_eq!(redis.say(&format!("SCARD {name}")).await, ":1\r\n");
        // As if it had expired long ago.
        let id = header(&response, "x-restitch-stream");
        redis
            .say(&format!("DEL restitch:{{{id}}}:log restitch:{{{id}}}:meta"))
            .await;
    }
}

/// A way to the server on which the first command with a text waits until it is let through.
struct Slow {
    path: PathBuf,
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Slow {
    fn new(redis: &Redis, text: &'static str) -> Self {
        let slow = Self {
            path: redis.folder.join("slow.sock"),
            reached: Arc::default(),
            go: Arc::default(),
        };
        let (listener, socket) = (UnixListener::bind(&slow.path).unwrap(), redis.socket());
        let (reached, go) = (Arc::clone(&slow.reached), Arc::clone(&slow.go));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                let (reached, go) = (Arc::clone(&reached), Arc::clone(&go));
                let (mut commands, mut to_client) = client.into_split();
                let (mut answers, mut to_server) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to_client).await });
                tokio::spawn(async move {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = commands.read(&mut bytes).await {
                        if String::from_utf8_lossy(&bytes[..read]).contains(text) {
                            reached.notify_one();
                            go.notified().await;
                        }
                        if to_server.write_all(&bytes[..read]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        slow
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.path.display())
    }
}

/// The process has not renewed its lease in time, and ends the answer while another process begins
/// to take it over.
#[tokio::test]
async fn an_answer_that_ends_before_it_is_taken_over_stays_whole() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (raw, go) = waiting().await;
    let a = proxy(&raw, &redis, keeping()).await;
    // What only the script of a take-over has.
    let slow = Slow::new(&redis, "HINCRBY");
    let b = raw.unbound(keeping()).store(slow.url()).start().await;
    let id = ask_and_leave(&a, &ask_kept()).await;
    let (addr, get) = (b.addr(), about("GET", &id, &after("1-2")));
    let response = tokio::spawn(async move { exchange(addr, &get).await });
    let is_taken = timeout(HANGS, async {
        loop {
            tokio::select! {
                () = slow.reached.notified() => break,
                () = sleep(Duration::from_millis(20)) => drop(redis.say(&format!("DEL restitch:{{{id}}}:lease")).await),
            }
        }
    });
    is_taken.await.expect("nobody takes it over");
    go.notify_one();
    while !redis
        .say(&format!("XREVRANGE restitch:{{{id}}}:log + - COUNT 1"))
        .await
        .contains("\r\ne\r\n")
    {
        sleep(Duration::from_millis(10)).await;
    }
    slow.go.notify_one();
    assert_eq!(
        body_of(&response.await.unwrap()),
        (numbered(&five()[2..], 3), true)
    );
    let response = exchange(a.addr(), &about("HEAD", &id, "")).await;
    assert_eq!(header(&response, "x-restitch-state"), "whole");
    assert_eq!(header(&response, "last-event-id"), "1-5");
    assert_eq!(raw.asked(), 1);
}
