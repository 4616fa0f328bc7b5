//! Answers while their upstream fails: clients of every API, through one proxy, to a server
//! (`restitch sim`) that is killed and started again, or that answers with errors.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use memchr::memmem;
use restitch::provider::Dialect;
use restitch_testing::wires::{read_body, transcript};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::Chunks;
use super::party::{Process, proxy};
use super::upstream::body_length;
use crate::table;

/// The answers of each API at a time.
const ANSWERS: usize = 20;

/// A text of the answers.
struct Text {
    file: &'static str,
    text: &'static str,
    apis: &'static [Dialect],
}

const JSON: Text = Text {
    file: "document.json",
    text: r#"{"title": "Notes on tides", "language": "en", "sections": [
  {"id": 1, "heading": "What moves the sea",
   "text": "The moon draws the water nearest to it, and a second bulge rises on the far side."},
  {"id": 2, "heading": "Where they are highest",
   "text": "In the Bay of Fundy the range exceeds 16 m; in the Mediterranean it is often below 0.5 m.",
   "metres": [16.3, 0.4]}
], "table": [["port", "range"], ["Burntcoat Head", 16.3], ["Saint-Malo", 12.2], ["Naples", 0.4]],
  "checked": true, "source": null}"#,
    apis: &Dialect::ALL,
};

const PROSE: Text = Text {
    file: "prose.txt",
    text: "The harbour was quiet that morning. Nets hung over the rails, stiff with salt, and nobody spoke.\n\n\
        By noon the wind had turned. \"It will rain,\" said the pilot, and by evening it fell in torrents. The boats \
        that had gone out at dawn came back one by one, low in the water, and the women on the quay counted them \
        under their breath. When the last had tied up, someone lit a lamp in the chandler's window.",
    apis: &[
        Dialect::Chat,
        Dialect::Responses,
        Dialect::Messages,
        Dialect::Gemini,
        Dialect::Ollama,
        Dialect::Cohere,
    ],
};

/// A failure of the upstream.
struct Scenario {
    name: &'static str,
    text: &'static Text,
    /// The behaviour of the first process.
    script: &'static str,
    /// The first process reads no request.
    is_stopped: bool,
    /// The seconds after which the first process is killed, and those until a sound one starts.
    /// `None`: it stays.
    killed: Option<(f64, f64)>,
}

/// Half of the text, and then silence until the process is killed.
const HALF: &str = "answer@250!stall";
/// The time in which all answers begin, even while other scenarios begin theirs.
const BEGUN: f64 = 3.0;
/// No process after the first one fails.
const SOUND: &str = "answer | anchor";

const fn killed(name: &'static str, text: &'static Text, down: f64) -> Scenario {
    Scenario {
        name,
        text,
        script: HALF,
        is_stopped: false,
        killed: Some((BEGUN, down)),
    }
}

const fn killed_before(name: &'static str, down: f64) -> Scenario {
    Scenario {
        is_stopped: true,
        ..killed(name, &JSON, down)
    }
}

/// Its script answers with errors until a sound process takes over, or for ever.
const fn errors(name: &'static str, script: &'static str, until: Option<f64>) -> Scenario {
    Scenario {
        script,
        killed: match until {
            Some(seconds) => Some((seconds, 0.0)),
            None => None,
        },
        ..killed(name, &JSON, 0.0)
    }
}

/// The longest begin first.
const SCENARIOS: &[Scenario] = &[
    killed("killed in mid-answer, back after 40 s", &JSON, 40.0),
    killed("killed in mid-answer, back after 20 s", &JSON, 20.0),
    killed("killed in mid-answer, back after 5 s", &JSON, 5.0),
    killed("killed in mid-answer, back after 0.3 s", &JSON, 0.3),
    killed("prose, killed in mid-answer, back after 20 s", &PROSE, 20.0),
    killed("prose, killed in mid-answer, back after 5 s", &PROSE, 5.0),
    killed("prose, killed in mid-answer, back after 0.3 s", &PROSE, 0.3),
    killed_before("killed before the head, back after 6 s", 6.0),
    killed_before("killed before the head, back after 4 s", 4.0),
    killed_before("killed before the head, back after 0.3 s", 0.3),
    errors(
        "calls for the rest: 503 for 12 s",
        "answer@250!length | 503",
        Some(12.0),
    ),
    errors(
        "calls for the rest: 502 for 3 s",
        "answer@250!length | 502",
        Some(3.0),
    ),
    errors(
        "calls for the rest: 529 for 3 s",
        "answer@250!length | 529",
        Some(3.0),
    ),
    errors("all calls: 503 for 3 s", "503 | 503", Some(3.0)),
    errors(
        "each call: two 429 with `Retry-After: 1`",
        "429~1 429~1 answer@250!length | 429~1 429~1 anchor",
        None,
    ),
    errors(
        "calls for the rest: 429 with `Retry-After: 60`",
        "answer@250!length | 429~60",
        None,
    ),
];

/// The answers of a scenario, all streamed or all in one body.
#[derive(Default)]
struct Outcome {
    whole: usize,
    all: usize,
    /// From the start of the sound process to the last end of an answer.
    after: Option<Duration>,
    /// The longest time in which a client received nothing.
    silence: Duration,
}

/// Prints the table of a program, which is the proxy and the upstream.
pub fn print(program: &Path) -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("restitch-outages-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    for text in [&JSON, &PROSE] {
        fs::write(folder.join(text.file), text.text)?;
    }
    let folder = &folder;
    // Each run has a proxy of its own, and mostly waits.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let mut runs = Vec::new();
        for scenario in SCENARIOS {
            runs.push([true, false].map(|is_stream| {
                let run = Run {
                    program,
                    folder,
                    scenario,
                    is_stream,
                };
                let handle = scope.spawn(move || run.start());
                std::thread::sleep(Duration::from_millis(700));
                handle
            }));
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a run has panicked")))
        };
        runs.into_iter().map(|pair| pair.map(join)).collect()
    });
    let _ = fs::remove_dir_all(folder);
    let mut rows = vec![table::row([
        "",
        "whole, streamed",
        "last, s after",
        "silent for, s",
        "whole, in one body",
        "last, s after",
        "silent for, s",
    ])];
    for (scenario, pair) in SCENARIOS.iter().zip(outcomes) {
        let mut row = vec![scenario.name.to_owned()];
        for outcome in pair {
            let outcome = outcome?;
            let after = outcome
                .after
                .map(|after| format!("{:.1}", after.as_secs_f64()));
            row.extend([
                format!("{} of {}", outcome.whole, outcome.all),
                after.unwrap_or_else(|| "–".to_owned()),
                format!("{:.1}", outcome.silence.as_secs_f64()),
            ]);
        }
        rows.push(row);
    }
    table::print(
        &format!(
            "{ANSWERS} answers of each API while the upstream fails: {}",
            program.display()
        ),
        &rows,
    );
    Ok(())
}

/// A scenario, streamed or in one body.
struct Run<'a> {
    program: &'a Path,
    folder: &'a PathBuf,
    scenario: &'a Scenario,
    is_stream: bool,
}

impl Run<'_> {
    fn start(&self) -> io::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.outcome())
    }

    async fn outcome(&self) -> io::Result<Outcome> {
        // It keeps the port while no process listens there.
        let port = TcpSocket::new_v4()?;
        port.set_reuseaddr(true)?;
        port.bind(([127, 0, 0, 1], 0).into())?;
        let upstream = port.local_addr()?;
        let sick = self.upstream(upstream, self.scenario.script)?;
        let mut command = proxy(self.program, upstream);
        let (_proxy, address) = Process::listening(command.args(["--set", "proxy.prose=anchor"]))?;
        if self.scenario.is_stopped {
            sick.signal(Signal::STOP);
        }
        let mut clients = JoinSet::new();
        for &api in self.scenario.text.apis {
            for at in 0..ANSWERS {
                let client = Client {
                    api,
                    is_stream: self.is_stream,
                    text: self.scenario.text.text,
                };
                clients.spawn(client.answer(address, at));
            }
        }
        let mut outcome = Outcome {
            all: clients.len(),
            ..Outcome::default()
        };
        let (_upstream, back) = match self.scenario.killed {
            None => (sick, None),
            Some((at, down)) => {
                sleep(Duration::from_secs_f64(at)).await;
                sick.signal(Signal::KILL);
                drop(sick);
                sleep(Duration::from_secs_f64(down)).await;
                (self.upstream(upstream, SOUND)?, Some(Instant::now()))
            }
        };
        while let Some(answer) = clients.join_next().await {
            // The reader of an API panics on other bytes, which are not a whole answer either.
            let Ok(answer) = answer else { continue };
            outcome.silence = outcome.silence.max(answer.silence);
            if answer.is_whole {
                outcome.whole += 1;
                outcome.after = outcome
                    .after
                    .max(back.and_then(|back| answer.end.checked_duration_since(back)));
            } else {
                eprintln!("{}: {}", self.scenario.name, answer.report);
            }
        }
        Ok(outcome)
    }

    fn upstream(&self, address: SocketAddr, script: &str) -> io::Result<Process> {
        let mut command = Command::new(self.program);
        command.args([
            "sim",
            "--listen",
            &address.to_string(),
            "--script",
            script,
            "--document",
        ]);
        command.arg(self.folder.join(self.scenario.text.file));
        Ok(Process::listening(&mut command)?.0)
    }
}

/// A client's answer.
struct Answer {
    is_whole: bool,
    end: Instant,
    /// The longest time without a byte.
    silence: Duration,
    /// Its API, and the last bytes.
    report: String,
}

#[derive(Clone, Copy)]
struct Client {
    api: Dialect,
    is_stream: bool,
    /// What is to arrive.
    text: &'static str,
}

impl Client {
    /// Asks for an answer.
    async fn answer(self, address: SocketAddr, at: usize) -> Answer {
        let (mut response, mut last, mut silence) = (Vec::new(), Instant::now(), Duration::ZERO);
        let exchange = async {
            let mut connection = TcpStream::connect(address).await?;
            connection.write_all(self.request(at).as_bytes()).await?;
            while connection.read_buf(&mut response).await? > 0 {
                silence = silence.max(last.elapsed());
                last = Instant::now();
            }
            Ok::<_, io::Error>(())
        };
        let end = timeout(HANGS, exchange).await;
        silence = silence.max(last.elapsed());
        let is_whole = matches!(end, Ok(Ok(()))) && self.is_whole(&response);
        let tail =
            String::from_utf8_lossy(&response[response.len().saturating_sub(400)..]).into_owned();
        let form = if self.is_stream {
            "streamed"
        } else {
            "in one body"
        };
        let report = format!("{}, {form}, {end:?}: {tail:?}", self.api);
        Answer {
            is_whole,
            end: Instant::now(),
            silence,
            report,
        }
    }

    /// Returns the request. Each prompt differs, since the upstream counts its calls.
    fn request(self, at: usize) -> String {
        let (prompt, stream) = (
            format!("Write document {at} of {}", self.api),
            self.is_stream,
        );
        let turns = json!([{"role": "user", "content": prompt}]);
        let chat = json!({"model": "sim", "max_tokens": 4096, "stream": stream, "messages": turns});
        let (path, body) = match self.api {
            Dialect::Completions => (
                "/v1/completions",
                json!({"model": "sim", "max_tokens": 4096, "stream": stream, "prompt": prompt}),
            ),
            Dialect::Responses => (
                "/v1/responses",
                json!({"model": "sim", "stream": stream, "input": prompt}),
            ),
            Dialect::Gemini => (
                match stream {
                    true => "/v1beta/models/sim:streamGenerateContent?alt=sse",
                    false => "/v1beta/models/sim:generateContent",
                },
                json!({"contents": [{"role": "user", "parts": [{"text": prompt}]}]}),
            ),
            Dialect::Messages => ("/v1/messages", chat),
            Dialect::Ollama => ("/api/chat", chat),
            Dialect::Cohere => ("/v2/chat", chat),
            _ => ("/v1/chat/completions", chat),
        };
        let body = body.to_string();
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Returns whether the response is complete, reports no error, and has the text.
    fn is_whole(self, response: &[u8]) -> bool {
        let Some(body) = body_of(response) else {
            return false;
        };
        let found = match self.is_stream {
            true => transcript(self.api, &body),
            false => read_body(self.api, &String::from_utf8_lossy(&body)),
        };
        found.error.is_none()
            && !found.finish.is_empty()
            && found.text.into_values().eq([self.text])
    }
}

/// Returns the body of a response with status 200. `None`: it has another one, or its end is missing.
fn body_of(response: &[u8]) -> Option<Vec<u8>> {
    let head = memmem::find(response, b"\r\n\r\n")? + 4;
    let (text, body) = (
        std::str::from_utf8(&response[..head]).ok()?,
        &response[head..],
    );
    if !text.starts_with("HTTP/1.1 200 ") {
        return None;
    }
    if let Some(length) = body_length(text) {
        return (body.len() == length).then(|| body.to_vec());
    }
    let (mut chunks, mut body) = (Chunks::default(), Vec::new());
    chunks.read(response, &mut body);
    chunks.is_over.then_some(body)
}

/// Longer than any answer takes.
const HANGS: Duration = Duration::from_secs(120);
