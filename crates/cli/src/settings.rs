//! The flags that a configuration file can also set. A flag wins over the environment, the
//! environment over the file, the file over the defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};

use super::console::is_stdin;
use super::{Console, Exit, repair};
use restitch::internal::limits::is_probability;
use restitch::repair::RepairLevel;
use restitch::session::GiveUp;
use restitch_proxy::address::{ListenAddress, SocketMode, one_socket};
use restitch_proxy::config::{Config, ConfigError, LogFormat, Proxy, log_filter, store_address};

/// The settings of the proxy.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// The configuration file, whose tables are in docs/configuration.md. Flags and the environment
    /// win over it.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    listening: Listening,
    /// The provider's address: `https://host[:port][/prefix]`. The path of a request is appended.
    #[arg(
        long,
        value_name = "URL",
        env = "RESTITCH_UPSTREAM",
        hide_env_values = true
    )]
    upstream: Option<String>,
    /// How many threads serve connections. [default: one for each core]
    #[arg(long, value_name = "N", env = "RESTITCH_THREADS", value_parser = threads())]
    threads: Option<usize>,
    /// The most calls after the first one, for one answer. [default: 8]
    #[arg(long, value_name = "N", env = "RESTITCH_CONTINUATIONS")]
    continuations: Option<u32>,
    /// The largest probability of a wrong join that is accepted, from 0 to 1. 0 joins only what was
    /// asked for. [default: 0.001]
    #[arg(long, value_name = "RISK", env = "RESTITCH_MAX_RISK", value_parser = max_risk)]
    max_risk: Option<f64>,
    /// Seconds of silence after which a provider counts as gone while a document is incomplete.
    /// [default: 60]
    #[arg(long, value_name = "SECONDS", env = "RESTITCH_IDLE", value_parser = clap::value_parser!(u64).range(1..=YEAR))]
    idle: Option<u64>,
    /// The largest request body, in bytes, whose answer can be continued. Larger ones are passed
    /// through. [default: 33554432]
    #[arg(long, value_name = "BYTES", env = "RESTITCH_BODY")]
    body: Option<usize>,
    /// Adapt first requests to their model: remove a `response_format` that the model rejects, add
    /// one where the stage of the request expects JSON, and add the suffix to the model's name
    /// without which it does not search the web. [default: false]
    #[arg(long, value_name = "BOOL", env = "RESTITCH_ADAPT", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    adapt: Option<bool>,
    /// What to do with an answer that can't be completed. leave: add nothing, and end it as its
    /// last call ended. close: close its JSON, so that it parses. error: end it with an error.
    /// [default: leave]
    #[arg(long, value_name = "HOW", env = "RESTITCH_ON_GIVE_UP", value_parser = give_up())]
    on_give_up: Option<GiveUp>,
    /// How much of the JSON in an answer may be changed. strict: nothing. syntax: what leaves every
    /// whole token as it is. guess: also what is a guess; up to 4 KiB of a stream are held back.
    /// [default: strict]
    #[arg(long, value_name = "LEVEL", env = "RESTITCH_REPAIR", value_parser = repair::level())]
    repair: Option<RepairLevel>,
    #[command(flatten)]
    keeping: Keeping,
    /// The log on standard error: off, error, warn, info, debug or trace, or a list of them by
    /// module, such as `warn,restitch::access=info`. It has neither keys nor, without
    /// --log-content, text. -v and -q win over it. [default: info]
    #[arg(long, value_name = "FILTER", env = "RESTITCH_LOG", value_parser = log_filter)]
    log: Option<String>,
    /// The format of its lines: text, or one JSON object per line. [default: text]
    #[arg(long, value_name = "FORMAT", env = "RESTITCH_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// For development: log the text of requests and answers, too. It has private text of users and
    /// models. [default: false]
    #[arg(long, value_name = "BOOL", env = "RESTITCH_LOG_CONTENT", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    log_content: Option<bool>,
    #[command(flatten)]
    trust: Trust,
}

/// Where the proxy listens, and how.
#[derive(Clone, Debug, clap::Args)]
struct Listening {
    /// The address to listen on: 127.0.0.1:7378, [::1]:7378, localhost:7378 (loopback, IPv4 and
    /// IPv6), :7378 (all addresses of the machine) or unix:/path/to.sock. Port 0 takes a free one.
    /// [default: 127.0.0.1:7378]
    #[arg(long, value_name = "ADDRESS", env = "RESTITCH_LISTEN")]
    listen: Option<ListenAddress>,
    /// The permissions of a Unix socket, in octal. [default: 0600]
    #[arg(long, value_name = "MODE", env = "RESTITCH_SOCKET_MODE")]
    socket_mode: Option<SocketMode>,
    /// The proxy's certificate for its clients in PEM, and those that lead to its root. Clients
    /// then use https.
    #[arg(long, value_name = "FILE", env = "RESTITCH_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "RESTITCH_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The address of a second listener, for a page of the answers (`/`), metrics (`/metrics`) and
    /// readiness (`/readyz`): 127.0.0.1:7379, localhost:7379 or :7379 (all addresses of the
    /// machine). [default: there is none]
    #[arg(long, value_name = "ADDRESS", env = "RESTITCH_ADMIN", value_parser = one_socket)]
    admin: Option<SocketAddr>,
    /// Keep the text of the last N answers in memory and show it on that page. [default: 0, the
    /// page shows no text]
    #[arg(long, value_name = "N", env = "RESTITCH_PAGE_ANSWERS")]
    page_answers: Option<usize>,
}

/// For how long answers are kept for clients that lose their connection.
#[derive(Clone, Debug, clap::Args)]
struct Keeping {
    /// Seconds for which each streamed answer is kept for a client that loses its connection; the
    /// answer continues meanwhile. The request header `x-restitch-keep` overrides it. [default: 0]
    #[arg(long, value_name = "SECONDS", env = "RESTITCH_KEEP", value_parser = seconds())]
    keep: Option<u32>,
    /// The most seconds for which a request may ask that its answer be kept. [default: 0, none may]
    #[arg(long, value_name = "SECONDS", env = "RESTITCH_MAX_KEEP", value_parser = seconds())]
    max_keep: Option<u32>,
    /// Where kept answers are: memory, a folder (file:/path) whose files outlive the process, or
    /// the address of a Redis or Valkey server that several proxies share. [default: memory]
    #[arg(long, value_name = "ADDRESS", env = "RESTITCH_STORE", value_parser = store_address, hide_env_values = true)]
    store: Option<String>,
}

/// Trusted clients, by their token, and trusted upstreams, by their certificate.
#[derive(Clone, Debug, clap::Args)]
struct Trust {
    /// The environment variable that has the token of the proxy. A request without the token is
    /// refused. [default: no token is needed]
    #[arg(long, value_name = "VARIABLE", env = "RESTITCH_TOKEN_VARIABLE")]
    token_variable: Option<String>,
    /// Certificates in PEM that are trusted in addition to the system's, for an upstream of your
    /// own.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// The proxy's own certificate in PEM, for an upstream that asks for one.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CLIENT_CERT")]
    client_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CLIENT_KEY")]
    client_key: Option<PathBuf>,
}

/// Parses a [`GiveUp`] by its name. Help and completions list the names.
fn give_up() -> impl TypedValueParser<Value = GiveUp> {
    PossibleValuesParser::new(GiveUp::ALL.map(GiveUp::as_str))
        .try_map(|name| name.parse::<GiveUp>())
}

/// Parses a number of threads.
fn threads() -> impl TypedValueParser<Value = usize> {
    let most = i64::try_from(Proxy::MOST_THREADS).unwrap_or(i64::MAX);
    clap::value_parser!(u32)
        .range(1..=most)
        .map(|threads| threads as usize)
}

/// Parses seconds up to a year.
fn seconds() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(0..=YEAR.cast_signed())
}

/// Parses a probability from 0 to 1.
pub(super) fn max_risk(written: &str) -> Result<f64, &'static str> {
    written
        .parse()
        .ok()
        .filter(|risk| is_probability(*risk))
        .ok_or("a number from 0 to 1 is needed")
}

/// Seconds of the longest silence that can be set.
const YEAR: u64 = 365 * 24 * 60 * 60;

/// Reads the configuration of a file, or the defaults if no file is named. `None` if the file can't
/// be read or is wrong, which has been reported then.
pub(super) fn read(file: Option<&Path>, console: &mut Console) -> Option<Config> {
    read_with(file, Config::parse, console)
}

fn read_with(
    file: Option<&Path>,
    parse: fn(&str) -> Result<Config, ConfigError>,
    console: &mut Console,
) -> Option<Config> {
    let Some(path) = file else {
        return Some(Config::default());
    };
    let text = console.read_text(path)?.text;
    let report = |error| console.fail(Exit::Usage, format_args!("{}: {error}", path.display()));
    parse(&text).map_err(report).ok()
}

impl Settings {
    /// Reads the file and applies flags and environment. `None` if the file can't be read or is
    /// wrong, which has been reported then.
    pub(super) fn config(&self, console: &mut Console) -> Option<Config> {
        read(self.config.as_deref(), console).map(|config| self.applied(config))
    }

    /// As [`config`](Self::config), and checks the upstreams of the file.
    pub(super) fn checked(&self, console: &mut Console) -> Option<Config> {
        read_with(self.config.as_deref(), Config::parse_checked, console)
            .map(|config| self.applied(config))
    }

    /// Returns whether a file is named that can be read again.
    pub(super) fn has_file(&self) -> bool {
        self.config.as_deref().is_some_and(|path| !is_stdin(path))
    }

    /// Reads the file again, and applies the flags and the environment of the start. An error names
    /// the file and the line.
    pub(super) fn again(&self) -> Result<Config, String> {
        let Some(path) = self.config.as_deref() else {
            return Ok(self.applied(Config::default()));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let config =
            Config::parse_checked(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(self.applied(config))
    }

    /// Applies flags and environment to the settings of a file.
    fn applied(&self, mut config: Config) -> Config {
        let (limits, proxy) = (&mut config.limits, &mut config.proxy);
        limits.continuation.max_continuations = self
            .continuations
            .unwrap_or(limits.continuation.max_continuations);
        limits.continuation.max_risk = self.max_risk.unwrap_or(limits.continuation.max_risk);
        limits.transport.idle_timeout = self
            .idle
            .map_or(limits.transport.idle_timeout, Duration::from_secs);
        limits.transport.max_body_bytes = self.body.unwrap_or(limits.transport.max_body_bytes);
        let listening = self.listening.clone();
        proxy.listen = listening.listen.or(proxy.listen.take());
        proxy.socket_mode = listening.socket_mode.or(proxy.socket_mode);
        proxy.tls_cert = listening.tls_cert.or(proxy.tls_cert.take());
        proxy.tls_key = listening.tls_key.or(proxy.tls_key.take());
        proxy.admin = listening.admin.or(proxy.admin);
        proxy.page_answers = listening.page_answers.or(proxy.page_answers);
        proxy.upstream = self.upstream.clone().or(proxy.upstream.take());
        proxy.threads = self.threads.or(proxy.threads);
        proxy.adapt = self.adapt.or(proxy.adapt);
        proxy.on_give_up = self.on_give_up.or(proxy.on_give_up);
        proxy.repair = self.repair.or(proxy.repair);
        proxy.keep = self.keeping.keep.or(proxy.keep);
        proxy.store = self.keeping.store.clone().or(proxy.store.take());
        let max_keep = self
            .keeping
            .max_keep
            .map(|seconds| Duration::from_secs(seconds.into()));
        limits.keep.max_keep_time = max_keep.unwrap_or(limits.keep.max_keep_time);
        proxy.log = self.log.clone().or(proxy.log.take());
        proxy.log_format = self.log_format.or(proxy.log_format);
        proxy.log_content = self.log_content.or(proxy.log_content);
        let (trust, access, tls) = (&self.trust, &mut config.access, &mut config.tls);
        access.token_variable = trust
            .token_variable
            .clone()
            .or(access.token_variable.take());
        tls.ca_file = trust.ca_file.clone().or(tls.ca_file.take());
        tls.client_cert = trust.client_cert.clone().or(tls.client_cert.take());
        tls.client_key = trust.client_key.clone().or(tls.client_key.take());
        config
    }
}
