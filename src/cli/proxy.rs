//! `restitch proxy`: what clients point their base URL at.

use std::io;

use tracing_subscriber::filter::LevelFilter;

use super::settings::Settings;
use super::{Console, Exit, block_on, epilogue, interrupted};
use crate::client::{Client, Upstream};
use crate::config::{self, Config};
use crate::proxy::Proxy;

/// Arguments of `restitch proxy`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
pub struct Args {
    #[command(flatten)]
    settings: Box<Settings>,
}

const EXAMPLES: &str = r#"Examples:
  restitch proxy --upstream https://api.openai.com
  restitch proxy --upstream https://openrouter.ai/api --listen 127.0.0.1:9000
  restitch proxy --upstream http://127.0.0.1:8788      # in front of `restitch sim`
  restitch proxy --config restitch.toml                # see `restitch config show`

Then point any OpenAI client at it, with its own key:
  OpenAI(base_url="http://127.0.0.1:7378/v1")
  curl -N http://127.0.0.1:7378/v1/chat/completions -H "authorization: Bearer $OPENAI_API_KEY" \
    -H 'content-type: application/json' \
    -d '{"model": "gpt-4.1-mini", "stream": true, "messages": [{"role": "user", "content": "A long list, as JSON"}]}'

`/healthz` answers 200. Ctrl-C or SIGTERM: no new connections, the answers under way go on to their ends; the second
one ends at once. SIGHUP is ignored."#;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    let Some(config) = args.settings.config(console) else { return Ok(()) };
    let Some(upstream) = &config.proxy.upstream else {
        let words = "--upstream: it is named neither there, nor by RESTITCH_UPSTREAM, nor in a configuration file";
        console.fail(Exit::Usage, words);
        return Ok(());
    };
    let upstream = match Upstream::parse(upstream) {
        Ok(upstream) => upstream,
        Err(error) => {
            // The address itself is not repeated: it may hold a password.
            console.fail(Exit::Usage, format_args!("--upstream: {error}"));
            return Ok(());
        }
    };
    // A word that is no level was refused where it was read.
    let level = config.proxy.log.as_deref().map_or(Ok(LevelFilter::INFO), str::parse);
    debug_assert!(level.is_ok(), "{level:?}");
    let level = level.unwrap_or(LevelFilter::INFO);
    let listen = config.proxy.listen.unwrap_or(config::Proxy::LISTEN);
    console.start_log(Some(level));
    let served = block_on(async {
        // Whoever reads the address may send a signal at once.
        let first = interrupted()?;
        ignore_hangups()?;
        let client = Client::new(upstream.clone()).map_err(io::Error::other)?;
        let server = configured(client, &config).bind(listen).await?;
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
        console.fail(Exit::Io, format_args!("{listen}: {error}"));
    }
    Ok(())
}

/// A terminal that closes ends no answer. The configuration is read once; who sends the signal to have it read again is
/// told so.
#[cfg(unix)]
fn ignore_hangups() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::warn!("SIGHUP: ignored; the configuration is not read again, restart the proxy for that");
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn ignore_hangups() -> io::Result<()> {
    Ok(())
}

/// A proxy as the configuration says.
pub(super) fn configured(client: Client, config: &Config) -> Proxy {
    Proxy::new(client)
        .limits(config.limits.clone())
        .prompt(config.prompt.clone())
        .capabilities(config.table())
        .adapt(config.proxy.adapt.unwrap_or_default())
        .raise_max_tokens(config.proxy.raise_max_tokens.unwrap_or(1))
        .give_up(config.proxy.on_give_up.unwrap_or(config::Proxy::ON_GIVE_UP))
}
