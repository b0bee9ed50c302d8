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
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Ident, ItemFn, LitStr, Visibility};

use crate::attribute::{AttributeArgs, Kind, Section};
use crate::docs;
use crate::errors::Errors;
use crate::signature::{
    self, Argument, DefaultValue, Input, Place, Signature, refuse_names_of_the_impl,
};

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

/// A function, and what its attribute and its signature say.
struct Item<'a> {
    function: &'a Function<'a>,
    args: AttributeArgs,
    signature: Signature,
}

/// A function in a module.
pub(crate) fn function(kind: Kind, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let message = format!(
            "`#[{}]` goes before a function; before an `impl` goes `#[plugin::methods]`",
            kind.name()
        );
        errors.push(item, message);
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    let name = function.sig.ident.clone();
    let described = Function {
        name: &name,
        parameters: &[],
        attributes: &function.attrs,
        signature: &function.sig,
        place: Place::Free,
    };
    let expression = expand(kind, attribute, &described, &mut errors);
    signature::strip(&mut function.attrs, &mut function.sig);
    let companion = companion(kind, &name, &function.vis, &expression, errors);
    quote!(#function #companion)
}

/// An expression that is what the attribute makes of a function.
fn expand(
    kind: Kind,
    attribute: TokenStream,
    function: &Function<'_>,
    errors: &mut Errors,
) -> TokenStream {
    if let Some(second) = function.attributes.iter().find(|it| Kind::of(it).is_some()) {
        errors.push(second, "a function is a method, a prompt or a resource; write one for each");
    }
    let args = AttributeArgs::parse(kind, attribute, function.name, errors);
    let what = format!("a {}", kind.name());
    let signature = Signature::parse(function.signature, function.place, &what, errors);
    refuse_names_of_the_impl(&signature, function.parameters, errors);
    let item = Item { function, args, signature };
    match kind {
        Kind::Method => method::check(&item, errors),
        Kind::Prompt => check_texts(&item, &what, errors),
        Kind::Resource => {
            check_texts(&item, &what, errors);
            resource::check(&item, errors);
        }
    }
    let description = docs::description(function.attributes, errors);
    let description = if description.is_empty() {
        TokenStream::new()
    } else {
        quote!(.description(#description))
    };
    match kind {
        Kind::Method => method::expand(&item, &description),
        Kind::Prompt => prompt::expand(&item, &description),
        Kind::Resource => resource::expand(&item, &description),
    }
}

/// The type of the same name. Where something is wrong it is there too, so that nothing else seems to
/// be.
fn companion(
    kind: Kind,
    name: &Ident,
    visibility: &Visibility,
    expression: &TokenStream,
    errors: Errors,
) -> TokenStream {
    let (item, product) = match kind {
        Kind::Method => (quote!(MethodItem), quote!(MethodFunction)),
        Kind::Prompt => (quote!(PromptItem), quote!(PromptFunction)),
        Kind::Resource => (quote!(ResourceItem), quote!(ResourceFunction)),
    };
    let unreachable = quote!(::core::unreachable!());
    let expression = if errors.is_empty() { expression } else { &unreachable };
    let errors = errors.into_tokens();
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

impl Item<'_> {
    /// What the attribute says, else the function's name.
    fn text_or_name(&self, key: &str) -> LitStr {
        let name = self.function.name;
        self.args.text(key).cloned().unwrap_or_else(|| LitStr::new(&plain(name), name.span()))
    }

    /// `.title("…")`, where there is one.
    fn optional_text(&self, key: &str) -> TokenStream {
        let Some(text) = self.args.text(key) else { return TokenStream::new() };
        let setter = Ident::new(key, text.span());
        quote!(.#setter(#text))
    }

    /// `.requires("users", Mask::Read)` for each section.
    fn requirements(&self) -> TokenStream {
        let requires = |Section { name, mask }: &Section| quote!(.requires(#name, ::callgate::__private::Mask::#mask));
        self.args.sections.iter().map(requires).collect()
    }

    /// How the function is called: `value` says where each argument is.
    fn call(&self, value: impl Fn(usize, &Argument) -> TokenStream) -> TokenStream {
        let Self { function, signature, .. } = self;
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
    fn outcome(&self, call: &TokenStream) -> TokenStream {
        let span = self.signature.output.span();
        if self.signature.is_fallible() {
            quote_spanned!(span=> ::callgate::__private::finished(#call))
        } else {
            quote_spanned!(span=> ::callgate::__private::succeeded(#call))
        }
    }

    /// `.run(…)` with a function that runs `body` for each call. In a plugin it holds the plugin.
    fn run(&self, arguments: &TokenStream, body: &TokenStream) -> TokenStream {
        let parameters = quote!(|__context: ::callgate::__private::Context, #arguments|);
        let closure = if self.function.place == Place::Free || !self.signature.has_self {
            quote!(#parameters async move { #body })
        } else {
            quote! {
                {
                    let __plugin = ::std::sync::Arc::clone(&__plugin);
                    move #parameters {
                        let __plugin = ::std::sync::Arc::clone(&__plugin);
                        async move { #body }
                    }
                }
            }
        };
        quote_spanned!(self.signature.output.span()=> .run(#closure))
    }

    /// The same for arguments that come as texts, each read into its type: prompts and addresses have
    /// nothing else.
    fn run_with_texts(&self) -> TokenStream {
        let variable = |number: usize| format_ident!("__argument_{number}");
        let reads = self.signature.arguments().enumerate().map(|(number, argument)| {
            let (variable, name, ty) = (variable(number), plain(&argument.name), &argument.ty);
            if let Some(default) = &argument.default {
                let default = default_value(argument, default);
                return quote_spanned!(ty.span()=>
                    let #variable: #ty = __arguments.or_default(#name, || #default)?;
                );
            }
            let read = if signature::optional(ty).is_some() { "optional" } else { "required" };
            let read = Ident::new(read, ty.span());
            quote_spanned!(ty.span()=> let #variable: #ty = __arguments.#read(#name)?;)
        });
        let outcome = self.outcome(&self.call(|number, _| variable(number).into_token_stream()));
        let arguments = quote!(__arguments: ::callgate::__private::StringArgs);
        self.run(&arguments, &quote!(#(#reads)* #outcome))
    }
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

/// What texts cannot have.
fn check_texts(item: &Item<'_>, what: &str, errors: &mut Errors) {
    if item.signature.fills_response() {
        errors.push(item.function.name, format_args!("{what} fills no `Response`; it returns"));
    }
    for attribute in item.signature.arguments().flat_map(|argument| &argument.attributes) {
        errors.push(attribute, format_args!("the arguments of {what} are texts, without serde"));
    }
}
