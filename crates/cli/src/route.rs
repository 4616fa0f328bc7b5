//! `restitch config explain`: shows which route answers a request, and with which settings.

use super::ladder::ladder;
use super::settings::Settings;
use super::{Console, Failure};
use restitch::provider::Dialect;
use restitch_proxy::RequestDirectives;
use restitch_proxy::config::Config;
use restitch_proxy::route_config::{Asked, ContinueBy, HeaderName, RouteConfig};

/// Arguments of `restitch config explain`: the request.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RouteArgs {
    /// The path of the request.
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    path: String,
    /// The model that it names.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// It asks for JSON.
    #[arg(long)]
    json: bool,
    /// The name of its client's token.
    #[arg(long, value_name = "NAME")]
    token: Option<String>,
    /// A header of the request. Can be given more than once.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, String)>,
    #[command(flatten)]
    settings: Box<Settings>,
}

fn header(written: &str) -> Result<(HeaderName, String), String> {
    let (name, value) = written.split_once(':').ok_or("a header is `name: value`")?;
    Ok((name.trim().parse()?, value.trim().to_owned()))
}

pub(super) fn run(args: &RouteArgs, console: &mut Console) -> Result<(), Failure> {
    let config = args.settings.config(console)?;
    if !args.path.starts_with('/') {
        let words = format!("--path: `{}` is no path: it starts with `/`", args.path);
        return Err(Failure::usage(words));
    }
    let path = args.path.split('?').next().unwrap_or_default();
    let dialect = Dialect::of_path(path);
    let model = args
        .model
        .clone()
        .or_else(|| model_of_path(dialect, path))
        .unwrap_or_default();
    let asked = Asked { model: &model };
    let asked = dialect.map(|_| asked);
    let headers = |name: &str| {
        let of_name = args.header.iter().filter(|(own, _)| own.as_str() == name);
        of_name.map(|(_, value)| value.clone()).collect()
    };
    let mut found = None;
    for route in &config.routes {
        let mismatch = route
            .head_mismatch(path, args.token.as_deref(), &headers)
            .or_else(|| route.body_mismatch(asked.as_ref()));
        match mismatch {
            Some(mismatch) => console.line(format_args!("# {}: no, {mismatch}", route.name))?,
            None => {
                console.line(format_args!("# {}: yes", route.name))?;
                found = Some(route);
                break;
            }
        }
    }
    if found.is_none() {
        console.line(format_args!(
            "# {}: what no route matches",
            restitch_proxy::route_config::DEFAULT
        ))?;
    }
    let effective = config.effective(found);
    let effective = apply(&args.header, effective, console)?;
    console.lines(&Config::show_route(&effective))?;
    console.line(format_args!(
        "# {}",
        how(&config, &effective, dialect, (&model, args.json))
    ))
}

/// Applies the request's headers that control its answer, like the proxy. The error is the one that
/// the client receives.
fn apply(
    headers: &[(HeaderName, String)],
    mut route: RouteConfig,
    console: &mut Console,
) -> Result<RouteConfig, Failure> {
    let refused =
        |mistake| Failure::usage(format!("--header: {mistake}: such a request is refused"));
    let mut own = http::HeaderMap::new();
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with("x-restitch") {
            continue;
        }
        let invalid = |part| refused(format!("`{name}` has a {part} that no header can have"));
        let header: http::HeaderName = name.parse().map_err(|_| invalid("name"))?;
        let value = http::HeaderValue::try_from(value).map_err(|_| invalid("value"))?;
        own.insert(header, value);
    }
    let directives = RequestDirectives::read(&own).map_err(refused)?;
    if !own.is_empty() {
        let names: Vec<_> = own.keys().map(http::HeaderName::as_str).collect();
        console.line(format_args!("# {}: applied below", names.join(", ")))?;
    }
    directives.apply(&mut route);
    Ok(route)
}

/// Returns the model that a path names, where the API has it there.
fn model_of_path(dialect: Option<Dialect>, path: &str) -> Option<String> {
    let request = dialect?.wire().parse(
        path,
        br#"{"contents": [], "messages": [], "prompt": "", "input": ""}"#,
    )?;
    Some(request.model).filter(|model| !model.is_empty())
}

/// Describes how an answer is handled.
fn how(
    config: &Config,
    route: &RouteConfig,
    dialect: Option<Dialect>,
    (model, has_format): (&str, bool),
) -> String {
    let Some(dialect) = dialect else {
        return "The path is of no API that is read: the answer passes, cut or not.".to_owned();
    };
    if route.continuation == ContinueBy::Off {
        return format!("A request of {dialect}; the answer passes, cut or not.");
    }
    let host = host(route.upstream.as_deref());
    let known = config.table().of(model, host.as_deref());
    let rungs = ladder(dialect, &known, has_format, route.continuation.rungs());
    match rungs.is_empty() {
        true => format!("A request of {dialect}; no rung is allowed for the rest of a cut answer."),
        false => format!(
            "A request of {dialect}; the rungs for the rest of a cut answer: {}.",
            rungs.join(", ")
        ),
    }
}

fn host(upstream: Option<&str>) -> Option<String> {
    let upstream = restitch_proxy::address::upstream(upstream?).ok()?;
    Some(upstream.host().to_owned())
}
