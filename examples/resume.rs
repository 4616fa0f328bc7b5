//! Another process continues an answer whose process has ended:
//! `cargo run --features stream --example resume`.
//!
//! The example uses no network: `ask` replaces an SDK's call, and a string a row of a database.

use std::error::Error;

use restitch::Stitcher;
use restitch::session::Snapshot;
use tokio_stream::{Iter, StreamExt, iter};

const ANSWER: &str = r#"{"title": "Tides", "sections": [
  {"id": 1, "text": "The moon draws the water nearest to it."},
  {"id": 2, "text": "In the Bay of Fundy the range exceeds 16 m."}
]}"#;

type Messages = Vec<(&'static str, String)>;
type Deltas = Iter<std::vec::IntoIter<Result<String, std::io::Error>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let messages = vec![("user", "Notes on tides, as JSON".to_owned())];
    let row = begin(&messages).await?;
    show("…\n");

    let snapshot: Snapshot = serde_json::from_str(&row)?;
    let mut text = Stitcher::new().resume(&snapshot, |retry| ask(retry.messages(&messages)))?;
    while let Some(delta) = text.next().await {
        show(&delta?);
    }
    show(&format!("\n{}\n", text.into_outcome()));
    Ok(())
}

/// The first process: it ends after 20 deltas.
async fn begin(messages: &Messages) -> Result<String, Box<dyn Error>> {
    let first = ask(messages.clone()).await?;
    let mut text = Stitcher::new().text(first, |retry| ask(retry.messages(messages)));
    for _ in 0..20 {
        if let Some(delta) = text.next().await {
            show(&delta?);
        }
    }
    Ok(serde_json::to_string(&text.snapshot())?)
}

/// Stands for an SDK's call: takes messages, returns deltas. A further call repeats the end of the
/// delivered text, as asked, and continues.
async fn ask(messages: Messages) -> Result<Deltas, std::io::Error> {
    let text = match messages.as_slice() {
        [_, (_, delivered), (_, prompt)] => {
            let anchor = prompt.lines().rev().nth(1).unwrap_or_default();
            format!("{anchor}{}", &ANSWER[delivered.len()..])
        }
        _ => ANSWER.to_owned(),
    };
    let deltas = text.as_bytes().chunks(6);
    let deltas: Vec<_> = deltas
        .map(|delta| Ok(String::from_utf8_lossy(delta).into_owned()))
        .collect();
    Ok(iter(deltas))
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(text: &str) {
    print!("{text}");
}
