//! `#[methods]` on an `impl`: implements `Plugin` for the type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, ImplItem, ImplItemFn, ItemImpl, Meta};

use super::{Function, expand};
use crate::attribute::Kind;
use crate::errors::Errors;
use crate::signature::{self, FunctionScope};

const EXPECTED: &str = "`#[plugin::methods]` belongs on the `impl` of a type with at least one \
     `#[method(…)]`, `#[prompt]` or `#[resource(…)]`";

pub(crate) fn plugin(attribute: &TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    if !attribute.is_empty() {
        errors.push(
            attribute,
            "`#[plugin::methods]` takes no arguments: write them in `#[method(…)]`",
        );
    }
    let Ok(mut block) = syn::parse2::<ItemImpl>(item.clone()) else {
        errors.push(item, EXPECTED);
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    if let Some((path, _)) = &block.trait_ {
        errors.push(path, EXPECTED);
    }
    let parameters: Vec<String> =
        block.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
    let mut statements = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item {
            statements.extend(add_statement(function, &parameters, &mut errors));
        }
    }
    if statements.is_empty() && errors.is_empty() {
        errors.push(&block.self_ty, EXPECTED);
    }
    let body = if errors.is_empty() {
        quote! {
            let __plugin = self;
            let __items = ::callgate::__private::PluginItems::default();
            #(#statements)*
            __items
        }
    } else {
        quote!(::core::unreachable!())
    };
    let errors = errors.into_tokens();
    let (generics, _, condition) = block.generics.split_for_impl();
    let ty = &block.self_ty;
    quote! {
        #block

        #[allow(deprecated, reason = "only other callers need the warning")]
        impl #generics ::callgate::__private::Plugin for #ty #condition {
            fn items(self: ::std::sync::Arc<Self>) -> ::callgate::__private::PluginItems {
                #body
            }
        }

        #errors
    }
}

/// Removes `#[method]`, `#[prompt]` or `#[resource]` from a function. Returns the statement that adds the function
/// to the plugin.
fn add_statement(
    function: &mut ImplItemFn,
    parameters: &[String],
    errors: &mut Errors,
) -> Option<TokenStream> {
    let kinds = function.attrs.iter().map(Kind::of);
    let (index, kind) = kinds.enumerate().find_map(|(index, kind)| Some((index, kind?)))?;
    let attribute = function.attrs.remove(index);
    let arguments = match &attribute.meta {
        Meta::Path(_) => TokenStream::new(),
        Meta::List(list) => list.tokens.clone(),
        Meta::NameValue(pair) => {
            errors.push(pair, format_args!("expected `#[{}(…)]`", kind.name()));
            return None;
        }
    };
    let name = function.sig.ident.clone();
    let described_function = Function {
        name: &name,
        parameters,
        attributes: &function.attrs,
        signature: &function.sig,
        scope: FunctionScope::Plugin,
    };
    let item = expand(kind, arguments, &described_function, errors);
    let kind = Ident::new(kind.name(), name.span());
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let statement = quote!(#(#conditions)* let __items = __items.#kind({ #item }););
    signature::strip(&mut function.attrs, &mut function.sig);
    Some(statement)
}
