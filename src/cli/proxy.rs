//! `restitch proxy`: what clients point their base URL at.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::time::Duration;

use super::{Console, Exit, block_on, interrupted};
use crate::Limits;
use crate::client::{Client, Upstream};
use crate::proxy::Proxy;

/// Arguments of `restitch proxy`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,
    /// Where requests go: `https://host[:port][/prefix]`. A request's path is appended.
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Calls after the first one, for one answer.
    #[arg(long, value_name = "N", default_value_t = Limits::default().continuations)]
    continuations: u32,
    /// Seconds of silence after which an upstream that owes the rest of a document counts as gone.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle.as_secs(), value_parser = clap::value_parser!(u64).range(1..=YEAR))]
    idle: u64,
    /// Bytes of a request's body that are kept for a continuation; larger ones are streamed through.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body)]
    body: usize,
    /// What is told on standard error: off, error, warn, info, debug or trace. Neither text nor keys are.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: tracing_subscriber::filter::LevelFilter,
}

const EXAMPLES: &str = r#"Examples:
  restitch proxy --upstream https://api.openai.com
  restitch proxy --upstream https://openrouter.ai/api --listen 127.0.0.1:9000
  restitch proxy --upstream http://127.0.0.1:8788      # in front of `restitch sim`

Then point any OpenAI client at it, with its own key:
  OpenAI(base_url="http://127.0.0.1:8787/v1")
  curl -N http://127.0.0.1:8787/v1/chat/completions -H "authorization: Bearer $OPENAI_API_KEY" \
    -H 'content-type: application/json' \
    -d '{"model": "gpt-4.1-mini", "stream": true, "messages": [{"role": "user", "content": "A long list, as JSON"}]}'

`/healthz` answers 200. Ctrl-C or SIGTERM: no new connections, the answers under way go on to their ends; the second
one ends at once."#;

/// Seconds; longer silences are nobody's wish.
const YEAR: u64 = 365 * 24 * 60 * 60;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    let upstream = match Upstream::parse(&args.upstream) {
        Ok(upstream) => upstream,
        Err(error) => {
            // The address itself is not repeated: it may hold a password.
            console.note(format_args!("--upstream: {error}"));
            console.verdict(Exit::Usage);
            return Ok(());
        }
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(args.log)
        .with_target(false)
        .init();
    let limits = Limits {
        continuations: args.continuations,
        idle: Duration::from_secs(args.idle),
        body: args.body,
        ..Limits::default()
    };
    let served = block_on(async {
        // Whoever reads the address may send a signal at once.
        let first = interrupted()?;
        let client = Client::new(upstream.clone()).map_err(io::Error::other)?;
        let server = Proxy::new(client).limits(limits).bind(args.listen).await?;
        console.note(format_args!("listening on {}, upstream {}", server.url(), upstream));
        first.await;
        let again = interrupted()?;
        console.note("draining: a second signal ends at once");
        tokio::select! {
            () = server.shutdown() => {}
            () = again => {}
        }
        Ok(())
    });
    if let Err(error) = served {
        console.note(format_args!("{}: {error}", args.listen));
        console.verdict(Exit::Io);
    }
    Ok(())
}
