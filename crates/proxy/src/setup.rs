//! Makes the clients of a configuration's upstreams, and reads the secrets that it names.

use std::fmt;

use restitch_http::{Client, Error, TlsFiles, Upstream};

use super::access::Access;
use super::fallback::Fallback;
use crate::config::{Config, TlsConfig, is_variable};
use crate::route_config::RouteConfig;

/// Why a configuration makes no proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// A setting, or a variable that it names, is missing or invalid.
    Setting(String),
    /// A file of `[tls]` can't be used.
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

    /// Returns the client of the upstream of requests that no route matches.
    pub(super) fn client(&mut self) -> Result<Client, SetupError> {
        let address = self.config.proxy.upstream.as_deref();
        let address = address.ok_or_else(|| SetupError::Setting(NO_UPSTREAM.to_owned()))?;
        // The address is not repeated, since it may have a password.
        let upstream = Upstream::parse(address)
            .map_err(|error| SetupError::Setting(format!("--upstream: {error}")))?;
        self.client_of(upstream)
            .map_err(|error| SetupError::File(error.to_string()))
    }

    /// Returns the client of a route's own upstream, and its fallbacks.
    pub(super) fn route(
        &mut self,
        route: &RouteConfig,
    ) -> Result<(Option<Client>, Vec<Fallback>), SetupError> {
        let own = route.upstream.as_deref();
        let own = own
            .map(|address| self.client_at(route, address))
            .transpose()?;
        let mut fallbacks = Vec::with_capacity(route.fallback.len());
        for fallback in &route.fallback {
            let key = fallback.key_variable.as_deref();
            let key = key.map(|variable| self.secret(&format!("route `{}`", route.name), variable));
            fallbacks.push(Fallback {
                key: key.transpose()?,
                client: self.client_at(route, &fallback.upstream)?,
                model: fallback.model.clone(),
                wire: fallback.wire,
            });
        }
        Ok((own, fallbacks))
    }

    /// Returns the access rules, with the token from the environment.
    pub(super) fn access(&self) -> Result<Access, SetupError> {
        let rules = self.config.access.clone();
        let token = rules.token_variable.as_deref();
        let token = token.map(|variable| self.secret("--token-variable", variable));
        Ok(Access {
            token: token.transpose()?,
            rules,
        })
    }

    fn client_at(&mut self, route: &RouteConfig, address: &str) -> Result<Client, SetupError> {
        let name = &route.name;
        // The address is not repeated, since it may have a password.
        let upstream = Upstream::parse(address)
            .map_err(|error| SetupError::Setting(format!("route `{name}`: {error}")))?;
        self.client_of(upstream)
            .map_err(|error| SetupError::File(format!("route `{name}`: {error}")))
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

    /// Reads a token or a key. A proxy that lacks one must not start without it. `user`: the flag
    /// or the route that needs it.
    fn secret(&self, user: &str, variable: &str) -> Result<String, SetupError> {
        let wrong = |mistake: String| Err(SetupError::Setting(format!("{user}: {mistake}")));
        if !is_variable(variable) {
            return wrong(
                "what is to name a variable of the environment is no name: is it the secret itself?"
                    .to_owned(),
            );
        }
        match (self.variable)(variable).filter(|secret| !secret.is_empty()) {
            None => wrong(format!(
                "the environment has no {variable}, or nothing in it"
            )),
            // A header can carry it.
            Some(secret) if secret.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(secret),
            Some(_) => wrong(format!(
                "{variable} has characters that are no visible ASCII, such as a line end"
            )),
        }
    }
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
