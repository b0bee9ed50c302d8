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

#[proc_macro_attribute]
pub fn method(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::method(attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn methods(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::plugin(&attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::prompt(attribute.into(), &item.into()).into()
}

#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::resource(attribute.into(), &item.into()).into()
}
