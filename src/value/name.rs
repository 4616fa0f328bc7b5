//! Names as serde deserializers: the keys of members, and the variants of enums.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::de::Deep;
use super::{Number, SnapshotError, View};

type Result<T> = std::result::Result<T, SnapshotError>;

/// The key of a member. A key type that is a number or a boolean is parsed from the key's text.
pub(super) struct Key<'a>(&'a str);

impl<'a> Key<'a> {
    pub(super) fn of(view: View<'a>) -> Self {
        Self(view.member_key())
    }
}

macro_rules! number_from_key {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match Number::parse(self.0) {
                Some(number) => number.visit(visitor),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = SnapshotError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.0)
    }

    number_from_key! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match Number::parse(self.0).and_then(|number| number.as_str().parse().ok()) {
            Some(number) => visitor.visit_i128(number),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match Number::parse(self.0).and_then(Number::as_u128) {
            Some(number) => visitor.visit_u128(number),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        BorrowedStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant: a string that names it, or an object whose only key names it.
pub(super) struct Variant<'a> {
    pub(super) tag: Deep<'a>,
    pub(super) value: Option<Deep<'a>>,
}

impl<'de> Variant<'de> {
    /// Returns the content of a variant that has some.
    fn content(self, expected: &str) -> Result<Deep<'de>> {
        // An open string may still become the name of another variant.
        self.value.ok_or_else(|| {
            SnapshotError::custom(format_args!(
                "invalid type: unit variant, expected {expected}"
            ))
        })
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = SnapshotError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let variant = match self.value {
            Some(Deep { view, .. }) => seed
                .deserialize(Key::of(view))
                .map_err(|error| error.at_key(view)),
            None => seed.deserialize(self.tag),
        };
        Ok((variant?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = SnapshotError;

    fn unit_variant(self) -> Result<()> {
        self.value.map_or(Ok(()), serde::Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        let content = self.content("newtype variant")?;
        seed.deserialize(content)
            .map_err(|error| error.at(content.view))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.content("tuple variant")?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.content("struct variant")?.deserialize_any(visitor)
    }
}
