//! `#[method]`

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote};
use syn::Ident;

use super::{Item, default_value, json_name};
use crate::attribute::Annotation;
use crate::errors::Errors;
use crate::signature::{Argument, Input, Signature, find_ident};

/// Returns an expression of type `MethodFunction`.
pub(super) fn expand(item: &Item<'_>, description: &TokenStream) -> TokenStream {
    let id = item.string_or_name("id");
    let (title, tool_name) = (item.optional_string("title"), item.optional_string("tool_name"));
    let requires = item.requirements();
    let safety = if item.args.is_read_only { quote!(ReadOnly) } else { quote!(Destructive) };
    let annotations = item.args.annotations.iter();
    let annotations =
        annotations.map(|Annotation { key, value }| quote!(.annotation(#key, #value)));
    let allows_unknown = item.args.allows_unknown_arguments || has_aliases(&item.signature);
    let unknown = allows_unknown.then(|| quote!(.allow_unknown_arguments()));
    let (arguments, run) = (arguments(&item.signature), run(item));
    quote! {
        #arguments
        ::callgate::__private::MethodDefinition::new(#id)
            #title
            #tool_name
            #description
            #requires
            .safety(::callgate::__private::Safety::#safety)
            #(#annotations)*
            #unknown
            #run
    }
}

/// Returns `true` if an argument has serde aliases. The schema does not declare aliases, so the method must then
/// allow unknown arguments.
fn has_aliases(signature: &Signature) -> bool {
    let mut attributes = signature.arguments().flat_map(|argument| &argument.attributes);
    let is_alias = |ident: &Ident| ident == "alias";
    attributes.any(|attribute| find_ident(attribute.to_token_stream(), &is_alias).is_some())
}

/// Returns a type with the arguments as fields, for serde and schemars.
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

fn default_name(argument: &Argument) -> Ident {
    format_ident!("__default_{}", json_name(&argument.name))
}

fn run(item: &Item<'_>) -> TokenStream {
    let call = item.call(|_, argument| {
        let name = &argument.name;
        quote!(__arguments.#name)
    });
    let body = if item.signature.fills_response() {
        let result = if item.signature.is_fallible() {
            quote!(::callgate::__private::finished(#call)?)
        } else {
            call
        };
        quote! {
            let mut __response = ::callgate::__private::Response::default();
            // The value that the function returns is not used.
            let _ = #result;
            ::callgate::__private::succeeded(__response)
        }
    } else {
        item.outcome(&call)
    };
    let arguments = quote!(__arguments: __Arguments);
    let has_context = item.signature.inputs.iter().any(|it| matches!(it, Input::Context));
    if item.signature.is_async || has_context {
        item.run(&arguments, &body)
    } else {
        item.run_now(&arguments, &body)
    }
}

/// Checks the id and the tool name.
pub(super) fn check(item: &Item<'_>, errors: &mut Errors) {
    let id = item.string_or_name("id");
    let text = id.value();
    let is_valid = (1..=255).contains(&text.chars().count())
        && text.trim() == text
        && !text.chars().any(char::is_control);
    if !is_valid {
        let message = "expected an id of 1 to 255 characters, such as \"user.get\", without control \
                       characters and without spaces at its ends";
        errors.push(&id, message);
    }
    if text.starts_with("rpc.") {
        errors.push(&id, "JSON-RPC reserves ids that begin with `rpc.`: choose another id");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_tool_name = |text: String| (1..=64).contains(&text.len()) && text.chars().all(is_part);
    if let Some(name) = item.args.string("tool_name").filter(|name| !is_tool_name(name.value())) {
        errors.push(name, "expected a tool name of 1 to 64 ASCII letters, digits, `_` and `-`");
    }
}
