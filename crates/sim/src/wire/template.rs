//! The templates of an API's events and bodies.
//!
//! A file has sections with an empty line between them. The first line of a section is its name, and
//! each other line is one event. `start`, `open`, `delta`, `close`, `finish`, `done` and `error` are
//! the moments of a stream; `body`, `failed` and `problem` are the bodies of responses. A name may
//! end with `.text`, `.reasoning`, `.plan`, `.call` or `.custom`: the section is then for parts of
//! this kind. A section `NAME?` has the words of `$NAME` for the finishes: length, stop, filter, tool
//! and none.
//!
//! A line is written with its `$name`s replaced by values or by sections. A line with a value that is
//! missing is left out. `«one|other»` is replaced by the first alternative whose values are all
//! there, or else by nothing. `@name rest` is replaced by a section whose `$it` is the rest of the
//! line.

use std::collections::HashMap;

/// The sections of a file, by name.
#[derive(Debug)]
pub(super) struct Template(HashMap<&'static str, &'static str>);

impl Template {
    pub(super) fn parse(text: &'static str) -> Self {
        let sections = text.trim_end().split("\n\n");
        Self(
            sections
                .filter_map(|section| section.split_once('\n'))
                .collect(),
        )
    }

    /// Returns the same with another section.
    pub(super) fn with(mut self, name: &'static str, section: &'static str) -> Self {
        self.0.insert(name, section);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&'static str> {
        self.0.get(name).copied()
    }
}

/// Fills a template with the values that `value` returns.
pub(super) fn fill(template: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (mut out, mut rest) = (String::new(), template);
    while let Some(at) = rest.find(['$', '«']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        if let Some(group) = found.strip_prefix('«') {
            let (group, after) = group.split_once('»')?;
            let chosen = group.split('|').find_map(|choice| fill(choice, value));
            out.push_str(&chosen.unwrap_or_default());
            rest = after;
        } else {
            let name = found.trim_start_matches('$');
            let end = name.find(|c: char| !c.is_ascii_lowercase());
            let (name, after) = name.split_at(end.unwrap_or(name.len()));
            out.push_str(&value(name)?);
            rest = after;
        }
    }
    out.push_str(rest);
    Some(out)
}
