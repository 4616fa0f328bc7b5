//! A proxy in the making, for tests that change a few settings.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use restitch::Limits;
use restitch::provider::capability::Row;
use restitch::repair::RepairLevel;
use restitch::session::{GiveUp, Prompt, Prose};
use restitch_proxy::config::Config;
use restitch_proxy::{Listen, Listening, Loader, Observer, Proxy, Server, SetupError};
use restitch_sim::Sim;

/// A proxy in front of an upstream. The test's own runtime serves its connections.
pub(crate) struct TestProxy {
    pub(crate) config: Config,
    /// The values of variables. Others have `key-of-` and their own name.
    variables: BTreeMap<String, String>,
    loader: Option<Loader>,
    observer: Option<Observer>,
}

/// The rules for access of a test.
#[derive(Default)]
pub(crate) struct Access {
    pub(crate) token: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) admin_hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) paths: Vec<String>,
}

impl TestProxy {
    pub(crate) fn new(upstream: impl Display) -> Self {
        let mut config = Config::default();
        config.proxy.upstream = Some(upstream.to_string());
        config.proxy.threads = 0;
        Self {
            config,
            variables: BTreeMap::new(),
            loader: None,
            observer: None,
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn access(mut self, access: Access) -> Self {
        self.config.access.token_variable = access.token.as_ref().map(|_| TOKEN.to_owned());
        let variable = |token| (TOKEN.to_owned(), token);
        self.variables.extend(access.token.map(variable));
        self.with(|config| {
            config.access.allow_hosts = access.hosts;
            config.access.admin_hosts = access.admin_hosts;
            config.access.allow_origins = access.origins;
            config.access.allow_paths = access.paths;
        })
    }

    pub(crate) fn limits(self, limits: Limits) -> Self {
        self.with(|config| config.set_limits(limits))
    }

    pub(crate) fn threads(self, threads: usize) -> Self {
        self.with(|config| config.proxy.threads = threads)
    }

    pub(crate) fn admin(self, addr: Option<SocketAddr>) -> Self {
        self.with(|config| config.proxy.admin = addr)
    }

    pub(crate) fn page_answers(self, most: usize) -> Self {
        self.with(|config| config.proxy.page_answers = most)
    }

    pub(crate) fn keep_answers(self, keep: Duration) -> Self {
        self.with(|config| config.proxy.keep = keep.into())
    }

    pub(crate) fn store(self, store: impl Into<String>) -> Self {
        self.with(|config| config.proxy.store = store.into())
    }

    pub(crate) fn give_up(self, give_up: GiveUp) -> Self {
        self.with(|config| config.proxy.on_give_up = give_up)
    }

    pub(crate) fn prose(self, prose: Prose) -> Self {
        self.with(|config| config.proxy.prose = prose)
    }

    pub(crate) fn repair(self, level: RepairLevel) -> Self {
        self.with(|config| config.proxy.repair = level)
    }

    pub(crate) fn prompt(self, prompt: Prompt) -> Self {
        self.with(|config| config.prompt = prompt)
    }

    pub(crate) fn row(self, row: Row) -> Self {
        self.with(|config| config.capabilities = vec![row])
    }

    pub(crate) fn adapt(self, adapts: bool) -> Self {
        self.with(|config| config.proxy.adapt = adapts)
    }

    pub(crate) fn raise_max_tokens(self, factor: u32) -> Self {
        self.with(|config| config.proxy.raise_max_tokens = factor.try_into().unwrap())
    }

    pub(crate) fn loader(mut self, loader: Loader) -> Self {
        self.loader = Some(loader);
        self
    }

    pub(crate) fn observe(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Adds `[[access.token]]` in a variable.
    pub(crate) fn token(mut self, name: &str, token: &str) -> Self {
        let variable = format!("TOKEN_{}", self.variables.len());
        let row = format!("[[access.token]]\nname = {name:?}\nsecret = \"env:{variable}\"\n");
        self.variables.insert(variable, token.to_owned());
        let read = Config::parse(&row).unwrap().access.token;
        self.with(|config| config.access.token.extend(read))
    }

    pub(crate) fn build(self) -> Proxy {
        self.try_build().unwrap()
    }

    /// Makes the proxy.
    pub(crate) fn try_build(self) -> Result<Proxy, SetupError> {
        let variables = self.variables;
        let variable = |name: &str| {
            let other = || Some(format!("key-of-{name}"));
            variables.get(name).cloned().or_else(other)
        };
        let proxy = Proxy::new(self.config, &variable)?;
        let proxy = self.loader.into_iter().fold(proxy, Proxy::loader);
        Ok(self.observer.into_iter().fold(proxy, Proxy::observe))
    }

    pub(crate) async fn bind(self, addr: SocketAddr) -> std::io::Result<Server> {
        self.build().bind(addr).await
    }

    pub(crate) async fn listen(self, listen: &Listen) -> std::io::Result<Listening> {
        self.build().listen(listen).await
    }
}

/// A server that a test starts at a free port of this machine.
pub(crate) trait Start {
    type Running;

    async fn start(self) -> Self::Running;
}

impl Start for Proxy {
    type Running = Server;

    async fn start(self) -> Server {
        self.bind(LOOPBACK).await.unwrap()
    }
}

impl Start for TestProxy {
    type Running = Server;

    async fn start(self) -> Server {
        self.build().start().await
    }
}

impl Start for Sim {
    type Running = restitch_sim::Server;

    async fn start(self) -> restitch_sim::Server {
        self.bind(LOOPBACK).await.unwrap()
    }
}

/// A free port of this machine.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The variable of the token.
const TOKEN: &str = "TEST_PROXY_TOKEN";
