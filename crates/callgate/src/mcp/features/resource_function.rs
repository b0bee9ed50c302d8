//! Functions as resources, as `#[resource]` makes them.

#![expect(missing_docs, reason = "only what the attributes write uses its definition")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::access::{Caller, Mask, Requirement, Section};
use crate::mcp::{Resource, Resources};
use crate::upstream::BoxFuture;
use crate::upstream::content::ResourceContents;
use crate::upstream::local::Error;
use crate::upstream::local::context::Context;
use crate::upstream::local::string_args::StringArgs;

type Contents = Option<Vec<ResourceContents>>;
type Run = dyn Fn(Context, StringArgs, Address) -> BoxFuture<'static, Result<Contents, Error>>
    + Send
    + Sync;

/// Where a resource is and what kind it is.
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

/// What a function with `#[resource]` may give: a text, bytes, [`ResourceContents`] or a list of them;
/// in an `Option`, nothing is there.
#[diagnostic::on_unimplemented(
    message = "a resource cannot be `{Self}`",
    note = "return `String`, `Vec<u8>`, `ResourceContents` or a list of these, in an `Option` or a `Result` where it may not be there"
)]
pub trait IntoContents: Send {
    /// The contents; `None` where there is no such resource.
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

/// A function with the resource, or the family of them, that it is.
#[derive(Clone)]
pub struct ResourceFunction {
    definition: ResourceDefinition,
    run: Arc<Run>,
}

impl ResourceFunction {
    pub(crate) fn uri(&self) -> &'static str {
        self.definition.uri
    }

    /// The address without the names in it: two of one form are answered by the first only.
    pub(crate) fn form(&self) -> String {
        let parts = self.uri().split('{').enumerate().map(|(number, part)| match number {
            0 => part.to_owned(),
            _ => part.split_once('}').map_or_else(String::new, |(_, rest)| format!("{{}}{rest}")),
        });
        parts.collect()
    }

    pub(crate) fn requirement(&self) -> &Requirement {
        &self.definition.requirement
    }
}

impl fmt::Debug for ResourceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceFunction").field(&self.definition).finish()
    }
}

/// A resource that is being defined.
#[derive(Debug, Clone)]
pub struct ResourceDefinition {
    uri: &'static str,
    name: &'static str,
    description: Option<&'static str>,
    mime_type: Option<&'static str>,
    requirement: Requirement,
}

impl ResourceDefinition {
    pub fn new(uri: &'static str, name: &'static str) -> Self {
        let requirement = Requirement::default();
        Self { uri, name, description: None, mime_type: None, requirement }
    }

    #[must_use]
    pub fn description(self, description: &'static str) -> Self {
        Self { description: Some(description), ..self }
    }

    #[must_use]
    pub fn mime_type(self, mime_type: &'static str) -> Self {
        Self { mime_type: Some(mime_type), ..self }
    }

    #[must_use]
    pub fn requires(mut self, section: &str, mask: Mask) -> Self {
        self.requirement.add(Section::from(section), mask);
        self
    }

    /// The function itself.
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
        ResourceFunction { definition: self, run: Arc::new(run) }
    }

    fn is_family(&self) -> bool {
        self.uri.contains('{')
    }

    fn listed(&self) -> Resource {
        let resource = Resource::new(self.uri, self.name);
        let resource = self.description.into_iter().fold(resource, Resource::description);
        self.mime_type.into_iter().fold(resource, Resource::mime_type)
    }
}

/// Functions, each a resource or a family of them. Each caller sees those that they may read.
#[derive(Debug, Default)]
pub(crate) struct LocalResources {
    pub(crate) functions: Vec<ResourceFunction>,
    pub(crate) can_subscribe: bool,
}

impl LocalResources {
    /// The function of an address, with the parts of it: fixed addresses go before families.
    fn find(&self, uri: &str) -> Option<(&ResourceFunction, BTreeMap<String, String>)> {
        let of = |family: bool| {
            let mut functions =
                self.functions.iter().filter(|function| function.definition.is_family() == family);
            functions.find_map(|function| Some((function, parts(function.uri(), uri)?)))
        };
        of(false).or_else(|| of(true))
    }

    fn listed(&self, caller: &Caller, family: bool) -> BoxFuture<'_, Result<Vec<Resource>, Error>> {
        let all = self.functions.iter().map(|function| &function.definition);
        let allowed =
            all.filter(|one| one.is_family() == family && one.requirement.allows(&caller.grants));
        let listed = allowed.map(ResourceDefinition::listed).collect();
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
            let found = self.find(&uri).filter(|(function, _)| {
                function.definition.requirement.allows(&context.caller.grants)
            });
            let Some((function, parts)) = found else { return Ok(None) };
            let mime_type = function.definition.mime_type.map(ToOwned::to_owned);
            (function.run)(context, StringArgs(parts), Address { uri, mime_type }).await
        })
    }

    fn may_hear(&self, caller: &Caller, uri: &str) -> bool {
        let found = self.find(uri);
        found.is_some_and(|(function, _)| function.definition.requirement.allows(&caller.grants))
    }

    fn can_subscribe(&self) -> bool {
        self.can_subscribe
    }
}

/// The parts of an address in the places of a template's names; `None` where it does not fit. A part is
/// not empty and has no slash, but what is escaped in it may be anything.
fn parts(pattern: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let Some((start, mut pattern)) = pattern.split_once('{') else {
        return (pattern == uri).then(BTreeMap::new);
    };
    let mut rest = uri.strip_prefix(start)?;
    let mut parts = BTreeMap::new();
    loop {
        let (name, after) = pattern.split_once('}')?;
        let (part, others, next) = match after.split_once('{') {
            // The last one reaches to what the address ends with.
            None => (rest.strip_suffix(after)?, "", None),
            Some((between, next)) => {
                let (part, others) = rest.split_once(between)?;
                (part, others, Some(next))
            }
        };
        if part.is_empty() || part.contains('/') {
            return None;
        }
        parts.insert(name.to_owned(), crate::wire::percent::decoded(part)?.into_owned());
        match next {
            Some(next) => (rest, pattern) = (others, next),
            None => return Some(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_a_template_or_not() {
        let of = |pattern, uri| {
            parts(pattern, uri).map(|parts| parts.into_values().collect::<Vec<_>>().join("|"))
        };
        assert_eq!(of("a://b", "a://b").as_deref(), Some(""));
        assert_eq!(of("a://b", "a://bc"), None);
        assert_eq!(of("a://{x}", "a://1").as_deref(), Some("1"));
        assert_eq!(of("a://{x}", "a://"), None);
        assert_eq!(of("a://{x}", "a://1/2"), None);
        assert_eq!(of("a://{x}", "a://caf%C3%A9%2F1").as_deref(), Some("café/1"));
        assert_eq!(of("a://{x}", "a://%ff"), None);
        assert_eq!(of("a://{x}/data/{y}", "a://1/data/2").as_deref(), Some("1|2"));
        assert_eq!(of("a://{x}/data", "a://1/data").as_deref(), Some("1"));
        assert_eq!(of("a://{x}/data", "a://1/dat"), None);
        assert_eq!(of("a://{x}.{y}", "a://1.2.3").as_deref(), Some("1|2.3"));
        assert_eq!(of("a://{x}.json", "a://b.json.json").as_deref(), Some("b.json"));
    }
}
