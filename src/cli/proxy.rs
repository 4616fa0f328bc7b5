//! `restitch proxy`: runs the proxy.

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
  curl -N http://127.0.0.1:7378/v1/chat/completions \
    -H "authorization: Bearer $OPENAI_API_KEY" -H 'content-type: application/json' \
    -d '{"model": "gpt-4.1-mini", "stream": true,
         "messages": [{"role": "user", "content": "A long list, as JSON"}]}'

`/healthz` answers 200. After Ctrl-C or SIGTERM the proxy takes no new connections, and ends when the open answers have
ended. A second signal ends it at once. SIGHUP is ignored."#;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    let Some(config) = args.settings.config(console) else { return Ok(()) };
    let Some(upstream) = &config.proxy.upstream else {
        let words = "--upstream is missing; RESTITCH_UPSTREAM or a configuration file can set it, too";
        console.fail(Exit::Usage, words);
        return Ok(());
    };
    let upstream = match Upstream::parse(upstream) {
        Ok(upstream) => upstream,
        Err(error) => {
            // The address is not repeated, since it may have a password.
            console.fail(Exit::Usage, format_args!("--upstream: {error}"));
            return Ok(());
        }
    };
    // A word that is not a level was rejected when it was read.
    let level = config.proxy.log.as_deref().map_or(Ok(LevelFilter::INFO), str::parse);
    debug_assert!(level.is_ok(), "{level:?}");
    let level = level.unwrap_or(LevelFilter::INFO);
    let listen = config.proxy.listen.unwrap_or(config::Proxy::LISTEN);
    console.start_log(Some(level));
    let served = block_on(async {
        // A signal may arrive as soon as the address is shown.
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

/// Ignores SIGHUP, so that a terminal that closes ends no answer. The log says that the configuration is not read
/// again.
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

/// Makes a proxy with this configuration.
pub(super) fn configured(client: Client, config: &Config) -> Proxy {
    Proxy::new(client)
        .limits(config.limits.clone())
        .prompt(config.prompt.clone())
        .capabilities(config.table())
        .shapes(config.shapes.iter().cloned())
        .adapt(config.proxy.adapt.unwrap_or_default())
        .raise_max_tokens(config.proxy.raise_max_tokens.unwrap_or(1))
        .give_up(config.proxy.on_give_up.unwrap_or(config::Proxy::ON_GIVE_UP))
        .repair(config.proxy.repair.unwrap_or_default())
}
