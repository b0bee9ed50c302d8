//! The attributes of Callgate. Use them through the crate `callgate`, which documents them.
//!
//! Each attribute is parsed (`attribute`, `signature`) and then written (`expand`). Everything
//! that is wrong is gathered on the way and told at once. The entry points here are thin; what they
//! call works on `proc_macro2`, so that it is tested without a compiler.

mod attribute;
mod docs;
mod errors;
mod expand;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a function a method, and so a tool.
///
/// See `callgate::method`.
#[proc_macro_attribute]
pub fn method(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::method(attribute.into(), &item.into()).into()
}

/// Makes a type's methods methods of the application: the type becomes a plugin.
///
/// See `callgate::plugin`.
#[proc_macro_attribute]
pub fn methods(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::plugin(&attribute.into(), &item.into()).into()
}

/// Makes a function a prompt.
///
/// See `callgate::prompt`.
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::prompt(attribute.into(), &item.into()).into()
}

/// Makes a function a resource, or a family of them.
///
/// See `callgate::resource`.
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::resource(attribute.into(), &item.into()).into()
}
