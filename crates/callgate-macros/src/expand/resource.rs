//! `#[resource]`

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;

use super::{Item, plain};
use crate::errors::Errors;
use crate::signature::optional;

/// An expression that is a `ResourceFunction`.
pub(super) fn expand(item: &Item<'_>, description: &TokenStream) -> TokenStream {
    let (uri, name) = (item.args.text("uri"), item.text_or_name("name"));
    let mime_type = item.optional_text("mime_type");
    let (requires, run) = (item.requirements(), item.run_with_texts());
    quote! {
        ::callgate::__private::ResourceDefinition::new(#uri, #name)
            #description
            #mime_type
            #requires
            #run
    }
}

/// Each `{part}` of the address is an argument, and each argument a part.
pub(super) fn check(item: &Item<'_>, errors: &mut Errors) {
    let Some(uri) = item.args.text("uri") else { return };
    let Some(variables) = variables(&uri.value()) else {
        let message = "expected an address such as \"shop://stock\" or, for a family of them, \
                       \"shop://products/{id}\", where each `{part}` is a name and text stands between them";
        return errors.push(uri, message);
    };
    for argument in item.signature.arguments() {
        let name = plain(&argument.name);
        if !variables.contains(&name) {
            let message = format!("`{{{name}}}` is not in the address, so nobody can give it");
            errors.push(&argument.name, message);
        }
        if argument.default.is_some() || optional(&argument.ty).is_some() {
            errors.push(&argument.name, "a part of an address is always there");
        }
    }
    for variable in variables {
        if !item.signature.arguments().any(|argument| plain(&argument.name) == variable) {
            errors.push(uri, format_args!("the function has no argument `{variable}`"));
        }
    }
}

/// The names in braces, each once; `None` where it is no address.
fn variables(uri: &str) -> Option<BTreeSet<String>> {
    let (scheme, _) = uri.split_once(':')?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return None;
    }
    let mut names = BTreeSet::new();
    let mut parts = uri.split('{');
    if parts.next()?.contains('}') {
        return None;
    }
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let (name, rest) = part.split_once('}')?;
        // Nothing would say where the one ends and the next begins.
        if rest.is_empty() && parts.peek().is_some() {
            return None;
        }
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || rest.contains('}') || !names.insert(name.to_owned()) {
            return None;
        }
    }
    Some(names)
}
