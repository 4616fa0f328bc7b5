//! `restitch proxy`: runs the proxy.

use std::sync::Arc;
use std::{fmt, io};

use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::log::LogHandle;
use super::settings::Settings;
use super::{Console, Exit, Failure, epilogue, interrupted};
use restitch_http::Expiry;
#[cfg(feature = "otlp")]
use restitch_proxy::Otlp;
use restitch_proxy::config::{Config, LimitsConfig, LogFormat, ProxyConfig};
use restitch_proxy::{
    Listen, Loaded, Loader, Proxy, Reloader, ServerTls, SetupError, check_secret_files,
};

/// Arguments of `restitch proxy`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = MORE, after_long_help = epilogue(EXAMPLES))]
pub struct ProxyArgs {
    #[command(flatten)]
    settings: Box<Settings>,
}

const MORE: &str = "\
First: restitch proxy --upstream https://api.openai.com
Then point a client at http://127.0.0.1:7378/v1, with its own key. --help: more examples;
`restitch config init`: a file with all settings; `restitch config show --docs`: their tables.";

const EXAMPLES: &str = r#"Examples:
  restitch proxy --upstream https://api.openai.com
  restitch proxy --upstream http://127.0.0.1:8788      # in front of `restitch sim`
  restitch proxy --config restitch.toml                # see `restitch config init`
  restitch proxy --upstream https://api.openai.com --listen :7378 --token-variable LLM_PROXY_TOKEN \
    --tls-cert llm.pem --tls-key llm.key
  restitch proxy --upstream https://api.openai.com --set proxy.prose=anchor --set limits.idle_timeout=2m

Then point any OpenAI client at it, with its own key:
  OpenAI(base_url="http://127.0.0.1:7378/v1")
  curl -N http://127.0.0.1:7378/v1/chat/completions \
    -H "authorization: Bearer $OPENAI_API_KEY" -H 'content-type: application/json' \
    -d '{"model": "gpt-4.1-mini", "stream": true,
         "messages": [{"role": "user", "content": "A long list, as JSON"}]}'

`/healthz` answers 200. `--admin 127.0.0.1:7379` opens a listener with a page of the answers, `/metrics` and `/readyz`
(docs/operating.md). After Ctrl-C or SIGTERM the proxy takes no new connections, and ends when the open answers have ended;
those that are open after 30 seconds (`drain_timeout`) are cut, and the exit code is 3. A second signal ends it at once.
SIGHUP reads the file of `--config` again; so does `POST /reload` on the admin listener.

`restitch config init` writes a file with all settings; `restitch config show --docs` prints their tables."#;

pub(super) fn run(args: &ProxyArgs, console: &mut Console) -> Result<(), Failure> {
    let config = args.settings.checked(console)?;
    let listen = listen(&config.proxy).map_err(no_proxy)?;
    let format = config.proxy.log_format;
    let log = console.notes.start_log(Some(filter(&config.proxy)), format);
    let proxy = built(config).map_err(no_proxy)?;
    let upstream = proxy.upstream().to_string();
    let loader = loader(&args.settings, log);
    let proxy = loader.into_iter().fold(proxy, Proxy::loader);
    // The threads that serve have runtimes of their own.
    let served: io::Result<bool> = Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            // A signal may arrive as soon as the address is shown.
            let first = interrupted()?;
            #[cfg(unix)]
            let hangups = signal(SignalKind::hangup())?;
            #[cfg(feature = "otlp")]
            let (proxy, otlp) = {
                let otlp = Otlp::from_environment().map_err(io::Error::other)?;
                (proxy.otlp(otlp.clone()), otlp)
            };
            let server = proxy.listen(&listen).await?;
            #[cfg(unix)]
            tokio::spawn(reload_at_hangups(hangups, server.reloader()));
            let tell = |words: fmt::Arguments<'_>| match format {
                // All lines on standard error are for programs then.
                LogFormat::Json => tracing::info!("{words}"),
                _ => console.notes.note(words),
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
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Failed(
            Exit::Cut,
            "open answers were cut".to_owned(),
        )),
        Err(error) => Err(Failure::io(format!("{}: {error}", listen.address))),
    }
}

/// Returns the filter of the log.
fn filter(config: &ProxyConfig) -> Targets {
    // An invalid filter was rejected when the settings were read.
    let filter = config.log.parse();
    debug_assert!(filter.is_ok(), "{filter:?}");
    filter.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

/// Makes the proxy of a configuration.
fn built(mut config: Config) -> Result<Proxy, SetupError> {
    fit_open_files(&mut config.limits);
    Proxy::new(config, &variable)
}

/// Returns the value of a variable of the environment, which has the keys and the token.
#[expect(
    clippy::disallowed_methods,
    reason = "a command does I/O: keys come from the environment"
)]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the failure where a configuration makes no proxy.
pub(super) fn no_proxy(error: SetupError) -> Failure {
    match error {
        SetupError::Setting(_) => Failure::usage(error),
        _ => Failure::io(error),
    }
}

/// Opens the files that a configuration names. Returns when the certificates expire.
pub(super) fn check_files(config: &Config) -> Result<Vec<Expiry>, String> {
    check_secret_files(config).map_err(|error| error.to_string())?;
    let listen = listen(&config.proxy).map_err(|error| error.to_string())?;
    let server = listen.tls.map(|tls| tls.expiry());
    let others = config
        .tls
        .files()
        .check()
        .map_err(|error| error.to_string())?;
    Ok(server.into_iter().chain(others).collect())
}

/// Returns a loader that reads the configuration again. `None`: there is no file to read.
fn loader(settings: &Settings, log: Option<LogHandle>) -> Option<Loader> {
    settings.has_file().then(|| {
        let settings = settings.clone();
        let load = move || {
            let config = settings.again()?;
            let (log, filter) = (log.clone(), filter(&config.proxy));
            let proxy = built(config).map_err(|error| error.to_string())?;
            let used = move || {
                // Reloading fails if there is no log.
                let _ = log.map(|log| log.reload(filter));
            };
            Ok(Loaded {
                proxy,
                used: Box::new(used),
            })
        };
        Arc::new(load) as Loader
    })
}

/// Returns where to listen, with the certificate from its files.
fn listen(config: &ProxyConfig) -> Result<Listen, SetupError> {
    let tls = match (&config.tls_cert, &config.tls_key) {
        (None, None) => None,
        (Some(cert), Some(key)) => {
            let tls = ServerTls::from_files(cert, key);
            Some(tls.map_err(|error| SetupError::File(error.to_string()))?)
        }
        (cert, _) => {
            let mistake = match cert {
                Some(_) => "--tls-cert needs its key: set --tls-key, too",
                None => "--tls-key needs its certificate: set --tls-cert, too",
            };
            return Err(SetupError::Setting(mistake.to_owned()));
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
    let wanted = u64::try_from(limits.max_connections)
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
        limits.max_connections = fits;
    }
}

/// Files that are open beside connections: listeners, polls of each thread, standard streams, files
/// of the system.
const OTHER_FILES: u64 = 64;

/// Reads the configuration again at each SIGHUP, and logs the result. The signal does not end the
/// process: a closing terminal sends it, too.
#[cfg(unix)]
async fn reload_at_hangups(mut hangups: Signal, reloader: Reloader) {
    while hangups.recv().await.is_some() {
        // On an error, the reload has logged it and kept the configuration.
        let _ = reloader.reload().await;
    }
}
