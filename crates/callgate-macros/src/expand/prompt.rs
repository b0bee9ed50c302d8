//! `#[prompt]`

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::LitStr;
use syn::spanned::Spanned as _;

use super::{
    Function, call, check_texts, closure, description, optional_text, outcome, plain, read_texts,
    requirements,
};
use crate::attribute::PromptAttribute;
use crate::docs;
use crate::errors::Errors;
use crate::signature::{self, Signature, refuse_names_of_the_impl};

/// An expression that is a `PromptFunction`.
pub(super) fn expand(
    attribute: TokenStream,
    function: &Function<'_>,
    errors: &mut Errors,
) -> TokenStream {
    let attribute = PromptAttribute::parse(attribute, errors);
    let signature = Signature::parse(function.signature, function.place, "a prompt", errors);
    refuse_names_of_the_impl(&signature, function.parameters, errors);
    check_texts(function, &signature, "a prompt", errors);
    let name =
        attribute.name.unwrap_or_else(|| LitStr::new(&plain(function.name), function.name.span()));
    let title = optional_text("title", attribute.title.as_ref());
    let description = description(&docs::description(function.attributes, errors));
    let requires = requirements(&attribute.sections);
    let arguments: TokenStream = signature
        .arguments()
        .map(|argument| {
            let (name, description) = (plain(&argument.name), &argument.description);
            let is_optional =
                argument.default.is_some() || signature::optional(&argument.ty).is_some();
            if is_optional {
                quote!(.optional(#name, #description))
            } else {
                quote!(.required(#name, #description))
            }
        })
        .collect();
    let (reads, value) = read_texts(&signature);
    let outcome = outcome(&signature, &call(function, &signature, value));
    let texts = quote!(__arguments: ::callgate::__private::Texts);
    let closure = closure(function, &signature, &texts, &quote!(#reads #outcome));
    let run = quote_spanned!(signature.output.span()=> .run(#closure));
    quote! {
        ::callgate::__private::PromptDefinition::new(#name)
            #title
            #description
            #arguments
            #requires
            #run
    }
}
