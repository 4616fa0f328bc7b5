//! Writing a view: as JSON text, and through serde.

use std::fmt::{self, Write};

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};

use super::de::Deep;
use super::{Number, ValueNode, View};
use crate::json::{Kind, string};

impl fmt::Display for View<'_> {
    /// Writes compact JSON, at any depth.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.after();
        // The open containers, and where each ends.
        let mut open: Vec<(Kind, usize)> = Vec::new();
        let mut is_first = true;
        let mut view = *self;
        loop {
            while let Some((kind, _)) = open.pop_if(|(_, end)| *end <= view.at) {
                f.write_char(kind.closer())?;
                is_first = false;
            }
            if view.at >= until {
                return Ok(());
            }
            if !std::mem::replace(&mut is_first, false) {
                f.write_char(',')?;
            }
            match view.node() {
                ValueNode::Container { kind, .. } => {
                    f.write_char(kind.opener())?;
                    open.push((kind, view.after()));
                    is_first = true;
                }
                ValueNode::Key { start, end, .. } => {
                    quoted(f, self.live.text(start, end))?;
                    f.write_char(':')?;
                    is_first = true;
                }
                ValueNode::String { start, end, .. } => quoted(f, self.live.text(start, end))?,
                ValueNode::Number { start, end } => f.write_str(self.live.text(start, end))?,
                ValueNode::Bool(true) => f.write_str("true")?,
                ValueNode::Bool(false) => f.write_str("false")?,
                ValueNode::Null => f.write_str("null")?,
            }
            view.at += 1;
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut result = f.write_char('"');
    string::escaped(text, |piece| {
        result = result.and_then(|()| f.write_str(piece));
    });
    result.and_then(|()| f.write_char('"'))
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Deep::new(*self).serialize(serializer)
    }
}

impl Serialize for Deep<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.view;
        match view.node() {
            ValueNode::Null => serializer.serialize_unit(),
            ValueNode::Bool(value) => serializer.serialize_bool(value),
            ValueNode::Number { start, end } => {
                Number::new(view.live.text(start, end)).serialize(serializer)
            }
            ValueNode::String { start, end, .. } | ValueNode::Key { start, end, .. } => {
                serializer.serialize_str(view.live.text(start, end))
            }
            ValueNode::Container { kind, .. } => {
                let depth = self.depth + 1;
                if depth > Self::LIMIT {
                    return Err(S::Error::custom(format_args!(
                        "more than {} nested containers",
                        Self::LIMIT
                    )));
                }
                if kind == Kind::Array {
                    return serializer
                        .collect_seq(view.elements().map(|view| Self { view, depth }));
                }
                let mut map = serializer.serialize_map(Some(view.len()))?;
                for (key, view) in view.members() {
                    map.serialize_entry(key, &Self { view, depth })?;
                }
                map.end()
            }
        }
    }
}
