//! Helpers of the tests: seeded random numbers, the ways to split an input, base64, the test data.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

pub mod answers;
pub mod case_file;
pub mod chat;
pub mod rows;
pub mod says;
pub mod tree;
pub mod wire_case;
pub mod wires;

use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use restitch::json::{CloseOptions, CutState, Partial};
use restitch::session::{CallEnd, LimitReached};
use restitch::sse::Decoder;
use restitch::{Document, Limits};
pub use restitch_sim::style::Random as Rng;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// How a call ends that has sent nothing for too long.
pub fn silent() -> CallEnd {
    CallEnd::TimedOut(LimitReached::of_time(
        "idle_timeout",
        Limits::default().transport.idle_timeout,
    ))
}

/// Returns the chunkings of invariant 1, each as its cuts in rising order: whole, byte by byte, and
/// every two-way split of up to 4 KiB or 200 seeded splits above.
pub fn splits(len: usize) -> Box<dyn Iterator<Item = Vec<usize>>> {
    let ends = [Vec::new(), (1..len).collect()].into_iter();
    if len <= 4096 {
        Box::new(ends.chain((1..len).map(|cut| vec![cut])))
    } else {
        Box::new(ends.chain((0..200).map(move |seed| random_cuts(len, &mut Rng::new(seed)))))
    }
}

/// Returns one to sixteen cuts of `len` bytes. Some are equal or adjacent, since an empty chunk is
/// also a chunk.
pub fn random_cuts(len: usize, rng: &mut Rng) -> Vec<usize> {
    let mut cuts = Vec::new();
    for _ in 0..=rng.below(8) {
        let cut = rng.below(len + 1);
        cuts.extend([cut, (cut + rng.below(3)).min(len)]);
    }
    cuts.sort_unstable();
    cuts
}

/// Returns the same, between the characters of a text.
pub fn text_cuts(text: &str, rng: &mut Rng) -> Vec<usize> {
    let mut cuts = random_cuts(text.len(), rng);
    cuts.retain(|&cut| text.is_char_boundary(cut));
    cuts
}

/// Returns everything that a document reports about itself.
pub fn view(document: &Document) -> impl PartialEq + Debug + use<> {
    let closed = [
        (Partial::Omit, Partial::Omit),
        (Partial::Include, Partial::Omit),
        (Partial::Include, Partial::Include),
    ];
    let closed = closed.map(|(strings, literals)| {
        let mut suffix = String::new();
        (
            document.complete_into(CloseOptions { strings, literals }, &mut suffix),
            suffix,
        )
    });
    let root = (
        document.root_start(),
        document.root_end(),
        document.roots(),
        document.root().map(str::to_owned),
    );
    let envelope = (
        document.is_json(),
        document.has_fence(),
        document.is_blank(),
        document.is_prose(),
    );
    let fence = (document.rest_of_fence(), document.open_fence());
    let frames = document.machine().frames().to_vec();
    let text = document.text().to_owned();
    (
        text,
        document.cut(),
        document.complete(),
        closed,
        document.completion(),
        root,
        envelope,
        fence,
        frames,
    )
}

/// Returns `input` in pieces.
pub fn chunks<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let ends = cuts.iter().copied().chain([input.len()]);
    let mut start = 0;
    ends.map(|end| &input[std::mem::replace(&mut start, end)..end])
        .collect()
}

/// Decodes standard base64 with padding, as the corpus has it.
pub fn base64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// Returns the files of a folder of test data, sorted by path: those in `tests/corpus`, which are
/// always there, and those in the folder that `RESTITCH_CORPUS` names, if it is set.
pub fn corpus_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = in_corpora(folder)
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.is_file());
    files.sort();
    files
}

/// Returns the rows of a JSONL file of test data, each with the folder that the file is in. A row
/// of `tests/corpus` comes first.
pub fn corpus_rows(file: &str) -> Vec<(PathBuf, Value)> {
    let mut rows = Vec::new();
    for file in in_corpora(file) {
        let text = fs::read_to_string(&file).unwrap();
        let folder = file.parent().unwrap();
        let read = |row| (folder.to_owned(), serde_json::from_str(row).unwrap());
        rows.extend(text.lines().map(read));
    }
    rows
}

/// Returns the JSON documents of a folder of test data, `(file name, text)`, sorted.
pub fn corpus_documents(folder: &str) -> Vec<(String, String)> {
    let mut files = corpus_files(folder);
    files.retain(|file| file.extension().is_some_and(|it| it == "json"));
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    files
        .iter()
        .map(|file| (name(file), fs::read_to_string(file).unwrap()))
        .collect()
}

/// Returns the data of all events of a stream as JSON, with `null` for data that is not JSON.
pub fn event_data(mut stream: &[u8]) -> Vec<Value> {
    let (mut decoder, mut events) = (Decoder::new(&Limits::default()), Vec::new());
    while let Some(event) = decoder.next_event(&mut stream).unwrap() {
        events.push(serde_json::from_str(&event.data).unwrap_or(Value::Null));
    }
    events
}

/// Returns strings that are hard for programs, from arrays of JSON in `strings.json`, and in
/// `blns.json` of recorded data.
pub fn corpus_strings() -> Vec<String> {
    let files = ["strings.json", "blns.json"]
        .into_iter()
        .flat_map(in_corpora);
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    texts
        .flat_map(|text| serde_json::from_str::<Vec<String>>(&text).unwrap())
        .collect()
}

/// Returns the files that a JSON parser must accept (`y_…`), must reject (`n_…`) or may do either
/// with (`i_…`).
pub fn grammar_files() -> Vec<PathBuf> {
    ["grammar", "JSONTestSuite"].map(corpus_files).concat()
}

/// Returns how much a test must have covered: `own` in `tests/corpus` alone, `all` where
/// `RESTITCH_CORPUS` is set.
pub fn at_least(own: usize, all: usize) -> usize {
    if corpora().len() == 1 { own } else { all }
}

/// Reports that a test, or a part of a test, is skipped. Standard error is not captured, so the
/// message appears without a flag.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Returns the folders of test data: our own, and the large one of recorded data, which is not part
/// of the crate.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' data is named by the environment"
)]
fn corpora() -> Vec<PathBuf> {
    let own = root().join("tests/corpus");
    [own]
        .into_iter()
        .chain(std::env::var("RESTITCH_CORPUS").ok().map(PathBuf::from))
        .collect()
}

/// Returns the path of a file or folder in each corpus that has it.
fn in_corpora(name: &str) -> impl Iterator<Item = PathBuf> + use<'_> {
    let paths = corpora().into_iter().map(move |corpus| corpus.join(name));
    paths.filter(|path| path.exists())
}

/// Returns whether the rest of a document has only closers and the cut is not after a whole value.
/// Such an end is given up, because an early end looks the same.
pub fn is_doubtful_end(document: &str, cut: usize) -> bool {
    let mut delivered = Document::new(usize::MAX);
    delivered.push(&document[..cut]).unwrap();
    let is_after_value = delivered.cut().state == CutState::AfterValue;
    !is_after_value && only_closes(&document[cut..])
}

/// Returns whether text has only closers, white space and dots.
pub fn only_closes(text: &str) -> bool {
    text.chars()
        .all(|c| matches!(c, '"' | '}' | ']' | ' ' | '\t' | '\r' | '\n' | '.' | '…'))
}

/// Accepts connections, answers the number of requests that `answers` gives for each, and closes it
/// after reading one more. Returns the address, and the number of requests read on each connection.
pub async fn closing_server(answers: &'static [usize]) -> (SocketAddr, JoinHandle<Vec<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = tokio::spawn(async move {
        let mut seen = Vec::new();
        for &answers in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut requests = 0;
            while requests <= answers {
                let mut request = Vec::new();
                while !request.windows(3).any(|part| part == b"end") {
                    if socket.read_buf(&mut request).await.unwrap() == 0 {
                        break;
                    }
                }
                if request.is_empty() {
                    break;
                }
                requests += 1;
                if requests <= answers {
                    socket
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                        .await
                        .unwrap();
                }
            }
            seen.push(requests);
        }
        seen
    });
    (addr, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_what_they_say() {
        let all: Vec<_> = splits(4).collect();
        assert_eq!(all, [vec![], vec![1, 2, 3], vec![1], vec![2], vec![3]]);
        assert_eq!(splits(4096).count(), 2 + 4095);
        assert_eq!(splits(4097).count(), 202);
        assert_eq!(chunks(b"abcd", &[1, 1, 3]), [&b"a"[..], b"", b"bc", b"d"]);
        for cuts in splits(5000) {
            assert_eq!(chunks(&[7; 5000], &cuts).concat(), [7; 5000]);
        }
    }
}
