//! `#[method]`

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::LitStr;
use syn::spanned::Spanned as _;

use super::{
    Function, call, closure, default_value, description, optional_text, outcome, plain,
    requirements,
};
use crate::attribute::{Annotation, MethodAttribute};
use crate::docs;
use crate::errors::Errors;
use crate::signature::{Argument, Signature, refuse_names_of_the_impl};

/// An expression that is a `Function`.
pub(super) fn expand(
    attribute: TokenStream,
    function: &Function<'_>,
    errors: &mut Errors,
) -> TokenStream {
    let attribute = MethodAttribute::parse(attribute, function.name, errors);
    let signature = Signature::parse(function.signature, function.place, "a method", errors);
    refuse_names_of_the_impl(&signature, function.parameters, errors);
    let id = attribute
        .id
        .clone()
        .unwrap_or_else(|| LitStr::new(&plain(function.name), function.name.span()));
    check_id(&id, errors);
    if let Some(name) = &attribute.tool_name {
        check_tool_name(name, errors);
    }
    let title = optional_text("title", attribute.title.as_ref());
    let tool_name = optional_text("tool_name", attribute.tool_name.as_ref());
    let description = description(&docs::description(function.attributes, errors));
    let requires = requirements(&attribute.sections);
    let safety = if attribute.is_read_only { quote!(ReadOnly) } else { quote!(Destructive) };
    let annotations: TokenStream = attribute
        .annotations
        .iter()
        .map(|Annotation { key, value }| quote!(.annotation(#key, #value)))
        .collect();
    let arguments = arguments(&signature);
    let run = run(function, &signature);
    quote! {
        #arguments
        ::callgate::__private::Definition::new(#id)
            #title
            #tool_name
            #description
            #requires
            .safety(::callgate::__private::Safety::#safety)
            #annotations
            #run
    }
}

/// The arguments as one type, from which serde reads them and schemars makes their schema.
fn arguments(signature: &Signature) -> TokenStream {
    let fields = signature.arguments().map(|argument| {
        let Argument { name, ty, description, attributes, .. } = argument;
        let description =
            (!description.is_empty()).then(|| quote!(#[schemars(description = #description)]));
        let default = argument.default.as_ref().map(|_| {
            let path = default_name(argument).to_string();
            quote!(#[serde(default = #path)])
        });
        quote!(#(#attributes)* #description #default #name: #ty)
    });
    let defaults = signature.arguments().filter_map(|argument| {
        let (name, ty) = (default_name(argument), &argument.ty);
        let value = default_value(argument, argument.default.as_ref()?);
        Some(quote!(fn #name() -> #ty { #value }))
    });
    quote! {
        #[derive(
            ::callgate::__private::serde::Deserialize,
            ::callgate::__private::schemars::JsonSchema
        )]
        #[serde(crate = "::callgate::__private::serde")]
        #[schemars(crate = "::callgate::__private::schemars")]
        struct __Arguments { #(#fields),* }
        #(#defaults)*
    }
}

fn default_name(argument: &Argument) -> syn::Ident {
    format_ident!("__default_{}", plain(&argument.name))
}

fn run(function: &Function<'_>, signature: &Signature) -> TokenStream {
    let called = call(function, signature, |_, argument| {
        let name = &argument.name;
        quote!(__arguments.#name)
    });
    let body = if signature.fills_response() {
        let done = if signature.is_fallible() {
            quote!(::callgate::__private::finished(#called)?)
        } else {
            called
        };
        quote! {
            let mut __response = ::callgate::__private::Response::default();
            // What it returns does not matter.
            let _ = #done;
            ::callgate::__private::succeeded(__response)
        }
    } else {
        outcome(signature, &called)
    };
    let closure = closure(function, signature, &quote!(__arguments: __Arguments), &body);
    quote_spanned!(signature.output.span()=> .run(#closure))
}

fn check_id(id: &LitStr, errors: &mut Errors) {
    let text = id.value();
    let fits = (1..=255).contains(&text.chars().count())
        && text.trim() == text
        && !text.chars().any(char::is_control);
    if !fits {
        let message = "an id is 1 to 255 characters, such as \"user.get\", without control \
                       characters or outer space";
        errors.push(id, message);
    }
    if text.starts_with("rpc.") {
        errors.push(id, "ids that begin with `rpc.` are JSON-RPC's own");
    }
}

fn check_tool_name(name: &LitStr, errors: &mut Errors) {
    let text = name.value();
    let fits = (1..=64).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !fits {
        errors.push(name, "a tool's name is 1 to 64 letters, digits, `_` and `-`");
    }
}
