//! Makes the clients of a configuration's upstreams, and reads the secrets that it names.

use std::fmt;

use restitch_http::{Client, Error, TlsFiles, Upstream};

use super::access::{Access, Token};
use super::fallback::Target;
use super::secret::{SHORTEST_TOKEN, SHORTEST_UPSTREAM_KEY, Secret, SecretSource};
use crate::address;
use crate::config::{Config, TlsConfig};
use crate::route_config::{DEFAULT, RouteConfig};

/// Why a configuration makes no proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// A setting, or a variable that it names, is missing or invalid.
    Setting(String),
    /// A file that it names can't be used.
    File(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(mistake) | Self::File(mistake) => f.write_str(mistake),
        }
    }
}

impl std::error::Error for SetupError {}

/// A route's own upstream, if it has one, and its fallbacks.
type RouteTargets = (Option<Target>, Vec<Target>);

/// The parts of a proxy in the making.
pub(super) struct Setup<'a> {
    config: &'a Config,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// Routes to one upstream share their connections.
    clients: Vec<Client>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(config: &'a Config, variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            config,
            variable,
            clients: Vec::new(),
        }
    }

    /// Returns the upstream of requests that no route matches.
    pub(super) fn base(&mut self) -> Result<Target, SetupError> {
        let own = &self.config.proxy;
        let address = own.upstream.as_deref();
        let address = address.ok_or_else(|| SetupError::Setting(NO_UPSTREAM.to_owned()))?;
        self.target("--upstream", address, own.upstream_key.as_ref())
    }

    /// Returns a route's own upstream, and its fallbacks.
    pub(super) fn route(&mut self, route: &RouteConfig) -> Result<RouteTargets, SetupError> {
        let user = format!("route `{}`", route.name);
        let own = match &route.upstream {
            Some(address) => Some(self.target(&user, address, route.key.as_ref())?),
            None => None,
        };
        let mut fallbacks = Vec::with_capacity(route.fallback.len());
        for fallback in &route.fallback {
            fallbacks.push(Target {
                model: fallback.model.clone(),
                wire: fallback.wire,
                ..self.target(&user, &fallback.upstream, fallback.key.as_ref())?
            });
        }
        Ok((own, fallbacks))
    }

    /// Returns an upstream with the operator's key for it. `user`: the flag or the route that names
    /// it.
    fn target(
        &mut self,
        user: &str,
        address: &str,
        key: Option<&SecretSource>,
    ) -> Result<Target, SetupError> {
        // The address is not repeated, since it may have a password.
        let upstream = address::upstream(address)
            .map_err(|error| SetupError::Setting(format!("{user}: {error}")))?;
        let key = self.key(user, key)?;
        let client = self
            .client_of(upstream)
            .map_err(|error| SetupError::File(format!("{user}: {error}")))?;
        Ok(Target {
            client,
            model: None,
            wire: None,
            key,
        })
    }

    /// Returns the access rules, with the tokens.
    pub(super) fn access(&self) -> Result<Access, SetupError> {
        let rules = self.config.access.clone();
        let short = match rules.token_variable.as_deref().map(SecretSource::variable) {
            Some(Err(mistake)) => {
                let mistake = format!("--token-variable: {mistake}");
                return Err(SetupError::Setting(mistake));
            }
            Some(Ok(source)) => Some((DEFAULT, "--token-variable".to_owned(), source)),
            None => None,
        };
        let named = rules.token.iter().map(|token| {
            let user = format!("token `{}`", token.name);
            (token.name.as_str(), user, token.secret.clone())
        });
        let mut tokens = Vec::new();
        for (name, user, source) in short.into_iter().chain(named) {
            tokens.push(Token {
                name: name.into(),
                secret: self.secret(&user, source, SHORTEST_TOKEN)?,
            });
        }
        let access = Access { tokens, rules };
        match access.twins() {
            None => Ok(access),
            Some([one, other]) => Err(SetupError::Setting(format!(
                "the tokens `{one}` and `{other}` are the same"
            ))),
        }
    }

    /// Returns the operator's key for an upstream, if the configuration names one.
    fn key(&self, user: &str, source: Option<&SecretSource>) -> Result<Option<Secret>, SetupError> {
        let secret =
            |source: &SecretSource| self.secret(user, source.clone(), SHORTEST_UPSTREAM_KEY);
        source.map(secret).transpose()
    }

    /// Reads a token or a key. A proxy that lacks one must not start without it.
    fn secret(&self, user: &str, source: SecretSource, least: usize) -> Result<Secret, SetupError> {
        Secret::read(source, least, user, self.variable)
    }

    fn client_of(&mut self, upstream: Upstream) -> Result<Client, Error> {
        let mut known = self.clients.iter();
        if let Some(client) = known.find(|client| *client.upstream() == upstream) {
            return Ok(client.clone());
        }
        let client = Client::with_tls(upstream, &self.config.tls.files())?;
        self.clients.push(client.clone());
        Ok(client)
    }
}

/// Reads the files of tokens and keys that a configuration names, as the proxy does when it starts.
/// Reads no variables: those of the proxy may be set elsewhere.
///
/// # Errors
/// A file can't be read, or has no usable secret. The error names the file, and never has the
/// secret.
pub fn check_secret_files(config: &Config) -> Result<(), SetupError> {
    let setup = Setup::new(config, &|_| Some("*".repeat(SHORTEST_TOKEN)));
    setup.access()?;
    setup.key("--upstream", config.proxy.upstream_key.as_ref())?;
    for route in &config.routes {
        let user = format!("route `{}`", route.name);
        setup.key(&user, route.key.as_ref())?;
        for fallback in &route.fallback {
            setup.key(&user, fallback.key.as_ref())?;
        }
    }
    Ok(())
}

impl TlsConfig {
    /// Returns the files as a client takes them.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            ca_file: self.ca_file.clone(),
            client_cert: self.client_cert.clone(),
            client_key: self.client_key.clone(),
        }
    }
}

const NO_UPSTREAM: &str =
    "--upstream is missing; RESTITCH_UPSTREAM or a configuration file can set it, too";
