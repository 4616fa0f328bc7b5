//! The configuration file: its settings, its errors, and the guide that the program prints.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::capability::{PrefillForm, Switch, Table};
use restitch::session::Prompt;
use restitch::shape::Schema;
use restitch_proxy::config::{Config, Key};
use restitch_testing::says::Says;

const PAGE: &str = include_str!("../../../../docs/configuration.md");

fn parse(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_example_of_the_page_is_right() {
    let examples = PAGE.split("```toml\n").skip(1);
    for example in examples.map(|rest| rest.split("\n```").next().unwrap()) {
        assert_ne!(parse(example), Config::default(), "{example}");
    }
}

#[test]
fn the_example_in_contrib_is_right() {
    let config = parse(include_str!("../../../../contrib/restitch.toml"));
    let names: Vec<_> = config
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["batch", "claude", "answers", "embeddings"]);
    PAGE.has("contrib/restitch.toml");
}

/// Counts the keys of a file: the members of all tables, and the tables themselves.
#[test]
fn a_file_has_at_most_90_keys() {
    let schema = Config::schema();
    let tables = schema["$defs"].as_object().unwrap().values();
    let members = tables.chain([&schema]).map(|table| &table["properties"]);
    let keys: usize = members
        .filter_map(|keys| Some(keys.as_object()?.len()))
        .sum();
    println!("covered: {keys} keys of a configuration file");
    assert!(keys <= 90, "{keys}");
}

/// The tables have each key once, with words that fit a cell.
#[test]
fn the_printed_tables_have_every_key() {
    let docs = Key::docs();
    let schema = Config::schema();
    let tables = schema["$defs"].as_object().unwrap().values();
    let members = tables.flat_map(|table| table["properties"].as_object().into_iter().flatten());
    let declared = members.count();
    let rows: Vec<&str> = docs
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(rows.len(), declared, "{docs}");
    for row in rows {
        let words = row.split('|').nth(2).unwrap().split_whitespace().count();
        assert!((2..=60).contains(&words), "{row}");
    }
    for row in [
        "| `max_continuations` | Calls after the first one, for one answer | `8` |",
        "| `on_give_up` | What to do with an answer that can't be completed. leave: add nothing, and end it as its last call ended. \
         close: close its JSON, so that it parses. error: end it with an error (`close`, `leave`, `error`) | `leave` |",
    ] {
        docs.has(row);
    }
    for heading in [
        "## `[proxy]`",
        "## `[limits]`",
        "## `[[access.token]]`",
        "## `[[route.fallback]]`",
        "## `[[capability]]`",
    ] {
        docs.has(heading);
    }
}

/// Returns the violations of the schema of configuration files in a TOML text.
fn violations(schema: &Schema, text: &str) -> Vec<String> {
    let json = text.parse::<toml::Table>().unwrap();
    let json = serde_json::to_string(&json).unwrap();
    let violations = schema.violations(&json).into_iter();
    violations
        .map(|violation| format!("{}: {}", violation.path, violation.message))
        .collect()
}

fn file_schema() -> Schema {
    Config::schema().to_string().parse().unwrap()
}

#[test]
fn the_schema_takes_the_defaults_and_all_examples() {
    let shown = Config::default().show();
    let contrib = include_str!("../../../../contrib/restitch.toml");
    for text in ["", &shown, contrib, OWN] {
        assert_eq!(violations(&file_schema(), text), [""; 0], "{text}");
    }
    for time in ["2.5", "\"7\"", "\"1h 30m\""] {
        let text = format!("[limits]\nidle_timeout = {time}\n");
        parse(&text);
        assert_eq!(violations(&file_schema(), &text), [""; 0], "{text}");
    }
}

#[test]
fn the_schema_refuses_files_that_are_refused() {
    let schema = file_schema();
    for row in REFUSED.trim().lines() {
        let text = row.replace('⏎', "\n");
        assert!(Config::parse(&text).is_err(), "{text}");
        assert_ne!(violations(&schema, &text), [""; 0], "{text}");
    }
}

/// Files with a sign for their line ends.
const REFUSED: &str = r##"
x = 1
[limit]
[limits]⏎max_continuation = 4
[limits]⏎max_continuations = -1
[limits]⏎max_risk = 1.5
[limits]⏎idle_timeout = 0
[limits]⏎idle_timeout = "soon"
[limits]⏎threads = 7
[proxy]⏎threads = 0
[proxy]⏎adapt = "yes"
[proxy]⏎on_give_up = "never"
[proxy]⏎log_format = "xml"
[access]⏎allow_hosts = "localhost"
[access]⏎token = "a"
[[access.token]]⏎name = "a"⏎secret = 1
[[route]]⏎token = "a"
[prompt]⏎mark = "sometimes"
[prompt]⏎word = true
[[capability]]⏎model = "a"⏎prefill = "half"
[[capability]]⏎model = "a"⏎reasoning_off = { a = 1 }
[[route]]⏎continuation = "never"
[[route]]⏎fallback = [{ model = "a" }]
[[route]]⏎fallback = [{ upstream = "http://a", wire = "a" }]
"##;

#[test]
fn an_empty_file_is_the_default() {
    for text in ["", "# nothing\n", "[limits]\n[prompt]\n[proxy]\n"] {
        assert_eq!(parse(text), Config::default());
    }
    assert_eq!(Config::default().all_limits(), Limits::default());
    assert_eq!(Config::default().prompt, Prompt::default());
    assert_eq!(Config::default().table(), Table::default());
}

/// A key sets the limit of its own name and no other.
#[test]
fn a_key_of_limits_sets_its_own_limit() {
    let defaults: toml::Table = Config::default().show().parse().unwrap();
    for key in defaults["limits"].as_table().unwrap().keys() {
        let value = if key == "max_risk" { "0.5" } else { "7" };
        let config = parse(&format!("[limits]\n{key} = {value}\n"));
        let mut again = Config::default();
        again.set_limits(config.all_limits());
        assert_eq!(again.limits, config.limits, "{key}");
        let shown: toml::Table = config.show().parse().unwrap();
        for (other, shown) in shown["limits"].as_table().unwrap() {
            let default = &defaults["limits"][key];
            let is_time = default.is_str();
            let expected = if other == key && is_time {
                format!("\"{value}s\"")
            } else if other == key {
                value.to_owned()
            } else {
                defaults["limits"][other].to_string()
            };
            assert_eq!(shown.to_string(), expected, "{other}, where {key} is set");
        }
    }
}

/// A longer silence that the operator allows is allowed without text, too.
#[test]
fn a_long_idle_timeout_lengthens_the_time_without_text() {
    for (written, seconds) in [("60", 120), ("120", 120), ("300", 300)] {
        let limits = parse(&format!("[limits]\nidle_timeout = {written}\n")).all_limits();
        assert_eq!(limits.transport.text_timeout, Duration::from_secs(seconds));
    }
}

#[test]
fn a_setting_is_set_by_its_name() {
    let mut config = Config::default();
    for (name, value) in [
        ("limits.max_continuations", "4"),
        ("limits.idle_timeout", "2m"),
        ("limits.max_risk", "0.5"),
        ("proxy.upstream", "https://a.example"),
        ("proxy.socket_mode", "0660"),
        ("proxy.adapt", "true"),
        ("proxy.upstream_key", "env:K"),
        ("access.allow_hosts", "[\"a\", \"b:1\"]"),
        ("access.token_variable", "123"),
        ("prompt.mark", "never"),
        ("prompt.instruction", "Weiter: {{overlap_context}}"),
    ] {
        assert_eq!(config.set(name, value), Ok(()), "{name}");
    }
    let file = "[limits]\nmax_continuations = 4\nidle_timeout = 120\nmax_risk = 0.5\n\
        [proxy]\nupstream = \"https://a.example\"\nsocket_mode = \"0660\"\nadapt = true\nupstream_key = \"env:K\"\n\
        [access]\nallow_hosts = [\"a\", \"b:1\"]\ntoken_variable = \"123\"\n\
        [prompt]\nmark = \"never\"\ninstruction = \"Weiter: {{overlap_context}}\"\n";
    assert_eq!(config, parse(file));
    let set = config.clone();
    for (name, value, about) in [
        (
            "limits.max_continuation",
            "4",
            "unknown key `limits.max_continuation`: did you mean `limits.max_continuations`?",
        ),
        (
            "proxy.max_risk",
            "4",
            "unknown key `proxy.max_risk`: did you mean `limits.max_risk`?",
        ),
        ("route.name", "a", "unknown key `route.name`"),
        ("limits.max_risk", "2", "`2` is not a number from 0 to 1"),
        ("limits.max_continuations", "x", "invalid type: string"),
        (
            "proxy.upstream_key",
            "sk-secret",
            "is this the secret itself?",
        ),
        (
            "proxy.listen",
            "1\nadapt = true",
            "is no address to listen on",
        ),
    ] {
        let error = config.set(name, value).unwrap_err();
        error.has(about).lacks("sk-");
    }
    assert_eq!(config.limits, set.limits);
}

#[test]
fn a_time_has_a_unit_or_is_a_number_of_seconds() {
    for (written, milliseconds) in [
        ("2.5", 2_500),
        ("\"7\"", 7_000),
        ("\"250ms\"", 250),
        ("\"1h 30m\"", 5_400_000),
        ("\"1y\"", 31_557_600_000),
    ] {
        let limits = parse(&format!("[limits]\nidle_timeout = {written}\n")).limits;
        let expected = Duration::from_millis(milliseconds);
        assert_eq!(limits.idle_timeout.0, expected, "{written}");
    }
    for written in [
        "\"\"",
        "\"-1s\"",
        "\"2y\"",
        "true",
        "\"18446744073709551615s1000ms\"",
        "inf",
    ] {
        let (line, column, message) = wrong(&format!("[limits]\nidle_timeout = {written}\n"));
        assert_eq!((line, column), (2, 16), "{written}");
        message.has("a time from 1ms to a year");
    }
}

/// Without a key that is near, the message has no list of all keys.
#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    for (text, message) in [
        (
            "[proxy]\nupstrem = 1\n",
            "unknown field `upstrem`: did you mean `upstream`?",
        ),
        (
            "[[route]]\nfallbacks = []\n",
            "unknown field `fallbacks`: did you mean `fallback`?",
        ),
        (
            "[[route]]\npatience = 7\n",
            "unknown field `patience`: it is a key of `[limits]`",
        ),
        ("[limits]\nx = 1\n", "unknown field `x`"),
    ] {
        assert_eq!(wrong(text).2, message);
    }
}

fn wrong(text: &str) -> (usize, usize, String) {
    let error = Config::parse(text).expect_err(text);
    assert_eq!(
        error.to_string(),
        format!(
            "line {}, column {}: {}",
            error.line, error.column, error.message
        )
    );
    assert!(!error.message.contains('\n'), "{}", error.message);
    (error.line, error.column, error.message)
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for row in WRONG.trim().lines() {
        let [place, about, text] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let text = text.replace('⏎', "\n").replace('␍', "\r");
        let (line, column, message) = wrong(&text);
        message.of(row).has(about);
        assert_eq!(place, format!("{line}:{column}"), "{row}: {message}");
    }
}

/// Line and column, a part of the message, and the file, with signs for its line ends.
const WRONG: &str = r##"
2:1 | unknown field `continuation`: did you mean `max_continuations`? | [limits]⏎continuation = 4⏎
1:1 | unknown field `x` | x = 1⏎
4:10 | `nowhere` is no address to listen on: write | ⏎⏎[proxy]⏎listen = "nowhere"⏎
2:10 | `99999` is no port | [proxy]⏎listen = "localhost:99999"⏎
2:15 | `0888` is no mode of a socket | [proxy]⏎socket_mode = "0888"⏎
2:15 | invalid type: integer | [proxy]⏎socket_mode = 384⏎
2:7 | `loud` is no level: there are off, error, warn, info, debug, trace | [proxy]⏎log = "loud"⏎
2:14 | unknown variant `never`, expected one of `close`, `leave`, `error` | [proxy]⏎on_give_up = "never"⏎
2:20 | invalid value: integer `0`, expected a nonzero u32 | [proxy]⏎raise_max_tokens = 0⏎
2:15 | `http://a` is not a host like | [access]⏎allow_hosts = ["http://a"]⏎
2:17 | `https://a/` is not an origin like | [access]⏎allow_origins = ["https://a/"]⏎
2:17 | `a.example` is not an origin like | [access]⏎allow_origins = ["a.example"]⏎
2:15 | `v1/*` is not a path like | [access]⏎allow_paths = ["/v1", "v1/*"]⏎
2:9 | expected a sequence | [access]⏎token = "a"⏎
1:1 | missing field `secret` | [[access.token]]⏎name = "a"⏎
1:1 | `a b` is not a token's name | [[access.token]]⏎name = "a b"⏎secret = "file:f"⏎
1:1 | missing field `name` | [[access.token]]⏎secret = "file:f"⏎
6:1 | no token of `[access]` has the name `b` | [[access.token]]⏎name = "a"⏎secret = "file:f"⏎[[route]]⏎model = "m"⏎[[route]]⏎token = ["a", "b"]⏎
2:16 | a secret is `env:VARIABLE` or `file:PATH`: is this the secret itself? | [proxy]⏎upstream_key = "sk-x"⏎
3:10 | this is not a variable's name: is it the value itself? | [[access.token]]⏎name = "a"⏎secret = "env:sk-x"⏎
1:1 | the key of a route needs the `upstream` that it is for | [[route]]⏎key = "file:k"⏎
3:19 | expected a boolean | [[capability]]⏎model = "a"⏎drops_json_mode = 1⏎
3:15 | `{{here}}` at byte 6 is not a placeholder | [prompt]⏎# é⏎instruction = "go on {{here}}"⏎
2:16 | `0` is not a time from 1ms to a year | [limits]⏎idle_timeout = 0⏎
2:23 | is not a time from 0s to a year | [limits]⏎keep_alive_interval = 1e99⏎
2:18 | invalid value | [limits]⏎max_body_bytes = -1⏎
2:12 | is not a number from 0 to 1 | [limits]⏎max_risk = 1.5⏎
1:1 | missing field `model` | [[capability]]⏎prefill = "turn"⏎
3:17 | the value is not a JSON object with one member | [[capability]]⏎model = "a"⏎reasoning_off = '{"b": '⏎
2:1 | unknown field `modell` | [[route]]⏎modell = "a"⏎
2:9 | `` is no pattern of models | [[route]]⏎model = ""⏎
2:8 | `/v1?x` is no pattern of paths | [[route]]⏎path = "/v1?x"⏎
2:16 | `maybe` is not `auto` or `off`, nor a list of rungs | [[route]]⏎continuation = "maybe"⏎
2:22 | `0` is not a time from 1ms | [[route]]⏎first_byte_timeout = 0⏎
2:13 | missing field `upstream` | [[route]]⏎fallback = [{ model = "a" }]⏎
2:38 | unknown variant `b`, expected one of `openai-chat` | [[route]]⏎fallback = [{ upstream = "a", wire = "b" }]⏎
2:12 | `a b` is no name of a header | [[route]]⏎header = { "a b" = "c" }⏎
2:12 | `X-Api-Key` may hold a secret | [[route]]⏎header = { X-Api-Key = "c" }⏎
2:16 | ` c` is no pattern of a header's value | [[route]]⏎header = { a = " c" }⏎
3:8 | `a b` is no name of a route | [[route]]⏎model = "a"⏎name = "a b"⏎
3:8 | `default` is the name of what no route matches | [[route]]⏎model = "a"⏎name = "default"⏎
5:8 | the route of line 1 has the name `x`, too | [[route]]⏎model = "a"⏎name = "x"⏎[[route]]⏎name = "x"⏎model = "b"⏎
4:1 | this route is never reached: route `route-1` of line 1 takes its requests | [[route]]⏎model = "a*"⏎⏎[[route]]⏎model = "ab*c"⏎path = "/v1"⏎
1:8 |  | [limits⏎
3:1 | duplicate key | [limits]⏎idle_timeout = 1⏎idle_timeout = 2⏎
3:1 | unknown field `none` | [limits]␍⏎idle_timeout = 1␍⏎none = 2␍⏎
"##;

const OWN: &str = "[proxy]\nupstream = \"http://a\"\nupstream_key = \"env:U\"\nprose = \"anchor\"\nadapt = false\non_give_up = \"error\"\n[limits]\nunused_timeout = 0.25\n\
    [access]\ntoken_variable = \"T\"\nallow_hosts = [\"a:1\", \"[::1]\"]\nallow_origins = [\"null\", \"https://a\"]\n\
    allow_paths = [\"/v1/*\"]\nadmin_hosts = [\"ops\"]\n\
    [[access.token]]\nname = \"t\"\nsecret = \"file:/t 1\"\n[[access.token]]\nname = \"t\"\nsecret = \"env:V\"\n[tls]\nca_file = \"/a b/c.pem\"\nclient_cert = \"d\"\nclient_key = \"e\"\n\
    [prompt]\nmark = \"never\"\nprogress = true\ninstruction = \"How \\\"far\\\"?\\n\\n''' {{overlap_context}}\"\n\
    [[capability]]\nmodel = \"a*\"\nprefill = \"partial\"\nreturns_prefill = true\ndrops_json_mode = false\nreasoning_off = '{\"a\": false}'\n\
    [[route]]\npath = \"/v1/*\"\nmodel = \"b*\"\ntoken = [\"t\", \"default\"]\nupstream = \"http://b\"\nkey = \"file:/k\"\n\
    repair = \"guess\"\non_give_up = \"leave\"\nprose = \"pass\"\nmax_continuations = 3\nmax_total_time = 9\n\
    first_byte_timeout = 2.5\nheader = { X-A = \"1 2\", b = \"*\" }\n\
    fallback = [{ upstream = \"http://c\", model = \"d\", key = \"env:E\", wire = \"gemini\" }, { upstream = \"http://f\", key = \"file:/l\" }]\n[[route]]\nname = \"c\"\ncontinuation = [\"words\"]\n";

/// Only a route that takes no request of its own is refused.
#[test]
fn routes_that_are_reached_are_right() {
    for text in [
        "[[route]]\nmodel = \"a\"\n[[route]]\nmodel = \"a*\"\n[[route]]\nmodel = \"*\"\n[[route]]\n",
        "[[route]]\nmodel = \"a*\"\nheader = { x = \"1\" }\n[[route]]\nmodel = \"ab\"\n",
        "[[access.token]]\nname = \"a\"\nsecret = \"file:f\"\n[[route]]\ntoken = [\"a\"]\n[[route]]\ntoken = [\"a\", \"default\"]\n[[route]]\nmodel = \"a\"\n",
        "[[route]]\npath = \"/a*\"\n[[route]]\npath = \"/A\"\n[[route]]\npath = \"*\"\n",
    ] {
        assert!(
            parse(text)
                .routes
                .iter()
                .enumerate()
                .all(|(n, route)| route.name == format!("route-{}", n + 1))
        );
    }
    let (_, _, message) = wrong(&format!(
        "[[route]]\nmodel = \"{}\"\n",
        "é".repeat(1_000_000)
    ));
    message
        .of(format!("{} bytes", message.len()))
        .begins(format!("`{}…` is no pattern of models", "é".repeat(60)));
    let (line, _, message) = wrong(
        &(0..101)
            .map(|n| format!("[[route]]\nmodel = \"{n}\"\n"))
            .collect::<String>(),
    );
    assert_eq!((line, message.as_str()), (201, "there can be 100 routes"));
}

#[test]
fn upstreams_are_checked_with_their_lines() {
    for (text, line, column) in [
        (
            "[proxy]\nadapt = true\nupstream = \"ftp://secret\"\n",
            3,
            12,
        ),
        (
            "[[route]]\nmodel = \"a\"\n[[route]]\nupstream = \"http://u:secret@a\"\n",
            4,
            12,
        ),
        (
            "[[route]]\nfallback = [{ upstream = \"http://a\" },\n { upstream = \"secret\" }]\n",
            3,
            15,
        ),
    ] {
        let error = Config::parse_checked(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
        error.message.lacks("secret");
    }
}

#[test]
fn what_is_shown_says_the_same() {
    for config in [Config::default(), parse(OWN)] {
        let shown = config.show();
        assert_eq!(parse(&shown), config, "{shown}");
        assert_eq!(parse(&shown).show(), shown);
    }
}

/// The file is the guide: uncommenting everything must leave a right file with every key.
#[test]
fn the_file_to_begin_with_has_all_settings() {
    let file = Config::init("http://127.0.0.1:8788");
    let mut config = Config::default();
    config.proxy.upstream = Some("http://127.0.0.1:8788".to_owned());
    config.proxy.admin = Some(([127, 0, 0, 1], 7379).into());
    assert_eq!(parse(&file), config, "{file}");
    let live = file
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!((15..=25).contains(&live.count()), "{file}");
    let whole = file.lines().fold(String::new(), |whole, line| {
        let is_setting = line.starts_with('#') && !line.starts_with("# ");
        whole + if is_setting { &line[1..] } else { line } + "\n"
    });
    assert_eq!(violations(&file_schema(), &whole), [""; 0], "{whole}");
    let all = parse(&whole);
    let names: Vec<_> = all.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["batch", "team-a", "answers", "route-4"]);
    assert_eq!(all.routes[2].fallback.len(), 2);
    assert_eq!((all.access.token.len(), all.capabilities.len()), (2, 1));
    all.prompt.instruction().unwrap().begins("Die Verbindung");
    let table: toml::Table = whole.parse().unwrap();
    for key in Key::all() {
        if let Some(own) = table.get(&key.table).and_then(toml::Value::as_table) {
            assert!(own.contains_key(&key.name), "{}.{}", key.table, key.name);
        }
    }
    assert!(
        file.lines().all(|line| line.chars().count() <= 102),
        "{file}"
    );
}

#[test]
fn what_is_changed_says_the_same_as_the_file() {
    assert_eq!(Config::default().show_changed(), "");
    let config = parse(OWN);
    let changed = config.show_changed();
    assert_eq!(parse(&changed), config, "{changed}");
    for unchanged in ["listen", "adapt", "max_continuations = 8"] {
        changed.of(unchanged).lacks(unchanged);
    }
    let shown = parse("[proxy]\nupstream = \"http://a:secret@b\"\nstore = \"redis://:secret@c\"\n")
        .show_changed();
    shown.lacks("secret").has("***");
}

#[test]
fn a_row_names_the_abilities_of_a_model() {
    let config = parse(
        "[[capability]]\nmodel = \"*\"\nhost = \"10.0.0.*\"\nprefill = \"continue-final-message\"\n\
         reasoning_off = '{\"enable_thinking\": false}'\n\
         [[capability]]\nmodel = \"my-finetune*\"\nresponse_format = false\nreasoning_off = '{}'\n",
    );
    let own = config.table().of("llama", Some("10.0.0.7"));
    assert_eq!(own.prefill, PrefillForm::Final);
    let off = Switch {
        key: "enable_thinking".into(),
        value: "false".into(),
    };
    assert_eq!(own.reasoning_off, Some(off));
    let tuned = config.table().of("my-finetune:2", None);
    assert!(!tuned.response_format && tuned.reasoning_off.is_none());
    assert_eq!(Config::default().table(), Table::default());
}

#[test]
fn the_upstream_is_shown_without_its_password() {
    for (upstream, shown) in [
        (
            "https://llm.example/api",
            "upstream = \"https://llm.example/api\"",
        ),
        (
            "https://user:se:c@ret@llm.example/x",
            "upstream = \"https://user:***@llm.example/x\"",
        ),
        // Unencoded passwords: the check refuses the upstream, and the message shows the address.
        (
            "https://user:1/secret@llm.example",
            "upstream = \"https://user:***@llm.example\"",
        ),
        (
            "https://llm.example/x#secret",
            "upstream = \"https://llm.example/x#***\"",
        ),
        (
            "https://secret@llm.example",
            "upstream = \"https://***@llm.example\"",
        ),
        (
            "https://llm.example/?key=secret",
            "upstream = \"https://llm.example/?***\"",
        ),
    ] {
        let text = parse(&format!("[proxy]\nupstream = \"{upstream}\"\n")).show();
        text.of(upstream).has(shown).lacks("secret");
    }
}

mod commands {
    use std::path::Path;
    use std::process::Command;

    use restitch_proxy::config::Config;

    use restitch_testing::says::Says;

    use crate::cli::{Ran, folder, pipe, run, shell, shell_in};

    const FILE: &[u8] =
        b"[proxy]\nupstream = \"http://file.example\"\n[limits]\nmax_continuations = 2\nidle_timeout = 20\nmax_body_bytes = 200\n";

    #[test]
    fn a_file_is_checked() {
        let files: [(&str, &[u8]); 3] = [
            ("right.toml", FILE),
            ("wrong.toml", b"[limits]\n\nidel = 1\n"),
            ("url.toml", b"[proxy]\nupstream = \"ftp://x\"\n"),
        ];
        let folder = folder("config-check", &files);
        shell_in(&folder, "config check right.toml").is(0, "", "");
        pipe("config check -", FILE).is(0, "", "");
        let ran = shell_in(&folder, "config check wrong.toml");
        ran.gives(4, "");
        ran.err
            .begins("restitch: wrong.toml: line 3, column 1: unknown field `idel`");
        {
            let ran = shell_in(&folder, "config check url.toml");
            ran.exits(4);
            ran.err
                .has("an upstream starts with `http://` or `https://`");
        }
        shell_in(&folder, "config check missing.toml").exits(1);
        shell_in(&folder, "config check").exits(2);
    }

    /// The proxy would not start with such a file, or answer with a certificate that no client
    /// takes.
    #[test]
    fn a_check_opens_certificates_and_keys() {
        let tls = |name: &str| format!("{}/tests/it/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        let proxy = |cert: &str, key: &str| {
            format!(
                "[proxy]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n",
                tls(cert),
                tls(key)
            )
        };
        let upstream = |ca: &str, cert: &str, key: &str| {
            let (ca, cert, key) = (tls(ca), tls(cert), tls(key));
            format!("[tls]\nca_file = \"{ca}\"\nclient_cert = \"{cert}\"\nclient_key = \"{key}\"\n")
        };
        let check = |text: &str| pipe("config check -", text);
        for right in [
            proxy("server.pem", "server.key"),
            upstream("ca.pem", "client.pem", "client.key"),
        ] {
            check(&right).is(0, "", "");
        }
        for (wrong, named) in [
            (proxy("missing.pem", "server.key"), "missing.pem"),
            (proxy("server.pem", "missing.key"), "missing.key"),
            (proxy("server.pem", "client.key"), "client.key"),
            (proxy("server.key", "server.key"), "server.key"),
            (
                proxy("server.pem", "server.key").replace("tls_key", "# "),
                "needs its key",
            ),
            (
                upstream("client.key", "client.pem", "client.key"),
                "client.key",
            ),
            (
                upstream("missing.pem", "client.pem", "client.key"),
                "missing.pem",
            ),
            (upstream("ca.pem", "client.pem", "server.key"), "server.key"),
            (
                upstream("ca.pem", "client.pem", "client.key").replace("client_key", "# "),
                "client_key",
            ),
        ] {
            let ran = check(&wrong);
            assert!(ran.out.is_empty(), "{wrong}: {}", ran.err);
            ran.exits(4);
            ran.err.of(wrong).has(named);
        }
        let expired = "a certificate has expired";
        for old in [
            proxy("expired.pem", "expired.key"),
            upstream("expired.pem", "client.pem", "client.key"),
        ] {
            let ran = check(&old);
            ran.exits(0);
            ran.err.of(old).has(expired).has("03 Feb 2021");
        }
    }

    /// `config check` opens the files of tokens and keys as the proxy does when it starts.
    #[test]
    fn files_of_tokens_and_keys_are_checked_and_never_shown() {
        const SECRET: &str = "t0ken-of-team-a-in-a-file";
        let folder = folder(
            "config-tokens",
            &[
                ("good", format!("{SECRET}\r\n").as_bytes()),
                ("short", b"t0ken-5hort\n"),
                ("empty", b"\n"),
                ("lines", b"t0ken-of-team-a\nt0ken-of-team-b\n"),
                ("long", &[b'x'; 9000]),
            ],
        );
        let token = |file: &str| {
            format!(
                "[proxy]\nupstream = \"http://127.0.0.1:9\"\n[[access.token]]\nname = \"team-a\"\nsecret = \"file:{file}\"\n"
            )
        };
        let write = |text: &str| std::fs::write(folder.join("f.toml"), text).unwrap();
        write(&token("good"));
        let ran = shell_in(&folder, "config check f.toml");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let ran = shell_in(&folder, "config show --config f.toml");
        ran.exits(0);
        ran.out
            .has("[[access.token]]\nname = \"team-a\"\nsecret = \"file:good\"\n");
        ran.out.lacks("t0ken");
        let key = |file: &str| {
            format!(
                "[[route]]\nfallback = [{{ upstream = \"http://127.0.0.1:9\", key = \"file:{file}\" }}]\n"
            )
        };
        let own_key = |file: &str| format!("[proxy]\nupstream_key = \"file:{file}\"\n");
        for (text, words) in [
            (
                token("short"),
                "token `team-a`: short: the secret is too short",
            ),
            (token("lines"), "lines: the secret has characters"),
            (token("long"), "long: a secret has at most 8192 bytes"),
            (token("missing"), "missing: No such file"),
            (token("."), ".: a secret is read from a regular file"),
            (key("empty"), "route `route-1`: empty: the file is empty"),
            (own_key("empty"), "--upstream: empty: the file is empty"),
        ] {
            write(&text);
            let ran = shell_in(&folder, "config check f.toml");
            ran.exits(4);
            ran.err.has(words);
            ran.err.lacks("t0ken-");
            let args = [
                "proxy",
                "--config",
                "f.toml",
                "--upstream",
                "http://127.0.0.1:9",
            ];
            let ran = run(&folder, &args, b"");
            ran.exits(1);
            ran.err.has(words);
            ran.err.lacks("t0ken-");
        }
    }

    #[test]
    fn the_token_of_a_request_is_explained() {
        let file = b"[[access.token]]\nname = \"team-a\"\nsecret = \"file:none\"\n[[route]]\nname = \"r\"\ntoken = [\"team-a\"]\n";
        let folder = folder("config-explain-token", &[("f.toml", file)]);
        for (token, words) in [
            (&["--token", "team-a"][..], "# r: yes\n"),
            (
                &["--token", "other"],
                "# r: no, the token is `other`, not `team-a`\n",
            ),
            (
                &[],
                "# r: no, the request has no token; the route needs `team-a`\n",
            ),
        ] {
            let args = [&["config", "explain", "--config", "f.toml"], token].concat();
            let ran = run(&folder, &args, b"");
            ran.exits(0);
            ran.out.has(words);
        }
    }

    #[test]
    fn a_route_is_explained() {
        let file = b"[proxy]\nupstream = \"http://u:secret@base\"\n[[route]]\nname = \"a\"\npath = \"/v1/chat/*\"\n\
            header = { x-team = \"batch\" }\n[[route]]\nmodel = \"claude-*\"\nupstream = \"http://b\"\nmax_total_time = 9\n\
            [[route]]\nmodel = \"gpt-*\"\ncontinuation = \"off\"\n";
        let folder = folder("config-explain", &[("f.toml", file)]);
        let explain = |args: &[&str]| {
            run(
                &folder,
                &[&["config", "explain", "--config", "f.toml"], args].concat(),
                b"",
            )
        };
        let ran = explain(&["--model", "claude-sonnet-4-5", "--header", "X-Team: other"]);
        let expected = "# a: no, the header `x-team` is not `batch`\n# route-2: yes\nname = \"route-2\"\nupstream = \"http://b\"\n\
            continuation = \"auto\"\nrepair = \"strict\"\non_give_up = \"leave\"\nprose = \"pass\"\nmax_continuations = 8\n\
            max_total_time = \"9s\"\nfirst_byte_timeout = \"5m\"\n# A request of openai-chat; the rungs for the rest of a cut \
            answer: prefill (turn), words.\n";
        assert_eq!((ran.out.as_str(), ran.code), (expected, 0), "{}", ran.err);
        let ran = explain(&["--header", "x-team:batch"]);
        ran.out.begins("# a: yes\n");
        ran.out.has("upstream = \"http://u:***@base\"\n");
        let ran = explain(&["--model", "gpt-5", "--json"]);
        for words in [
            "# a: no, no header `x-team`, which is to be `batch`\n",
            "# route-2: no, the model is `gpt-5`, not `claude-*`\n# route-3: yes\n",
            "continuation = \"off\"\n",
            "# A request of openai-chat; the answer passes, cut or not.\n",
        ] {
            ran.out.has(words);
        }
        let ran = explain(&["--path", "/v1/models"]);
        ran.out.has_all([
            "# a: no, the path is not `/v1/chat/*`\n",
            "# route-3: no, the body is not read, so its model is not known\n# default: what no route matches\n",
            "# The path is of no API that is read: the answer passes, cut or not.\n",
        ]);
        let ran = explain(&["--path", "/v1beta/models/claude-x:generateContent"]);
        ran.out.has("# route-2: yes\n");
        for (header, line) in [
            ("x-restitch: off", "continuation = \"off\"\n"),
            ("x-restitch-continuations: 2", "max_continuations = 2\n"),
            ("x-restitch-continuations: 99", "max_continuations = 8\n"),
            (
                "x-restitch-rungs: words, grammar",
                "continuation = [\n    \"grammar\",\n    \"words\",\n]\n",
            ),
            ("x-restitch-give-up: close", "on_give_up = \"close\"\n"),
            ("x-restitch-repair: guess", "repair = \"guess\"\n"),
        ] {
            let ran = explain(&["--model", "claude-x", "--header", header]);
            ran.out.of(header).has(line).has(": applied below\n");
        }
        explain(&["--header", "x-restitch-repair: all"])
            .err
            .has("such a request is refused");
        explain(&["--path", "models"]).exits(2);
        explain(&["--header", "x"]).exits(2);
        explain(&["--header", "x-api-key: k"])
            .err
            .has("may hold a secret");
    }

    fn with_variables(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command.current_dir(folder).args(args);
        // This variable is the tests' own.
        command
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES");
        Ran::of(command.envs(variables.iter().copied()))
    }

    /// Compose files and CI set a variable to nothing to mean that it is not set.
    #[test]
    fn an_empty_variable_is_not_set() {
        let folder = folder("config-empty", &[]);
        let plain = with_variables(&folder, &["config", "show"], &[]);
        for name in ["ON_GIVE_UP", "MAX_CONTINUATIONS", "LISTEN", "LOG", "CONFIG"] {
            let name = format!("RESTITCH_{name}");
            let ran = with_variables(&folder, &["config", "show"], &[(&name, "")]);
            ran.is(0, &plain.out, "");
        }
        assert_eq!((plain.code, plain.err.as_str()), (0, ""));
    }

    /// An error names the flag, the variable or the key that gave the value, and no secret.
    #[test]
    fn an_error_names_who_gave_the_value() {
        let folder = folder("config-variable", &[]);
        for (args, variables, told) in [
            (
                &[][..],
                &[("RESTITCH_MAX_CONTINUATIONS", "many")][..],
                "RESTITCH_MAX_CONTINUATIONS: invalid type: string \"many\"",
            ),
            (
                &["--max-continuations", "few"],
                &[("RESTITCH_MAX_CONTINUATIONS", "many")],
                "--max-continuations: invalid type: string \"few\"",
            ),
            (
                &["--set", "limits.max_risk=2"],
                &[],
                "--set limits.max_risk: `2` is not a number from 0 to 1",
            ),
            (
                &["--set", "limits.max_rsk=2"],
                &[],
                "--set limits.max_rsk: unknown key `limits.max_rsk`: did you mean `limits.max_risk`?",
            ),
            (
                &["--set", "proxy.upstream_key=sk-secret"],
                &[],
                "--set proxy.upstream_key: a secret is `env:VARIABLE` or `file:PATH`",
            ),
        ] {
            let args = [&["config", "show"], args].concat();
            let ran = with_variables(&folder, &args, variables);
            ran.gives(2, "");
            ran.err.has(told).lacks("sk-");
        }
    }

    /// A misspelt variable would otherwise be ignored without a word.
    #[test]
    fn an_unknown_variable_is_told() {
        let folder = folder("config-unknown", &[]);
        let plain = with_variables(&folder, &["config", "show"], &[]);
        let variables = [
            ("RESTITCH_CONTINUATION", "secret"),
            ("RESTITCH", "1"),
            ("RESTITCH_ADMN", ""),
        ];
        let ran = with_variables(&folder, &["config", "show"], &variables);
        assert_eq!((ran.code, &ran.out), (0, &plain.out));
        assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
        for told in [
            "restitch: RESTITCH_CONTINUATION: no such variable; did you mean RESTITCH_MAX_CONTINUATIONS?",
            "did you mean RESTITCH_ADMIN?",
        ] {
            ran.err.has(told).lacks("secret");
        }
        // A command that reads no variables reports none.
        let ran = with_variables(&folder, &["config", "check", "missing.toml"], &variables);
        ran.err.lacks("RESTITCH_");
    }

    /// 140 clients that send nothing take a proxy with 128 files no more than its connections.
    #[cfg(unix)]
    #[test]
    fn silent_clients_take_no_files_from_others() {
        use std::io::{BufRead, BufReader, Read, Write};
        use std::net::TcpStream;

        let folder = folder("config-files", &[]);
        let program = env!("CARGO_BIN_EXE_restitch");
        let args = "proxy --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 --set proxy.threads=1";
        let script = format!("ulimit -n 128 && exec '{program}' {args}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(&folder)
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES");
        let mut child = command
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("listening on http://") {
            assert_ne!(words.read_line(&mut told).unwrap(), 0, "{told}");
        }
        told.has("max_connections=32");
        let address = told
            .split("http://")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned();
        std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
        let silent: Vec<_> = (0..140)
            .map(|_| TcpStream::connect(&address).unwrap())
            .collect();
        // The proxy sends an error to only some of the clients that it refuses. A connection that is
        // refused may be reset.
        let asks = || {
            let mut socket = TcpStream::connect(&address).unwrap();
            socket.set_read_timeout(Some(crate::cli::LONG)).unwrap();
            let mut reply = String::new();
            let _ = write!(socket, "GET /healthz HTTP/1.0\r\n\r\n");
            let _ = socket.read_to_string(&mut reply);
            std::thread::sleep(std::time::Duration::from_millis(10));
            reply
        };
        assert!((0..3000).any(|_| asks().contains("max_connections")));
        drop(silent);
        assert!((0..3000).any(|_| asks().starts_with("HTTP/1.0 200")));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGHUP reads the file again. An invalid file changes nothing, and the log names its line.
    #[cfg(unix)]
    #[test]
    fn a_hangup_reads_the_file_again() {
        use std::io::{BufRead, BufReader};

        let file = |more: &str| {
            format!("[proxy]\nupstream = \"http://127.0.0.1:9\"\nlisten = \"127.0.0.1:0\"\n{more}")
        };
        let folder = folder("config-hangup", &[("f.toml", file("").as_bytes())]);
        let mut child = crate::cli::start(&folder, &["proxy", "--config", "f.toml"]);
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut next = || {
            let mut line = String::new();
            words.read_line(&mut line).unwrap();
            line
        };
        next().begins("restitch: listening on http://");
        for (more, told) in [
            (
                "threads = 1\nadapt = true\n",
                "hold only after a restart fixed=threads",
            ),
            (
                "adapt = 1\n",
                "the configuration stays as it was error=\"f.toml: line 4, column 9: invalid type",
            ),
            (
                "[[route]]\nupstream = \"http://a\"\n",
                "read the configuration again",
            ),
        ] {
            let path = folder.join("f.toml");
            std::fs::write(&path, file(more)).unwrap();
            assert!(
                Command::new("kill")
                    .args(["-HUP", &child.id().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
            let line = next();
            line.of(more).has(told);
        }
        std::fs::remove_file(folder.join("f.toml")).unwrap();
        assert!(
            Command::new("kill")
                .args(["-HUP", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        next().has("the configuration stays as it was error=\"f.toml: ");
        assert!(
            Command::new("kill")
                .args(["-TERM", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// Flags win over the environment, that over the file, and that over the defaults; of several
    /// `--set` the last one wins.
    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let folder = folder("config-show", &[("restitch.toml", FILE)]);
        let show = |args: &[&str], variables: &[(&str, &str)]| {
            let ran = with_variables(&folder, &[&["config", "show"], args].concat(), variables);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""));
            let config = Config::parse(&ran.out).unwrap();
            let (limits, upstream) = (&config.limits, config.proxy.upstream);
            (
                limits.max_continuations,
                limits.idle_timeout.0.as_secs(),
                limits.max_body_bytes,
                upstream.unwrap_or_default(),
            )
        };
        let numbers =
            |calls, idle, bytes, upstream: &str| (calls, idle, bytes, upstream.to_owned());
        assert_eq!(show(&[], &[]), numbers(8, 60, 33_554_432, ""));
        let of_file = numbers(2, 20, 200, "http://file.example");
        assert_eq!(show(&["--config", "restitch.toml"], &[]), of_file);
        let variables = [
            ("RESTITCH_CONFIG", "restitch.toml"),
            ("RESTITCH_MAX_CONTINUATIONS", "5"),
            ("RESTITCH_UPSTREAM", "http://variable.example"),
        ];
        let of_variables = numbers(5, 20, 200, "http://variable.example");
        assert_eq!(show(&[], &variables), of_variables);
        let args = [
            "--max-continuations",
            "6",
            "--set",
            "limits.idle_timeout=1m",
            "--set",
            "limits.idle_timeout=50",
        ];
        let of_flags = numbers(6, 50, 200, "http://variable.example");
        assert_eq!(show(&args, &variables), of_flags);
    }

    #[test]
    fn the_risk_of_a_command_is_a_probability() {
        let stitch = shell("stitch --max-risk 2");
        stitch.exits(2);
        stitch.err.has("from 0 to 1");
    }

    #[test]
    fn the_proxy_says_what_is_wrong_before_it_listens() {
        let folder = folder(
            "config-proxy",
            &[
                ("wrong.toml", b"[proxy]\nupstrem = \"http://a\"\n"),
                ("none.toml", b""),
            ],
        );
        let ran = shell_in(&folder, "proxy --config wrong.toml");
        ran.gives(2, "");
        ran.err.begins("restitch: wrong.toml: line 2, column 1: ");
        for args in [&["proxy"][..], &["proxy", "--config", "none.toml"]] {
            let ran = run(&folder, args, b"");
            ran.exits(2);
            ran.err.begins("restitch: --upstream is missing");
        }
        shell_in(&folder, "proxy --config missing.toml").exits(1);
        // A proxy whose token is missing does not start without one.
        let args = [
            "proxy",
            "--upstream",
            "http://127.0.0.1:9",
            "--token-variable",
            "THE_TOKEN",
        ];
        for (token, words) in [
            ("", "the environment has no THE_TOKEN"),
            ("a b", "THE_TOKEN has characters"),
            ("t0ken-5hort", "THE_TOKEN is too short"),
        ] {
            let ran = with_variables(&folder, &args, &[("THE_TOKEN", token)]);
            ran.exits(2);
            ran.err.has(words);
            ran.err.lacks("5hort");
        }
        run(&folder, &args, b"")
            .err
            .has("the environment has no THE_TOKEN");
        // Nor without the key of a fallback.
        let text = "[proxy]\nupstream = \"http://127.0.0.1:9\"\n[[route]]\nname = \"r\"\n\
            fallback = [{ upstream = \"http://127.0.0.1:9\", key = \"env:THE_KEY\" }]\n";
        std::fs::write(folder.join("key.toml"), text).unwrap();
        let ran = shell_in(&folder, "proxy --config key.toml");
        ran.exits(2);
        ran.err.has("route `r`: the environment has no THE_KEY");
    }

    /// A first try needs one screen, which says where the rest is.
    #[test]
    fn the_short_help_fits_a_screen() {
        let help = shell("proxy -h").out;
        assert!(help.lines().count() <= 40, "{help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        help.has_all([
            "--upstream <URL>",
            "--set <KEY=VALUE>",
            "--listen <ADDRESS>",
            "--max-continuations <N>",
            "[default: 8]",
            "[default: 127.0.0.1:7378]",
            "[default: leave]",
            "restitch config init",
            "restitch config show --docs",
        ]);
    }

    #[test]
    fn the_tables_are_printed() {
        let ran = shell("config show --docs");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert_eq!(ran.out, restitch_proxy::config::Key::docs());
    }

    #[test]
    fn the_schema_is_printed_as_json() {
        let ran = shell("config schema");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert!(schema["properties"]["limits"].is_object());
    }
}
