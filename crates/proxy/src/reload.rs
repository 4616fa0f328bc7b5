//! Replaces the configuration while the proxy runs. Running requests keep the configuration that
//! they began with.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tls::{Certificate, ServerTls};
use super::{Proxy, certificates};

/// The proxy that answers a thread's next request. Clones share it.
#[derive(Clone)]
pub(super) struct Current(Arc<Mutex<Arc<Proxy>>>);

impl Current {
    pub(super) fn new(proxy: Proxy) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(proxy))))
    }

    pub(super) fn get(&self) -> Arc<Proxy> {
        Arc::clone(&self.lock())
    }

    fn set(&self, proxy: Proxy) {
        *self.lock() = Arc::new(proxy);
    }

    /// Each change is one assignment, which a panic elsewhere can't leave half done.
    fn lock(&self) -> MutexGuard<'_, Arc<Proxy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A function that reads the configuration again. Its error names the mistake and the line.
pub type Loader = Arc<dyn Fn() -> Result<Loaded, String> + Send + Sync>;

/// A configuration that a loader has read.
pub struct Loaded {
    /// The proxy with this configuration.
    pub proxy: Proxy,
    /// The names of settings that differ from those at the start, and take effect only after a
    /// restart.
    pub fixed: Vec<&'static str>,
    /// The files of the proxy's own certificate and of its key. `None`: the certificate stays.
    pub certificate: Option<(PathBuf, PathBuf)>,
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
    /// Held by a reload, so that only one runs at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
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
        if let (Ok(_), Some(thread)) = (&result, self.threads.first()) {
            certificates::check(&thread.get(), self.tls.as_ref());
        }
        result
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
                Some(loaded) => loaded.certificate.clone(),
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
        if let (Some(tls), Some(certificate)) = (&self.tls, certificate) {
            tls.replace(certificate);
        }
        Ok(loaded
            .map(|loaded| self.replace(loaded))
            .unwrap_or_default())
    }

    /// Uses another configuration for the next requests. Returns the names of changed settings that
    /// take effect only after a restart.
    fn replace(&self, loaded: Loaded) -> Vec<&'static str> {
        let Loaded {
            mut proxy,
            mut fixed,
            used,
            ..
        } = loaded;
        for (number, thread) in self.threads.iter().enumerate() {
            let old = thread.get();
            if number == 0 {
                fixed.extend(old.fixed(&proxy));
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

impl Proxy {
    /// Takes over from the old proxy everything that is fixed for the life of the process.
    fn keep(&mut self, old: &Self) {
        self.shared = old.shared.clone();
        (self.threads, self.admin, self.page_answers) = (old.threads, old.admin, old.page_answers);
        (self.keep, self.store) = (old.keep, old.store.clone());
        // Fixed settings keep their values from the start, so that the next reload compares with
        // the values in effect.
        let (own, old) = (&mut self.limits, &old.limits);
        own.keep = old.keep.clone();
        own.server.max_unfinished_bytes = old.server.max_unfinished_bytes;
        own.server.max_page_answer_bytes = old.server.max_page_answer_bytes;
        own.server.max_page_bytes = old.server.max_page_bytes;
        own.server.max_metric_models = old.server.max_metric_models;
        own.continuation.max_hint_age = old.continuation.max_hint_age;
        own.continuation.overload_window = old.continuation.overload_window;
        own.continuation.overload_min_calls = old.continuation.overload_min_calls;
    }

    /// Returns the names of the settings that are fixed at the start and differ in another proxy.
    fn fixed(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        let (own, others) = (&self.limits, &other.limits);
        let differs = [
            ("threads", self.threads != other.threads),
            ("admin", self.admin != other.admin),
            (
                "keep",
                self.keep != other.keep
                    || other.longest_keep() > self.longest_keep().max(own.keep.max_keep_time),
            ),
            ("store", self.store != other.store),
            (
                "max_keep_time",
                own.keep.max_keep_time != others.keep.max_keep_time,
            ),
            (
                "max_kept_answers",
                own.keep.max_kept_answers != others.keep.max_kept_answers,
            ),
            (
                "max_kept_answer_bytes",
                own.keep.max_kept_answer_bytes != others.keep.max_kept_answer_bytes,
            ),
            (
                "max_kept_bytes",
                own.keep.max_kept_bytes != others.keep.max_kept_bytes,
            ),
            (
                "max_unfinished_bytes",
                own.server.max_unfinished_bytes != others.server.max_unfinished_bytes,
            ),
            ("page_answers", self.page_answers != other.page_answers),
            (
                "max_page_answer_bytes",
                own.server.max_page_answer_bytes != others.server.max_page_answer_bytes,
            ),
            (
                "max_page_bytes",
                own.server.max_page_bytes != others.server.max_page_bytes,
            ),
            (
                "max_metric_models",
                own.server.max_metric_models != others.server.max_metric_models,
            ),
            (
                "max_hint_age",
                own.continuation.max_hint_age != others.continuation.max_hint_age,
            ),
            (
                "overload_window",
                own.continuation.overload_window != others.continuation.overload_window,
            ),
            (
                "overload_min_calls",
                own.continuation.overload_min_calls != others.continuation.overload_min_calls,
            ),
        ];
        differs
            .into_iter()
            .filter(|(_, differs)| *differs)
            .map(|(name, _)| name)
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
