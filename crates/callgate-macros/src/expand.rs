//! Attributes to code. All paths go through `::callgate::__private`.
//!
//! A function stays what it is and can be called as before. Beside it comes an empty type of the same
//! name: types and functions do not share names, so `methods![get_user]` finds the one while
//! everything else finds the other.

mod method;
mod plugin;
mod prompt;
mod resource;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Ident, ItemFn, LitStr, Visibility};

use crate::attribute::Section;
use crate::errors::Errors;
use crate::signature::{self, Argument, DefaultValue, Input, Place, Signature};

pub(crate) use plugin::plugin;

/// A function with the attributes before it.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a Ident,
    /// The type parameters of the `impl` around it.
    pub(crate) parameters: &'a [String],
    pub(crate) attributes: &'a [Attribute],
    pub(crate) signature: &'a syn::Signature,
    pub(crate) place: Place,
}

/// What is made of a function: an expression, and the trait whose function gives it.
struct Made {
    expression: TokenStream,
    item: &'static str,
    product: &'static str,
}

pub(crate) fn method(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    free(item, "method", |function, errors| Made {
        expression: method::expand(attribute, function, errors),
        item: "MethodItem",
        product: "Function",
    })
}

pub(crate) fn prompt(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    free(item, "prompt", |function, errors| Made {
        expression: prompt::expand(attribute, function, errors),
        item: "PromptItem",
        product: "PromptFunction",
    })
}

pub(crate) fn resource(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    free(item, "resource", |function, errors| Made {
        expression: resource::expand(attribute, function, errors),
        item: "ResourceItem",
        product: "ResourceFunction",
    })
}

/// A function in a module.
fn free(
    item: &TokenStream,
    what: &str,
    expand: impl FnOnce(&Function<'_>, &mut Errors) -> Made,
) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let mut errors = Errors::default();
        let message = format!(
            "`#[{what}]` goes before a function; before an `impl` goes `#[plugin::methods]`"
        );
        errors.push(item, message);
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    let mut errors = Errors::default();
    let name = function.sig.ident.clone();
    let described = Function {
        name: &name,
        parameters: &[],
        attributes: &function.attrs,
        signature: &function.sig,
        place: Place::Free,
    };
    refuse_second(&function.attrs, &mut errors);
    let made = expand(&described, &mut errors);
    signature::strip(&mut function.attrs, &mut function.sig);
    let companion = companion(&name, &function.vis, made, errors);
    quote!(#function #companion)
}

/// The attributes that make something of a function.
const KINDS: [&str; 3] = ["method", "prompt", "resource"];

/// Which of them an attribute is.
fn kind(attribute: &Attribute) -> Option<&'static str> {
    let name = &attribute.path().segments.last()?.ident;
    KINDS.into_iter().find(|kind| name == kind)
}

/// A function is one of them.
fn refuse_second(attributes: &[Attribute], errors: &mut Errors) {
    if let Some(second) = attributes.iter().find(|attribute| kind(attribute).is_some()) {
        errors.push(second, "a function is a method, a prompt or a resource; write one for each");
    }
}

/// The type of the same name. Where something is wrong it is there too, so that nothing else seems to
/// be.
fn companion(name: &Ident, visibility: &Visibility, made: Made, errors: Errors) -> TokenStream {
    let item = Ident::new(made.item, name.span());
    let product = Ident::new(made.product, name.span());
    let (expression, errors) = if errors.is_empty() {
        (made.expression, TokenStream::new())
    } else {
        (quote!(::core::unreachable!()), errors.into_tokens())
    };
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, reason = "it stands beside a function of the same name")]
        #visibility enum #name {}

        #[allow(deprecated, reason = "who calls a method is not in this code")]
        impl ::callgate::__private::#item for #name {
            fn make() -> ::callgate::__private::#product {
                #expression
            }
        }

        #errors
    }
}

/// How a function is called: `value` says where each argument is.
fn call(
    function: &Function<'_>,
    signature: &Signature,
    value: impl Fn(usize, &Argument) -> TokenStream,
) -> TokenStream {
    let name = function.name;
    let mut number = 0;
    let inputs = signature.inputs.iter().map(|input| match input {
        Input::Context => quote!(&__context),
        Input::Response => quote!(&mut __response),
        Input::Argument(argument) => {
            number += 1;
            value(number - 1, argument)
        }
    });
    let inputs: Vec<TokenStream> = inputs.collect();
    let called = match function.place {
        Place::Free => quote!(#name(#(#inputs),*)),
        Place::Plugin if signature.has_self => quote!(Self::#name(&__plugin, #(#inputs),*)),
        Place::Plugin => quote!(Self::#name(#(#inputs),*)),
    };
    if signature.is_async { quote!(#called.await) } else { called }
}

/// A call's value as a `Result`, whatever the function gives.
fn outcome(signature: &Signature, call: &TokenStream) -> TokenStream {
    let span = signature.output.span();
    if signature.is_fallible() {
        quote_spanned!(span=> ::callgate::__private::finished(#call))
    } else {
        quote_spanned!(span=> ::callgate::__private::succeeded(#call))
    }
}

/// A function that runs `body` for each call. In a plugin it holds the plugin.
fn closure(
    function: &Function<'_>,
    signature: &Signature,
    arguments: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let parameters = quote!(|__context: ::callgate::__private::Context, #arguments|);
    if function.place == Place::Free || !signature.has_self {
        return quote!(#parameters async move { #body });
    }
    quote! {
        {
            let __plugin = ::std::sync::Arc::clone(&__plugin);
            move #parameters {
                let __plugin = ::std::sync::Arc::clone(&__plugin);
                async move { #body }
            }
        }
    }
}

/// `.requires("users", Mask::Read)` for each section.
fn requirements(sections: &[Section]) -> TokenStream {
    let all = sections
        .iter()
        .map(|Section { name, mask }| quote!(.requires(#name, ::callgate::__private::Mask::#mask)));
    all.collect()
}

/// `.title("…")`, where there is one.
fn optional_text(setter: &str, text: Option<&LitStr>) -> TokenStream {
    let Some(text) = text else { return TokenStream::new() };
    let setter = Ident::new(setter, text.span());
    quote!(.#setter(#text))
}

/// `.description("…")`, where there is one.
fn description(text: &str) -> TokenStream {
    if text.is_empty() { TokenStream::new() } else { quote!(.description(#text)) }
}

/// The default's value.
fn default_value(argument: &Argument, default: &DefaultValue) -> TokenStream {
    let ty = &argument.ty;
    match default {
        DefaultValue::OfType => quote!(<#ty as ::core::default::Default>::default()),
        DefaultValue::Value(value) => quote!(#value),
    }
}

/// A Rust name as it is written in JSON.
fn plain(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map(ToOwned::to_owned).unwrap_or(name)
}

/// Arguments that come as texts, each read into its type: prompts and addresses have nothing else.
fn read_texts(signature: &Signature) -> (TokenStream, impl Fn(usize, &Argument) -> TokenStream) {
    let place = |number: usize| quote::format_ident!("__argument_{number}");
    let reads = signature.arguments().enumerate().map(|(number, argument)| {
        let (place, name, ty) = (place(number), plain(&argument.name), &argument.ty);
        if let Some(default) = &argument.default {
            let default = default_value(argument, default);
            return quote_spanned!(ty.span()=>
                let #place: #ty = __arguments.or_default(#name, || #default)?;
            );
        }
        let read = if signature::optional(ty).is_some() { "optional" } else { "required" };
        let read = Ident::new(read, ty.span());
        quote_spanned!(ty.span()=> let #place: #ty = __arguments.#read(#name)?;)
    });
    (reads.collect(), move |number, _| {
        let place = place(number);
        quote!(#place)
    })
}

/// What texts cannot have.
fn check_texts(function: &Function<'_>, signature: &Signature, what: &str, errors: &mut Errors) {
    if signature.fills_response() {
        errors.push(function.name, format_args!("{what} fills no `Response`; it returns"));
    }
    for attribute in signature.arguments().flat_map(|argument| &argument.attributes) {
        errors.push(attribute, format_args!("the arguments of {what} are texts, without serde"));
    }
}
