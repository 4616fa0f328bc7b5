//! Copies a request for fallbacks and stores: only the members of the API's published schema that
//! hold no credential.
//!
//! The folder of each API has its list. The copy lacks all other members, because no list of
//! secrets is complete: gateways take keys in members of any name. Without a tool, a data source or
//! a part of a message the answer would be another one, so a request with an unlisted one is
//! refused.

mod address;
mod compatible;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::fields::{members, object, text, word};
use crate::json::walk::{Raw, ValueKind};
use address::{is_plain_content, is_plain_server};
pub(super) use compatible::{
    CACHE, COMPATIBLE, FORM, FUNCTION, LOCATION, PROVIDERS, STRUCTURED, TEMPLATE,
};

/// The members of an object that are copied: groups of names, each with the rule of its values. A
/// name in camel case also matches its spelling in snake case, since Gemini takes both.
pub(crate) type Members = &'static [(&'static [&'static str], Rule)];

/// The values that are copied. A list is tested element by element.
#[derive(Debug)]
pub enum Rule {
    /// A string, a number, `true`, `false` or `null`, or a list of such values. Strings of members
    /// that end with `url` or `uri` are [addresses](Self::Address).
    Plain,
    /// Any value: text for the model or by it, or a schema of the client. Its members have any
    /// names.
    Text,
    /// The address of an image or a file, or its content.
    Address,
    /// The address of a server that the provider calls.
    Server,
    /// An object of numbers with any names.
    Numbers,
    /// An object, without unlisted members. A scalar instead of the object is copied.
    Settings(Members),
    /// A part of the conversation: as [`Settings`](Self::Settings), but its `type` has to be in
    /// this list. The empty string means a missing type.
    Content(&'static [&'static str], Members),
    /// A tool or a data source whose `type` is in this list. An unlisted member refuses the
    /// request. An empty list accepts any `type`.
    Tool(&'static [&'static str], Members),
}

/// A request's body with listed members only.
#[derive(Debug, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// Unchanged if nothing was left out.
    pub body: Cow<'a, str>,
    /// The names of the other members.
    pub left_out: Names,
}

/// Names of members for the log, without their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: BTreeSet<String>,
    has_more: bool,
}

impl Names {
    /// Adds a name. A client chooses it, so a long name, or one with other characters than names
    /// have, is not repeated.
    pub fn add(&mut self, name: &str) {
        let is_plain = name.len() <= LONGEST_NAME
            && name.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'?')
            });
        if is_plain && self.names.len() < MOST_NAMES {
            self.names.insert(name.to_owned());
        } else {
            self.has_more = true;
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .names
            .iter()
            .map(String::as_str)
            .chain(self.has_more.then_some("…"));
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

/// The error of a request that can't be copied. It names the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Names);

/// Returns the body of a request with the members in `list` only.
pub fn allowed<'a>(list: Members, body: &'a str) -> Result<Allowed<'a>, Refused> {
    let mut copy = Copier::default();
    let refused = || Refused(Names::default());
    let root = object(body).ok_or_else(refused)?;
    match copy.object(root, list, false)? {
        Some(Cow::Borrowed(_)) => Ok(Allowed {
            body: Cow::Borrowed(body),
            left_out: copy.left_out,
        }),
        Some(Cow::Owned(changed)) => Ok(Allowed {
            body: Cow::Owned(changed),
            left_out: copy.left_out,
        }),
        None => Err(refused()),
    }
}

/// A copied value. `None`: it is left out.
type KeptValue<'a> = Option<Cow<'a, str>>;

/// Copies a value by its rule. Its calls nest as deep as the rules do, whatever the value is.
#[derive(Default)]
struct Copier {
    left_out: Names,
    /// The names of the members that lead to the value.
    path: Vec<String>,
}

impl Copier {
    fn value<'a>(&mut self, value: Raw<'a>, rule: &Rule) -> Result<KeptValue<'a>, Refused> {
        let whole = Some(Cow::Borrowed(value.as_str()));
        let is_address = || {
            let name = self
                .path
                .last()
                .map(|name| name.to_ascii_lowercase())
                .unwrap_or_default();
            name.ends_with("url") || name.ends_with("uri")
        };
        match rule {
            Rule::Text => Ok(whole),
            Rule::Plain if is_address() => self.address(value, is_plain_content),
            Rule::Plain => Ok(whole.filter(|_| scalars(value).is_some())),
            Rule::Address => self.address(value, is_plain_content),
            Rule::Server => self.address(value, is_plain_server),
            Rule::Numbers => {
                let is_number = |(_, value): (Raw<'_>, Raw<'_>)| value.kind() == ValueKind::Number;
                Ok(whole
                    .filter(|_| value.kind() != ValueKind::Array && value.members().all(is_number)))
            }
            Rule::Settings(list) => {
                self.objects(value, &mut |copy, one| copy.object(one, list, false))
            }
            Rule::Content(kinds, list) => self.objects(value, &mut |copy, one| {
                copy.check_kind(one, kinds)?;
                copy.object(one, list, false)
            }),
            Rule::Tool(kinds, list) => self.objects(value, &mut |copy, one| {
                if !kinds.is_empty() {
                    copy.check_kind(one, kinds)?;
                }
                copy.object(one, list, true)
            }),
        }
    }

    /// Copies an object, or each one of a list.
    fn objects<'a>(
        &mut self,
        value: Raw<'a>,
        copy: &mut dyn FnMut(&mut Self, Raw<'a>) -> Result<KeptValue<'a>, Refused>,
    ) -> Result<KeptValue<'a>, Refused> {
        match value.kind() {
            ValueKind::Object => return copy(self, value),
            ValueKind::Array => {}
            _ => return Ok(Some(Cow::Borrowed(value.as_str()))),
        }
        let mut elements = Vec::new();
        for element in value.elements() {
            let kept = match element.kind() {
                ValueKind::Object => copy(self, element)?,
                ValueKind::Array => None,
                _ => Some(Cow::Borrowed(element.as_str())),
            };
            let Some(kept) = kept else { return Ok(None) };
            elements.push(kept);
        }
        let is_changed = elements
            .iter()
            .any(|element| matches!(element, Cow::Owned(_)));
        let joined = is_changed.then(|| Cow::Owned(format!("[{}]", elements.join(","))));
        Ok(Some(joined.unwrap_or(Cow::Borrowed(value.as_str()))))
    }

    /// Copies an object. `is_whole`: an unlisted member refuses the request.
    fn object<'a>(
        &mut self,
        object: Raw<'a>,
        list: Members,
        is_whole: bool,
    ) -> Result<KeptValue<'a>, Refused> {
        let (mut pieces, mut is_changed) = (Vec::new(), false);
        for (name, value) in object.members() {
            self.path
                .push(name.decode().unwrap_or_default().into_owned());
            let kept = self.member(value, list, is_whole)?;
            self.path.pop();
            is_changed |= !matches!(kept, Some(Cow::Borrowed(_)));
            pieces.extend(kept.map(|kept| (name.as_str(), kept)));
        }
        if !is_changed {
            return Ok(Some(Cow::Borrowed(object.as_str())));
        }
        let pieces: Vec<_> = pieces
            .iter()
            .map(|(name, value)| [*name, ":", value].concat())
            .collect();
        Ok(Some(Cow::Owned(format!("{{{}}}", pieces.join(",")))))
    }

    /// Copies the member that the path ends with.
    fn member<'a>(
        &mut self,
        value: Raw<'a>,
        list: Members,
        is_whole: bool,
    ) -> Result<KeptValue<'a>, Refused> {
        let name = self.path.last().map(String::as_str).unwrap_or_default();
        let rule = list
            .iter()
            .find(|(names, _)| names.iter().any(|listed| is_same(listed, name)));
        let is_source = is_source(name);
        let kept = match rule {
            Some((_, rule)) => self.value(value, rule)?,
            None => None,
        };
        // Gemini's tools without settings are empty objects.
        let is_tool = is_whole && value.kind() == ValueKind::Object;
        if kept.is_some() || (is_empty(value) && !is_tool) {
            return Ok(kept);
        }
        if is_whole || (is_source && matches!(value.kind(), ValueKind::Object | ValueKind::Array)) {
            return Err(self.refused());
        }
        self.left_out.add(&self.path.join("."));
        Ok(None)
    }

    fn check_kind(&self, value: Raw<'_>, kinds: &[&str]) -> Result<(), Refused> {
        let kind = text(value.member("type"));
        let kind = kind.as_deref().unwrap_or_default();
        // Tools have the date of their version in their type.
        let family = kind.find("_20").and_then(|date| kind.get(..date));
        let is_known = kinds
            .iter()
            .any(|known| *known == kind || family == Some(*known));
        if is_known {
            Ok(())
        } else {
            Err(self.refused())
        }
    }

    /// Copies addresses, unless one may have a credential in it.
    fn address<'a>(
        &self,
        value: Raw<'a>,
        is_plain: fn(&str) -> bool,
    ) -> Result<KeptValue<'a>, Refused> {
        let Some(scalars) = scalars(value) else {
            return Err(self.refused());
        };
        let mut addresses = scalars.into_iter().filter_map(|scalar| scalar.decode());
        if addresses.all(|address| address.is_empty() || is_plain(&address)) {
            Ok(Some(Cow::Borrowed(value.as_str())))
        } else {
            Err(self.refused())
        }
    }

    fn refused(&self) -> Refused {
        let mut names = Names::default();
        names.add(&self.path.join("."));
        Refused(names)
    }
}

/// Returns a scalar, or those of a list, however its lists nest (a prompt may be a list of lists of
/// tokens). `None`: there is an object among them.
fn scalars(value: Raw<'_>) -> Option<Vec<Raw<'_>>> {
    let (mut scalars, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value.kind() {
            ValueKind::Object => return None,
            ValueKind::Array => open.extend(value.elements()),
            ValueKind::String => scalars.push(value),
            ValueKind::Number | ValueKind::Bool | ValueKind::Null => {}
        }
    }
    Some(scalars)
}

/// Returns whether a value is `null` or empty. SDKs write such values for settings that are not
/// set.
fn is_empty(value: Raw<'_>) -> bool {
    match value.kind() {
        ValueKind::Null => true,
        ValueKind::String => word(Some(value)).is_none(),
        ValueKind::Object => members(value).next().is_none(),
        ValueKind::Array => value.elements().next().is_none(),
        ValueKind::Number | ValueKind::Bool => false,
    }
}

/// Returns whether a name is a listed one, or its spelling in snake case.
fn is_same(listed: &str, name: &str) -> bool {
    let mut rest = name.bytes();
    let is_spelled = listed.bytes().all(|byte| {
        byte.is_ascii_uppercase()
            && rest.next() == Some(b'_')
            && rest.next() == Some(byte.to_ascii_lowercase())
            || !byte.is_ascii_uppercase() && rest.next() == Some(byte)
    });
    listed == name || is_spelled && rest.next().is_none()
}

/// Returns whether an unlisted member may hold tools or data sources, by its name.
fn is_source(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(char::is_ascii_alphabetic)
        .collect::<String>()
        .to_ascii_lowercase();
    SOURCES.iter().any(|source| name.contains(source))
}

/// Parts of the names of members that hold tools or data sources: Azure's `data_sources`,
/// OpenRouter's `plugins`, LM Studio's `integrations`, xAI's `search_parameters`, `mcp_servers` of
/// several gateways.
const SOURCES: [&str; 14] = [
    "tool",
    "mcp",
    "server",
    "source",
    "connector",
    "plugin",
    "integration",
    "retriev",
    "knowledge",
    "vectorstore",
    "database",
    "document",
    "search",
    "skill",
];

/// Bytes of the longest name that is repeated in the log, and the most names.
const LONGEST_NAME: usize = 64;
const MOST_NAMES: usize = 16;
