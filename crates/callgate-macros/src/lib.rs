//! The attributes of Callgate. Use them through the crate `callgate`, which documents them.
//!
//! Each attribute is parsed (`attribute`, `signature`) and then written (`expand`). Everything
//! that is wrong is gathered on the way and told at once. The entry points here are thin; what they
//! call works on `proc_macro2`, so that it is tested without a compiler.

#![expect(missing_docs, reason = "`callgate` says it where it gives them to others")]

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
