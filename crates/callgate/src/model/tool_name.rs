//! Tool names: names that all MCP clients accept, derived from method ids.
//!
//! A tool name is the prefix, `__` and the id, or only the id if there is no prefix. Characters that clients do not
//! accept are replaced by `_`. A name that collides with another one, or is too long, is truncated if necessary and
//! ends with a short hash of the id. The registry stores generated names, so that they do not change later.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::model::method::DefinitionError;

const MAX_LENGTH: usize = 64;
const SEPARATOR: &str = "__";
/// Length of the hash: `_` and eight letters or digits, which encode 40 bits of the id's SHA-256.
const HASH_LENGTH: usize = 9;

/// A tool name; matches `^[a-zA-Z0-9_-]{1,64}$`.
///
/// Returned by [`tool_names`], which has an example.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a placeholder, which the catalog replaces when it assigns names.
    pub(crate) fn unassigned() -> Self {
        Self(Arc::from("_"))
    }

    pub(crate) fn parse(text: String) -> Option<Self> {
        let is_valid = (1..=MAX_LENGTH).contains(&text.len()) && text.chars().all(is_plain);
        is_valid.then(|| Self(text.into()))
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prefix of all tool names: empty, or up to 40 characters of `[a-zA-Z0-9_-]`.
///
/// Prefixes are parsed from text. [`tool_names`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Prefix(String);

impl Prefix {
    const MAX_LENGTH: usize = 40;

    /// Returns the prefix without the separator.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds the prefix to a name.
    fn prepend(&self, local: &str) -> String {
        if self.0.is_empty() { local.to_owned() } else { format!("{}{SEPARATOR}{local}", self.0) }
    }

    /// Removes the prefix from a tool name.
    pub fn strip<'a>(&self, name: &'a ToolName) -> &'a str {
        let name = name.as_str();
        if self.0.is_empty() {
            return name;
        }
        name.strip_prefix(&self.0).and_then(|rest| rest.strip_prefix(SEPARATOR)).unwrap_or(name)
    }
}

impl FromStr for Prefix {
    type Err = DefinitionError;

    fn from_str(text: &str) -> Result<Self, DefinitionError> {
        if text.len() <= Self::MAX_LENGTH && text.chars().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(DefinitionError::value(
                "prefix",
                format_args!(
                    "`{text}` must consist of at most {} letters, digits, `_` and `-`",
                    Self::MAX_LENGTH
                ),
            ))
        }
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A method that needs a tool name.
///
/// Argument of [`tool_names`], which has an example.
#[derive(Debug, Clone, Copy)]
pub struct NameRequest<'a> {
    /// Id of the method.
    pub id: &'a str,
    /// Name that the registry stores or that was set as `tool_name`, without the prefix.
    pub preferred: Option<&'a str>,
}

/// Returns a name or an error for each method. Ids must be unique. `reserved` are names, without the prefix, of methods
/// that are not served at the moment.
///
/// ```
/// use callgate::model::{NameRequest, tool_names};
///
/// let methods = ["cache.rebuild", "getUser"].map(|id| NameRequest { id, preferred: None });
/// let names = tool_names(&"ACME".parse()?, &methods, []);
/// assert_eq!(names[0].as_ref().unwrap().as_str(), "ACME__cache_rebuild");
/// # Ok::<(), callgate::model::DefinitionError>(())
/// ```
pub fn tool_names<'r>(
    prefix: &Prefix,
    methods: &[NameRequest<'_>],
    reserved: impl IntoIterator<Item = &'r str>,
) -> Vec<Result<ToolName, DefinitionError>> {
    let mut used_names = HashSet::with_capacity(methods.len());
    let preferred =
        |method: &NameRequest<'_>| preferred_name(prefix, method.preferred?, &mut used_names);
    let mut names: Vec<Option<Result<ToolName, DefinitionError>>> =
        methods.iter().map(preferred).collect();
    used_names
        .extend(reserved.into_iter().filter_map(|name| ToolName::parse(prefix.prepend(name))));
    let mut assign = |candidate: &mut dyn FnMut(&str) -> Option<String>| {
        for (method, name) in methods.iter().zip(&mut names).filter(|(_, name)| name.is_none()) {
            *name = candidate(method.id)
                .and_then(|candidate| claim(candidate, &mut used_names))
                .map(Ok);
        }
    };
    assign(&mut |id| id.chars().all(is_plain).then(|| prefix.prepend(id)));
    // An id gets its plain name, without a hash, if no other remaining id has the same plain name.
    let mut counts: HashMap<String, usize> = HashMap::new();
    assign(&mut |id| {
        *counts.entry(plain_name(id)).or_default() += 1;
        None
    });
    let is_unique = |name: &String| counts.get(name) == Some(&1);
    assign(&mut |id| Some(plain_name(id)).filter(is_unique).map(|name| prefix.prepend(&name)));
    assign(&mut |id| Some(hashed(prefix, id)));
    let collision = |id: &str| {
        DefinitionError::ToolName(
            hashed(prefix, id),
            "is already used by another method; set `tool_name`",
        )
    };
    let names = names.into_iter().zip(methods);
    names.map(|(name, method)| name.unwrap_or_else(|| Err(collision(method.id)))).collect()
}

/// Returns the preferred name with the prefix, or the reason why it is invalid. Returns `None` if the name is too long
/// with the prefix. The method then gets a generated name.
fn preferred_name(
    prefix: &Prefix,
    local: &str,
    used_names: &mut HashSet<ToolName>,
) -> Option<Result<ToolName, DefinitionError>> {
    let error = |reason| DefinitionError::ToolName(local.to_owned(), reason);
    if local.is_empty() {
        return Some(Err(error("is empty")));
    }
    if !local.chars().all(is_plain) {
        return Some(Err(error("has characters other than letters, digits, `_` and `-`")));
    }
    let full_name = prefix.prepend(local);
    let fits = full_name.len() <= MAX_LENGTH;
    fits.then(|| {
        claim(full_name, used_names).ok_or_else(|| error("is already used by another method"))
    })
}

/// Returns the name if it is valid and unused.
fn claim(name: String, used_names: &mut HashSet<ToolName>) -> Option<ToolName> {
    ToolName::parse(name).filter(|name| used_names.insert(name.clone()))
}

/// Returns a truncated name with the hash of the id.
fn hashed(prefix: &Prefix, id: &str) -> String {
    let mut name = prefix.prepend(&plain_name(id));
    name.truncate(MAX_LENGTH - HASH_LENGTH);
    name.push('_');
    name.extend(Sha256::digest(id.as_bytes()).iter().take(8).map(|byte| {
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        letters.get(usize::from(byte % 32)).map_or('a', |letter| char::from(*letter))
    }));
    name
}

/// Returns `true` if a name ends with a hash although it is short enough without one. In this case, another
/// method would otherwise have the same name.
pub(crate) fn is_disambiguated(prefix: &Prefix, id: &str, name: &ToolName) -> bool {
    let full_name = prefix.prepend(&plain_name(id));
    full_name.len() <= MAX_LENGTH
        && full_name != name.as_str()
        && hashed(prefix, id) == name.as_str()
}

pub(crate) fn plain_name(id: &str) -> String {
    id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
