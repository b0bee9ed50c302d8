//! The attributes of Callgate. Use them through the crate `callgate`, which documents them.
//!
//! `attribute` and `signature` parse the input, `expand` generates the code. `errors` collects all errors, so that the
//! compiler reports them together. Apart from the entry points, the code uses `proc_macro2`, so that tests need no
//! compiler.

#![expect(missing_docs, reason = "documented in `callgate`, which exports them")]

mod attribute;
mod docs;
mod errors;
mod expand;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use attribute::Kind;

#[proc_macro_attribute]
pub fn method(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::function(Kind::Method, attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn methods(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::plugin(&attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::function(Kind::Prompt, attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::function(Kind::Resource, attribute.into(), &item.into()).into()
}
