//! Resources that `#[resource]` generates from functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::pagination::ListItem as _;
use crate::access::{Caller, Mask, Requirement, Section};
use crate::mcp::{Resource, Resources};
use crate::upstream::local::string_args::StringArgs;
use crate::upstream::local::{Context, Error};
use crate::upstream::{BoxFuture, ResourceContents};

type Contents = Option<Vec<ResourceContents>>;
type RunResource = dyn Fn(Context, StringArgs, Address) -> BoxFuture<'static, Result<Contents, Error>>
    + Send
    + Sync;

/// URI and MIME type of a resource.
#[derive(Debug, Clone)]
pub struct Address {
    uri: String,
    mime_type: Option<String>,
}

impl Address {
    fn contents(&self, contents: ResourceContents) -> ResourceContents {
        match &self.mime_type {
            Some(mime_type) => contents.mime_type(mime_type),
            None => contents,
        }
    }
}

/// Return types of functions with `#[resource]`: a text, bytes, or one or more [`ResourceContents`]. If it is possible
/// that the resource does not exist, the type is an `Option` of one of these types.
///
/// The attribute [`resource`](crate::resource) has an example.
#[diagnostic::on_unimplemented(
    message = "a resource cannot be `{Self}`",
    note = "return `String`, `Vec<u8>`, `ResourceContents` or `Vec<ResourceContents>`, or an `Option` or a `Result` of one of these types"
)]
pub trait IntoContents: Send {
    /// Returns the contents, or `None` if the resource does not exist.
    #[doc(hidden)]
    fn into_contents(self, address: &Address) -> Contents;
}

impl IntoContents for String {
    fn into_contents(self, address: &Address) -> Contents {
        Some(vec![address.contents(ResourceContents::text(&address.uri, self))])
    }
}

impl IntoContents for &'static str {
    fn into_contents(self, address: &Address) -> Contents {
        self.to_owned().into_contents(address)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, address: &Address) -> Contents {
        Some(vec![address.contents(ResourceContents::bytes(&address.uri, self))])
    }
}

impl IntoContents for &'static [u8] {
    fn into_contents(self, address: &Address) -> Contents {
        self.to_vec().into_contents(address)
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, _: &Address) -> Contents {
        Some(vec![self])
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, _: &Address) -> Contents {
        Some(self)
    }
}

impl<T: IntoContents> IntoContents for Option<T> {
    fn into_contents(self, address: &Address) -> Contents {
        self?.into_contents(address)
    }
}

/// A resource or resource template with its function.
///
/// Returned by the macro [`resources!`](crate::resources!). Argument of
/// [`Builder::resources`](crate::Builder::resources).
#[derive(Clone)]
pub struct ResourceFunction {
    resource: Resource,
    requirement: Requirement,
    run: Arc<RunResource>,
}

impl ResourceFunction {
    /// Adds a required mask.
    #[doc(hidden)]
    #[must_use]
    pub fn requires(mut self, section: &str, mask: Mask) -> Self {
        self.requirement.add(Section::from(section), mask);
        self
    }

    fn uri(&self) -> &str {
        self.resource.key()
    }

    fn is_template(&self) -> bool {
        self.uri().contains('{')
    }

    /// Returns the URI template without the names of its variables. The result must differ for any two resources,
    /// because otherwise only the first of them would be used.
    pub(crate) fn uri_without_names(&self) -> String {
        let parts = self.uri().split('{').enumerate().map(|(number, part)| match number {
            0 => part.to_owned(),
            _ => part.split_once('}').map_or_else(String::new, |(_, rest)| format!("{{}}{rest}")),
        });
        parts.collect()
    }

    pub(crate) fn requirement(&self) -> &Requirement {
        &self.requirement
    }
}

impl fmt::Debug for ResourceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceFunction").field(&self.resource).finish()
    }
}

impl Resource {
    /// Adds the function.
    #[doc(hidden)]
    pub fn run<R, F, Fut>(self, function: F) -> ResourceFunction
    where
        R: IntoContents,
        F: Fn(Context, StringArgs) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let run = move |context, parts, address: Address| -> BoxFuture<'static, _> {
            let contents = function(context, parts);
            Box::pin(async move { Ok(contents.await?.into_contents(&address)) })
        };
        let requirement = Requirement::default();
        ResourceFunction { resource: self, requirement, run: Arc::new(run) }
    }
}

/// The resources of an application's functions. A caller sees only the resources that its grants allow.
#[derive(Debug, Default)]
pub(crate) struct LocalResources {
    pub(crate) functions: Vec<ResourceFunction>,
    pub(crate) can_subscribe: bool,
}

impl LocalResources {
    /// Finds the function for a URI. Also returns the values of the variables in the URI. A fixed URI takes precedence
    /// over a template.
    fn find(&self, uri: &str) -> Option<(&ResourceFunction, BTreeMap<String, String>)> {
        let find_first = |is_template: bool| {
            let mut functions =
                self.functions.iter().filter(|function| function.is_template() == is_template);
            functions.find_map(|function| Some((function, parts(function.uri(), uri)?)))
        };
        find_first(false).or_else(|| find_first(true))
    }

    fn listed(
        &self,
        caller: &Caller,
        is_template: bool,
    ) -> BoxFuture<'_, Result<Vec<Resource>, Error>> {
        let allowed = self.functions.iter().filter(|function| {
            function.is_template() == is_template && function.requirement.allows(&caller.grants)
        });
        let listed = allowed.map(|function| function.resource.clone()).collect();
        Box::pin(async { Ok(listed) })
    }
}

impl Resources for LocalResources {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        self.listed(caller, false)
    }

    fn templates<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        self.listed(caller, true)
    }

    fn read(
        self: Arc<Self>,
        context: Context,
        uri: String,
    ) -> BoxFuture<'static, Result<Contents, Error>> {
        Box::pin(async move {
            let found = self.find(&uri);
            let is_allowed =
                |function: &ResourceFunction| function.requirement.allows(&context.caller.grants);
            let Some((function, parts)) = found.filter(|(function, _)| is_allowed(function)) else {
                return Ok(None);
            };
            let mime_type = function.resource.info.mime_type.clone();
            (function.run)(context, StringArgs(parts), Address { uri, mime_type }).await
        })
    }

    fn can_read(&self, caller: &Caller, uri: &str) -> bool {
        let found = self.find(uri);
        found.is_some_and(|(function, _)| function.requirement.allows(&caller.grants))
    }

    fn can_subscribe(&self) -> bool {
        self.can_subscribe
    }
}

/// Returns the values of a template's variables in a URI, or `None` if the URI does not match. A value must not be
/// empty, and must not contain a slash unless the slash is percent-encoded.
fn parts(pattern: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let Some((start, mut pattern)) = pattern.split_once('{') else {
        return (pattern == uri).then(BTreeMap::new);
    };
    let mut rest = uri.strip_prefix(start)?;
    let mut parts = BTreeMap::new();
    loop {
        let (name, after) = pattern.split_once('}')?;
        let (part, remainder, next) = match after.split_once('{') {
            // The last variable extends to the end of the URI, without the suffix of the template.
            None => (rest.strip_suffix(after)?, "", None),
            Some((separator, next)) => {
                let (part, remainder) = rest.split_once(separator)?;
                (part, remainder, Some(next))
            }
        };
        if part.is_empty() || part.contains('/') {
            return None;
        }
        parts.insert(name.to_owned(), crate::wire::percent::decoded(part)?.into_owned());
        match next {
            Some(next) => (rest, pattern) = (remainder, next),
            None => return Some(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_matched_against_templates_and_variables_are_decoded() {
        let matched = |pattern, uri| {
            parts(pattern, uri).map(|parts| parts.into_values().collect::<Vec<_>>().join("|"))
        };
        assert_eq!(matched("a://b", "a://b").as_deref(), Some(""));
        assert_eq!(matched("a://b", "a://bc"), None);
        assert_eq!(matched("a://{x}", "a://1").as_deref(), Some("1"));
        assert_eq!(matched("a://{x}", "a://"), None);
        assert_eq!(matched("a://{x}", "a://1/2"), None);
        assert_eq!(matched("a://{x}", "a://caf%C3%A9%2F1").as_deref(), Some("café/1"));
        assert_eq!(matched("a://{x}", "a://%ff"), None);
        assert_eq!(matched("a://{x}/data/{y}", "a://1/data/2").as_deref(), Some("1|2"));
        assert_eq!(matched("a://{x}/data", "a://1/data").as_deref(), Some("1"));
        assert_eq!(matched("a://{x}/data", "a://1/dat"), None);
        assert_eq!(matched("a://{x}.{y}", "a://1.2.3").as_deref(), Some("1|2.3"));
        assert_eq!(matched("a://{x}.json", "a://b.json.json").as_deref(), Some("b.json"));
    }
}
