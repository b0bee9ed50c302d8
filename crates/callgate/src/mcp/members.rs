//! The members of `params` and `_meta`, as they stand in the message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::strict_json::{self, text};

/// An object's members, none of them twice.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object; what is absent has no members.
    pub(crate) fn parse(raw: Option<&'a RawValue>) -> Result<Self, String> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        if !raw.get().starts_with('{') {
            return Err("must be an object".to_owned());
        }
        match strict_json::members(raw.get()) {
            Ok(members) => Ok(Self(members)),
            Err(error) => Err(format!("must be an object: {}", strict_json::problem(&error))),
        }
    }

    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a member, unless it is there.
    pub(crate) fn add(&mut self, name: Cow<'a, str>, value: &'a RawValue) -> bool {
        let is_new = !self.0.iter().any(|(known, _)| *known == name);
        if is_new {
            self.0.push((name, value));
        }
        is_new
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// A member that must be a text where it is there.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, String> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        text(raw).map(Some).ok_or_else(|| format!("`{name}` must be a string"))
    }

    /// A text that must be there.
    pub(crate) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, String> {
        self.text(name)?.ok_or_else(|| format!("`{name}` is missing"))
    }
}
