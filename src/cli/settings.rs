//! Flags that a configuration file can hold, too. A flag wins over the environment, that over the file, that over the
//! defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use tracing_subscriber::filter::LevelFilter;

use super::{Console, Exit};
use crate::config::Config;
use crate::session::GiveUp;

/// How the proxy runs.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// The configuration file; docs/configuration.md has its tables. Flags and the environment win over it.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one. [default: 127.0.0.1:7378]
    #[arg(long, value_name = "ADDRESS", env = "RESTITCH_LISTEN")]
    listen: Option<SocketAddr>,
    /// Where requests go: `https://host[:port][/prefix]`. A request's path is appended.
    #[arg(long, value_name = "URL", env = "RESTITCH_UPSTREAM", hide_env_values = true)]
    upstream: Option<String>,
    /// Calls after the first one, for one answer. [default: 8]
    #[arg(long, value_name = "N", env = "RESTITCH_CONTINUATIONS")]
    continuations: Option<u32>,
    /// Seconds of silence after which an upstream that owes the rest of a document counts as gone. [default: 60]
    #[arg(long, value_name = "SECONDS", env = "RESTITCH_IDLE", value_parser = clap::value_parser!(u64).range(1..=YEAR))]
    idle: Option<u64>,
    /// Bytes of a request's body that are kept for a continuation; larger ones are streamed through. [default:
    /// 33554432]
    #[arg(long, value_name = "BYTES", env = "RESTITCH_BODY")]
    body: Option<usize>,
    /// Adapts first requests to what their model can be asked for: takes out a `response_format` that it refuses, and
    /// gives its name the suffix without which it doesn't search the web. [default: false]
    #[arg(long, value_name = "BOOL", env = "RESTITCH_ADAPT", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    adapt: Option<bool>,
    /// What becomes of an answer whose rest could not be had. leave: nothing is added, and it ends as its last call
    /// did; close: its JSON is closed, so that it parses; error: it ends with an error. [default: leave]
    #[arg(long, value_name = "HOW", env = "RESTITCH_ON_GIVE_UP", value_parser = give_up())]
    on_give_up: Option<GiveUp>,
    /// What is told on standard error: off, error, warn, info, debug or trace. Neither text nor keys are. [default:
    /// info]
    #[arg(long, value_name = "LEVEL", env = "RESTITCH_LOG")]
    log: Option<LevelFilter>,
}

/// The names of [`GiveUp`], which help and shells list.
fn give_up() -> impl TypedValueParser<Value = GiveUp> {
    PossibleValuesParser::new(GiveUp::ALL.map(GiveUp::as_str)).try_map(|name| name.parse::<GiveUp>())
}

/// Seconds; longer silences are nobody's wish.
const YEAR: u64 = 365 * 24 * 60 * 60;

/// What the file says; the defaults without one. `None` if it can't be read or is wrong, which has been told then.
pub(super) fn read(file: Option<&Path>, console: &mut Console) -> Option<Config> {
    let Some(path) = file else { return Some(Config::default()) };
    let (text, _) = console.read_text(path)?;
    let told = |error| console.fail(Exit::Usage, format_args!("{}: {error}", path.display()));
    Config::parse(&text).map_err(told).ok()
}

impl Settings {
    /// The file with what the flags and the environment say. `None` if it can't be read or is wrong, which has been told
    /// then.
    pub(super) fn config(&self, console: &mut Console) -> Option<Config> {
        let mut config = read(self.config.as_deref(), console)?;
        let (limits, proxy) = (&mut config.limits, &mut config.proxy);
        limits.max_continuations = self.continuations.unwrap_or(limits.max_continuations);
        limits.idle_timeout = self.idle.map_or(limits.idle_timeout, Duration::from_secs);
        limits.max_body_bytes = self.body.unwrap_or(limits.max_body_bytes);
        proxy.listen = self.listen.or(proxy.listen);
        proxy.upstream = self.upstream.clone().or(proxy.upstream.take());
        proxy.adapt = self.adapt.or(proxy.adapt);
        proxy.on_give_up = self.on_give_up.or(proxy.on_give_up);
        proxy.log = self.log.map(|level| level.to_string()).or(proxy.log.take());
        Some(config)
    }
}
