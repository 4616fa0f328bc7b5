//! The configuration file: its settings, its errors, and its page in the guides.

use std::time::Duration;

use restitch::Limits;
use restitch::provider::capability::{PrefillForm, Switch, Table};
use restitch::session::{MarkUse, Part, Prompt};
use restitch::shape::Schema;
use restitch_proxy::config::{
    AccessConfig, Config, EngineConfig, LimitsConfig, ProxyConfig, TlsConfig,
};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

fn parse(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the page's fenced blocks in one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence)
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect()
}

#[test]
fn every_example_of_the_page_is_right() {
    let examples = blocks("toml");
    assert_eq!(examples.len(), 7);
    // Each example is valid alone, and all examples are valid as one file.
    for example in &examples {
        assert_ne!(
            parse(example),
            Config::default(),
            "it says nothing: {example}"
        );
    }
    let config = parse(&examples.join("\n\n"));
    assert_eq!(
        config.proxy.upstream.as_deref(),
        Some("https://openrouter.ai/api")
    );
    assert_eq!(config.proxy.listen, "127.0.0.1:7378".parse().unwrap());
    assert_eq!(
        (config.proxy.adapt, config.proxy.raise_max_tokens),
        (true, 2)
    );
    assert_eq!(config.proxy.log, "warn");
    let limits = Limits::default()
        .with_max_continuations(4)
        .with_max_consecutive_failures(2)
        .with_idle_timeout(Duration::from_secs(120))
        .with_keep_alive_interval(Duration::from_millis(2500))
        .with_max_verbatim_context(65_536);
    assert_eq!(config.all_limits(), limits);
    let names: Vec<_> = config
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["claude", "batch", "route-3", "answers"]);
    assert_eq!(
        config.routes[3].fallback[1].model.as_deref(),
        Some("claude-sonnet-4-5")
    );
    assert_eq!(config.prompt.template(Part::CutOffElement), None);
    assert_eq!(
        config.prompt.template(Part::Progress).unwrap().as_str(),
        Part::Progress.template()
    );
    assert!(
        config
            .prompt
            .template(Part::Instruction)
            .unwrap()
            .as_str()
            .starts_with("Die Verbindung ist abgerissen")
    );
    assert!(config.prompt.has_anchor());
    assert_eq!(config.prompt.mark_use(), MarkUse::Always);
    let own = config.table().of("llama", Some("10.0.0.7"));
    assert_eq!(own.prefill, PrefillForm::Final);
    let off = Switch {
        key: "chat_template_kwargs".into(),
        value: r#"{"enable_thinking": false}"#.into(),
    };
    assert_eq!(own.reasoning_off, Some(off));
    assert!(!config.table().of("my-finetune:2", None).response_format);
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
    assert!(PAGE.contains("contrib/restitch.toml"));
}

/// Returns the keys of a table, in the order of its declaration: serde lists them where it finds
/// another one.
fn keys_of<T: serde::de::DeserializeOwned>() -> Vec<String> {
    let error = toml::from_str::<T>("x = 1").err().unwrap().to_string();
    let (_, known) = error.split_once("`x`, expected ").unwrap();
    let names = known.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Returns the meaning of a key: the first sentence of its description, and the names of its values.
fn meaning_of(key: &serde_json::Value) -> String {
    let description = key["description"].as_str().unwrap();
    let sentence = description.split(". ").next().unwrap();
    let names = key["enum"].as_array().into_iter().flatten();
    let names: Vec<_> = names
        .map(|name| format!("`{}`", name.as_str().unwrap()))
        .collect();
    let names = (!names.is_empty()).then(|| format!(": {}", names.join(", ")));
    sentence.trim_end_matches('.').to_owned() + &names.unwrap_or_default()
}

/// Returns the lines of a table of the page: the keys of a table of the file, with the meanings and
/// the defaults of their declarations.
fn table_of(schema: &str, keys: &[String]) -> String {
    let all = Config::schema();
    let known = &all["$defs"][schema]["properties"];
    assert_eq!(known.as_object().unwrap().len(), keys.len(), "{schema}");
    let defaults = Config::defaults();
    let rows = keys.iter().map(|key| {
        let meaning = meaning_of(&known[key]);
        let default = match defaults.get(key) {
            // It depends on the machine.
            Some(_) if key == "threads" => "one for each core".to_owned(),
            Some(default) => format!("`{default}`"),
            None => "none".to_owned(),
        };
        format!("| `{key}` | {meaning} | {default} |\n")
    });
    let head = "| key | meaning | default |\n|---|---|---|\n";
    rows.fold(head.to_owned(), |table, row| table + &row)
}

/// Replaces the first table below a heading.
fn with_table(page: &str, heading: &str, table: &str) -> String {
    let start = page.find(&format!("\n## `[{heading}]`\n")).unwrap();
    let start = start
        + page[start..]
            .find("\n| key | meaning | default |\n")
            .unwrap()
        + 1;
    let end = start + page[start..].find("|\n\n").unwrap() + "|\n".len();
    [&page[..start], table, &page[end..]].concat()
}

/// With `RESTITCH_WRITE_TABLES` set, the test writes the tables instead.
#[test]
fn the_tables_of_the_page_are_those_of_the_declarations() {
    let page = [
        ("proxy", "ProxyConfig", keys_of::<ProxyConfig>()),
        ("access", "AccessConfig", keys_of::<AccessConfig>()),
        ("tls", "TlsConfig", keys_of::<TlsConfig>()),
        ("limits", "LimitsConfig", keys_of::<LimitsConfig>()),
        ("engine", "EngineConfig", keys_of::<EngineConfig>()),
    ]
    .iter()
    .fold(PAGE.to_owned(), |page, (heading, schema, keys)| {
        with_table(&page, heading, &table_of(schema, keys))
    });
    if std::env::var_os("RESTITCH_WRITE_TABLES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        std::fs::write(path, page).unwrap();
        return;
    }
    for (is, declared) in PAGE.lines().zip(page.lines()) {
        assert_eq!(
            is, declared,
            "docs/configuration.md is stale: run `scripts/setting-tables`"
        );
    }
    assert_eq!(PAGE.len(), page.len());
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
    let (shown, all) = (Config::default().show(), Config::default().show_all());
    let contrib = include_str!("../../../../contrib/restitch.toml");
    let page = blocks("toml").join("\n\n");
    for text in ["", &shown, &all, contrib, &page] {
        assert_eq!(violations(&file_schema(), text), [""; 0], "{text}");
    }
    for time in [
        "7",
        "2.5",
        "\"7\"",
        "\"250ms\"",
        "\"2.5s\"",
        "\"1h 30m\"",
        "\"1y\"",
    ] {
        let text = format!("[limits]\nidle_timeout = {time}\n");
        parse(&text);
        assert_eq!(violations(&file_schema(), &text), [""; 0], "{text}");
    }
}

#[test]
fn the_schema_refuses_files_that_are_refused() {
    let schema = file_schema();
    for text in [
        "x = 1\n",
        "[limit]\n",
        "[limits]\nmax_continuation = 4\n",
        "[limits]\nmax_continuations = -1\n",
        "[limits]\nmax_continuations = \"4\"\n",
        "[limits]\nmax_risk = 1.5\n",
        "[limits]\nmax_extra_share = 1001\n",
        "[limits]\nmax_connections = 0\n",
        "[limits]\nidle_timeout = 0\n",
        "[limits]\nidle_timeout = true\n",
        "[limits]\nidle_timeout = \"soon\"\n",
        "[limits]\nmax_children = 7\n",
        "[engine]\nmax_pending_bytes = 0\n",
        "[engine]\noverlap_window = 262145\n",
        "[proxy]\nthreads = 0\n",
        "[proxy]\nthreads = 1025\n",
        "[proxy]\nadapt = \"yes\"\n",
        "[proxy]\nraise_max_tokens = 0\n",
        "[proxy]\non_give_up = \"never\"\n",
        "[proxy]\nprose = \"always\"\n",
        "[proxy]\nrepair = \"all\"\n",
        "[proxy]\nlog_format = \"xml\"\n",
        "[access]\nallow_hosts = \"localhost\"\n",
        "[access]\ntoken = \"a\"\n",
        "[[access.token]]\nfile = \"a\"\n",
        "[[access.token]]\nname = \"a\"\nfile = 1\n",
        "[[access.token]]\nname = \"a\"\nfiles = \"a\"\n",
        "[limits]\nmax_connections_per_client = 0\n",
        "[limits]\nmax_connections_per_client = \"all\"\n",
        "[[route]]\ntoken = \"a\"\n",
        "[prompt]\nmark = \"sometimes\"\n",
        "[prompt]\ninstruction = 1\n",
        "[prompt]\nword = true\n",
        "[[capability]]\nhost = \"a\"\n",
        "[[capability]]\nmodel = \"a\"\nprefill = \"half\"\n",
        "[[capability]]\nmodel = \"a\"\nreasoning_off = { key = \"a\" }\n",
        "[[route]]\ncontinuation = \"never\"\n",
        "[[route]]\nfallback = [{ model = \"a\" }]\n",
        "[[route]]\nfallback = [{ upstream = \"http://a\", wire = \"a\" }]\n",
        "[[route]]\nresponse_format = \"xml\"\n",
    ] {
        assert!(Config::parse(text).is_err(), "{text}");
        assert_ne!(violations(&schema, text), [""; 0], "{text}");
    }
}

/// An editor shows the description, and the schema is the same on each machine.
#[test]
fn the_schema_describes_each_setting_and_has_its_default() {
    let schema = Config::schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let limits = &schema["$defs"]["LimitsConfig"]["properties"];
    assert_eq!(limits["max_continuations"]["default"], 8);
    assert_eq!(limits["idle_timeout"]["default"], "1m");
    assert_eq!(
        limits["max_continuations"]["description"],
        "Calls after the first one, for one answer."
    );
    let proxy = &schema["$defs"]["ProxyConfig"]["properties"];
    assert_eq!(
        (&proxy["listen"]["default"], proxy["threads"].get("default")),
        (&"127.0.0.1:7378".into(), None)
    );
    for (name, table) in schema["$defs"].as_object().unwrap() {
        let members = table["properties"].as_object().into_iter().flatten();
        for (key, member) in members {
            assert!(
                member["description"].is_string(),
                "{name}.{key} has no description"
            );
        }
    }
}

/// The page names every key, and its tables of prompts and capabilities have the defaults.
#[test]
fn the_page_has_every_key_and_default() {
    let shown: toml::Table = Config::default().show().parse().unwrap();
    for (table, keys) in &shown {
        let keys = match keys {
            toml::Value::Table(keys) => keys.keys().cloned().collect(),
            toml::Value::Array(rows) => {
                let all = rows
                    .iter()
                    .flat_map(|row| row.as_table().unwrap().keys().cloned());
                all.collect::<std::collections::BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>()
            }
            _ => panic!("{table}"),
        };
        for key in keys {
            assert!(
                PAGE.contains(&format!("`{key}`")),
                "{table}.{key} is not on the page"
            );
        }
    }
    let row = |key: &str| {
        let row = PAGE
            .lines()
            .find(|line| line.starts_with("| ") && line.split('|').nth(1).unwrap().contains(key));
        row.unwrap_or_else(|| panic!("{key}")).to_owned()
    };
    for part in Part::ALL {
        let is_on = Prompt::default().template(part).is_some();
        let said = row(&format!("`{}`", part.as_str()))
            .split('|')
            .nth(3)
            .unwrap()
            .trim()
            .to_owned();
        assert_eq!(said, format!("`{is_on}`"), "{part:?}");
    }
    let said = row("`mark`");
    assert!(
        MarkUse::ALL
            .iter()
            .all(|known| said.contains(&format!("`{}`", known.as_str()))),
        "{said}"
    );
    assert_eq!(
        said.split('|').nth(3).unwrap().trim(),
        format!("`{}`", MarkUse::default().as_str())
    );
    for (name, _) in PrefillForm::NAMES {
        row(&format!("`\"{name}\"`"));
    }
}

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
    for (table, key) in ["limits", "engine"].into_iter().flat_map(|table| {
        defaults[table]
            .as_table()
            .unwrap()
            .keys()
            .map(move |key| (table, key))
    }) {
        let is_share = key.starts_with("max_risk") || key == "max_extra_share";
        let value = if is_share { "0.5" } else { "7" };
        let shown: toml::Table = parse(&format!("[{table}]\n{key} = {value}\n"))
            .show()
            .parse()
            .unwrap();
        for (other, shown) in shown[table].as_table().unwrap() {
            let default = &defaults[table][key];
            let is_time = default.as_str().is_some_and(|default| default != "auto");
            let expected = if other == key && is_time {
                format!("\"{value}s\"")
            } else if other == key {
                value.to_owned()
            } else {
                defaults[table][other].to_string()
            };
            assert_eq!(shown.to_string(), expected, "{other}, where {key} is set");
        }
    }
}

#[test]
fn a_time_has_a_unit_or_is_a_number_of_seconds() {
    for (written, milliseconds) in [
        ("7", 7_000),
        ("2.5", 2_500),
        ("\"7\"", 7_000),
        ("\"250ms\"", 250),
        ("\"2.5s\"", 2_500),
        ("\"5m\"", 300_000),
        ("\"1h 30m\"", 5_400_000),
        ("\"1y\"", 31_557_600_000),
    ] {
        let limits = parse(&format!("[limits]\nidle_timeout = {written}\n")).limits;
        let expected = Duration::from_millis(milliseconds);
        assert_eq!(limits.idle_timeout.0, expected, "{written}");
    }
    for written in [
        "\"\"",
        "\"s\"",
        "\"-1s\"",
        "\"2y\"",
        "true",
        "\"18446744073709551615s1000ms\"",
        "inf",
    ] {
        let (line, column, message) = wrong(&format!("[limits]\nidle_timeout = {written}\n"));
        assert_eq!((line, column), (2, 16), "{written}");
        assert!(message.contains("a time from 1ms to a year"), "{message}");
    }
}

/// Without a key that is near, the message has no list: `[limits]` has some forty keys.
#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    for (text, message) in [
        (
            "[limits]\nidel_timeout = 1\n",
            "unknown field `idel_timeout`: did you mean `idle_timeout`?",
        ),
        (
            "[proxy]\nupstrem = 1\n",
            "unknown field `upstrem`: did you mean `upstream`?",
        ),
        (
            "[[route]]\nfallbacks = []\n",
            "unknown field `fallbacks`: did you mean `fallback`?",
        ),
        (
            "[limits]\nmax_children = 7\n",
            "unknown field `max_children`: it is a key of `[engine]`",
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
    for (text, line, column, about) in [
        (
            "[limits]\ncontinuation = 4\n",
            2,
            1,
            "unknown field `continuation`: did you mean `max_continuations`?",
        ),
        (
            "[limit]\n",
            1,
            2,
            "unknown field `limit`: did you mean `limits`?",
        ),
        ("x = 1\n", 1, 1, "unknown field `x`"),
        (
            "\n\n[proxy]\nlisten = \"nowhere\"\n",
            4,
            10,
            "`nowhere` is no address to listen on: write",
        ),
        (
            "[proxy]\nlisten = \"localhost:99999\"\n",
            2,
            10,
            "`99999` is no port",
        ),
        (
            "[proxy]\nsocket_mode = \"0888\"\n",
            2,
            15,
            "`0888` is no mode of a socket",
        ),
        (
            "[proxy]\nsocket_mode = 384\n",
            2,
            15,
            "invalid type: integer",
        ),
        (
            "[proxy]\nlog = \"loud\"\n",
            2,
            7,
            "`loud` is no level: there are off, error, warn, info, debug, trace",
        ),
        (
            "[proxy]\non_give_up = \"never\"\n",
            2,
            14,
            "`never` is not one of `close`, `leave`, `error`",
        ),
        (
            "[proxy]\nprose = \"always\"\n",
            2,
            9,
            "unknown variant `always`, expected `pass` or `anchor`",
        ),
        (
            "[[route]]\nmodel = \"a\"\nprose = \"all\"\n",
            3,
            9,
            "unknown variant `all`, expected `pass` or `anchor`",
        ),
        (
            "[proxy]\nrepair = \"all\"\n",
            2,
            10,
            "`all` is not one of `strict`, `syntax`, `guess`",
        ),
        ("[proxy]\nraise_max_tokens = 0\n", 2, 20, "a factor of 0"),
        (
            "[access]\nallow_hosts = [\"http://a\"]\n",
            2,
            15,
            "`http://a` is not a host like",
        ),
        (
            "[access]\nallow_origins = [\"https://a/\"]\n",
            2,
            17,
            "`https://a/` is not an origin like",
        ),
        (
            "[access]\nallow_origins = [\"a.example\"]\n",
            2,
            17,
            "`a.example` is not an origin like",
        ),
        (
            "[access]\nallow_paths = [\"/v1\", \"v1/*\"]\n",
            2,
            15,
            "`v1/*` is not a path like",
        ),
        (
            "[access]\nallow_paths = [\"/*/models\"]\n",
            2,
            15,
            "`/*/models` is not a path like",
        ),
        (
            "[access]\nallow_methods = [\"get\"]\n",
            2,
            17,
            "`get` is not a method like",
        ),
        ("[access]\ntokens = \"a\"\n", 2, 1, "unknown field `tokens`"),
        ("[access]\ntoken = \"a\"\n", 2, 9, "expected a sequence"),
        (
            "[[access.token]]\nname = \"a\"\n",
            1,
            1,
            "the token needs a `file` or a `variable`",
        ),
        (
            "[[access.token]]\nname = \"a\"\nfile = \"f\"\n[[access.token]]\nname = \"b\"\nfile = \"f\"\nvariable = \"V\"\n",
            4,
            1,
            "the token names a variable and a file",
        ),
        (
            "[[access.token]]\nname = \"a b\"\nfile = \"f\"\n",
            1,
            1,
            "`a b` is not a token's name",
        ),
        (
            "[[access.token]]\nname = \"a\"\nvariable = \"sk-x\"\n",
            1,
            1,
            "the token is not a variable's name",
        ),
        (
            "[[access.token]]\nfile = \"f\"\n",
            1,
            1,
            "missing field `name`",
        ),
        (
            "[[access.token]]\nname = \"a\"\nfile = \"f\"\n[[route]]\nmodel = \"m\"\n[[route]]\ntoken = [\"a\", \"b\"]\n",
            6,
            1,
            "no token of `[access]` has the name `b`",
        ),
        (
            "[[route]]\nkey_file = \"k\"\n",
            1,
            1,
            "the key of a route needs the `upstream` that it is for",
        ),
        (
            "[[route]]\nfallback = [{ upstream = \"http://a\", key_file = \"k\", key_variable = \"K\" }]\n",
            1,
            1,
            "the key of a fallback names a variable and a file",
        ),
        (
            "[proxy]\nupstream_key_variable = \"A\"\nupstream_key_file = \"f\"\n",
            2,
            25,
            "the key of the upstream names a variable and a file",
        ),
        (
            "[limits]\nmax_connections_per_client = 0\n",
            2,
            30,
            "`0` is not a number above 0, nor `auto`",
        ),
        (
            "[limits]\nmax_connections_per_client = \"all\"\n",
            2,
            30,
            "`all` is not a number above 0, nor `auto`",
        ),
        (
            "[prompt]\nprogress = 1\n",
            2,
            12,
            "expected true, false, or a template",
        ),
        (
            "[prompt]\nmark = \"often\"\n",
            2,
            8,
            "`often` is not one of `always`, `on-retries`, `never`",
        ),
        (
            "[[capability]]\nmodel = \"a\"\ndrops_json_mode = 1\n",
            3,
            19,
            "expected a boolean",
        ),
        (
            "[prompt]\n# é\ninstruction = \"go on {{here}}\"\n",
            3,
            15,
            "`{{here}}` at byte 6 is no place",
        ),
        (
            "[limits]\nidle_timeout = 0\n",
            2,
            16,
            "`0` is not a time from 1ms to a year",
        ),
        (
            "[limits]\nidle_timeout = -1\n",
            2,
            16,
            "`-1` is not a time from 1ms to a year",
        ),
        (
            "[limits]\nkeep_alive_interval = 1e99\n",
            2,
            23,
            "is not a time from 0s to a year",
        ),
        (
            "[limits]\nkeep_alive_interval = nan\n",
            2,
            23,
            "is not a time from 0s to a year",
        ),
        (
            "[engine]\nmax_backoff = \"10x\"\n",
            2,
            15,
            "`10x` is not a time from 0s to a year, such as `30s` or `5m`",
        ),
        ("[limits]\nmax_body_bytes = -1\n", 2, 18, "invalid value"),
        ("[engine]\nmax_depth = 0\n", 2, 13, "a number above 0"),
        (
            "[engine]\noverlap_window = 262145\n",
            2,
            18,
            "a number from 0 to 262144: in text that repeats itself",
        ),
        (
            "[engine]\nmax_pending_bytes = 0\n",
            2,
            21,
            "a number from 1 to 262144",
        ),
        (
            "[limits]\nmax_risk = 1.5\n",
            2,
            12,
            "is not a number from 0 to 1",
        ),
        (
            "[limits]\nmax_risk = -1\n",
            2,
            12,
            "is not a number from 0 to 1",
        ),
        (
            "[limits]\nmax_risk = nan\n",
            2,
            12,
            "is not a number from 0 to 1",
        ),
        ("[limits]\nrisk = 0.5\n", 2, 1, "unknown field `risk`"),
        (
            "[limits]\nmax_consecutive_failures = 5000000000\n",
            2,
            28,
            "invalid value",
        ),
        (
            "[[capability]]\nprefill = \"turn\"\n",
            1,
            1,
            "missing field `model`",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nprefill = \"yes\"\n",
            3,
            11,
            "`yes` is not a prefill form: there are `none`",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nprefill_path = \"beta\"\n",
            3,
            16,
            "`beta` is no path",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nprefill_path = \"/a?b\"\n",
            3,
            16,
            "`/a?b` is no path",
        ),
        (
            "[[capability]]\nmodel = \"a\"\n[[capability]]\nmodell = \"b\"\n",
            4,
            1,
            "unknown field `modell`",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nreasoning_off = { key = \"b\", value = \"{\" }\n",
            3,
            38,
            "the value is no JSON",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nreasoning_off = { key = \"b\" }\n",
            3,
            17,
            "missing field `value`",
        ),
        (
            "[[capability]]\nmodel = \"a\"\nreasoning_off = { key = \"b\", value = \"\" }\n",
            3,
            17,
            "a member needs a value",
        ),
        (
            "[[route]]\nmodell = \"a\"\n",
            2,
            1,
            "unknown field `modell`",
        ),
        (
            "[[route]]\nmodel = \"\"\n",
            2,
            9,
            "`` is no pattern of models",
        ),
        (
            "[[route]]\npath = \"v1\"\n",
            2,
            8,
            "`v1` is no pattern of paths",
        ),
        (
            "[[route]]\npath = \"/v1?x\"\n",
            2,
            8,
            "`/v1?x` is no pattern of paths",
        ),
        (
            "[[route]]\nresponse_format = \"xml\"\n",
            2,
            19,
            "`xml` is not one of `text`, `json`, `json_object`",
        ),
        (
            "[[route]]\ncontinuation = \"maybe\"\n",
            2,
            16,
            "`maybe` is not `auto` or `off`, nor a list of rungs",
        ),
        (
            "[[route]]\nfirst_byte_timeout = 0\n",
            2,
            22,
            "`0` is not a time from 1ms",
        ),
        (
            "[[route]]\nfallback = [{ model = \"a\" }]\n",
            2,
            13,
            "missing field `upstream`",
        ),
        (
            "[[route]]\nfallback = [{ upstream = \"a\", key = \"a\" }]\n",
            2,
            31,
            "unknown field `key`",
        ),
        (
            "[[route]]\nfallback = [{ upstream = \"a\", wire = \"b\" }]\n",
            2,
            38,
            "`b` is not one of `openai-chat`",
        ),
        (
            "[[route]]\nmax_risk = 2\n",
            2,
            12,
            "`2` is not a number from 0 to 1",
        ),
        (
            "[[route]]\nmax_extra_share = -1\n",
            2,
            19,
            "`-1` is not a number from 0 to 1000",
        ),
        (
            "[[route]]\nmax_total_time = -1\n",
            2,
            18,
            "`-1` is not a time from 0s",
        ),
        (
            "[[route]]\nheader = { \"a b\" = \"c\" }\n",
            2,
            12,
            "`a b` is no name of a header",
        ),
        (
            "[[route]]\nheader = { X-Api-Key = \"c\" }\n",
            2,
            12,
            "`X-Api-Key` may hold a secret",
        ),
        (
            "[[route]]\nheader = { a = \" c\" }\n",
            2,
            16,
            "` c` is no pattern of a header's value",
        ),
        (
            "[[route]]\nmodel = \"a\"\nname = \"a b\"\n",
            3,
            8,
            "`a b` is no name of a route",
        ),
        (
            "[[route]]\nmodel = \"a\"\nname = \"default\"\n",
            3,
            8,
            "`default` is the name of what no route matches",
        ),
        (
            "[[route]]\nmodel = \"a\"\nname = \"x\"\n[[route]]\nname = \"x\"\nmodel = \"b\"\n",
            5,
            8,
            "the route of line 1 has the name `x`, too",
        ),
        (
            "[[route]]\nmodel = \"a*\"\n\n[[route]]\nmodel = \"ab*c\"\npath = \"/v1\"\n",
            4,
            1,
            "this route is never reached: route `route-1` of line 1 takes its requests",
        ),
        (
            "[[route]]\n[[route]]\nmodel = \"a\"\n",
            2,
            1,
            "never reached",
        ),
        ("[limits\n", 1, 8, ""),
        (
            "[limits]\nidle_timeout = 1\nidle_timeout = 2\n",
            3,
            1,
            "duplicate key",
        ),
        (
            "[limits]\r\nidle_timeout = 1\r\nnone = 2\r\n",
            3,
            1,
            "unknown field `none`",
        ),
    ] {
        let found = wrong(text);
        assert!(found.2.contains(about), "{text:?}: {found:?}");
        assert_eq!((found.0, found.1), (line, column), "{text:?}: {found:?}");
    }
}

const OWN: &str = "[proxy]\nupstream = \"http://a\"\nprose = \"anchor\"\nadapt = false\non_give_up = \"error\"\n[engine]\nmax_backoff = 0.25\nmax_children = 7\n\
    [access]\ntoken_variable = \"T\"\nallow_hosts = [\"a:1\", \"[::1]\"]\nallow_origins = [\"null\", \"https://a\"]\n\
    allow_paths = [\"/v1/*\"]\nallow_methods = [\"GET\"]\nadmin_hosts = [\"ops\"]\n\
    [[access.token]]\nname = \"t\"\nfile = \"/t 1\"\n[[access.token]]\nname = \"t\"\nvariable = \"V\"\n[tls]\nca_file = \"/a b/c.pem\"\nclient_cert = \"d\"\nclient_key = \"e\"\n\
    [prompt]\nmark = \"never\"\nprogress = \"How \\\"far\\\"?\\n\\n'''\"\noverlap_context = false\n\
    [[capability]]\nmodel = \"a*\"\nprefill = \"partial\"\nreturns_prefill = true\nprefill_path = \"\"\ndrops_json_mode = false\n\
    [[route]]\npath = \"/v1/*\"\nmodel = \"b*\"\nresponse_format = \"json\"\ntoken = [\"t\", \"default\"]\nupstream = \"http://b\"\nkey_file = \"/k\"\nmax_risk = 0.5\n\
    repair = \"guess\"\non_give_up = \"leave\"\nprose = \"pass\"\nmax_continuations = 3\nmax_extra_share = 0.25\nmax_total_time = 9\nkeep = 90\n\
    first_byte_timeout = 2.5\nheader = { X-A = \"1 2\", b = \"*\" }\n\
    fallback = [{ upstream = \"http://c\", model = \"d\", key_variable = \"E\", wire = \"gemini\" }, { upstream = \"http://f\", key_file = \"/l\" }]\n[[route]]\nname = \"c\"\ncontinuation = [\"words\"]\n";

/// Only a route that takes no request of its own is refused.
#[test]
fn routes_that_are_reached_are_right() {
    for text in [
        "[[route]]\nmodel = \"a\"\n[[route]]\nmodel = \"a*\"\n[[route]]\nmodel = \"*\"\n[[route]]\n",
        "[[route]]\nmodel = \"a*\"\nheader = { x = \"1\" }\n[[route]]\nmodel = \"ab\"\n",
        "[[route]]\nresponse_format = \"json_object\"\n[[route]]\nresponse_format = \"json\"\n",
        "[[access.token]]\nname = \"a\"\nfile = \"f\"\n[[route]]\ntoken = [\"a\"]\n[[route]]\ntoken = [\"a\", \"default\"]\n[[route]]\nmodel = \"a\"\n",
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
    assert!(
        message.starts_with(&format!("`{}…` is no pattern of models", "é".repeat(60))),
        "{} bytes",
        message.len()
    );
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
        assert!(!error.message.contains("secret"), "{error}");
    }
}

#[test]
fn what_is_shown_says_the_same() {
    for config in [Config::default(), parse(OWN)] {
        for shown in [config.show(), config.show_all()] {
            let again = parse(&shown);
            assert_eq!(again.limits, config.limits, "{shown}");
            assert_eq!(again.engine, config.engine, "{shown}");
            assert_eq!(again.routes, config.routes, "{shown}");
            assert_eq!(again.prompt, config.prompt, "{shown}");
            assert_eq!(again.proxy, config.proxy, "{shown}");
            assert_eq!(
                (again.access, again.tls),
                (config.access.clone(), config.tls.clone()),
                "{shown}"
            );
        }
        assert_eq!(parse(&config.show()).show(), config.show());
        let all = parse(&config.show_all());
        assert_eq!(all.capabilities, config.table().rows());
        assert_eq!(all.show_all(), config.show_all());
    }
}

/// Uncommenting any setting must leave a right file.
#[test]
fn the_file_to_begin_with_has_all_settings() {
    let file = Config::init("http://127.0.0.1:8788");
    let mut config = Config::default();
    config.proxy.upstream = Some("http://127.0.0.1:8788".to_owned());
    config.proxy.admin = Some(([127, 0, 0, 1], 7379).into());
    assert_eq!(parse(&file), config, "{file}");
    assert_eq!(violations(&file_schema(), &file), [""; 0]);
    let live = file
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!((15..=25).contains(&live.count()), "{file}");
    let whole = file.lines().fold(String::new(), |whole, line| {
        let is_setting = line.starts_with('#') && !line.starts_with("# ");
        whole + if is_setting { &line[1..] } else { line } + "\n"
    });
    let mut whole: toml::Table = whole.parse().unwrap();
    let schema = Config::schema();
    for (name, table) in ["proxy", "access", "tls", "limits"].iter().zip([
        "ProxyConfig",
        "AccessConfig",
        "TlsConfig",
        "LimitsConfig",
    ]) {
        let known = schema["$defs"][table]["properties"].as_object().unwrap();
        let written = whole[*name].as_table().unwrap();
        assert_eq!(
            written.keys().collect::<Vec<_>>(),
            known.keys().collect::<Vec<_>>()
        );
    }
    // There is one key, in a file or in a variable.
    whole["proxy"]
        .as_table_mut()
        .unwrap()
        .remove("upstream_key_variable");
    assert_eq!(parse(&toml::to_string(&whole).unwrap()).routes.len(), 1);
    assert!(file.lines().all(|line| line.len() <= 100), "{file}");
}

#[test]
fn what_is_changed_says_the_same_as_the_file() {
    assert_eq!(Config::default().show_changed(), "");
    let config = parse(OWN);
    let changed = config.show_changed();
    assert_eq!(parse(&changed), config, "{changed}");
    for unchanged in ["listen", "adapt", "[limits]", "instruction"] {
        assert!(!changed.contains(unchanged), "{unchanged}: {changed}");
    }
    let shown = parse("[proxy]\nupstream = \"http://a:secret@b\"\nstore = \"redis://:secret@c\"\n")
        .show_changed();
    assert!(
        !shown.contains("secret") && shown.contains("***"),
        "{shown}"
    );
}

/// A file that is made from `config show` must not keep today's table: its rows would win over
/// newer ones.
#[test]
fn built_in_rows_are_shown_as_comments() {
    let config = parse(OWN);
    let shown = config.show();
    assert_eq!(parse(&shown).capabilities, config.capabilities, "{shown}");
    assert_eq!(parse(&Config::default().show()).capabilities, []);
    assert!(
        shown.contains("\n#\n# [[capability]]\n# model = \"*claude-2*\"\n"),
        "{shown}"
    );
    // Without the comment marks the rows are rows.
    let bare: String =
        shown
            .lines()
            .filter(|line| !line.starts_with("# ("))
            .fold(String::new(), |bare, line| {
                bare + line
                    .strip_prefix("# ")
                    .filter(|line| !line.starts_with("upstream"))
                    .unwrap_or(line)
                    + "\n"
            });
    assert_eq!(parse(&bare).capabilities, config.table().rows(), "{bare}");
}

#[test]
fn the_upstream_is_shown_without_its_password() {
    for (upstream, shown) in [
        (
            "https://llm.example/api",
            "upstream = \"https://llm.example/api\"",
        ),
        (
            "https://user:secret@llm.example",
            "upstream = \"https://user:***@llm.example\"",
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
            "https://user:1?secret@llm.example",
            "upstream = \"https://user:***@llm.example\"",
        ),
        (
            "https://user:1#secret@llm.example/x",
            "upstream = \"https://user:***@llm.example/x\"",
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
        assert!(
            text.contains(shown) && !text.contains("secret"),
            "{upstream}: {text}"
        );
    }
    // If there is no upstream, a comment shows how to set one.
    let text = Config::default().show();
    assert!(text.contains("\n# upstream = \"https://"), "{text}");
}

mod commands {
    use std::path::Path;
    use std::process::Command;

    use restitch::repair::RepairLevel;
    use restitch::session::GiveUp;
    use restitch_proxy::config::Config;

    use crate::cli::{Ran, folder, run};

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
        let quiet = Ran {
            code: 0,
            out: String::new(),
            err: String::new(),
        };
        assert_eq!(run(&folder, &["config", "check", "right.toml"], b""), quiet);
        assert_eq!(run(&folder, &["config", "check", "-"], FILE), quiet);
        let ran = run(&folder, &["config", "check", "wrong.toml"], b"");
        assert_eq!((ran.code, ran.out.as_str()), (4, ""));
        assert!(
            ran.err
                .starts_with("restitch: wrong.toml: line 3, column 1: unknown field `idel`"),
            "{}",
            ran.err
        );
        {
            let ran = run(&folder, &["config", "check", "url.toml"], b"");
            assert_eq!(ran.code, 4, "{}", ran.err);
            assert!(
                ran.err
                    .contains("an upstream starts with `http://` or `https://`"),
                "{}",
                ran.err
            );
        }
        assert_eq!(
            run(&folder, &["config", "check", "missing.toml"], b"").code,
            1
        );
        assert_eq!(run(&folder, &["config", "check"], b"").code, 2);
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
        let folder = folder("config-check-tls", &[]);
        let check = |text: &str| run(&folder, &["config", "check", "-"], text.as_bytes());
        for right in [
            proxy("server.pem", "server.key"),
            upstream("ca.pem", "client.pem", "client.key"),
        ] {
            assert_eq!(
                check(&right),
                Ran {
                    code: 0,
                    out: String::new(),
                    err: String::new()
                }
            );
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
            assert!(
                ran.code == 4 && ran.out.is_empty() && ran.err.contains(named),
                "{wrong}: {}",
                ran.err
            );
        }
        let expired = "a certificate has expired";
        for old in [
            proxy("expired.pem", "expired.key"),
            upstream("expired.pem", "client.pem", "client.key"),
        ] {
            let ran = check(&old);
            assert!(
                ran.code == 0 && ran.err.contains(expired) && ran.err.contains("03 Feb 2021"),
                "{old}: {}",
                ran.err
            );
        }
    }

    #[test]
    fn a_key_in_place_of_its_variable_is_not_repeated() {
        let file = b"[[route]]\nfallback = [{ upstream = \"http://b\", key_variable = \"sk-ant-secret\" }]\n";
        let folder = folder("config-key", &[("f.toml", file)]);
        let ran = run(&folder, &["config", "check", "f.toml"], b"");
        assert!(
            ran.code == 4
                && ran.err.contains("is not a variable's name")
                && !ran.err.contains("secret"),
            "{}",
            ran.err
        );
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
                "[proxy]\nupstream = \"http://127.0.0.1:9\"\n[[access.token]]\nname = \"team-a\"\nfile = \"{file}\"\n"
            )
        };
        let write = |text: &str| std::fs::write(folder.join("f.toml"), text).unwrap();
        write(&token("good"));
        let ran = run(&folder, &["config", "check", "f.toml"], b"");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let ran = run(&folder, &["config", "show", "--config", "f.toml"], b"");
        assert!(
            ran.code == 0
                && ran
                    .out
                    .contains("[[access.token]]\nname = \"team-a\"\nfile = \"good\"\n"),
            "{}",
            ran.out
        );
        assert!(!ran.out.contains("t0ken"), "{}", ran.out);
        let key = |file: &str| {
            format!(
                "[[route]]\nfallback = [{{ upstream = \"http://127.0.0.1:9\", key_file = \"{file}\" }}]\n"
            )
        };
        let own_key = |file: &str| format!("[proxy]\nupstream_key_file = \"{file}\"\n");
        for (text, words) in [
            (
                token("short"),
                "token `team-a`: short: the secret is too short",
            ),
            (token("empty"), "token `team-a`: empty: the file is empty"),
            (token("lines"), "lines: the secret has characters"),
            (token("long"), "long: a secret has at most 8192 bytes"),
            (token("missing"), "missing: No such file"),
            (token("."), ".: a secret is read from a regular file"),
            (key("empty"), "route `route-1`: empty: the file is empty"),
            (own_key("empty"), "--upstream: empty: the file is empty"),
        ] {
            write(&text);
            let ran = run(&folder, &["config", "check", "f.toml"], b"");
            assert!(
                ran.code == 4 && ran.err.contains(words),
                "{words}: {}",
                ran.err
            );
            assert!(!ran.err.contains("t0ken-"), "{}", ran.err);
            let args = [
                "proxy",
                "--config",
                "f.toml",
                "--upstream",
                "http://127.0.0.1:9",
            ];
            let ran = run(&folder, &args, b"");
            assert!(
                ran.code == 1 && ran.err.contains(words),
                "{words}: {}",
                ran.err
            );
            assert!(!ran.err.contains("t0ken-"), "{}", ran.err);
        }
    }

    #[test]
    fn the_token_of_a_request_is_explained() {
        let file = b"[[access.token]]\nname = \"team-a\"\nfile = \"none\"\n[[route]]\nname = \"r\"\ntoken = [\"team-a\"]\n";
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
            assert!(ran.code == 0 && ran.out.contains(words), "{}", ran.out);
        }
    }

    #[test]
    fn a_route_is_explained() {
        let file = b"[proxy]\nupstream = \"http://u:secret@base\"\n[[route]]\nname = \"a\"\npath = \"/v1/chat/*\"\n\
            header = { x-team = \"batch\" }\n[[route]]\nmodel = \"claude-*\"\nupstream = \"http://b\"\nmax_risk = 0.5\n\
            [[route]]\nresponse_format = \"json_schema\"\ncontinuation = \"off\"\n";
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
            continuation = \"auto\"\nmax_risk = 0.5\nrepair = \"strict\"\non_give_up = \"leave\"\nprose = \"pass\"\nmax_continuations = 8\n\
            max_extra_share = 0.0\nmax_total_time = \"0s\"\nfirst_byte_timeout = \"5m\"\nkeep = \"0s\"\n# A request of openai-chat; the rungs for the rest of a cut \
            answer: prefill (turn), words.\n";
        assert_eq!((ran.out.as_str(), ran.code), (expected, 0), "{}", ran.err);
        let ran = explain(&["--header", "x-team:batch"]);
        assert!(
            ran.out.starts_with("# a: yes\n")
                && ran.out.contains("upstream = \"http://u:***@base\"\n"),
            "{}",
            ran.out
        );
        let ran = explain(&["--model", "gpt-5", "--response-format", "json_schema"]);
        for words in [
            "# a: no, no header `x-team`, which is to be `batch`\n",
            "# route-2: no, the model is `gpt-5`, not `claude-*`\n# route-3: yes\n",
            "continuation = \"off\"\n",
            "# A request of openai-chat; the answer passes, cut or not.\n",
        ] {
            assert!(ran.out.contains(words), "{words}: {}", ran.out);
        }
        let ran = explain(&["--path", "/v1/models"]);
        for words in [
            "# a: no, the path is not `/v1/chat/*`\n",
            "# route-3: no, the body is not read, so its model and form are not known\n# default: what no route matches\n",
            "# The path is of no API that is read: the answer passes, cut or not.\n",
        ] {
            assert!(ran.out.contains(words), "{words}: {}", ran.out);
        }
        let ran = explain(&["--path", "/v1beta/models/claude-x:generateContent"]);
        assert!(ran.out.contains("# route-2: yes\n"), "{}", ran.out);
        for (header, line) in [
            ("x-restitch: off", "continuation = \"off\"\n"),
            ("x-restitch-continuations: 2", "max_continuations = 2\n"),
            ("x-restitch-continuations: 99", "max_continuations = 8\n"),
            (
                "x-restitch-rungs: words, grammar",
                "continuation = [\n    \"grammar\",\n    \"words\",\n]\n",
            ),
            ("x-restitch-max-risk: 0.2", "max_risk = 0.2\n"),
            ("x-restitch-max-risk: 0.9", "max_risk = 0.5\n"),
            ("x-restitch-give-up: close", "on_give_up = \"close\"\n"),
            ("x-restitch-repair: guess", "repair = \"guess\"\n"),
            // Nothing is kept that the operator does not allow.
            ("x-restitch-keep: 60", "keep = \"0s\"\n"),
        ] {
            let ran = explain(&["--model", "claude-x", "--header", header]);
            assert!(
                ran.out.contains(line) && ran.out.contains(": applied below\n"),
                "{header}: {}",
                ran.out
            );
        }
        assert!(
            explain(&["--header", "x-restitch-repair: all"])
                .err
                .contains("such a request is refused")
        );
        assert_eq!(explain(&["--path", "models"]).code, 2);
        assert_eq!(explain(&["--header", "x"]).code, 2);
        assert!(
            explain(&["--header", "x-api-key: k"])
                .err
                .contains("may hold a secret")
        );
    }

    fn with_variables(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        // This variable is the tests' own.
        command
            .current_dir(folder)
            .args(args)
            .env_remove("RESTITCH_CORPUS")
            .envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Compose files and CI set a variable to nothing to mean that it is not set.
    #[test]
    fn an_empty_variable_is_not_set() {
        let folder = folder("config-empty", &[]);
        let plain = with_variables(&folder, &["config", "show"], &[]);
        let names = [
            "ON_GIVE_UP",
            "MAX_CONTINUATIONS",
            "IDLE_TIMEOUT",
            "MAX_BODY_BYTES",
            "LISTEN",
            "UPSTREAM",
            "ADAPT",
            "LOG",
            "CONFIG",
        ];
        for name in names {
            let ran = with_variables(
                &folder,
                &["config", "show"],
                &[(&format!("RESTITCH_{name}"), "")],
            );
            assert_eq!(
                (ran.code, &ran.out, ran.err.as_str()),
                (0, &plain.out, ""),
                "{name}"
            );
        }
        let flag = with_variables(
            &folder,
            &["config", "show", "--idle-timeout", "7"],
            &[("RESTITCH_IDLE_TIMEOUT", "")],
        );
        assert!(flag.out.contains("idle_timeout = \"7s\"\n"), "{}", flag.out);
    }

    #[test]
    fn an_error_names_its_variable() {
        let folder = folder("config-variable", &[]);
        for (name, value) in [
            ("MAX_CONTINUATIONS", "many"),
            ("IDLE_TIMEOUT", "0"),
            ("LISTEN", "here"),
            ("ADAPT", "perhaps"),
            ("LOG", "loud"),
        ] {
            let ran = with_variables(
                &folder,
                &["config", "show"],
                &[(&format!("RESTITCH_{name}"), value)],
            );
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{name}");
            let named = format!("invalid value '{value}' for 'RESTITCH_{name}'");
            assert!(ran.err.contains(&named), "{}", ran.err);
        }
        // The flag is named if the value came from the flag.
        let args = ["config", "show", "--max-continuations", "few"];
        let ran = with_variables(&folder, &args, &[("RESTITCH_MAX_CONTINUATIONS", "many")]);
        assert!(
            ran.err
                .contains("invalid value 'few' for '--max-continuations <N>'"),
            "{}",
            ran.err
        );
    }

    /// A misspelt variable would otherwise be ignored without a word.
    #[test]
    fn an_unknown_variable_is_told() {
        let folder = folder("config-unknown", &[]);
        let plain = with_variables(&folder, &["config", "show"], &[]);
        let variables = [
            ("RESTITCH_CONTINUATION", "secret"),
            ("RESTITCH", "1"),
            ("RESTITCH_IDEL_TIMEOUT", ""),
        ];
        let ran = with_variables(&folder, &["config", "show"], &variables);
        assert_eq!((ran.code, &ran.out), (0, &plain.out));
        assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
        assert!(
            ran.err
                .contains("restitch: RESTITCH_CONTINUATION: no such variable; did you mean RESTITCH_MAX_CONTINUATIONS?"),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("did you mean RESTITCH_IDLE_TIMEOUT?") && !ran.err.contains("secret"),
            "{}",
            ran.err
        );
        // A command that reads no variables reports none.
        let ran = with_variables(&folder, &["config", "check", "missing.toml"], &variables);
        assert!(!ran.err.contains("RESTITCH_"), "{}", ran.err);
    }

    /// A file usually starts as `config show > file`.
    #[test]
    fn what_is_shown_freezes_no_built_in_row() {
        let folder = folder("config-freeze", &[("restitch.toml", FILE)]);
        let shown = run(
            &folder,
            &["config", "show", "--config", "restitch.toml"],
            b"",
        )
        .out;
        assert_eq!(Config::parse(&shown).unwrap().capabilities, []);
        assert!(
            shown.contains("# [[capability]]\n")
                && shown.contains("upstream = \"http://file.example\"\n"),
            "{shown}"
        );
        let all = run(&folder, &["config", "show", "--all"], b"").out;
        assert_eq!(
            Config::parse(&all).unwrap().capabilities,
            Config::default().table().rows()
        );
    }

    /// 140 clients that send nothing take a proxy with 128 files no more than its connections.
    #[cfg(unix)]
    #[test]
    fn silent_clients_take_no_files_from_others() {
        use std::io::{BufRead, BufReader, Read, Write};
        use std::net::TcpStream;

        let limits = b"[limits]\nhead_timeout = 0.3\n";
        let folder = folder("config-files", &[("restitch.toml", limits)]);
        let program = env!("CARGO_BIN_EXE_restitch");
        let args = "proxy --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 --config restitch.toml --threads 1";
        let script = format!("ulimit -n 128 && exec '{program}' {args}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(&folder)
            .env_remove("RESTITCH_CORPUS");
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
        assert!(told.contains("max_connections=32"), "{told}");
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
        // A minute of tries at most.
        let is_served = (0..3000).any(|_| {
            let mut socket = TcpStream::connect(&address).unwrap();
            socket.set_read_timeout(Some(crate::cli::LONG)).unwrap();
            let mut reply = String::new();
            // A connection that is refused may be reset.
            let asked = write!(socket, "GET /healthz HTTP/1.0\r\n\r\n");
            let read = asked.and_then(|()| socket.read_to_string(&mut reply));
            let is_served = reply.starts_with("HTTP/1.0 200");
            // The proxy sends an error to only some of the clients that it refuses.
            let is_refused = reply.contains("max_connections") || reply.contains("head_timeout");
            assert!(
                is_served || is_refused || reply.is_empty(),
                "{read:?}: {reply}"
            );
            if !is_served {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            is_served
        });
        assert!(is_served, "no client is served any more");
        drop(silent);
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
        assert!(next().starts_with("restitch: listening on http://"));
        for (more, told) in [
            (
                "threads = 1\nadapt = true\n",
                "hold only after a restart\" fixed=threads",
            ),
            (
                "adapt = 1\n",
                "the configuration stays as it was\" error=\"f.toml: line 4, column 9: invalid type",
            ),
            (
                "listen = \"127.0.0.1:1\"\n",
                "the configuration stays as it was\" error=\"f.toml: line 4, column 1: duplicate key",
            ),
            (
                "log_format = \"json\"\n[[route]]\nmax_risk = 0.5\n",
                "fixed=log_format",
            ),
            // The first line silences the warning about the second.
            ("log = \"error\"\nlog_format = \"json\"\n", ""),
            (
                "[[route]]\nupstream = \"http://a\"\n",
                "read the configuration again",
            ),
        ] {
            let path = folder.join("f.toml");
            // No line says that the proxy has read this file. A pipe does: it takes no text before
            // it is read.
            let is_pipe = told.is_empty();
            std::fs::remove_file(&path).unwrap();
            if is_pipe {
                assert!(
                    Command::new("mkfifo")
                        .arg(&path)
                        .status()
                        .unwrap()
                        .success()
                );
            } else {
                std::fs::write(&path, file(more)).unwrap();
            }
            assert!(
                Command::new("kill")
                    .args(["-HUP", &child.id().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
            if is_pipe {
                std::fs::write(&path, file(more)).unwrap();
                continue;
            }
            let line = next();
            assert!(line.contains(told), "{more}: {line}");
        }
        std::fs::remove_file(folder.join("f.toml")).unwrap();
        assert!(
            Command::new("kill")
                .args(["-HUP", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert!(next().contains("the configuration stays as it was\" error=\"f.toml: "));
        assert!(
            Command::new("kill")
                .args(["-TERM", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// Neither a terminal that closes nor a service manager that sends SIGHUP for a reload ends an
    /// answer.
    #[cfg(unix)]
    #[test]
    fn a_hangup_does_not_end_the_proxy() {
        use std::io::{BufRead, BufReader, Read, Write};

        let args = [
            "proxy",
            "--upstream",
            "http://127.0.0.1:9",
            "--listen",
            "127.0.0.1:0",
        ];
        let mut child = crate::cli::start(Path::new("."), &args);
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        let address = line
            .strip_prefix("restitch: listening on http://")
            .and_then(|rest| rest.split(',').next());
        let signal = |name: &str| {
            assert!(
                Command::new("kill")
                    .args([name, &child.id().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
        };
        for _ in 0..2 {
            signal("-HUP");
            let mut told = String::new();
            words.read_line(&mut told).unwrap();
            assert!(told.contains("there is nothing to read again"), "{told}");
        }
        let mut socket = std::net::TcpStream::connect(address.unwrap()).unwrap();
        socket.set_read_timeout(Some(crate::cli::LONG)).unwrap();
        write!(socket, "GET /healthz HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.0 200"), "{reply}");
        signal("-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// Flags win over the environment, that over the file, and that over the defaults.
    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let folder = folder("config-show", &[("restitch.toml", FILE)]);
        let show = |args: &[&str], variables: &[(&str, &str)]| {
            let ran = with_variables(&folder, &[&["config", "show"], args].concat(), variables);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""));
            Config::parse(&ran.out).unwrap()
        };
        let numbers = |config: &Config| {
            let limits = &config.limits;
            (
                limits.max_continuations,
                limits.idle_timeout.0.as_secs(),
                limits.max_body_bytes,
                limits.max_consecutive_failures,
            )
        };
        assert_eq!(numbers(&show(&[], &[])), (8, 60, 33_554_432, 3));
        let file = show(&["--config", "restitch.toml"], &[]);
        assert_eq!(numbers(&file), (2, 20, 200, 3));
        assert_eq!(file.proxy.upstream.as_deref(), Some("http://file.example"));
        let variables = [
            ("RESTITCH_CONFIG", "restitch.toml"),
            ("RESTITCH_MAX_CONTINUATIONS", "5"),
            ("RESTITCH_IDLE_TIMEOUT", "50"),
            ("RESTITCH_UPSTREAM", "http://variable.example"),
            ("RESTITCH_ADAPT", "true"),
            ("RESTITCH_LOG", "debug"),
            ("RESTITCH_LISTEN", "127.0.0.1:5"),
            ("RESTITCH_ADMIN", "127.0.0.1:6"),
            ("RESTITCH_PAGE_ANSWERS", "20"),
            ("RESTITCH_ON_GIVE_UP", "close"),
            ("RESTITCH_REPAIR", "syntax"),
        ];
        let variable = show(&[], &variables);
        assert_eq!(numbers(&variable), (5, 50, 200, 3));
        assert_eq!(
            variable.proxy.upstream.as_deref(),
            Some("http://variable.example")
        );
        assert_eq!(
            (variable.proxy.adapt, variable.proxy.log.as_str()),
            (true, "debug")
        );
        assert_eq!(variable.proxy.on_give_up, GiveUp::Close);
        assert_eq!(
            show(&["--on-give-up", "error"], &variables)
                .proxy
                .on_give_up,
            GiveUp::Error
        );
        assert_eq!(
            (file.proxy.repair, variable.proxy.repair),
            (RepairLevel::Strict, RepairLevel::Syntax)
        );
        assert_eq!(
            show(&["--repair", "guess"], &variables).proxy.repair,
            RepairLevel::Guess
        );
        let args = [
            "--max-continuations",
            "6",
            "--upstream",
            "http://flag.example",
            "--adapt=false",
            "--log",
            "off",
        ];
        let flag = show(&args, &variables);
        assert_eq!(numbers(&flag), (6, 50, 200, 3));
        assert_eq!(flag.proxy.upstream.as_deref(), Some("http://flag.example"));
        assert_eq!((flag.proxy.adapt, flag.proxy.log.as_str()), (false, "off"));
        assert_eq!(flag.proxy.listen, "127.0.0.1:5".parse().unwrap());
        assert_eq!(
            (file.proxy.admin, flag.proxy.admin),
            (None, Some("127.0.0.1:6".parse().unwrap()))
        );
        assert_eq!(
            show(&["--admin", "[::1]:7"], &variables).proxy.admin,
            Some("[::1]:7".parse().unwrap())
        );
        assert_eq!((file.proxy.page_answers, flag.proxy.page_answers), (0, 20));
        assert_eq!(
            show(&["--page-answers", "0"], &variables)
                .proxy
                .page_answers,
            0
        );
        assert!(show(&["--adapt"], &[]).proxy.adapt);
        let trust = [
            ("RESTITCH_TOKEN_VARIABLE", "A"),
            ("RESTITCH_CA_FILE", "ca.pem"),
            ("RESTITCH_CLIENT_CERT", "c.pem"),
        ];
        let config = show(&["--token-variable", "B", "--client-key", "k.pem"], &trust);
        assert_eq!(config.access.token_variable.as_deref(), Some("B"));
        let tls = &config.tls;
        let names = [&tls.ca_file, &tls.client_cert, &tls.client_key]
            .map(|file| file.as_deref().and_then(Path::to_str));
        assert_eq!(names, [Some("ca.pem"), Some("c.pem"), Some("k.pem")]);
    }

    #[test]
    fn the_risk_is_a_probability() {
        let show = |args: &[&str], variables: &[(&str, &str)]| {
            with_variables(
                Path::new("."),
                &[&["config", "show"], args].concat(),
                variables,
            )
        };
        let risk = |ran: &Ran| {
            Config::parse(&ran.out)
                .unwrap()
                .limits
                .max_risk
                .0
                .to_string()
        };
        assert_eq!(risk(&show(&[], &[])), "0.001");
        assert_eq!(risk(&show(&[], &[("RESTITCH_MAX_RISK", "0.25")])), "0.25");
        assert_eq!(
            risk(&show(
                &["--max-risk", "0"],
                &[("RESTITCH_MAX_RISK", "0.25")]
            )),
            "0"
        );
        for wrong in ["1.5", "-0.1", "nan", "much"] {
            let ran = show(&[&format!("--max-risk={wrong}")], &[]);
            assert_eq!(ran.code, 2, "{wrong}");
            assert!(
                ran.err.contains("--max-risk") && ran.err.contains("from 0 to 1"),
                "{}",
                ran.err
            );
        }
        let stitch = run(Path::new("."), &["stitch", "--max-risk", "2"], b"");
        assert_eq!(stitch.code, 2, "{}", stitch.err);
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
        let ran = run(&folder, &["proxy", "--config", "wrong.toml"], b"");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(
            ran.err
                .starts_with("restitch: wrong.toml: line 2, column 1: "),
            "{}",
            ran.err
        );
        for args in [&["proxy"][..], &["proxy", "--config", "none.toml"]] {
            let ran = run(&folder, args, b"");
            assert_eq!(ran.code, 2);
            assert!(
                ran.err.starts_with("restitch: --upstream is missing"),
                "{}",
                ran.err
            );
        }
        assert_eq!(
            run(&folder, &["proxy", "--config", "missing.toml"], b"").code,
            1
        );
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
            assert!(ran.code == 2 && ran.err.contains(words), "{}", ran.err);
            assert!(!ran.err.contains("5hort"), "{}", ran.err);
        }
        assert!(
            run(&folder, &args, b"")
                .err
                .contains("the environment has no THE_TOKEN")
        );
        // Nor without the key of a fallback.
        let text = "[proxy]\nupstream = \"http://127.0.0.1:9\"\n[[route]]\nname = \"r\"\n\
            fallback = [{ upstream = \"http://127.0.0.1:9\", key_variable = \"THE_KEY\" }]\n";
        std::fs::write(folder.join("key.toml"), text).unwrap();
        let ran = run(&folder, &["proxy", "--config", "key.toml"], b"");
        assert!(
            ran.code == 2
                && ran
                    .err
                    .contains("route `r`: the environment has no THE_KEY"),
            "{}",
            ran.err
        );
    }

    #[test]
    fn the_help_has_the_defaults() {
        let help = run(Path::new("."), &["proxy", "--help"], b"")
            .out
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let limits = restitch::Limits::default();
        for default in [
            limits.continuation.max_continuations as usize,
            limits.transport.max_body_bytes,
        ] {
            assert!(
                help.contains(&format!("[default: {default}]")),
                "{default}: {help}"
            );
        }
        for default in [
            "127.0.0.1:7378",
            "false",
            "leave",
            "info",
            "1m",
            "one for each core",
        ] {
            assert!(
                help.contains(&format!("[default: {default}]")),
                "{default}: {help}"
            );
        }
    }

    #[test]
    fn the_schema_is_printed_as_json() {
        let ran = run(Path::new("."), &["config", "schema"], b"");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(schema["properties"].as_object().unwrap().len(), 8);
    }

    #[test]
    fn help_has_examples() {
        for command in ["check", "show", "schema"] {
            let ran = run(Path::new("."), &["config", command, "--help"], b"");
            assert_eq!((ran.code, ran.err.as_str()), (0, ""));
            assert!(
                ran.out.contains("Examples:\n  restitch config "),
                "{}",
                ran.out
            );
        }
    }
}
