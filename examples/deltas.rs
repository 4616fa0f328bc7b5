//! Makes the text deltas of an SDK whole: `cargo run --example deltas --features stream`.
//!
//! Uses no network: `ask` stands for the SDK's call, and cuts its first answer.

use std::io::Error;
use std::pin::Pin;

use restitch::Stitcher;
use restitch::session::Status;
use tokio_stream::{Stream, StreamExt, iter};

type Deltas = Pin<Box<dyn Stream<Item = Result<String, Error>> + Send>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let question = vec![("user", "The three largest moons, as JSON.".to_owned())];
    let first = ask(question.clone()).await?;
    let mut text = Stitcher::new().text(first, |retry| ask(retry.messages(&question)));
    while let Some(delta) = text.next().await {
        show(&delta?);
    }
    show("\n");
    assert_eq!(text.into_outcome().status(), Status::Complete);
    Ok(())
}

/// Stands for an SDK's call: takes messages, returns deltas.
async fn ask(messages: Vec<(&str, String)>) -> Result<Deltas, Error> {
    const ANSWER: &str = r#"{"moons": [{"name": "Ganymede", "km": 5268}, {"name": "Titan", "km": 5150}, {"name": "Callisto", "km": 4821}]}"#;
    let text = match messages.as_slice() {
        [_, (_, delivered), (_, prompt)] => {
            let anchor = prompt.lines().rev().nth(1).unwrap_or_default();
            format!("{anchor}{}", &ANSWER[delivered.len()..])
        }
        _ => ANSWER[..70].to_owned(),
    };
    let deltas: Vec<_> = text
        .as_bytes()
        .chunks(6)
        .map(|part| Ok(String::from_utf8_lossy(part).into_owned()))
        .collect();
    Ok(Box::pin(iter(deltas)))
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn show(text: &str) {
    print!("{text}");
}
