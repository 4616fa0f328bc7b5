//! `restitch doctor`: checks whether the proxy serves, whether a provider answers, and whether a
//! model continues a prefill.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::ArgGroup;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, SERVER};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::console::one_line;
use super::ladder::ladder;
use super::output::To;
use super::run::key::Key;
use super::run::{ask, providers};
use super::{Console, Exit, Failure, block_on, epilogue};
use restitch::provider::capability::{PrefillForm, Table};
use restitch::provider::{Delta, Dialect};
use restitch::session::Rungs;
use restitch_http::{Body, BodyError, Client, TlsFiles, Upstream};
use restitch_proxy::address::{self, ListenAddress};
use restitch_proxy::config::ProxyConfig;

/// Arguments of `restitch doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = epilogue(EXAMPLES))]
#[command(group(ArgGroup::new("target").args(["upstream", "provider"])))]
pub struct DoctorArgs {
    /// The provider's address, as the proxy takes it: `https://host[:port][/prefix]`.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// A known provider. Decides the address of its Chat Completions API and the variable that has
    /// the key.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Ask this model to continue a prefill. Costs up to five short calls.
    #[arg(long, value_name = "NAME", requires = "target")]
    model: Option<String>,
    /// The environment variable that has the key. Default: the provider's own.
    #[arg(long, value_name = "VARIABLE")]
    key_variable: Option<String>,
    /// The proxy's address, as `restitch proxy --listen` takes it, or its URL. By default the one
    /// where `restitch proxy` listens; beside a provider it is asked only if a proxy answers there.
    #[arg(long, value_name = "ADDRESS", env = "RESTITCH_LISTEN")]
    proxy: Option<ProxyAddress>,
    /// Certificates in PEM that are trusted in addition to the system's, for the `https` URL of a
    /// proxy.
    #[arg(long, value_name = "FILE", env = "RESTITCH_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long, requires = "target")]
    json: bool,
    #[command(flatten)]
    to: To,
}

const EXAMPLES: &str = r#"Examples:
  restitch doctor
  restitch doctor --proxy unix:/run/restitch/llm.sock
  restitch doctor --proxy https://llm.example:7378
  restitch doctor --upstream https://api.openai.com --key-variable OPENAI_API_KEY
  restitch doctor --provider mistral --model mistral-small-latest
  restitch doctor --upstream http://127.0.0.1:8788 --model sim --json

Without a provider the command asks the proxy only: 0 if it answers `/healthz` with 200 within 5 seconds, else 1.

Of a provider it asks for the list of models, which costs nothing. With --model, it asks the model to continue
`[1, 2,3, 4,` in each form of prefill that providers have, until one works: in a stream, and then in one body. While
the server loads the model, the result is `unknown`. The rungs follow with which the proxy would obtain the rest of an
answer. If the result differs from the built-in table, a `[[capability]]` row for the configuration file follows.

The answer is TOML; with --json it is one line of JSON. The members are "upstream": {"url", "status", "milliseconds",
"error", "server"}, "prefill": {"model", "form", "returns_prefill", "returns_prefill_whole", "known", "rungs", "tried":
[{"form", "status", "answer"}]}, "proxy": {"url", "status", "milliseconds", "error", "server"}, and "capability".

Exit codes: 0 all is well, 4 the provider answers with an error, 1 it cannot be reached."#;

/// The answer from a single address.
#[derive(Debug, Default, Serialize)]
struct Reached {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    milliseconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Its software, if the built-in table has a row for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'static str>,
    /// The response names the software in its `Server` header, by which the proxy recognises it.
    #[serde(skip)]
    is_named: bool,
}

/// Whether a model continues a prefill.
#[derive(Debug, Serialize)]
struct Prefill {
    model: String,
    /// The form of prefill that the model continues, by its name in the configuration. `none` if
    /// there is none, and `unknown` while the model is not loaded.
    form: &'static str,
    /// The answer begins with the prefill.
    returns_prefill: bool,
    /// An answer in one body begins with the prefill, and a stream does not.
    returns_prefill_whole: bool,
    /// The form in the built-in table.
    known: &'static str,
    /// The rungs with which the proxy would obtain the rest of a cut answer, in their order.
    rungs: Vec<String>,
    tried: Vec<DoctorAttempt>,
}

#[derive(Debug, Serialize)]
struct DoctorAttempt {
    form: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// The beginning of its text, or its error.
    answer: String,
}

#[derive(Debug, Serialize)]
struct DoctorReport {
    upstream: Reached,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill: Option<Prefill>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<Reached>,
    /// The row for the configuration file, if the built-in table differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capability: Vec<CapabilityRow>,
}

/// The tested abilities of a model, in the format of the configuration file.
#[derive(Debug, Serialize)]
struct CapabilityRow {
    model: String,
    prefill: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    returns_prefill: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    returns_prefill_whole: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prefill_keeps_format: bool,
}

impl CapabilityRow {
    fn of(prefill: &Prefill, upstream: &Reached) -> Option<Self> {
        let is_known = prefill.form == prefill.known || prefill.form == UNKNOWN;
        (!is_known).then(|| Self {
            model: prefill.model.clone(),
            prefill: prefill.form,
            returns_prefill: prefill.returns_prefill,
            returns_prefill_whole: prefill.returns_prefill_whole,
            prefill_keeps_format: upstream.server.is_some(),
        })
    }
}

pub(super) fn run(args: &DoctorArgs, console: &mut Console) -> Result<(), Failure> {
    console.write_to(args.to.output.as_deref());
    if args.upstream.is_none() && args.provider.is_none() {
        return health(args, console);
    }
    let target = DoctorTarget::of(args).map_err(Failure::usage)?;
    let report = block_on(examine(args, &target))?;
    console.verdict(exit_of(&report.upstream));
    if args.proxy.is_some() {
        console.verdict(report.proxy.as_ref().map_or(Exit::Io, exit_of));
    }
    if args.json {
        return console.answer(&report);
    }
    console.lines(&toml::to_string(&report).map_err(io::Error::other)?)
}

fn exit_of(reached: &Reached) -> Exit {
    match reached.status {
        None => Exit::Io,
        // Some servers have no list of models.
        Some(404 | 405 | 200..=299) => Exit::Complete,
        Some(_) => Exit::Invalid,
    }
}

/// The provider, and the beginning of its paths.
struct DoctorTarget {
    client: Client,
    version: &'static str,
    key: String,
}

impl DoctorTarget {
    fn of(args: &DoctorArgs) -> Result<Self, String> {
        let provider = providers::named(args.provider.as_deref())?;
        let known_url = provider.and_then(|provider| provider.base_url(Dialect::Chat));
        let url = args.upstream.as_deref().or(known_url).unwrap_or_default();
        // The address is not repeated, since it may have a password.
        let upstream = address::upstream(url).map_err(|error| format!("--upstream: {error}"))?;
        // A known provider's address has the version of the API; the address of a proxy's upstream
        // usually has not.
        let is_base = args.upstream.is_none() || upstream.prefix().ends_with("/v1");
        let key = providers::key(args.key_variable.as_deref(), provider, true)?;
        let client = Client::new(upstream).map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            version: if is_base { "" } else { "/v1" },
            key,
        })
    }
}

async fn examine(args: &DoctorArgs, target: &DoctorTarget) -> Result<DoctorReport, Failure> {
    let models = format!("{}/models", target.version);
    let upstream = reach(&target.client, &models, &target.key).await;
    let prefill = match &args.model {
        Some(model) if upstream.status.is_some() => {
            let server = upstream.server.filter(|_| upstream.is_named);
            Some(prefill(target, model, server).await)
        }
        _ => None,
    };
    let proxy = proxy(args, &target.key).await.map_err(Failure::io)?;
    let capability = prefill
        .iter()
        .filter_map(|prefill| CapabilityRow::of(prefill, &upstream));
    Ok(DoctorReport {
        capability: capability.collect(),
        upstream,
        prefill,
        proxy,
    })
}

/// Where the proxy is asked.
#[derive(Clone, Debug)]
enum ProxyAddress {
    Url(Upstream),
    Unix(PathBuf),
}

impl FromStr for ProxyAddress {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let local = |port: u16| format!("http://localhost:{port}");
        let url = match written.parse() {
            _ if written.contains("://") => written.to_owned(),
            Ok(ListenAddress::Unix(path)) => return Ok(Self::Unix(path)),
            Ok(ListenAddress::Tcp(address)) if address.ip().is_unspecified() => {
                local(address.port())
            }
            Ok(ListenAddress::Tcp(address)) => format!("http://{address}"),
            Ok(ListenAddress::Localhost(port) | ListenAddress::Any(port)) => local(port),
            Err(error) => return Err(error),
        };
        let upstream = Upstream::parse(&url).map_err(|error| error.to_string())?;
        Ok(Self::Url(upstream))
    }
}

impl ProxyAddress {
    fn of(args: &DoctorArgs) -> Result<Self, String> {
        let default = || ProxyConfig::LISTEN.to_string().parse();
        args.proxy.clone().map_or_else(default, Ok)
    }
}

/// Asks whether the proxy serves, for containers and service managers.
fn health(args: &DoctorArgs, console: &mut Console) -> Result<(), Failure> {
    let asked = async { io::Result::Ok(timeout(HEALTH_PATIENCE, health_status(args)).await) };
    let reason = match block_on(asked)? {
        Ok(Ok(StatusCode::OK)) => return console.line("proxy     serves"),
        Ok(Ok(status)) => format!("it answers {status}"),
        Ok(Err(error)) => error,
        Err(_) => format!("no answer within {} seconds", HEALTH_PATIENCE.as_secs()),
    };
    Err(Failure::io(format!("the proxy is not healthy: {reason}")))
}

/// How long the proxy may take. Its answer needs no other machine.
const HEALTH_PATIENCE: Duration = Duration::from_secs(5);

async fn health_status(args: &DoctorArgs) -> Result<StatusCode, String> {
    match ProxyAddress::of(args)? {
        ProxyAddress::Url(upstream) => {
            let client = proxy_client(args, upstream)?;
            let answered = send(&client, HEALTH, "", None).await;
            let answered = answered.map_err(|error| error.to_string())?;
            Ok(answered.status)
        }
        ProxyAddress::Unix(path) => ask_socket(&path)
            .await
            .map_err(|error| format!("{}: {error}", path.display())),
    }
}

const HEALTH: &str = "/healthz";

#[cfg(unix)]
async fn ask_socket(path: &Path) -> io::Result<StatusCode> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::UnixStream::connect(path).await?;
    let request = format!("GET {HEALTH} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line).await?;
    let status = line.strip_prefix(b"HTTP/1.1 ").unwrap_or_default();
    StatusCode::from_bytes(status).map_err(io::Error::other)
}

#[cfg(not(unix))]
async fn ask_socket(_: &Path) -> io::Result<StatusCode> {
    Err(io::ErrorKind::Unsupported.into())
}

fn proxy_client(args: &DoctorArgs, upstream: Upstream) -> Result<Client, String> {
    let files = TlsFiles {
        ca_file: args.ca_file.clone(),
        ..TlsFiles::default()
    };
    Client::with_tls(upstream, &files).map_err(|error| error.to_string())
}

/// Asks the proxy for its health and, through it, for the provider's list of models. `None` if
/// there is no proxy.
async fn proxy(args: &DoctorArgs, key: &str) -> Result<Option<Reached>, String> {
    let ProxyAddress::Url(upstream) = ProxyAddress::of(args)? else {
        return Err("--proxy: beside a provider it is a URL or an address of TCP".to_owned());
    };
    let client = proxy_client(args, upstream)?;
    let health = reach(&client, HEALTH, "").await;
    if health.status != Some(200) {
        // Without the flag, the port may belong to another program.
        return Ok(args.proxy.is_some().then_some(health));
    }
    Ok(Some(reach(&client, "/v1/models", key).await))
}

/// Asks for a path, and measures how long the answer takes.
async fn reach(client: &Client, path: &str, key: &str) -> Reached {
    let started = Instant::now();
    let answered = send(client, path, key, None).await;
    let mut reached = Reached {
        url: client.upstream().to_string(),
        milliseconds: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..Reached::default()
    };
    match answered {
        Err(error) => reached.error = Some(error.to_string()),
        Ok(answered) => {
            let failed = !answered.status.is_success();
            // A server in front of it may hide the header.
            let models: Value = serde_json::from_str(&answered.body).unwrap_or_default();
            let is_owner = models.pointer("/data/0/owned_by") == Some(&json!("llamacpp"));
            reached.status = Some(answered.status.as_u16());
            reached.error = failed.then(|| message(&answered.body, key));
            reached.is_named = answered.server.is_some_and(|server| server == LLAMA_CPP);
            reached.server = (reached.is_named || is_owner).then_some(LLAMA_CPP);
        }
    }
    reached
}

/// The software that the built-in table has a row for.
const LLAMA_CPP: &str = "llama.cpp";

/// A response.
struct Answered {
    status: StatusCode,
    /// Its `Server` header.
    server: Option<HeaderValue>,
    body: String,
}

/// Sends a request.
async fn send(
    client: &Client,
    path: &str,
    key: &str,
    body: Option<String>,
) -> Result<Answered, BodyError> {
    let uri = client.upstream().uri_for(path)?;
    let mut request = if body.is_some() {
        Request::post(uri)
    } else {
        Request::get(uri)
    };
    if !key.is_empty() {
        let mut bearer = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| "the key has characters that no header may have")?;
        bearer.set_sensitive(true);
        request = request.header(AUTHORIZATION, bearer);
    }
    let body = body.map_or_else(Body::empty, Body::full);
    let request = request
        .header(CONTENT_TYPE, "application/json")
        .body(body)?;
    let answered = timeout(PATIENCE, async {
        let response = client.send(request).await?;
        let status = response.status();
        let server = response.headers().get(SERVER).cloned();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answered {
            status,
            server,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    });
    let late = |_| format!("no answer within {} s", PATIENCE.as_secs());
    answered.await.map_err(late)?
}

/// An answer may take this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// An array that is cut. No model would choose its white space, so that a prefill that is returned
/// differs from an array that begins again.
const PREFILL: &str = "[1, 2,3, 4,";

/// Tries all forms of prefill, first the one that the table has for the model. `server`: the software
/// that the server's responses name.
async fn prefill(target: &DoctorTarget, model: &str, server: Option<&str>) -> Prefill {
    let host = target.client.upstream().host();
    let capability = Table::default().of_server(model, Some(host), server);
    let known = capability.prefill;
    let forms = [
        known,
        PrefillForm::Turn,
        PrefillForm::Flag,
        PrefillForm::Partial,
        PrefillForm::Final,
    ];
    let rungs = |form| {
        let mut capability = capability.clone();
        capability.prefill = form;
        ladder(Dialect::Chat, &capability, true, Rungs::ALL)
    };
    let mut found = Prefill {
        model: model.to_owned(),
        form: PrefillForm::None.as_str(),
        returns_prefill: false,
        returns_prefill_whole: false,
        known: known.as_str(),
        rungs: rungs(PrefillForm::None),
        tried: vec![],
    };
    for (at, form) in forms.into_iter().enumerate() {
        if form == PrefillForm::None || forms[..at].contains(&form) {
            continue;
        }
        let version = capability
            .prefill_path
            .as_deref()
            .filter(|_| form == known)
            .unwrap_or(target.version);
        let path = format!("{version}/chat/completions");
        let ask = |stream| {
            let body = Some(prefilled(model, form, stream));
            send(&target.client, &path, &target.key, body)
        };
        let asked = ask(true).await;
        let status = asked.as_ref().ok().map(|answered| answered.status);
        let is_answer = status.is_some_and(|status| status.is_success());
        let answer = match asked {
            Ok(answered) if is_answer => text_of(&answered.body),
            Ok(answered) => message(&answered.body, &target.key),
            Err(error) => error.to_string(),
        };
        found.tried.push(DoctorAttempt {
            form: form.as_str(),
            status: status.map(|status| status.as_u16()),
            answer: short(&answer),
        });
        if status == Some(StatusCode::SERVICE_UNAVAILABLE) {
            found.form = UNKNOWN;
            found.rungs.clear();
            break;
        }
        let text = answer.trim_start();
        // In a stream only providers with this form return the prefill. With others, the model has
        // begun again.
        let returned = text
            .strip_prefix(PREFILL)
            .filter(|_| form == PrefillForm::Flag);
        if is_answer && returned.unwrap_or(text).trim_start().starts_with('5') {
            found.form = form.as_str();
            found.rungs = rungs(form);
            found.returns_prefill = returned.is_some();
            let whole = ask(false).await.map(|answered| text_of(&answered.body));
            found.returns_prefill_whole = returned.is_none()
                && whole.is_ok_and(|text| text.trim_start().starts_with(PREFILL));
            break;
        }
    }
    found
}

/// The result while the server loads the model.
const UNKNOWN: &str = "unknown";

/// Returns a request whose last message is an array that is cut, in one of the forms.
fn prefilled(model: &str, form: PrefillForm, stream: bool) -> String {
    let mut last = json!({"role": "assistant", "content": PREFILL});
    // The most likely text of a model decides, and its beginning is enough.
    let mut body = json!({"model": model, "stream": stream, "max_tokens": 32, "temperature": 0});
    match form {
        PrefillForm::Flag => last["prefix"] = true.into(),
        PrefillForm::Partial => last["partial"] = true.into(),
        PrefillForm::Final => {
            body["continue_final_message"] = true.into();
            body["add_generation_prompt"] = false.into();
        }
        _ => {}
    }
    let first = "Write a JSON array of the numbers from 1 to 12 and nothing else.";
    body["messages"] = json!([{"role": "user", "content": first}, last]);
    body.to_string()
}

/// Returns the text of a stream, or of one body where the server does not stream.
fn text_of(body: &str) -> String {
    let mut text = String::new();
    let mut take = |delta: Delta<'_>| {
        if let Delta::Text { text: new, .. } = delta {
            text.push_str(new);
        }
    };
    let wire = Dialect::Chat.wire();
    if wire.read_body(body, &mut take) {
        return text;
    }
    let mut reader = wire.reader();
    for event in body.lines().filter_map(|line| line.strip_prefix("data:")) {
        reader.read("message", event.trim(), &mut take);
    }
    text
}

/// Returns the message of an error body, without the key.
fn message(body: &str, key: &str) -> String {
    let said = ask::message(body.as_bytes(), Dialect::Chat, &Key::new(key));
    short(&said)
}

fn short(text: &str) -> String {
    one_line(&text.trim().chars().take(SHOWN).collect::<String>())
}

/// Characters of an answer that are shown.
const SHOWN: usize = 200;
