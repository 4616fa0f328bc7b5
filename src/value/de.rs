//! A view as a serde deserializer. It accepts what serde_json accepts.

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::name::{Key, Variant};
use super::number::TEXT;
use super::view::Children;
use super::{Number, SnapshotError, ValueKind, ValueNode, View};
use crate::json::Kind;

/// A view, and the number of containers that serde has entered before it.
#[derive(Clone, Copy)]
pub(super) struct Deep<'a> {
    pub(super) view: View<'a>,
    pub(super) depth: usize,
}

type Result<T> = std::result::Result<T, SnapshotError>;

impl<'de> Deep<'de> {
    /// Serde recurses into every nested container, so depth costs stack: the limit is that of
    /// serde_json. Printing and walking without serde do not recurse and have no limit.
    pub(super) const LIMIT: usize = 128;

    pub(super) fn new(view: View<'de>) -> Self {
        Self { view, depth: 0 }
    }

    /// Enters the container.
    fn inside(self) -> Result<Inside<'de>> {
        if self.depth == Self::LIMIT {
            return Err(SnapshotError::too_deep(self.view, Self::LIMIT));
        }
        let left = self.view.len();
        Ok(Inside {
            children: self.view.children(),
            left,
            value: None,
            depth: self.depth + 1,
        })
    }

    fn any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let live = self.view.live;
        match self.view.node() {
            ValueNode::Null => visitor.visit_unit(),
            ValueNode::Bool(value) => visitor.visit_bool(value),
            ValueNode::Number { start, end } => Number::new(live.text(start, end)).visit(visitor),
            ValueNode::Key { start, end, .. } | ValueNode::String { start, end, .. } => {
                visitor.visit_borrowed_str(live.text(start, end))
            }
            ValueNode::Container { kind, .. } => self.container(visitor, kind),
        }
    }

    fn container<V: Visitor<'de>>(self, visitor: V, kind: Kind) -> Result<V::Value> {
        let mut inside = self.inside()?;
        let (value, more) = match kind {
            Kind::Array => (
                visitor.visit_seq(&mut inside)?,
                "fewer elements in an array",
            ),
            Kind::Object => (
                visitor.visit_map(&mut inside)?,
                "fewer members in an object",
            ),
        };
        match inside.children.next() {
            None => Ok(value),
            // More text can only add children.
            Some(_) => Err(SnapshotError::for_good(format_args!(
                "invalid length {}, expected {more}",
                self.view.len()
            ))),
        }
    }

    fn variant<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.view.kind() {
            ValueKind::String => visitor.visit_enum(Variant {
                tag: self,
                value: None,
            }),
            ValueKind::Object => {
                let mut inside = self.inside()?;
                match (inside.children.next(), inside.children.next()) {
                    (Some(view), None) => visitor.visit_enum(Variant {
                        tag: self,
                        value: Some(Self {
                            view,
                            depth: inside.depth,
                        }),
                    }),
                    (None, _) => Err(SnapshotError::invalid_value(
                        Unexpected::Map,
                        &"an object with a single key",
                    )),
                    _ => Err(SnapshotError::for_good(
                        "invalid value: map, expected an object with a single key",
                    )),
                }
            }
            _ => self.any(visitor),
        }
    }
}

impl<'de> Deserializer<'de> for Deep<'de> {
    type Error = SnapshotError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.any(visitor).map_err(|error| error.at(self.view))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let result = if self.view.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        };
        result.map_err(|error: SnapshotError| error.at(self.view))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        let result = match self.view.as_number() {
            Some(number) if name == TEXT => visitor.visit_borrowed_str(number.as_str()),
            _ => visitor.visit_newtype_struct(self),
        };
        result.map_err(|error: SnapshotError| error.at(self.view))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.variant(visitor).map_err(|error| error.at(self.view))
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self
            .view
            .as_number()
            .and_then(|number| number.as_str().parse().ok())
        {
            Some(number) => visitor
                .visit_i128(number)
                .map_err(|error: SnapshotError| error.at(self.view)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.view.as_number().and_then(Number::as_u128) {
            Some(number) => visitor
                .visit_u128(number)
                .map_err(|error: SnapshotError| error.at(self.view)),
            None => self.deserialize_any(visitor),
        }
    }

    /// Reads the name of a field or variant. Serde would take a number for an index: it is not a
    /// name.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.view.kind() == ValueKind::String {
            return self.deserialize_any(visitor);
        }
        let error =
            SnapshotError::invalid_type(Unexpected::Other("a value that is no name"), &visitor);
        Err(error.at(self.view))
    }

    /// Skips the value without looking into it, at any depth.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct
    }
}

/// Forwards to [`Deep`].
macro_rules! forward_to_deep {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value> {
            Deep::new(self).$method($($argument,)* visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for View<'de> {
    type Error = SnapshotError;

    forward_to_deep! {
        deserialize_any()
        deserialize_option()
        deserialize_newtype_struct(name: &'static str)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_i128()
        deserialize_u128()
        deserialize_identifier()
        deserialize_ignored_any()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct
    }
}

/// The children of a container that serde has entered.
struct Inside<'a> {
    children: Children<'a>,
    left: usize,
    /// The member whose key was read last.
    value: Option<View<'a>>,
    depth: usize,
}

impl<'de> Inside<'de> {
    fn next(&mut self) -> Option<View<'de>> {
        self.left = self.left.saturating_sub(1);
        self.children.next()
    }

    fn read<T: DeserializeSeed<'de>>(&self, view: View<'de>, seed: T) -> Result<T::Value> {
        seed.deserialize(Deep {
            view,
            depth: self.depth,
        })
        .map_err(|error| error.at(view))
    }
}

impl<'de> SeqAccess<'de> for Inside<'de> {
    type Error = SnapshotError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        self.next().map(|view| self.read(view, seed)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Inside<'de> {
    type Error = SnapshotError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.value = self.next();
        let Some(view) = self.value else {
            return Ok(None);
        };
        seed.deserialize(Key::of(view))
            .map(Some)
            .map_err(|error| error.at_key(view))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let view = self
            .value
            .take()
            .ok_or_else(|| SnapshotError::for_good("a value was asked for before its key"))?;
        self.read(view, seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}
