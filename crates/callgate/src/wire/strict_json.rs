//! JSON without duplicate keys.
//!
//! If an object has two equal keys, JSON parsers differ in which value they use. The check of the arguments and the
//! upstream could use different values. Duplicate keys are therefore an error, at every nesting depth.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::wire::shortened;

/// Maximum number of members of an object that is read with [`few_members`].
const MAX_FEW: usize = 64;
/// Maximum number of bytes of a value that is read with [`deserialize_short`].
const MAX_SHORT: usize = 64 * 1024;

/// Parses a value.
pub(crate) fn value(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = AnyValue.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Parses an object into its members, with raw values.
pub(crate) fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    object(text, RawMembersVisitor { max: usize::MAX })
}

/// Like [`members`], but returns only the members that `is_selected` accepts, and does not refuse duplicate keys. Other
/// members use no memory.
pub(crate) fn members_named(
    text: &str,
    is_selected: impl Fn(&str) -> bool,
) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    object(text, SelectedMembersVisitor(is_selected))
}

/// Like [`members`], but fails if there are more than [`MAX_FEW`] members.
pub(crate) fn few_members(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    object(text, RawMembersVisitor { max: MAX_FEW })
}

fn object<'a, V: Visitor<'a>>(text: &'a str, visitor: V) -> Result<V::Value, serde_json::Error> {
    refuse_string(text)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = deserializer.deserialize_map(visitor)?;
    deserializer.end()?;
    Ok(object)
}

/// Fails if the text is a JSON string. serde's own error for a string in place of an object contains the whole string,
/// escaped. Escaping 1 MiB takes 30 ms.
pub(crate) fn refuse_string(text: &str) -> Result<(), serde_json::Error> {
    if !text.trim_start().starts_with('"') {
        return Ok(());
    }
    serde_json::from_str::<String>(text)?;
    Err(Error::invalid_type(Unexpected::Other("string"), &"an object"))
}

/// Deserializes a value that is short in valid requests. Fails if the value is longer than [`MAX_SHORT`], because
/// serde's error for a string in place of another type contains the whole string, escaped.
pub(crate) fn deserialize_short<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
) -> Result<T, serde_json::Error> {
    if raw.get().len() > MAX_SHORT {
        return Err(Error::custom(format_args!("longer than {MAX_SHORT} bytes")));
    }
    serde_json::from_str(raw.get())
}

/// Returns the error message, truncated. Omits line and column, because they are wrong if only a part of the body was
/// parsed.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    shortened(text.strip_suffix(&position).unwrap_or(&text).to_owned())
}

/// Returns the text of a JSON string.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

fn duplicate<E: Error>(key: &str) -> E {
    E::custom(format_args!("the key `{key}` is duplicated"))
}

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(AnyValue)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(duplicate(&key));
            }
            let value = map.next_value_seed(AnyValue)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

/// Collects the members whose names are selected.
struct SelectedMembersVisitor<F>(F);

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for SelectedMembersVisitor<F> {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(ObjectKey(key)) = map.next_key()? {
            if (self.0)(&key) {
                members.push((key, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(members)
    }
}

struct RawMembersVisitor {
    max: usize,
}

impl<'de> Visitor<'de> for RawMembersVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Self::Value = Vec::new();
        // With more than 16 members, duplicates are found with a hash set, because comparing all keys would take
        // quadratic time.
        let mut keys: Option<std::collections::HashSet<String>> = None;
        while let Some(ObjectKey(key)) = map.next_key()? {
            let is_duplicate = match &mut keys {
                Some(keys) => !keys.insert(key.to_string()),
                None => members.iter().any(|(known, _)| *known == key),
            };
            if is_duplicate {
                return Err(duplicate(&key));
            }
            if members.len() == self.max {
                return Err(Error::custom(format_args!("more than {} members", self.max)));
            }
            members.push((key, map.next_value()?));
            if keys.is_none() && members.len() > 16 {
                keys = Some(members.iter().map(|(key, _)| key.to_string()).collect());
            }
        }
        Ok(members)
    }
}

#[derive(Deserialize)]
struct ObjectKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn duplicate_keys_are_rejected_at_every_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":[{"b":1,"b":2}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(value(text).unwrap_err().to_string().contains("is duplicated"), "{text}");
        }
        let error = members(r#"{"a":1,"\u0061":2}"#).unwrap_err();
        assert!(error.to_string().contains("the key `a` is duplicated"), "{error}");
    }

    #[test]
    fn duplicates_are_found_among_many_members() {
        let mut keys: Vec<String> = (0..100).map(|n| format!("\"k{n}\":0")).collect();
        keys.push("\"k50\":1".to_owned());
        let text = format!("{{{}}}", keys.join(","));
        assert!(members(&text).unwrap_err().to_string().contains("`k50` is duplicated"));
    }

    #[test]
    fn members_are_limited_or_selected() {
        let object = |count: usize| {
            let keys: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
            format!("{{{}}}", keys.join(","))
        };
        assert_eq!(few_members(&object(64)).unwrap().len(), 64);
        let error = few_members(&object(65)).unwrap_err();
        assert!(error.to_string().starts_with("more than 64 members"), "{error}");
        let text = object(1000);
        let selected = members_named(&text, |name| ["k7", "k999"].contains(&name)).unwrap();
        assert_eq!(selected.iter().map(|(_, raw)| raw.get()).collect::<Vec<_>>(), ["7", "999"]);
    }

    #[test]
    fn errors_do_not_repeat_a_string_in_place_of_an_object() {
        let text = format!("\"{}\"", "\\ud83d\\ude00".repeat(1000));
        for error in
            [members(&text).err(), few_members(&text).err(), members_named(&text, |_| true).err()]
        {
            assert_eq!(problem(&error.unwrap()), "invalid type: string, expected an object");
        }
        assert!(members("\"unclosed").unwrap_err().is_eof());
    }

    #[test]
    fn raw_values_are_unchanged() {
        let members = members(r#"{"n": 1e2, "s":"\u00e9"}"#).unwrap();
        assert_eq!(members[0].1.get(), "1e2");
        assert_eq!(members[1].1.get(), r#""\u00e9""#);
    }

    #[test]
    fn deep_nesting_is_an_error_and_does_not_overflow_the_stack() {
        assert!(value(&"[".repeat(100_000)).is_err());
        assert!(value(&"{\"a\":".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_parses_as_in_serde_json_or_is_rejected(text in r#"[\{\}\[\]",:a0-9 .eE+-]{0,40}"#) {
            if let Ok(strict) = value(&text) {
                prop_assert_eq!(strict, serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}
