//! Outages of an upstream, for streams and whole answers: it restarts, or asks for patience. The wire
//! cases show the events that a client of each API gets meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use restitch::Limits;
use restitch::internal::wire::{Dialect, SlotKind};
use restitch_proxy::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::clock::Clock;
use super::raw::*;
use super::routes::with_routes;
use crate::proxy::made::TestProxy;
use restitch_testing::answers::{answer, whole_body};
use restitch_testing::wires::{read_body, transcript};

/// Enough answers at a time for the breaker to open.
const ANSWERS: usize = 12;

const DOCUMENT: &str = "[{\"name\": \"Alma\", \"age\": 41}, {\"name\": \"Berta\", \"age\": 37}, {\"name\": \"Cilli\"}]";
const CUT: usize = 45;

/// The ways to ask for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Stream,
    Whole,
}

impl Ask {
    const BOTH: [Self; 2] = [Self::Stream, Self::Whole];

    fn request(self) -> String {
        match self {
            Self::Stream => post(ASK),
            Self::Whole => post(ASK_WHOLE),
        }
    }

    /// Returns a response whose text is `text`. `reason`: why it ends. `None`: a stream stops after
    /// its text, and a body in the middle.
    fn answer(self, text: &str, reason: Option<&str>) -> String {
        let (dialect, kind) = (Dialect::Chat, SlotKind::Text);
        if self == Self::Stream {
            return STREAM.to_owned() + &answer(dialect, kind, text, reason).stream();
        }
        let body = whole_body(dialect, kind, text, reason.unwrap_or("stop")).to_string();
        let length = body.len();
        let sent = if reason.is_some() { length } else { length / 2 };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        format!("{head}content-length: {length}\r\n\r\n{}", &body[..sent])
    }

    /// Returns a response that the limit has cut.
    fn cut(self) -> String {
        self.answer(&DOCUMENT[..CUT], Some("length"))
    }

    /// Returns the text of an answer, as a client reads it.
    fn text(self, response: &str) -> String {
        let (body, _) = body_of(response);
        let read = match self {
            Self::Stream => transcript(Dialect::Chat, body.as_bytes()),
            Self::Whole => read_body(Dialect::Chat, &body),
        };
        read.text.into_values().collect()
    }

    fn check(self, response: &str, context: &str) {
        assert!(body_of(response).1, "{self:?}, {context}: {response}");
        response
            .of(format!("{self:?}, {context}"))
            .begins("HTTP/1.1 200 ");
        assert_eq!(
            self.text(response),
            DOCUMENT,
            "{self:?}, {context}: {response}"
        );
        // A whole body that was lost is asked for anew, and passes.
        let is_told = self == Self::Whole || response.contains("\"status\":\"complete\"");
        assert!(is_told, "{self:?}, {context}: {response}");
    }
}

/// The upstream's script for a request. `true`: the request asks for the rest of an answer.
type Script = Arc<dyn Fn(bool) -> Vec<Piece> + Send + Sync>;

/// An upstream that is killed and started again at its address.
struct Mortal {
    addr: SocketAddr,
    life: JoinSet<()>,
    /// All requests so far, and the requests for the rest of an answer.
    seen: watch::Sender<[usize; 2]>,
}

impl Mortal {
    fn new() -> (Self, TcpSocket) {
        let socket = bound(([127, 0, 0, 1], 0).into());
        let addr = socket.local_addr().unwrap();
        (
            Self {
                addr,
                life: JoinSet::new(),
                seen: watch::channel([0; 2]).0,
            },
            socket,
        )
    }

    fn live(&mut self, socket: TcpSocket, script: Script) {
        let (listener, seen) = (socket.listen(256).unwrap(), self.seen.clone());
        self.life.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&script), seen.clone()));
            }
        });
    }

    /// Ends as a process that is killed: all its connections are reset, and further ones refused,
    /// while the socket that this returns does not listen.
    async fn die(&mut self) -> TcpSocket {
        self.life.shutdown().await;
        bound(self.addr)
    }

    async fn has_seen(&self, until: impl Fn(&[usize; 2]) -> bool) {
        let mut seen = self.seen.subscribe();
        tokio::time::timeout(HANGS, seen.wait_for(|seen| until(seen)))
            .await
            .expect("too few calls")
            .unwrap();
    }
}

/// Returns a socket that keeps its address and refuses connections.
fn bound(addr: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(addr).unwrap();
    socket
}

async fn serve(mut stream: TcpStream, script: Script, seen: watch::Sender<[usize; 2]>) {
    #[expect(deprecated, reason = "a linger of zero does not block")]
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    let is_of_rest = request.contains("overlap_context") || request.contains("Alma");
    let pieces = script(is_of_rest);
    seen.send_modify(|[all, rests]| (*all, *rests) = (*all + 1, *rests + usize::from(is_of_rest)));
    for piece in pieces {
        match piece {
            Piece::Send(bytes) => {
                let _ = stream.write_all(&bytes).await;
            }
            Piece::Hold => {
                let _ = stream.read(&mut [0; 64]).await;
            }
            _ => return,
        }
    }
    #[expect(deprecated, reason = "what was written is to arrive")]
    stream.set_linger(None).unwrap();
    let _ = stream.shutdown().await;
    // The peer closes first.
    let _ = stream.read(&mut [0; 64]).await;
}

async fn proxy_of(addr: SocketAddr, limits: Limits) -> Server {
    super::logged::watch_the_log();
    let proxy = TestProxy::new(format!("http://{addr}")).limits(limits);
    proxy.start().await
}

/// Sends `ANSWERS` requests at the same time.
async fn ask_together(addr: SocketAddr, request: &str) -> Vec<String> {
    let client = || {
        let request = request.to_owned();
        async move { exchange(addr, &request).await }
    };
    (0..ANSWERS)
        .map(|_| client())
        .collect::<JoinSet<_>>()
        .join_all()
        .await
}

/// When an upstream is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    /// Each answer has some text, or half of its body.
    InTheMiddle,
    /// Each call for the rest is open.
    InTheRest,
    /// No answer has a head.
    BeforeHead,
}

/// Asks for answers, kills the upstream, starts it again, and checks that all answers are whole.
async fn outlive(killed: Killed, down: Duration, limits: Limits) {
    let outlive_one = |ask| outlive_as(ask, killed, down, limits.clone());
    let both: JoinSet<()> = Ask::BOTH.into_iter().map(outlive_one).collect();
    both.join_all().await;
}

async fn outlive_as(ask: Ask, killed: Killed, down: Duration, limits: Limits) {
    let (mut upstream, socket) = Mortal::new();
    let first: Script = Arc::new(move |is_of_rest| match killed {
        Killed::BeforeHead => vec![Piece::Hold],
        Killed::InTheMiddle => vec![send(ask.answer(&DOCUMENT[..CUT], None)), Piece::Hold],
        Killed::InTheRest if is_of_rest => vec![Piece::Hold],
        Killed::InTheRest => vec![send(ask.cut())],
    });
    upstream.live(socket, first);
    let keep_alive = limits.transport.keep_alive_interval;
    let proxy = proxy_of(upstream.addr, limits).await;
    let (addr, request) = (proxy.addr(), ask.request());
    let answers = ask_together(addr, &request);
    let outage = async {
        let at = if killed == Killed::InTheRest { 1 } else { 0 };
        upstream.has_seen(|seen| seen[at] >= ANSWERS).await;
        if killed == Killed::BeforeHead {
            // Too late for a connection that the upstream had closed before the request.
            sleep(Duration::from_millis(1200)).await;
        }
        let socket = upstream.die().await;
        sleep(down).await;
        let whole = move |_| vec![send(ask.answer(DOCUMENT, Some("stop")))];
        upstream.live(socket, Arc::new(whole));
    };
    let (answers, ()) = tokio::join!(answers, outage);
    for answer in answers {
        let context = format!("{killed:?}, down for {down:?}");
        // Two for each five intervals.
        let least = if ask == Ask::Stream && killed == Killed::InTheMiddle {
            2 * down.as_millis() / (5 * keep_alive).as_millis()
        } else {
            0
        };
        let keep_alives = body_of(&answer).0.matches("\n: ").count();
        assert!(keep_alives as u128 >= least, "{ask:?}, {context}: {answer}");
        if killed == Killed::BeforeHead {
            assert_eq!(ask.text(&answer), DOCUMENT, "{ask:?}, {context}: {answer}");
        } else {
            ask.check(&answer, &context);
        }
    }
}

const SHORT: Duration = Duration::from_millis(300);
const BRIEF: Duration = Duration::from_millis(80);

#[tokio::test]
async fn answers_outlive_a_restart_of_the_upstream() {
    let outlived = outlive(Killed::InTheMiddle, SHORT, Limits::default());
    Clock::paused().until(outlived).await;
}

#[tokio::test]
async fn calls_for_the_rest_outlive_a_restart_of_the_upstream() {
    let outlived = outlive(Killed::InTheRest, SHORT, Limits::default());
    Clock::paused().until(outlived).await;
}

/// The outage is two thirds of the time that an answer waits, as 20 seconds are of the default.
#[tokio::test]
async fn answers_outlive_an_outage_within_patience() {
    let limits = Limits::default()
        .with_patience(Duration::from_secs(3))
        .with_max_backoff(Duration::from_secs(1))
        .with_keep_alive_interval(Duration::from_millis(200));
    let down = Duration::from_secs(2);
    // In real time: the calls of all these answers take longer than steps of a paused clock.
    tokio::join!(
        outlive(Killed::InTheMiddle, down, limits.clone()),
        outlive(Killed::InTheRest, down, limits.clone()),
    );
}

/// An upstream that refuses connections after a call was lost is not working on it any more.
#[tokio::test]
async fn first_calls_outlive_a_restart_of_the_upstream() {
    let outlived = outlive(Killed::BeforeHead, SHORT, Limits::default());
    Clock::paused().until(outlived).await;
}

/// The last of the calls is made when the time for them ends.
#[tokio::test]
async fn first_calls_use_all_of_their_time() {
    let limits = Limits::default().with_patience(Duration::from_millis(1200));
    let (mut upstream, socket) = Mortal::new();
    let proxy = proxy_of(upstream.addr, limits).await;
    let back = async {
        sleep(Duration::from_millis(900)).await;
        let whole = |_| vec![send(Ask::Stream.answer(DOCUMENT, Some("stop")))];
        upstream.live(socket, Arc::new(whole));
    };
    let request = post(ASK);
    let both = async { tokio::join!(exchange(proxy.addr(), &request), back) };
    let (answer, ()) = Clock::paused().until(both).await;
    assert_eq!(Ask::Stream.text(&answer), DOCUMENT, "{answer}");
}

/// An upstream that is there may have finished the answer and billed it. The client's SDK decides,
/// as without a proxy.
#[tokio::test]
async fn a_first_call_that_a_live_upstream_loses_late_is_not_made_again() {
    let clock = Clock::paused();
    for (ask, routes) in [
        (ASK, ""),
        (ASK_WHOLE, ""),
        // Also where the operator allows repeats.
        (ASK, "[[route]]\nretries = 2\n"),
    ] {
        let base = Raw::new(vec![
            vec![
                Piece::Wait(Duration::from_millis(1200)),
                Piece::Reset
            ];
            3
        ])
        .await;
        let proxy = with_routes(base.unbound(Limits::default()), &[], routes)
            .start()
            .await;
        let request = post(ask);
        let answer = clock.until(exchange(proxy.addr(), &request)).await;
        assert_eq!(base.asked(), 1, "{answer}");
        check_retry(&answer, "502", None, "a lost call");
    }
}

/// A client that has waited long for a body waits no longer for a second one. A fallback may be
/// faster.
#[tokio::test]
async fn a_body_that_was_silent_for_long_is_not_requested_again() {
    let clock = Clock::paused();
    let lost = |after: u64| {
        vec![
            send(Ask::Whole.answer(DOCUMENT, None)),
            Piece::Wait(Duration::from_millis(after)),
            Piece::Reset,
        ]
    };
    let whole = || vec![send(Ask::Whole.answer(DOCUMENT, Some("stop")))];
    let limits = || Limits::default().with_patience(Duration::from_secs(1));
    for (after, calls, status) in [(0, 2, "200"), (700, 1, "502")] {
        let base = Raw::new(vec![lost(after), whole()]).await;
        let proxy = base.proxy(limits()).await;
        let ask = post(ASK_WHOLE);
        let answer = clock.until(exchange(proxy.addr(), &ask)).await;
        answer.begins(format!("HTTP/1.1 {status} "));
        assert_eq!(base.asked(), calls, "{answer}");
        assert!(
            status == "200" || answer.contains("x-restitch-calls: 1\r\n"),
            "{answer}"
        );

        let (base, other) = (
            Raw::new(vec![lost(after)]).await,
            Raw::new(vec![whole()]).await,
        );
        let routes = "[[route]]\nfallback = [{ upstream = \"{0}\" }]\n";
        let proxy = with_routes(base.unbound(limits()), &[&other], routes)
            .start()
            .await;
        Ask::Whole.check(
            &clock.until(exchange(proxy.addr(), &ask)).await,
            "a fallback",
        );
        assert_eq!([&base, &other].map(Raw::asked), [1, 1]);
    }
}

/// `true` if nothing was tried yet, `false` if restitch has made calls, or has waited, in place of
/// the client's SDK.
#[tokio::test]
async fn sdks_are_told_whether_to_send_a_request_again() {
    let of = |patience| Limits::default().with_patience(Duration::from_millis(patience));
    let impatient = || {
        of(100)
            .with_first_byte_timeout(BRIEF)
            .with_idle_timeout(BRIEF)
    };
    let busy =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 9\r\n\r\n{";
    let no = Some("false");
    for (name, limits, pieces, status, told) in [
        ("a lost call", of(100), vec![Piece::Reset], "502", no),
        (
            "a lost body",
            of(100),
            vec![send(half), Piece::Reset],
            "502",
            no,
        ),
        ("silence", impatient(), vec![Piece::Hold], "504", no),
        ("busy, repeated", of(100), vec![send(busy)], "503", no),
        ("busy, not repeated", of(0), vec![send(busy)], "503", None),
    ] {
        let base = Raw::new(vec![pieces; 20]).await;
        let proxy = base.proxy(limits).await;
        let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
        check_retry(&answer, status, told, name);
    }
    let (refusing, _socket) = Mortal::new();
    let proxy = proxy_of(refusing.addr, of(100)).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    check_retry(&answer, "502", no, "refused connections");

    let base = Raw::new(vec![]).await;
    let mut limits = Limits::default();
    limits.server.max_connections = 1;
    let proxy = base.proxy(limits).await;
    let _first = connect(proxy.addr()).await;
    let answer = exchange(proxy.addr(), &post(ASK_WHOLE)).await;
    check_retry(&answer, "503", Some("true"), "no room");
    let proxy = base.proxy(Limits::default()).await;
    let odd = post(ASK_WHOLE).replace("host: h", "host: h\r\nx-restitch: maybe");
    check_retry(&exchange(proxy.addr(), &odd).await, "400", no, "a mistake");
}

fn check_retry(answer: &str, status: &str, told: Option<&str>, name: &str) {
    let head = answer.split_once("\r\n\r\n").unwrap().0;
    head.of(format!("{name}: {answer}"))
        .begins(format!("HTTP/1.1 {status} "));
    let found = head
        .lines()
        .find_map(|line| line.strip_prefix("x-should-retry: "));
    assert_eq!(found, told, "{name}: {answer}");
}

#[tokio::test]
async fn calls_for_the_rest_wait_as_long_as_the_upstream_says() {
    let clock = Clock::paused();
    for ask in Ask::BOTH {
        let refused = Arc::new(AtomicUsize::new(0));
        let script: Script = Arc::new(move |is_of_rest| match is_of_rest {
            false => vec![send(ask.cut())],
            true if refused.fetch_add(1, Ordering::Relaxed) < 2 * ANSWERS => vec![send(BUSY)],
            true => vec![send(ask.answer(DOCUMENT, Some("stop")))],
        });
        let (mut upstream, socket) = Mortal::new();
        upstream.live(socket, script);
        let proxy = proxy_of(upstream.addr, Limits::default()).await;
        let request = ask.request();
        let answers = clock.until(ask_together(proxy.addr(), &request)).await;
        for answer in answers {
            ask.check(&answer, "429");
            answer.of(ask).has("\"continuations\":1,");
            answer.of(ask).has("\"failures\":0");
        }
    }
}

const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
