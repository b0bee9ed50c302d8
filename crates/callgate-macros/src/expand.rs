//! Generates the code. All paths go through `::callgate::__private`.
//!
//! The function stays, without the attributes of its arguments. The generated code adds an empty type with the name
//! of the function: types and functions have separate namespaces, so `methods![get_user]` uses the type and all
//! other code the function.

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
    self, Argument, DefaultValue, FunctionScope, Input, Signature, reject_names_of_impl,
};

pub(crate) use plugin::plugin;

/// A function that has one of the attributes.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a Ident,
    /// Names of the type parameters of the `impl` that contains the function.
    pub(crate) parameters: &'a [String],
    pub(crate) attributes: &'a [Attribute],
    pub(crate) signature: &'a syn::Signature,
    pub(crate) scope: FunctionScope,
}

/// A function with its parsed attribute and signature.
struct Item<'a> {
    function: &'a Function<'a>,
    args: AttributeArgs,
    signature: Signature,
}

/// Expands an attribute on a function of a module.
pub(crate) fn function(kind: Kind, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let message = format!(
            "`#[{}]` belongs on a function; write `#[plugin::methods]` on an `impl`",
            kind.name()
        );
        errors.push(item, message);
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    let name = function.sig.ident.clone();
    let described_function = Function {
        name: &name,
        parameters: &[],
        attributes: &function.attrs,
        signature: &function.sig,
        scope: FunctionScope::Module,
    };
    let expression = expand(kind, attribute, &described_function, &mut errors);
    signature::strip(&mut function.attrs, &mut function.sig);
    if function.sig.receiver().is_some() {
        // The function is in an `impl`, which cannot contain the generated type.
        let errors = errors.into_tokens();
        return quote!(#function #errors);
    }
    let function_type = function_type(kind, &name, &function.vis, &expression, errors);
    quote!(#function #function_type)
}

/// Returns an expression that creates the method, prompt or resource.
fn expand(
    kind: Kind,
    attribute: TokenStream,
    function: &Function<'_>,
    errors: &mut Errors,
) -> TokenStream {
    if let Some(second) = function.attributes.iter().find(|it| Kind::of(it).is_some()) {
        errors.push(
            second,
            "expected one of `#[method]`, `#[prompt]` and `#[resource]`: write a function for each",
        );
    }
    let args = AttributeArgs::parse(kind, attribute, function.name, errors);
    let subject = format!("a {}", kind.name());
    let signature = Signature::parse(function.signature, function.scope, &subject, errors);
    reject_names_of_impl(&signature, function.parameters, errors);
    let item = Item { function, args, signature };
    match kind {
        Kind::Method => method::check(&item, errors),
        Kind::Prompt => check_string_args(&item, &subject, errors),
        Kind::Resource => {
            check_string_args(&item, &subject, errors);
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

/// Returns the type with the name of the function, and the errors. The type is generated even after an error, so that
/// code that uses it causes no further errors.
fn function_type(
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
        #[allow(non_camel_case_types, reason = "type of the function of the same name")]
        #visibility enum #name {}

        #[allow(deprecated, reason = "only other callers need the warning")]
        impl ::callgate::__private::#item for #name {
            fn make() -> ::callgate::__private::#product {
                #expression
            }
        }

        #errors
    }
}

impl Item<'_> {
    /// Returns the string value of a key, or the name of the function if the key is not set.
    fn string_or_name(&self, key: &str) -> LitStr {
        let name = self.function.name;
        self.args.string(key).cloned().unwrap_or_else(|| LitStr::new(&json_name(name), name.span()))
    }

    /// Returns a call such as `.title("…")` if the key is set.
    fn optional_string(&self, key: &str) -> TokenStream {
        let Some(text) = self.args.string(key) else { return TokenStream::new() };
        let setter = Ident::new(key, text.span());
        quote!(.#setter(#text))
    }

    /// Returns `.requires("users", Mask::Read)` for each section.
    fn requirements(&self) -> TokenStream {
        let requires = |Section { name, mask }: &Section| quote!(.requires(#name, ::callgate::__private::Mask::#mask));
        self.args.sections.iter().map(requires).collect()
    }

    /// Returns the call of the function. `value` returns the expression for an argument.
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
        let call = match function.scope {
            FunctionScope::Module => quote!(#name(#(#inputs),*)),
            FunctionScope::Plugin if signature.has_self => {
                quote!(Self::#name(&__plugin, #(#inputs),*))
            }
            FunctionScope::Plugin => quote!(Self::#name(#(#inputs),*)),
        };
        if signature.is_async { quote!(#call.await) } else { call }
    }

    /// Returns an expression that converts the returned value of the function to a `Result`.
    fn outcome(&self, call: &TokenStream) -> TokenStream {
        let span = self.signature.output.span();
        if self.signature.is_fallible() {
            quote_spanned!(span=> ::callgate::__private::finished(#call))
        } else {
            quote_spanned!(span=> ::callgate::__private::succeeded(#call))
        }
    }

    /// Returns `.run(…)` with a closure that runs `body`. For a plugin, the closure holds the plugin.
    fn run(&self, arguments: &TokenStream, body: &TokenStream) -> TokenStream {
        let parameters = quote!(|__context: ::callgate::__private::Context, #arguments|);
        let closure = if self.has_no_plugin() {
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

    /// Like [`Self::run`], for a function that is not `async` and has no context parameter.
    fn run_now(&self, arguments: &TokenStream, body: &TokenStream) -> TokenStream {
        let closure = if self.has_no_plugin() {
            quote!(|#arguments| { #body })
        } else {
            quote!({
                let __plugin = ::std::sync::Arc::clone(&__plugin);
                move |#arguments| { #body }
            })
        };
        quote_spanned!(self.signature.output.span()=> .run_now(#closure))
    }

    fn has_no_plugin(&self) -> bool {
        self.function.scope == FunctionScope::Module || !self.signature.has_self
    }

    /// Returns `.run(…)` for prompts and resources. Their arguments are strings, which are parsed into the types of the
    /// function's arguments.
    fn run_with_string_args(&self) -> TokenStream {
        let variable = |number: usize| format_ident!("__argument_{number}");
        let reads = self.signature.arguments().enumerate().map(|(number, argument)| {
            let (variable, name, ty) = (variable(number), json_name(&argument.name), &argument.ty);
            if let Some(default) = &argument.default {
                let default = default_value(argument, default);
                return quote_spanned!(ty.span()=>
                    let #variable: #ty = __arguments.or_default(#name, || #default)?;
                );
            }
            let read = if signature::is_optional(ty) { "optional" } else { "required" };
            let read = Ident::new(read, ty.span());
            quote_spanned!(ty.span()=> let #variable: #ty = __arguments.#read(#name)?;)
        });
        let outcome = self.outcome(&self.call(|number, _| variable(number).into_token_stream()));
        let arguments = quote!(__arguments: ::callgate::__private::StringArgs);
        self.run(&arguments, &quote!(#(#reads)* #outcome))
    }
}

/// Returns the default value of an argument.
fn default_value(argument: &Argument, default: &DefaultValue) -> TokenStream {
    let ty = &argument.ty;
    match default {
        DefaultValue::TypeDefault => quote!(<#ty as ::core::default::Default>::default()),
        DefaultValue::Value(value) => quote!(#value),
    }
}

/// Returns a Rust name without `r#`.
fn json_name(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map(ToOwned::to_owned).unwrap_or(name)
}

/// Checks the function of a prompt or a resource, whose arguments are strings.
fn check_string_args(item: &Item<'_>, subject: &str, errors: &mut Errors) {
    if item.signature.fills_response() {
        errors.push(
            item.function.name,
            format_args!("{subject} cannot take a `Response`: return the result"),
        );
    }
    for attribute in item.signature.arguments().flat_map(|argument| &argument.attributes) {
        errors.push(
            attribute,
            format_args!("arguments of {subject} are strings: remove this attribute"),
        );
    }
}
