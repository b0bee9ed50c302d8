//! `#[resource]`

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;

use super::{Item, json_name};
use crate::errors::Errors;
use crate::signature::is_optional;

/// Returns an expression of type `ResourceFunction`.
pub(super) fn expand(item: &Item<'_>, description: &TokenStream) -> TokenStream {
    let (uri, name) = (item.args.string("uri"), item.string_or_name("name"));
    let mime_type = item.optional_string("mime_type");
    let (requires, run) = (item.requirements(), item.run_with_string_args());
    quote! {
        ::callgate::__private::Resource::new(#uri, #name)
            #description
            #mime_type
            #run
            #requires
    }
}

/// Checks that the function has exactly the variables of the URI as arguments.
pub(super) fn check(item: &Item<'_>, errors: &mut Errors) {
    let Some(uri) = item.args.string("uri") else { return };
    let Some(variables) = variables(&uri.value()) else {
        let message = "expected a URI such as \"shop://stock\" or a URI template such as \
                       \"shop://products/{id}\", with text between two variables";
        return errors.push(uri, message);
    };
    for argument in item.signature.arguments() {
        let name = json_name(&argument.name);
        if !variables.contains(&name) {
            let message = format!("the URI has no variable `{{{name}}}` for this argument");
            errors.push(&argument.name, message);
        }
        if argument.default.is_some() || is_optional(&argument.ty) {
            errors.push(&argument.name, "a URI variable always has a value: write a type without `Option` and without a default");
        }
    }
    for variable in variables {
        if !item.signature.arguments().any(|argument| json_name(&argument.name) == variable) {
            errors.push(
                uri,
                format_args!("the function has no argument for the URI variable `{variable}`"),
            );
        }
    }
}

/// Returns the variables of a URI template, or `None` if it is invalid.
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
        // Without text between them, the values of two adjacent variables could not be separated.
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
