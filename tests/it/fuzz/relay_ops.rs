//! Runs a relay on any sequence of operations: whole and partial events, calls that end, fail or
//! are refused, and time. Compares the client's bytes with a model of the given input.
//!
//! The first bytes of an input choose the API, the document and the settings. Each of the others is
//! an operation, or says more about the one before.

#[path = "relay_ops/client.rs"]
mod client;
#[path = "relay_ops/setup.rs"]
mod setup;
#[path = "relay_ops/upstream.rs"]
mod upstream;
#[path = "relay_ops/verdict.rs"]
mod verdict;

use std::time::Duration;

use restitch::internal::relay::{Output, Relay, TransportEnd};
use restitch::session::{CallEnd, Request, Resume};

use client::Reading;
use setup::Setup;
use upstream::Call;

pub(crate) fn check(input: &[u8]) {
    let Some((head, ops)) = input.split_first_chunk::<6>() else {
        return;
    };
    let setup = Setup::of(head);
    let [whole, split] = [usize::MAX, 1].map(|size| Run::of(&setup, ops, size));
    let context = || format!("{setup:?}\n{}\n\n{}", show(&whole.body), show(&split.body));
    assert_eq!(
        show(&whole.body),
        show(&split.body),
        "the chunks are visible: {}",
        context()
    );
    assert_eq!(
        whole.steps,
        split.steps,
        "the chunks are visible: {}",
        context()
    );
}

/// Bytes that follow the settings in one input: more find nothing that fewer do not.
const MAX_OPS: usize = 96;

/// Outputs that one operation may have: it brings one event of the upstream, or what was left of
/// some.
const MAX_OUTPUTS: usize = 200;

/// One answer, and all that is known about it.
struct Run<'a> {
    setup: &'a Setup,
    relay: Relay,
    now: Duration,
    state: State,
    /// The call that was made last.
    call: Call,
    /// Bytes of one chunk.
    size: usize,
    /// How much of what waits the next operation sends.
    torn: Option<usize>,
    body: Vec<u8>,
    steps: Vec<Output>,
    known: Known,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// A call is to be made, not before this time.
    Asked(Duration),
    Open,
    Done,
}

/// What was told that is not the document, or not in the form of the API.
#[derive(Debug, Default)]
struct Known {
    is_invented: bool,
    is_irregular: bool,
    has_other_call: bool,
    /// A comment told the client that the stream lives.
    is_kept_alive: bool,
}

impl<'a> Run<'a> {
    /// Plays the operations, and then lets the answer come to its end.
    fn of(setup: &'a Setup, ops: &[u8], size: usize) -> Self {
        let call = Call::new(
            setup.dialect,
            setup.kind,
            1,
            vec![setup.document.to_owned()],
        );
        let mut run = Self {
            setup,
            relay: setup.relay(),
            now: Duration::ZERO,
            state: State::Open,
            call,
            size,
            torn: None,
            body: Vec::new(),
            steps: Vec::new(),
            known: Known::default(),
        };
        run.relay.handle_open(run.now);
        let mut ops = ops.iter().take(MAX_OPS).copied();
        while let Some(code) = ops.next() {
            let argument = ops.next().unwrap_or_default();
            run.operate(code, argument);
            run.check_timeout();
        }
        run.settle();
        run.check_end();
        run
    }

    fn operate(&mut self, code: u8, argument: u8) {
        let number = usize::from(argument);
        match code % 32 {
            0..=5 => self.send(|call| call.tell(number >> 6, 1 + number % 64)),
            6 | 7 => self.send(|call| call.tell(number >> 6, usize::MAX)),
            8 => self.send(|call| call.invent(&setup::snippets(argument))),
            9 | 10 => {
                self.send(|call| call.other(if code % 32 == 10 { number % 4 } else { number }));
            }
            11 | 12 => self.send(|call| call.finish(setup::REASONS[number % 8], number & 8 == 8)),
            13 => self.send(Call::done),
            14 => self.send(Call::error),
            15 => self.send(|call| call.chunk(number % 4)),
            16 => {
                let arguments = setup::snippets(argument);
                self.known.has_other_call = true;
                self.send(|call| call.other_call(&arguments));
            }
            17 | 30 => self.torn = Some(number),
            18 | 19 => self.end(TransportEnd::Closed),
            20 | 21 => self.end(TransportEnd::Dropped),
            22 | 23 => self.open(),
            24 | 25 => self.reject(setup::rejection(argument)),
            26 | 27 => self.time_out(),
            28 => {
                self.now += Duration::from_secs(number as u64);
                self.pass_time();
            }
            29 => self.now += Duration::from_millis(100 * number as u64),
            _ => self.send(|_| {}),
        }
    }

    /// Lets the upstream write something, and sends it.
    fn send(&mut self, write: impl FnOnce(&mut Call)) {
        self.open();
        if self.state == State::Done {
            return self
                .relay
                .handle_bytes(self.now, b"data: late\n\n".to_vec().into());
        }
        write(&mut self.call);
        let is_first = self.relay.session().is_first();
        self.known.is_irregular |= self.call.is_irregular && is_first;
        self.known.is_invented |= self.call.is_invented;
        let waiting = self.call.stream.len() - self.call.sent;
        let most = self
            .torn
            .take()
            .map_or(waiting, |torn| (waiting * torn).div_ceil(256));
        let start = self.call.sent;
        let bytes = self.call.take(most);
        let number = self.call_number();
        for (at, piece) in bytes.chunks(self.size.min(bytes.len().max(1))).enumerate() {
            self.relay.handle_bytes(self.now, piece.to_vec().into());
            if self.drain() {
                if self.call_number() == number {
                    self.call.sent = start + bytes.len().min((at + 1).saturating_mul(self.size));
                }
                return;
            }
        }
    }

    /// Makes the call that was asked for.
    fn open(&mut self) {
        if let State::Asked(at) = self.state {
            self.now = self.now.max(at);
            self.relay.handle_open(self.now);
            self.state = State::Open;
            assert!(!self.drain(), "an answer ends no call");
        }
    }

    fn end(&mut self, transport_end: TransportEnd) {
        self.open();
        if self.state == State::Open {
            self.relay.handle_transport_end(self.now, transport_end);
            assert!(
                self.drain(),
                "nothing follows the end of a call: {}",
                self.context()
            );
        }
    }

    fn reject(&mut self, end: CallEnd) {
        if let State::Asked(at) = self.state {
            self.now = self.now.max(at);
            self.relay.handle_call_end(self.now, end);
            assert!(
                self.drain(),
                "nothing follows a refusal: {}",
                self.context()
            );
        }
    }

    /// Lets the time pass until something is due.
    fn time_out(&mut self) {
        let Some(due) = self.relay.poll_timeout() else {
            return;
        };
        self.now = self.now.max(due);
        // A call that was silent is over, and then the client may wait for a comment.
        for _ in 0..2 {
            self.pass_time();
            if self.relay.poll_timeout().is_none_or(|next| next > self.now) {
                return;
            }
        }
        panic!(
            "{:?} is due again: {}",
            self.relay.poll_timeout(),
            self.context()
        );
    }

    fn pass_time(&mut self) {
        let length = self.body.len();
        self.relay.handle_timeout(self.now);
        let is_over = self.drain();
        self.known.is_kept_alive |= !is_over && self.body.len() > length;
    }

    /// Takes all outputs. Returns whether the call is over.
    fn drain(&mut self) -> bool {
        let mut is_over = false;
        let mut count = 0;
        while let Some(output) = self.relay.poll_output() {
            assert_ne!(
                self.state,
                State::Done,
                "something follows the end: {output:?}"
            );
            count += 1;
            assert!(count <= MAX_OUTPUTS, "{}", self.context());
            match output {
                Output::Bytes(bytes) => {
                    self.body.extend_from_slice(&bytes);
                    continue;
                }
                Output::Call { ref request, at } => {
                    assert!(!is_over, "one call at a time: {}", self.context());
                    is_over = true;
                    self.state = State::Asked(at);
                    self.ask(request);
                }
                Output::Done { .. } => {
                    assert!(!is_over, "no call after the end: {}", self.context());
                    is_over = true;
                    self.state = State::Done;
                }
                _ => {}
            }
            self.steps.push(output);
        }
        is_over
    }

    /// A call is asked for: what it is to go on from is what the client has.
    fn ask(&mut self, request: &Request) {
        assert!(
            self.call_number() <= self.setup.most_calls(),
            "{}",
            self.context()
        );
        self.torn = None;
        if let Some(resume) = &request.resume {
            assert_eq!(
                *resume,
                Resume::Stream(format!("?from={}", self.call.sent).into()),
                "{}",
                self.context()
            );
            return;
        }
        let delivered = self.relay.session().document().text().to_owned();
        let text = Reading::of(self.setup.dialect, &self.body).text();
        if request.turn.is_some() && !self.known.has_other_call {
            assert_eq!(
                text,
                delivered,
                "the client has another text: {}",
                self.context()
            );
        }
        if !self.known.is_invented && !self.known.has_other_call {
            let is_told = root(self.setup.document).starts_with(root(&delivered));
            assert!(is_told, "{delivered:?} {}", self.context());
        }
        let told = (self.setup.document, delivered.as_str());
        self.call = Call::of(
            self.setup.dialect,
            self.setup.kind,
            self.call_number() + 2,
            request,
            told,
        );
    }

    /// Returns how many calls were asked for.
    fn call_number(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Output::Call { .. }))
            .count()
    }

    /// While the rest of a document is owed, somebody watches the time.
    fn check_timeout(&self) {
        let session = self.relay.session();
        let is_regular = !self.call.has_finish && !self.call.is_irregular;
        let is_owed =
            !session.is_first() || is_regular && session.would_continue(&CallEnd::Dropped);
        if self.state != State::Done && is_owed {
            assert!(
                self.relay.poll_timeout().is_some(),
                "nobody watches the time: {}",
                self.context()
            );
        }
    }

    /// Lets the answer come to its end: what is asked for is not answered.
    fn settle(&mut self) {
        for _ in 0..4000 {
            match (self.state, self.relay.poll_timeout()) {
                (State::Done, _) => return,
                (State::Open, None) => self.end(TransportEnd::Dropped),
                (State::Asked(_), _) if self.setup.is_refused => self.reject(setup::rejection(0)),
                (State::Asked(_), None) => self.open(),
                _ => self.time_out(),
            }
        }
        panic!("the answer does not end: {}", self.context());
    }

    fn context(&self) -> String {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|step| format!("{step:?}\n"))
            .collect();
        let call = show(&self.call.stream[..self.call.sent]);
        let size = self.size;
        format!(
            "{:?} {:?} {size}\n{}\n---\n{call}\n---\n{}",
            self.setup,
            self.known,
            steps.concat(),
            show(&self.body)
        )
    }
}

/// Returns a text from the beginning of its document. The texts that are told have no brackets
/// before it.
fn root(text: &str) -> &str {
    &text[text.find(['{', '[']).unwrap_or(text.len())..]
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
