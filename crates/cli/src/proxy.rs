//! `restitch proxy`: runs the proxy.

use std::sync::Arc;
use std::{fmt, io};

use tokio::runtime::Builder;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::log_filter::{LogFilter, LogHandle};
use super::settings::Settings;
use super::{Console, Exit, epilogue, interrupted};
use restitch_http::{Client, Error, Expiry, TlsFiles, Upstream};
#[cfg(feature = "otlp")]
use restitch_proxy::Otlp;
use restitch_proxy::config::{
    self, AccessConfig, Config, LimitsConfig, LogFormat, ProxyConfig, TlsConfig,
};
use restitch_proxy::route_config::RouteConfig;
use restitch_proxy::{Access, Fallback, Listen, Loaded, Loader, Proxy, Reloader, ServerTls};

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
  restitch proxy --upstream https://api.openai.com --listen 0.0.0.0:7378 --token-variable LLM_PROXY_TOKEN
  restitch proxy --upstream https://api.openai.com --listen unix:/run/restitch/llm.sock
  restitch proxy --upstream https://api.openai.com --listen :7378 --tls-cert llm.pem --tls-key llm.key \
    --token-variable LLM_PROXY_TOKEN

Then point any OpenAI client at it, with its own key:
  OpenAI(base_url="http://127.0.0.1:7378/v1")
  curl -N http://127.0.0.1:7378/v1/chat/completions \
    -H "authorization: Bearer $OPENAI_API_KEY" -H 'content-type: application/json' \
    -d '{"model": "gpt-4.1-mini", "stream": true,
         "messages": [{"role": "user", "content": "A long list, as JSON"}]}'

`/healthz` answers 200. `--admin 127.0.0.1:7379` opens a listener with a page of
the answers, `/metrics` and `/readyz` (docs/operating.md). After Ctrl-C or SIGTERM the proxy takes no new connections, and ends when the open answers have
ended; those that are open after 30 seconds (`drain_timeout`) are cut, and the exit code is 3. A second signal ends it at
once. SIGHUP reads the file of `--config` again; so does `POST /reload` on the admin listener."#;

pub(super) fn run(args: &Args, console: &mut Console) -> io::Result<()> {
    let Some(config) = args.settings.checked(console) else {
        return Ok(());
    };
    // Errors in the settings are reported before the log begins.
    let first = upstream(&config)
        .and_then(|upstream| access(&config.access).and(Ok((upstream, listen(&config.proxy)?))));
    let (upstream, listen) = match first {
        Ok(first) => first,
        Err((exit, mistake)) => {
            console.fail(exit, mistake);
            return Ok(());
        }
    };
    let format = config.proxy.log_format;
    let log = console.start_log(Some(filter(&config.proxy)), format);
    let proxy = match built(&config) {
        Ok(proxy) => proxy,
        Err((exit, mistake)) => {
            console.fail(exit, mistake);
            return Ok(());
        }
    };
    let loader = loader(&args.settings, &config, log);
    let proxy = loader.into_iter().fold(proxy, Proxy::loader);
    // The threads that serve have runtimes of their own.
    let served: io::Result<bool> = Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            // A signal may arrive as soon as the address is shown.
            let first = interrupted()?;
            let hangups = Hangups::new()?;
            #[cfg(feature = "otlp")]
            let (proxy, otlp) = {
                let otlp = Otlp::from_environment().map_err(io::Error::other)?;
                (proxy.otlp(otlp.clone()), otlp)
            };
            let server = proxy.listen(&listen).await?;
            hangups.reload(server.reloader());
            let tell = |words: fmt::Arguments<'_>| match format {
                // All lines on standard error are for programs then.
                LogFormat::Json => tracing::info!("{words}"),
                _ => console.note(words),
            };
            tell(format_args!(
                "listening on {}, upstream {}",
                server.urls().join(" and "),
                upstream
            ));
            if let Some(admin) = server.admin_addr() {
                tell(format_args!(
                    "page, metrics and readiness on http://{admin}"
                ));
            }
            first.await;
            let again = interrupted()?;
            tell(format_args!("draining: a second signal ends at once"));
            let has_ended = tokio::select! {
                has_ended = server.shutdown() => has_ended,
                () = again => return Ok(false),
            };
            #[cfg(feature = "otlp")]
            if let Some(otlp) = otlp {
                otlp.finish().await;
            }
            Ok(has_ended)
        });
    match served {
        Ok(true) => {}
        Ok(false) => console.fail(Exit::Cut, "open answers were cut"),
        Err(error) => console.fail(Exit::Io, format_args!("{}: {error}", listen.address)),
    }
    Ok(())
}

/// Returns the upstream of requests that no route matches.
fn upstream(config: &Config) -> Result<Upstream, (Exit, String)> {
    let missing =
        "--upstream is missing; RESTITCH_UPSTREAM or a configuration file can set it, too";
    let address = config
        .proxy
        .upstream
        .as_deref()
        .ok_or((Exit::Usage, missing.to_owned()))?;
    // The address is not repeated, since it may have a password.
    Upstream::parse(address).map_err(|error| (Exit::Usage, format!("--upstream: {error}")))
}

/// Returns the filter of the log.
fn filter(config: &ProxyConfig) -> Targets {
    // An invalid filter was rejected when the settings were read.
    let filter = config.log.parse();
    debug_assert!(filter.is_ok(), "{filter:?}");
    filter.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

/// Makes the proxy of a configuration.
fn built(config: &Config) -> Result<Proxy, (Exit, String)> {
    let mut config = config.clone();
    fit_open_files(&mut config.limits);
    let client =
        client(upstream(&config)?, &config).map_err(|error| (Exit::Io, error.to_string()))?;
    Ok(routed(configured(client, &config), &config)?.access(access(&config.access)?))
}

/// Opens the files of certificates and keys that a configuration names. Returns when the
/// certificates expire.
pub(super) fn check_certificates(config: &Config) -> Result<Vec<Expiry>, String> {
    let server = listen(&config.proxy)
        .map_err(|(_, mistake)| mistake)?
        .tls
        .map(|tls| tls.expiry());
    let others = tls_files(config)
        .check()
        .map_err(|error| error.to_string())?;
    Ok(server.into_iter().chain(others).collect())
}

/// Returns a loader that reads the configuration again. `None`: there is no file to read.
fn loader(settings: &Settings, start: &Config, log: Option<LogHandle>) -> Option<Loader> {
    settings.has_file().then(|| {
        let (settings, start) = (settings.clone(), start.proxy.clone());
        let load = move || {
            let config = settings.again()?;
            let proxy = built(&config).map_err(|(_, mistake)| mistake)?;
            let (log, filter) = (log.clone(), filter(&config.proxy));
            let used = move || {
                // Reloading fails if there is no log.
                let _ = log.map(|log| log.reload(LogFilter(filter)));
            };
            let certificate = config
                .proxy
                .tls_cert
                .clone()
                .zip(config.proxy.tls_key.clone());
            let fixed = fixed(&start, &config.proxy);
            Ok(Loaded {
                proxy,
                fixed,
                certificate,
                used: Box::new(used),
            })
        };
        Arc::new(load) as Loader
    })
}

/// Returns the names of changed settings that are used only at the start. The proxy knows which
/// other changes need a restart.
fn fixed(start: &ProxyConfig, now: &ProxyConfig) -> Vec<&'static str> {
    let differs = [
        ("listen", start.listen != now.listen),
        ("socket_mode", start.socket_mode != now.socket_mode),
        (
            "tls_cert",
            start.tls_cert.is_some() != now.tls_cert.is_some(),
        ),
        ("tls_key", start.tls_key.is_some() != now.tls_key.is_some()),
        ("log_format", start.log_format != now.log_format),
        ("log_content", start.log_content != now.log_content),
    ];
    differs
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| name)
        .collect()
}

/// Returns where to listen, with the certificate from its files.
fn listen(config: &ProxyConfig) -> Result<Listen, (Exit, String)> {
    let tls = match (&config.tls_cert, &config.tls_key) {
        (None, None) => None,
        (Some(cert), Some(key)) => {
            let tls =
                ServerTls::from_files(cert, key).map_err(|error| (Exit::Io, error.to_string()))?;
            Some(tls)
        }
        (Some(_), None) => {
            return Err((
                Exit::Usage,
                "--tls-cert needs its key: set --tls-key, too".to_owned(),
            ));
        }
        (None, Some(_)) => {
            return Err((
                Exit::Usage,
                "--tls-key needs its certificate: set --tls-cert, too".to_owned(),
            ));
        }
    };
    Ok(Listen {
        address: config.listen.clone(),
        socket_mode: config.socket_mode,
        tls,
    })
}

/// Raises the limit of open files, and lowers the number of connections to fit it: each connection
/// needs one file for its client and one for the upstream.
fn fit_open_files(limits: &mut LimitsConfig) {
    let wanted = u64::try_from(usize::from(limits.max_connections))
        .unwrap_or(u64::MAX)
        .saturating_mul(2)
        .saturating_add(OTHER_FILES);
    let files = match rlimit::increase_nofile_limit(wanted) {
        Ok(files) => files,
        Err(error) => return tracing::warn!(%error, "cannot find out how many files may be open"),
    };
    if files < wanted {
        let fits = usize::try_from(files.saturating_sub(OTHER_FILES) / 2)
            .unwrap_or(usize::MAX)
            .max(1);
        tracing::warn!(
            files,
            max_connections = fits,
            "fewer connections than configured fit the limit of open files"
        );
        limits.max_connections = fits.into();
    }
}

/// Files that are open beside connections: listeners, polls of each thread, standard streams, files
/// of the system.
const OTHER_FILES: u64 = 64;

/// Returns the access rules, with the token from the environment.
fn access(config: &AccessConfig) -> Result<Access, (Exit, String)> {
    let token = config
        .token_variable
        .as_deref()
        .map(|variable| secret("--token-variable", variable))
        .transpose();
    Ok(Access {
        token: token.map_err(|mistake| (Exit::Usage, mistake))?,
        hosts: config.allow_hosts.clone(),
        origins: config.allow_origins.clone(),
        paths: config.allow_paths.clone(),
        methods: config.allow_methods.clone(),
    })
}

/// Reads a token or a key. A proxy that lacks one must not start without it. `user`: the flag or
/// the route that needs it.
#[expect(
    clippy::disallowed_methods,
    reason = "a command does I/O: keys come from the environment"
)]
fn secret(user: &str, variable: &str) -> Result<String, String> {
    if !config::is_variable(variable) {
        return Err(format!(
            "{user}: what is to name a variable of the environment is no name: is it the secret itself?"
        ));
    }
    match std::env::var(variable) {
        // A header can carry it.
        Ok(token) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(token)
        }
        Ok(token) if !token.is_empty() => Err(format!(
            "{user}: {variable} has characters that are no visible ASCII, such as a line end"
        )),
        _ => Err(format!(
            "{user}: the environment has no {variable}, or nothing in it"
        )),
    }
}

/// A handler of SIGHUP, which does not end the process: a closing terminal sends it, too.
#[cfg(unix)]
struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::hangup()).map(Self)
    }

    /// Reads the configuration again at each SIGHUP, and logs the result.
    fn reload(mut self, reloader: Reloader) {
        tokio::spawn(async move {
            while self.0.recv().await.is_some() {
                // On an error, the reload has logged it and kept the configuration.
                let _ = reloader.reload().await;
            }
        });
    }
}

#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    fn reload(self, _: Reloader) {}
}

/// Adds the routes of a configuration. Routes to one upstream share their connections.
fn routed(proxy: Proxy, config: &Config) -> Result<Proxy, (Exit, String)> {
    let mut clients: Vec<Client> = Vec::new();
    let mut client_of = |route: &RouteConfig, address: &str| {
        // The address is not repeated, since it may have a password.
        let wrong = |error| (Exit::Usage, format!("route `{}`: {error}", route.name));
        let upstream = Upstream::parse(address).map_err(wrong)?;
        let known = clients
            .iter()
            .find(|client| *client.upstream() == upstream)
            .cloned();
        let made = |error: Error| (Exit::Io, format!("route `{}`: {error}", route.name));
        let client = known
            .map_or_else(|| client(upstream, config), Ok)
            .map_err(made)?;
        clients.push(client.clone());
        Ok(client)
    };
    let mut proxy = proxy;
    for route in &config.routes {
        let own = route
            .upstream
            .as_deref()
            .map(|upstream| client_of(route, upstream))
            .transpose()?;
        let mut fallbacks = Vec::new();
        for fallback in &route.fallback {
            let key = fallback
                .key_variable
                .as_deref()
                .map(|variable| secret(&format!("route `{}`", route.name), variable));
            let key = key.transpose().map_err(|mistake| (Exit::Usage, mistake))?;
            let client = client_of(route, &fallback.upstream)?;
            fallbacks.push(Fallback {
                client,
                model: fallback.model.clone(),
                wire: fallback.wire,
                key,
            });
        }
        proxy = proxy.route(route.clone(), own, fallbacks);
    }
    Ok(proxy)
}

/// Makes a client of an upstream with the files of `[tls]`.
pub(super) fn client(upstream: Upstream, config: &Config) -> Result<Client, Error> {
    Client::with_tls(upstream, &tls_files(config))
}

/// Returns the files of `[tls]`.
fn tls_files(config: &Config) -> TlsFiles {
    let TlsConfig {
        ca_file,
        client_cert,
        client_key,
        ..
    } = config.tls.clone();
    TlsFiles {
        ca_file,
        client_cert,
        client_key,
    }
}

/// Makes a proxy with this configuration.
pub(super) fn configured(client: Client, config: &Config) -> Proxy {
    let own = &config.proxy;
    Proxy::new(client)
        .limits(config.all_limits())
        .prompt(config.prompt.clone())
        .capabilities(config.table())
        .shapes(config.shapes.iter().cloned())
        .threads(own.threads)
        .adapt(own.adapt)
        .raise_max_tokens(own.raise_max_tokens)
        .admin(own.admin)
        .log_content(own.log_content)
        .page_answers(own.page_answers)
        .store(own.store.clone())
        .keep_answers(own.keep.into())
        .give_up(own.on_give_up)
        .prose(own.prose)
        .repair(own.repair)
}
