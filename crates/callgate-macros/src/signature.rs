//! The signature of a function.
//!
//! Parameters passed by reference are supplied by Callgate; parameters passed by value are arguments of the caller.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, FnArg, Ident, Meta, Pat, PatIdent, PatType, Path, ReturnType, Token, Type,
    TypePath,
};

use crate::docs;
use crate::errors::Errors;

pub(crate) struct Signature {
    pub(crate) is_async: bool,
    /// Whether the function has `&self`.
    pub(crate) has_self: bool,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: Type,
}

/// A parameter.
pub(crate) enum Input {
    /// `&Context`
    Context,
    /// `&mut Response`
    Response,
    /// Argument of the caller.
    Argument(Box<Argument>),
}

/// A named argument of the caller.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) description: String,
    pub(crate) default: Option<DefaultValue>,
    /// `#[serde(…)]` and `#[schemars(…)]`
    pub(crate) attributes: Vec<Attribute>,
}

/// `#[default]` or `#[default(…)]`
pub(crate) enum DefaultValue {
    TypeDefault,
    Value(Box<Expr>),
}

/// Place where a function is defined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionScope {
    /// In a module.
    Module,
    /// In an `impl` with `#[methods]`.
    Plugin,
}

const REFERENCE: &str = "only `&Context` and `&mut Response` can be references; \
     write an owned type, such as `String` instead of `&str`";

impl Signature {
    pub(crate) fn parse(
        signature: &syn::Signature,
        scope: FunctionScope,
        subject: &str,
        errors: &mut Errors,
    ) -> Self {
        if !signature.generics.params.is_empty() {
            let message =
                format_args!("{subject} cannot have type parameters: callers cannot choose them");
            errors.push(&signature.generics.params, message);
        }
        if let Some(variadic) = &signature.variadic {
            errors.push(variadic, "expected named arguments");
        }
        let mut has_self = false;
        let mut inputs = Vec::new();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    has_self = true;
                    let is_shared = receiver.to_token_stream().to_string() == "& self";
                    if scope == FunctionScope::Module {
                        let message = "a function with `self` needs `#[plugin::methods]` on \
                                       its `impl`";
                        errors.push(receiver, message);
                    } else if !is_shared {
                        errors.push(receiver, "concurrent calls share the plugin: write `&self`");
                    }
                }
                FnArg::Typed(typed) => inputs.extend(input_of(typed, errors)),
            }
        }
        let output = match &signature.output {
            ReturnType::Default => syn::parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        Self { is_async: signature.asyncness.is_some(), has_self, inputs, output }
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.inputs.iter().filter_map(|input| match input {
            Input::Argument(argument) => Some(&**argument),
            _ => None,
        })
    }

    pub(crate) fn fills_response(&self) -> bool {
        self.inputs.iter().any(|input| matches!(input, Input::Response))
    }

    /// Returns `true` if the function returns a `Result`.
    pub(crate) fn is_fallible(&self) -> bool {
        last_segment(&self.output).is_some_and(|name| name == "Result")
    }
}

fn input_of(typed: &PatType, errors: &mut Errors) -> Option<Input> {
    let (ty, mutability) = match &*typed.ty {
        Type::Reference(reference) => (&*reference.elem, Some(reference.mutability.is_some())),
        ty => (ty, None),
    };
    let name = last_segment(ty).map(ToString::to_string);
    let problem = match (name.as_deref(), mutability) {
        (Some("Context"), Some(false)) => return Some(Input::Context),
        (Some("Response"), Some(true)) => return Some(Input::Response),
        (Some("Context"), _) => Some("expected `&Context`"),
        (Some("Response"), Some(false)) => Some("expected `&mut Response`"),
        (_, Some(_)) => Some(REFERENCE),
        (_, None) => None,
    };
    if let Some(message) = problem {
        errors.push(&typed.ty, message);
        return None;
    }
    if matches!(*typed.ty, Type::ImplTrait(_)) {
        errors.push(&typed.ty, "`impl Trait` is not supported: write the type of the argument");
    }
    let Pat::Ident(PatIdent { ident: name, by_ref: None, subpat: None, .. }) = &*typed.pat else {
        errors.push(
            &typed.pat,
            "expected an argument with a name, which callers use: `id_user: i64`",
        );
        return None;
    };
    if let Some(cfg) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        errors.push(cfg, "`cfg` is not supported on an argument: write it on the function");
    }
    Some(Input::Argument(Box::new(Argument {
        name: name.clone(),
        ty: (*typed.ty).clone(),
        default: default_of(&typed.attrs, errors),
        description: docs::description(&typed.attrs, errors),
        attributes: serde_attributes(&typed.attrs, errors),
    })))
}

fn default_of(attributes: &[Attribute], errors: &mut Errors) -> Option<DefaultValue> {
    let mut defaults = attributes.iter().filter(|attribute| attribute.path().is_ident("default"));
    let first = defaults.next()?;
    if let Some(second) = defaults.next() {
        errors.push(second, "the default is set twice");
    }
    match &first.meta {
        Meta::Path(_) => Some(DefaultValue::TypeDefault),
        Meta::List(list) => {
            let message = "expected a value: `#[default(10)]`";
            let value =
                list.parse_args::<Expr>().map_err(|_| syn::Error::new_spanned(list, message));
            Some(DefaultValue::Value(Box::new(errors.take(value)?)))
        }
        Meta::NameValue(pair) => {
            let value = pair.value.to_token_stream();
            errors.push(&first.meta, format_args!("write `#[default({value})]`"));
            None
        }
    }
}

/// Returns the attributes for serde and schemars.
fn serde_attributes(attributes: &[Attribute], errors: &mut Errors) -> Vec<Attribute> {
    let is_kept = |it: &&Attribute| is_one_of(it.path(), &["serde", "schemars"]);
    let attributes: Vec<Attribute> = attributes.iter().filter(is_kept).cloned().collect();
    for attribute in &attributes {
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        // If the syntax is invalid, serde reports the error.
        for meta in attribute.parse_args_with(parser).into_iter().flatten() {
            if is_one_of(meta.path(), &["default", "skip", "skip_deserializing"]) {
                errors.push(
                    &meta,
                    "write `#[default]` or `#[default(…)]` for the default of an argument",
                );
            }
        }
    }
    attributes
}

/// Removes the attributes of arguments, and silences clippy's lint about arguments that are passed by value.
pub(crate) fn strip(attributes: &mut Vec<Attribute>, signature: &mut syn::Signature) {
    let allow: Attribute = syn::parse_quote!(
        #[allow(clippy::needless_pass_by_value, reason = "arguments are owned values")]
    );
    attributes.push(allow);
    for input in &mut signature.inputs {
        if let FnArg::Typed(typed) = input {
            let removed = ["doc", "default", "serde", "schemars"];
            typed.attrs.retain(|attribute| !is_one_of(attribute.path(), &removed));
        }
    }
}

fn is_one_of(path: &Path, names: &[&str]) -> bool {
    names.iter().any(|name| path.is_ident(name))
}

fn last_segment(ty: &Type) -> Option<&Ident> {
    let Type::Path(TypePath { path: Path { segments, .. }, .. }) = ty else { return None };
    segments.last().map(|segment| &segment.ident)
}

/// Rejects arguments that refer to `Self` or to type parameters of the `impl`, because arguments are parsed
/// outside of the `impl`.
pub(crate) fn reject_names_of_impl(
    signature: &Signature,
    parameters: &[String],
    errors: &mut Errors,
) {
    let is_of_impl = |name: &Ident| name == "Self" || parameters.iter().any(|it| name == it);
    for argument in signature.arguments() {
        let default = match &argument.default {
            Some(DefaultValue::Value(value)) => value.to_token_stream(),
            _ => TokenStream::new(),
        };
        for tokens in [argument.ty.to_token_stream(), default] {
            if let Some(name) = find_ident(tokens, &is_of_impl) {
                let message = format!(
                    "`{name}` cannot be used in an argument: write the concrete type or value"
                );
                errors.push(name, message);
            }
        }
    }
}

/// Returns the first identifier that matches. Searches groups of tokens, too.
pub(crate) fn find_ident(tokens: TokenStream, matches: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => matches(&ident).then_some(ident),
        TokenTree::Group(group) => find_ident(group.stream(), matches),
        _ => None,
    })
}

/// Returns `true` for `Option<T>`.
pub(crate) fn is_optional(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|name| name == "Option")
}
