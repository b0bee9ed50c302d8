//! `#[prompt]`

use proc_macro2::TokenStream;
use quote::quote;

use super::{Item, plain};
use crate::signature::optional;

/// An expression that is a `PromptFunction`.
pub(super) fn expand(item: &Item<'_>, description: &TokenStream) -> TokenStream {
    let (name, title) = (item.text_or_name("name"), item.optional_text("title"));
    let arguments = item.signature.arguments().map(|argument| {
        let (name, description) = (plain(&argument.name), &argument.description);
        if argument.default.is_some() || optional(&argument.ty).is_some() {
            quote!(.optional(#name, #description))
        } else {
            quote!(.required(#name, #description))
        }
    });
    let (requires, run) = (item.requirements(), item.run_with_texts());
    quote! {
        ::callgate::__private::PromptDefinition::new(#name)
            #title
            #description
            #(#arguments)*
            #requires
            #run
    }
}
