//! Runs the public conformance suite against a server that also creates streams and appends to
//! them, as the suite's tests need.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::{fs, thread};

use bytes::BufMut;
use http::header::{ALLOW, LOCATION};
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime;

use super::*;
use crate::store::{Found, Memory, Opening, Owner, WriterLease};
use restitch::KeepLimits;

/// The streams of the test server.
struct Streams {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<String, Stream>>,
}

struct Stream {
    id: AnswerId,
    content_type: HeaderValue,
    next: Position,
    is_closed: bool,
    _writing: WriterLease,
}

/// A response without a body.
fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl Streams {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let closes = head
            .headers
            .get(CLOSED)
            .is_some_and(|closed| closed == "true");
        let content_type = head.headers.get(CONTENT_TYPE).cloned();
        let mut response = match head.method {
            Method::PUT => {
                self.create(head.uri.path(), content_type, body, closes)
                    .await
            }
            Method::POST => {
                self.append(head.uri.path(), content_type, body, closes)
                    .await
            }
            Method::GET | Method::HEAD => self.read(&head).await,
            Method::DELETE => self.delete(head.uri.path()).await,
            _ => {
                let mut refused = status(StatusCode::METHOD_NOT_ALLOWED);
                refused
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("GET"));
                refused
            }
        };
        protect(response.headers_mut());
        response
    }

    async fn create(
        &self,
        path: &str,
        own: Option<HeaderValue>,
        body: Bytes,
        closes: bool,
    ) -> Response<Body> {
        let content_type = own.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        let known = self
            .known
            .lock()
            .unwrap()
            .get(path)
            .map(|stream| stream.content_type.clone());
        if let Some(known) = known {
            let is_same = known
                .as_bytes()
                .eq_ignore_ascii_case(content_type.as_bytes());
            return status(if is_same {
                StatusCode::OK
            } else {
                StatusCode::CONFLICT
            });
        }
        let id = super::super::caller::new_id().unwrap();
        let opening = Opening {
            caller: [0; 32],
            keep: Duration::from_secs(600),
            request: Bytes::new(),
            owner: Owner::default(),
        };
        let _writing = self.store.open(id, opening).await.unwrap();
        let next = Position { epoch: 1, seq: 1 };
        let stream = Stream {
            id,
            content_type: content_type.clone(),
            next,
            is_closed: false,
            _writing,
        };
        self.known.lock().unwrap().insert(path.to_owned(), stream);
        let written = self.write(path, body, closes).await;
        let mut response = status(StatusCode::CREATED);
        set(response.headers_mut(), NEXT_OFFSET, &offset_of(written));
        set(response.headers_mut(), LOCATION, &path);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    async fn append(
        &self,
        path: &str,
        own: Option<HeaderValue>,
        body: Bytes,
        closes: bool,
    ) -> Response<Body> {
        let refused = {
            let known = self.known.lock().unwrap();
            let is_own = |known: &HeaderValue| {
                own.as_ref()
                    .is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
            };
            match known.get(path) {
                None => Some(StatusCode::NOT_FOUND),
                Some(stream) if stream.is_closed => Some(StatusCode::CONFLICT),
                Some(_) if body.is_empty() && !closes => Some(StatusCode::BAD_REQUEST),
                Some(stream) if !body.is_empty() && !is_own(&stream.content_type) => {
                    Some(StatusCode::CONFLICT)
                }
                Some(_) => None,
            }
        };
        if let Some(refused) = refused {
            return status(refused);
        }
        let written = self.write(path, body, closes).await;
        let mut response = status(StatusCode::NO_CONTENT);
        set(response.headers_mut(), NEXT_OFFSET, &offset_of(written));
        if closes {
            response
                .headers_mut()
                .insert(CLOSED, HeaderValue::from_static("true"));
        }
        response
    }

    /// Appends to a stream. Returns the position of the last entry.
    async fn write(&self, path: &str, bytes: Bytes, closes: bool) -> Position {
        let (id, at) = {
            let mut known = self.known.lock().unwrap();
            let stream = known.get_mut(path).unwrap();
            let at = stream.next;
            if !bytes.is_empty() {
                stream.next = at.next();
            }
            stream.is_closed |= closes;
            (stream.id, at)
        };
        let last = if bytes.is_empty() {
            Position {
                seq: at.seq - 1,
                ..at
            }
        } else {
            at
        };
        if !bytes.is_empty() {
            self.store
                .append(id, vec![Entry { at, bytes }])
                .await
                .unwrap();
        }
        if closes {
            self.store.close(id, last.next(), End::Whole).await.unwrap();
        }
        if last.seq == 0 { Position::START } else { last }
    }

    /// Reads as the proxy does.
    async fn read(&self, head: &http::request::Parts) -> Response<Body> {
        let known = self
            .known
            .lock()
            .unwrap()
            .get(head.uri.path())
            .map(|own| (own.id, own.content_type.clone()));
        let Some((id, content_type)) = known else {
            return status(StatusCode::NOT_FOUND);
        };
        let Found { log: Ok(log), .. } = self.store.look_up(id).await.unwrap() else {
            panic!("nothing expires here")
        };
        if head.method == Method::HEAD {
            let mut response = status(StatusCode::OK);
            describe(response.headers_mut(), log);
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response
                .headers_mut()
                .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            return response;
        }
        let query = match Query::of(head.uri.query(), &head.headers) {
            Some(Err(refusal)) => return refusal.answer(None),
            Some(Ok(query)) => query,
            None => Query {
                known: head.headers.get(IF_NONE_MATCH).cloned(),
                ..Query::default()
            },
        };
        let write = |entry: &Entry, out: &mut BytesMut| out.put_slice(&entry.bytes);
        let patience = Duration::from_secs(2);
        let source = AnswerSource {
            store: Arc::clone(&self.store),
            id,
            content_type,
            write,
            patience,
        };
        answer(source, log, query)
            .await
            .unwrap_or_else(|_| status(StatusCode::BAD_REQUEST))
    }

    async fn delete(&self, path: &str) -> Response<Body> {
        let Some(stream) = self.known.lock().unwrap().remove(path) else {
            return status(StatusCode::NOT_FOUND);
        };
        self.store.delete(stream.id).await.unwrap();
        status(StatusCode::NO_CONTENT)
    }
}

/// Serves streams until the process ends, and returns the server's address.
fn serve() -> String {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let limits = KeepLimits {
            max_kept_answers: 100_000,
            ..KeepLimits::default()
        };
        let store = Arc::new(Memory::new(limits));
        let streams = Arc::new(Streams {
            store,
            known: Mutex::default(),
        });
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(format!("http://{}", listener.local_addr().unwrap()))
                .unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let streams = Arc::clone(&streams);
                let answer = service_fn(move |request| {
                    let streams = Arc::clone(&streams);
                    async move { Ok::<_, Infallible>(streams.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), answer));
            }
        });
    });
    told.recv().unwrap()
}

/// Returns the folder of the suite, which `scripts/test-tools` installs, with the current tests in
/// it. `Err` names the problem.
fn suite() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (own, folder) = (
        root.join("crates/cli/tests/durable_streams"),
        root.join("target/test-tools/durable-streams"),
    );
    if !folder.join("made").exists() {
        return Err(format!("{} is missing", folder.display()));
    }
    let is_current = |pin: &&str| fs::read(folder.join(pin)).ok() == fs::read(own.join(pin)).ok();
    if !["package.json", "package-lock.json"].iter().all(is_current) {
        return Err(format!("{} has other versions", folder.display()));
    }
    let tests = "reads.test.mjs";
    fs::copy(own.join(tests), folder.join(tests)).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The suite's groups about reading, without the tests of features that kept answers lack: content
/// other than text, and preflight requests.
const READS: &str = "^(?!.*(JSON|json|[Bb]ase64|[Bb]inary|protobuf|preflight|TTL|PUT|POST|Fork|Idempotent|seq |sequence )).*\
    (Read Operations|Long-Poll|HTTP Protocol|Browser Security|HEAD|Offset Validation|Caching|Chunking|Read-Your-Writes|\
    SSE Mode|SSE with Stream|Read Closed|Byte-Exactness|Immutability|offset parameter|unknown query|monotonically)";

#[test]
#[ignore = "nightly: needs the packages of the conformance suite"]
fn the_read_path_conforms() {
    let folder = match suite() {
        Ok(folder) => folder,
        // The test harness does not capture standard error, so the message appears without a flag.
        Err(why) => {
            let _ = writeln!(
                io::stderr(),
                "skipped: the conformance suite: {why}; scripts/test-tools nightly installs it"
            );
            return;
        }
    };
    let mut vitest = Command::new("node");
    vitest.args([
        "node_modules/vitest/vitest.mjs",
        "run",
        "--reporter=json",
        "--testTimeout=40000",
        "-t",
        READS,
    ]);
    let output = vitest
        .current_dir(&folder)
        .env("SERVER", serve())
        .env("CI", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let results = report["testResults"][0]["assertionResults"]
        .as_array()
        .unwrap();
    let of = |status: &str| -> Vec<String> {
        let own = results.iter().filter(|result| result["status"] == status);
        own.map(|result| format!("{}: {}", result["fullName"], result["failureMessages"][0]))
            .collect()
    };
    let (passed, failed) = (of("passed"), of("failed"));
    assert!(
        failed.is_empty(),
        "{} passed\n{}",
        passed.len(),
        failed.join("\n")
    );
    println!("covered: {} tests of the suite", passed.len());
    // The number of tests in the version that package.json pins.
    assert!(passed.len() >= 88, "{}", passed.join("\n"));
}
