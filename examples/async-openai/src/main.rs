//! Makes answers whole that `async-openai` gets from a server that cuts them:
//! `cargo run --manifest-path examples/async-openai/Cargo.toml`.
//!
//! The server is the scripted one, on a free loopback port.

use std::error::Error;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequestArgs,
};
use restitch::Stitcher;
use restitch_sim::Sim;
use tokio_stream::StreamExt;

/// The first answer ends at its output limit, the second one loses its connection.
const SCRIPT: &str = "answer@40!length | anchor@25!drop anchor";

const ANSWER: &str =
    r#"{"moons": [{"name": "Ganymede", "km": 5268}, {"name": "Titan", "km": 5150}]}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Sim::new(ANSWER, SCRIPT.parse()?)
        .bind(([127, 0, 0, 1], 0).into())
        .await?;
    let client = Client::with_config(
        OpenAIConfig::new()
            .with_api_base(format!("{}/v1", server.url()))
            .with_api_key(""),
    );
    let question = ChatCompletionRequestUserMessageArgs::default()
        .content("The two largest moons, as JSON.")
        .build()?;
    let request = CreateChatCompletionRequestArgs::default()
        .model("sim")
        .messages([question.into()])
        .build()?;

    let mut text = Stitcher::new()
        .chat(request, async |request| {
            client.chat().create_stream(request).await
        })
        .await?;
    let mut answer = String::new();
    while let Some(delta) = text.next().await {
        answer.push_str(&delta?);
    }

    assert_eq!(answer, ANSWER);
    println!("{answer}\n{}", text.into_outcome());
    server.shutdown().await;
    Ok(())
}
