//! Replaces the configuration while the proxy runs. Running requests keep the configuration that
//! they began with.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::secret::{POLL, Secret};
use super::tls::{Certificate, ServerTls};
use super::{Proxy, certificates, metrics};
use crate::config::Config;

/// The proxy that answers a thread's next request. Clones share it.
#[derive(Clone)]
pub(super) struct Current(Arc<Mutex<Arc<Proxy>>>);

impl Current {
    pub(super) fn new(proxy: Proxy) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(proxy))))
    }

    pub(super) fn get(&self) -> Arc<Proxy> {
        Arc::clone(&self.0.lock())
    }

    fn set(&self, proxy: Proxy) {
        *self.0.lock() = Arc::new(proxy);
    }
}

/// A function that reads the configuration again. Its error names the mistake and the line.
pub type Loader = Arc<dyn Fn() -> Result<Loaded, String> + Send + Sync>;

/// A configuration that a loader has read.
pub struct Loaded {
    /// The proxy with this configuration.
    pub proxy: Proxy,
    /// Called once the new configuration is in use, so after everything else that was read has
    /// proved valid.
    pub used: Box<dyn FnOnce() + Send>,
}

/// A handle that replaces the configuration for the next requests of all threads. Clones share it.
#[derive(Clone)]
pub struct Reloader {
    loader: Option<Loader>,
    tls: Option<ServerTls>,
    /// One proxy for each thread, each with upstream connections of its own.
    threads: Arc<[Current]>,
    /// Held by a reload and by a reading of secrets, so that only one runs at a time. Has the errors
    /// of the last reading, which the log already reports.
    turn: Arc<tokio::sync::Mutex<BTreeSet<String>>>,
}

impl Reloader {
    pub(super) fn new(
        loader: Option<Loader>,
        tls: Option<ServerTls>,
        threads: impl IntoIterator<Item = Current>,
    ) -> Self {
        Self {
            loader,
            tls,
            threads: threads.into_iter().collect(),
            turn: Arc::default(),
        }
    }

    /// Reads the configuration and the certificate again, and uses them for the next requests.
    /// Metrics keep their values. Returns the names of changed settings that take effect only after
    /// a restart.
    ///
    /// # Errors
    /// The configuration or the certificate is invalid, or the proxy has neither. Nothing changes
    /// then.
    pub async fn reload(&self) -> Result<Vec<&'static str>, ReloadError> {
        let _turn = self.turn.lock().await;
        let result = self.load().await;
        match &result {
            Ok(fixed) if fixed.is_empty() => tracing::info!("read the configuration again"),
            Ok(fixed) => {
                let fixed = fixed.join(",");
                tracing::warn!(
                    fixed,
                    "read the configuration again; some settings that differ hold only after a restart"
                );
            }
            Err(error) => tracing::warn!(%error, "the configuration stays as it was"),
        }
        if let Some(proxy) = self.threads.first().map(Current::get) {
            self.note(&proxy, &result);
        }
        result
    }

    /// Notes a reload in the metrics, and looks at the certificates of a valid one.
    fn note(&self, proxy: &Proxy, result: &Result<Vec<&'static str>, ReloadError>) {
        let metrics = proxy.shared.metrics.as_ref();
        match result {
            Ok(_) => {
                if let Some(metrics) = metrics {
                    metrics::begin_routes(metrics, proxy.routes.all());
                    metrics.reloaded(true);
                }
                certificates::check(proxy, self.tls.as_ref());
            }
            Err(ReloadError::Invalid(_)) => {
                metrics.iter().for_each(|metrics| metrics.reloaded(false));
            }
            Err(ReloadError::NoFile) => {}
        }
    }

    async fn load(&self) -> Result<Vec<&'static str>, ReloadError> {
        let (loader, tls) = (self.loader.clone(), self.tls.clone());
        if loader.is_none() && tls.is_none() {
            return Err(ReloadError::NoFile);
        }
        // Reading files blocks, and this thread also serves requests.
        let read = tokio::task::spawn_blocking(move || {
            let loaded = loader.map(|loader| loader()).transpose()?;
            let files = |tls: ServerTls| match &loaded {
                Some(loaded) => loaded.proxy.certificate(),
                None => Some(tls.files),
            };
            let certificate = tls
                .and_then(files)
                .map(|(cert, key)| Certificate::read(&cert, &key))
                .transpose();
            Ok((loaded, certificate.map_err(|error| error.to_string())?))
        });
        let (loaded, certificate) = read
            .await
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(ReloadError::Invalid)?;
        // Nothing has changed until here: an invalid file or certificate leaves both unchanged.
        if let (Some(tls), Some(certificate)) = (&self.tls, certificate) {
            tls.replace(certificate);
        }
        Ok(loaded
            .map(|loaded| self.replace(loaded))
            .unwrap_or_default())
    }

    /// Reads the files of tokens and keys every [`POLL`].
    pub(super) async fn poll_secrets(self) {
        loop {
            sleep(POLL).await;
            self.read_secrets().await;
        }
    }

    /// Reads the files of tokens and keys again, as the proxy does every 10 seconds, and uses their
    /// secrets for the next requests. Keeps the secret of a file that can't be used.
    pub async fn read_secrets(&self) {
        let mut known_errors = self.turn.lock().await;
        let Some(first) = self.threads.first().map(Current::get) else {
            return;
        };
        // Several routes may name one file.
        let mut secrets: Vec<Secret> = Vec::new();
        for secret in first.secrets().filter(|secret| secret.file().is_some()) {
            if !secrets.iter().any(|known| known.is_of_same(secret)) {
                secrets.push(secret.clone());
            }
        }
        if secrets.is_empty() {
            return;
        }
        // Reading files blocks, and this thread also serves requests.
        let read = tokio::task::spawn_blocking(move || {
            secrets.iter().map(Secret::read_again).collect::<Vec<_>>()
        });
        let (mut newer, mut errors) = (Vec::new(), BTreeSet::new());
        for read in read.await.unwrap_or_default() {
            match read {
                Ok(changed) => newer.extend(changed),
                Err(error) => {
                    if !known_errors.contains(&error) {
                        tracing::warn!(%error, "the file of a secret can't be used: the last secret stays valid");
                    }
                    errors.insert(error);
                }
            }
        }
        *known_errors = errors;
        for file in newer.iter().filter_map(Secret::file) {
            tracing::info!(file = %file.display(), "read a new secret");
        }
        if newer.is_empty() {
            return;
        }
        for thread in self.threads.iter() {
            let mut proxy = Proxy::clone(&thread.get());
            proxy.update_secrets(&newer);
            thread.set(proxy);
        }
        let access = self
            .threads
            .first()
            .map(|thread| thread.get().access.twins());
        if let Some([token, _]) = access.flatten() {
            tracing::warn!(%token, "a token of another name is the same: requests count for that one");
        }
    }

    /// Uses another configuration for the next requests. Returns the names of changed settings that
    /// take effect only after a restart.
    fn replace(&self, loaded: Loaded) -> Vec<&'static str> {
        let Loaded { mut proxy, used } = loaded;
        let mut fixed = Vec::new();
        for (number, thread) in self.threads.iter().enumerate() {
            let old = thread.get();
            // All threads share this state, so it is taken over once.
            if number == 0 {
                fixed = old.fixed(&proxy);
                proxy.keep(&old);
            }
            thread.set(if number == 0 {
                proxy.clone()
            } else {
                proxy.apart()
            });
        }
        used();
        fixed
    }
}

/// Declares the settings that are used only at the start.
macro_rules! fixed {
    ($($table:ident { $($key:ident $(by $compared:ident)?),+ $(,)? })+) => {
        /// Returns the names of the settings that are fixed at the start and differ.
        fn differing(own: &Config, other: &Config) -> Vec<&'static str> {
            let differs = [$($((
                stringify!($key),
                own.$table.$key$(.$compared())? != other.$table.$key$(.$compared())?,
            ),)+)+];
            let differing = differs.into_iter().filter(|(_, differs)| *differs);
            differing.map(|(name, _)| name).collect()
        }

        /// Gives a configuration the fixed settings of the one in effect, so that the next reload
        /// compares with these.
        fn take(config: &mut Config, old: &Config) {
            $($(config.$table.$key = old.$table.$key.clone();)+)+
        }
    };
}

fixed! {
    proxy {
        listen,
        socket_mode,
        // Other files are read again.
        tls_cert by is_some,
        tls_key by is_some,
        log_format,
        threads,
        admin,
        keep,
        store,
        page_answers,
    }
    limits {
        // The store and the counters that all threads share were made with these.
        max_keep_time,
        max_kept_answers,
        max_kept_bytes,
        max_unfinished_bytes,
    }
}

impl Proxy {
    /// Returns the files of the proxy's own certificate and of its key.
    fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        let own = &self.config.proxy;
        own.tls_cert.clone().zip(own.tls_key.clone())
    }

    /// Takes over from the old proxy everything that is fixed for the life of the process.
    fn keep(&mut self, old: &Self) {
        self.shared = old.shared.clone();
        take(Arc::make_mut(&mut self.config), &old.config);
        self.limits = self.config.all_limits();
    }

    /// Returns the names of the settings that are fixed at the start and differ in another proxy.
    fn fixed(&self, other: &Self) -> Vec<&'static str> {
        differing(&self.config, &other.config)
    }
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader")
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

/// The reason why a reload has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloadError {
    /// The proxy was started without a file, and without a certificate.
    NoFile,
    /// The configuration or the certificate is invalid: the text names the mistake.
    Invalid(String),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => {
                f.write_str("the proxy was started without a configuration file: there is nothing to read again")
            }
            Self::Invalid(mistake) => f.write_str(mistake),
        }
    }
}

impl std::error::Error for ReloadError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the test is paused, so it passes at once where nothing else is to be done.
    #[tokio::test(start_paused = true)]
    async fn files_of_secrets_are_read_again_without_a_reload() {
        let name = format!("restitch-poll-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, "first-token-of-team-a\n").unwrap();
        let text = format!(
            "[proxy]\nupstream = \"http://127.0.0.1:9\"\n[[access.token]]\nname = \"a\"\nsecret = {:?}\n",
            format!("file:{}", file.display())
        );
        let proxy = Proxy::new(Config::parse(&text).unwrap(), &|_| None).unwrap();
        let threads = [Current::new(proxy.apart()), Current::new(proxy)];
        let reloader = Reloader::new(None, None, threads.clone());
        let polling = tokio::spawn(reloader.poll_secrets());
        std::fs::write(&file, "second-token-of-team-a\n").unwrap();
        for thread in threads {
            let token = || thread.get().access.tokens[0].secret.value().to_owned();
            for _ in 0..3 {
                if token() == "first-token-of-team-a" {
                    sleep(POLL).await;
                }
            }
            assert_eq!(token(), "second-token-of-team-a");
        }
        polling.abort();
        std::fs::remove_file(file).unwrap();
    }
}
