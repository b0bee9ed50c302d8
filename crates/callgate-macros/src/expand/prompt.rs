//! `#[prompt]`

use proc_macro2::TokenStream;
use quote::quote;

use super::{Item, json_name};
use crate::signature::is_optional;

/// Returns an expression of type `PromptFunction`.
pub(super) fn expand(item: &Item<'_>, description: &TokenStream) -> TokenStream {
    let (name, title) = (item.string_or_name("name"), item.optional_string("title"));
    let arguments = item.signature.arguments().map(|argument| {
        let (name, description) = (json_name(&argument.name), &argument.description);
        if argument.default.is_some() || is_optional(&argument.ty) {
            quote!(.optional(#name, #description))
        } else {
            quote!(.required(#name, #description))
        }
    });
    let (requires, run) = (item.requirements(), item.run_with_string_args());
    quote! {
        ::callgate::__private::Prompt::named(#name)
            #title
            #description
            #(#arguments)*
            #run
            #requires
    }
}
