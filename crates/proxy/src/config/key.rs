//! The keys of the file with their meanings and defaults, from their declarations.

use std::sync::LazyLock;

use serde_json::Value;

use super::Config;

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The table, such as `limits` or `route.fallback`.
    pub table: String,
    /// The name in the table.
    pub name: String,
    /// The description.
    pub meaning: String,
    /// The default, if there is one that is the same on each machine.
    pub default: Option<String>,
}

impl Key {
    /// Returns all keys, by their tables.
    pub fn all() -> &'static [Self] {
        static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| of_schema(&Config::schema()));
        &KEYS
    }

    /// Returns the key of a name such as `limits.max_continuations`.
    pub fn of(name: &str) -> Option<&'static Self> {
        let (table, name) = name.rsplit_once('.')?;
        Self::all()
            .iter()
            .find(|key| key.table == table && key.name == name)
    }

    /// Returns the message for a key that is not one.
    pub(super) fn unknown(name: &str) -> String {
        let names: Vec<_> = Self::all()
            .iter()
            .filter(|key| is_plain(&key.table))
            .map(|key| (key.name.as_str(), format!("{}.{}", key.table, key.name)))
            .collect();
        let short = name.rsplit('.').next().unwrap_or_default();
        let known = nearest(name, names.iter().map(|(_, long)| long.as_str()));
        let of_other = names.iter().find(|(known, _)| *known == short);
        match of_other.map(|(_, long)| long.as_str()).or(known) {
            Some(near) => format!("unknown key `{name}`: did you mean `{near}`?"),
            None => format!("unknown key `{name}`"),
        }
    }

    pub(super) fn is_known(name: &str) -> bool {
        Self::of(name).is_some_and(|key| is_plain(&key.table))
    }

    /// Returns the tables of all keys as Markdown.
    pub fn docs() -> String {
        let mut text = String::new();
        let mut table = "";
        for key in Self::all() {
            if table != key.table {
                let start = if table.is_empty() { "" } else { "\n" };
                table = &key.table;
                let heading = if is_plain(table) {
                    format!("[{table}]")
                } else {
                    format!("[[{table}]]")
                };
                text += &format!(
                    "{start}## `{heading}`\n\n| key | meaning | default |\n|---|---|---|\n"
                );
            }
            let default = key.default.as_deref();
            let default = default.map_or("none".to_owned(), |default| format!("`{default}`"));
            let (name, meaning) = (&key.name, key.meaning.trim_end_matches('.'));
            text += &format!("| `{name}` | {meaning} | {default} |\n");
        }
        text
    }
}

/// Returns whether a file has a table once, so that one value sets its key.
fn is_plain(table: &str) -> bool {
    matches!(table, "proxy" | "access" | "tls" | "limits" | "prompt")
}

/// Returns the keys of a schema.
fn of_schema(schema: &Value) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut tables: Vec<(String, &Value)> = TABLES
        .iter()
        .filter_map(|name| {
            Some((
                (*name).to_owned(),
                table_of(schema, &schema["properties"][*name])?,
            ))
        })
        .collect();
    tables.reverse();
    while let Some((table, declared)) = tables.pop() {
        for (name, key) in declared["properties"].as_object().into_iter().flatten() {
            keys.push(Key {
                table: table.clone(),
                name: name.clone(),
                meaning: meaning_of(key),
                default: default_of(&key["default"]),
            });
            if let Some(inner) = table_of(schema, key) {
                tables.push((format!("{table}.{name}"), inner));
            }
        }
    }
    keys
}

/// The tables, in the order in which the guide has them.
const TABLES: [&str; 7] = [
    "proxy",
    "access",
    "tls",
    "limits",
    "prompt",
    "route",
    "capability",
];

/// Returns the declaration of a table that a key has, or a list of.
fn table_of<'a>(schema: &'a Value, key: &'a Value) -> Option<&'a Value> {
    let name = key["$ref"]
        .as_str()
        .or_else(|| key["items"]["$ref"].as_str())?;
    let declared = schema.pointer(name.strip_prefix('#')?)?;
    declared.get("properties").map(|_| declared)
}

/// Returns the description of a key, and the names of its values.
fn meaning_of(key: &Value) -> String {
    let meaning = key["description"].as_str().unwrap_or_default().to_owned();
    let names = key["enum"].as_array().into_iter().flatten();
    let names: Vec<_> = names
        .filter_map(|name| Some(format!("`{}`", name.as_str()?)))
        .collect();
    match names.is_empty() {
        true => meaning,
        false => format!("{} ({})", meaning.trim_end_matches('.'), names.join(", ")),
    }
}

/// Returns a default as a flag takes it.
fn default_of(default: &Value) -> Option<String> {
    match default {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        value => Some(value.to_string()),
    }
}

/// Returns the message for an unknown field, with the table that has it or the nearest known one
/// instead of all that serde lists. `None`: the message is about something else.
pub(super) fn unknown_field(message: &str) -> Option<String> {
    let (unknown, known) = message.split_once("`, expected ")?;
    let name = unknown.strip_prefix("unknown field `")?;
    let of_other = Key::all()
        .iter()
        .find(|key| key.name == name && is_plain(&key.table));
    // The message has each name in backticks.
    let known = known.split('`').skip(1).step_by(2);
    Some(match (of_other, nearest(name, known)) {
        (Some(key), _) => format!("unknown field `{name}`: it is a key of `[{}]`", key.table),
        (None, Some(near)) => format!("unknown field `{name}`: did you mean `{near}`?"),
        (None, None) => format!("unknown field `{name}`"),
    })
}

/// Returns the known name that is most like another one, if any is.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > LEAST_LIKENESS)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// The similarity from which on a known name is suggested: `continuation` is 0.90 like
/// `max_continuations`, and any letter up to 0.71 like a name of eight letters that has it.
const LEAST_LIKENESS: f64 = 0.75;
