//! `#[resource]`

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::LitStr;
use syn::spanned::Spanned as _;

use super::{
    Function, call, check_texts, closure, description, optional_text, outcome, plain, read_texts,
    requirements,
};
use crate::attribute::ResourceAttribute;
use crate::docs;
use crate::errors::Errors;
use crate::signature::{Signature, refuse_names_of_the_impl};

/// An expression that is a `ResourceFunction`.
pub(super) fn expand(
    attribute: TokenStream,
    function: &Function<'_>,
    errors: &mut Errors,
) -> TokenStream {
    let attribute = ResourceAttribute::parse(attribute, function.name, errors);
    let signature = Signature::parse(function.signature, function.place, "a resource", errors);
    refuse_names_of_the_impl(&signature, function.parameters, errors);
    check_texts(function, &signature, "a resource", errors);
    if let Some(uri) = &attribute.uri {
        check_variables(uri, &signature, errors);
    }
    let name =
        attribute.name.unwrap_or_else(|| LitStr::new(&plain(function.name), function.name.span()));
    let uri = attribute.uri.unwrap_or_else(|| LitStr::new("", function.name.span()));
    let mime_type = optional_text("mime_type", attribute.mime_type.as_ref());
    let description = description(&docs::description(function.attributes, errors));
    let requires = requirements(&attribute.sections);
    let (reads, value) = read_texts(&signature);
    let outcome = outcome(&signature, &call(function, &signature, value));
    let texts = quote!(__arguments: ::callgate::__private::Texts);
    let closure = closure(function, &signature, &texts, &quote!(#reads #outcome));
    let run = quote_spanned!(signature.output.span()=> .run(#closure));
    quote! {
        ::callgate::__private::ResourceDefinition::new(#uri, #name)
            #description
            #mime_type
            #requires
            #run
    }
}

/// Each `{part}` of the address is an argument, and each argument a part.
fn check_variables(uri: &LitStr, signature: &Signature, errors: &mut Errors) {
    let Some(variables) = variables(&uri.value()) else {
        let message = "expected an address such as \"shop://stock\" or, for a family of them, \
                       \"shop://products/{id}\", where each `{part}` is a name and text stands between them";
        return errors.push(uri, message);
    };
    for argument in signature.arguments() {
        let name = plain(&argument.name);
        if !variables.contains(&name) {
            let message = format!("`{{{name}}}` is not in the address, so nobody can give it");
            errors.push(&argument.name, message);
        }
        if argument.default.is_some() || crate::signature::optional(&argument.ty).is_some() {
            errors.push(&argument.name, "a part of an address is always there");
        }
    }
    for variable in variables {
        if !signature.arguments().any(|argument| plain(&argument.name) == variable) {
            let message = format!("the function has no argument `{variable}`");
            errors.push(uri, message);
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
