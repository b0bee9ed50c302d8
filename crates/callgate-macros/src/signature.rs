//! What a function takes and gives.
//!
//! References are what Callgate itself hands in; owned values are arguments, by name.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, FnArg, Ident, Meta, Pat, PatIdent, PatType, Path, ReturnType, Token, Type,
    TypePath,
};

use crate::docs;
use crate::errors::Errors;

/// A function's signature, as far as it matters here.
pub(crate) struct Signature {
    pub(crate) is_async: bool,
    /// `&self`
    pub(crate) has_self: bool,
    pub(crate) inputs: Vec<Input>,
    /// What it gives, `()` where nothing is said.
    pub(crate) output: Type,
}

/// One parameter.
pub(crate) enum Input {
    /// `&Context`
    Context,
    /// `&mut Response`
    Response,
    /// An owned value.
    Argument(Box<Argument>),
}

/// What a caller gives by name.
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
    OfType,
    Value(Box<Expr>),
}

/// Where a function stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a module.
    Free,
    /// In an `impl` with `#[methods]`.
    Plugin,
}

const INJECTED: &str = "only `&Context` and `&mut Response` are handed in by reference; \
     an argument is an owned value, such as `String` instead of `&str`";

impl Signature {
    pub(crate) fn parse(
        signature: &syn::Signature,
        place: Place,
        what: &str,
        errors: &mut Errors,
    ) -> Self {
        if !signature.generics.params.is_empty() {
            let message = format_args!("{what} has no type parameters: callers cannot choose them");
            errors.push(&signature.generics.params, message);
        }
        if let Some(variadic) = &signature.variadic {
            errors.push(variadic, "arguments have names");
        }
        let mut has_self = false;
        let mut inputs = Vec::new();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    has_self = true;
                    let is_shared = receiver.to_token_stream().to_string() == "& self";
                    if place == Place::Free {
                        let message = "put `#[plugin::methods]` before the `impl`, so that the \
                                       type's value is known";
                        errors.push(receiver, message);
                    } else if !is_shared {
                        errors.push(receiver, "calls share the plugin: take `&self`");
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

    /// Whether it gives a `Result`.
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
    let refused = match (name.as_deref(), mutability) {
        (Some("Context"), Some(false)) => return Some(Input::Context),
        (Some("Response"), Some(true)) => return Some(Input::Response),
        (Some("Context"), _) => Some("the context is handed in as `&Context`"),
        (Some("Response"), Some(false)) => {
            Some("the response is handed in as `&mut Response`, to be filled")
        }
        (_, Some(_)) => Some(INJECTED),
        (_, None) => None,
    };
    if let Some(message) = refused {
        errors.push(&typed.ty, message);
        return None;
    }
    if matches!(*typed.ty, Type::ImplTrait(_)) {
        errors.push(&typed.ty, "an argument has one type; callers cannot choose it");
    }
    let Pat::Ident(PatIdent { ident: name, by_ref: None, subpat: None, .. }) = &*typed.pat else {
        errors.push(&typed.pat, "an argument has a name, which callers use: `id_user: i64`");
        return None;
    };
    if let Some(cfg) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        errors.push(cfg, "an argument is always there; put the `cfg` before the function");
    }
    Some(Input::Argument(Box::new(Argument {
        name: name.clone(),
        ty: (*typed.ty).clone(),
        default: default_of(&typed.attrs, errors),
        description: docs::description(&typed.attrs, errors),
        attributes: passed_on(&typed.attrs, errors),
    })))
}

fn default_of(attributes: &[Attribute], errors: &mut Errors) -> Option<DefaultValue> {
    let mut defaults = attributes.iter().filter(|attribute| attribute.path().is_ident("default"));
    let first = defaults.next()?;
    if let Some(second) = defaults.next() {
        errors.push(second, "the default is said twice");
    }
    match &first.meta {
        Meta::Path(_) => Some(DefaultValue::OfType),
        Meta::List(list) => {
            let message = "expected a value: `#[default(10)]`";
            let value =
                list.parse_args::<Expr>().map_err(|_| syn::Error::new_spanned(list, message));
            Some(DefaultValue::Value(Box::new(errors.take(value)?)))
        }
        Meta::NameValue(pair) => {
            let value = pair.value.to_token_stream();
            errors.push(&first.meta, format_args!("write it as `#[default({value})]`"));
            None
        }
    }
}

/// What serde and schemars say of an argument.
fn passed_on(attributes: &[Attribute], errors: &mut Errors) -> Vec<Attribute> {
    let is_passed = |it: &&Attribute| is_one_of(it.path(), &["serde", "schemars"]);
    let attributes: Vec<Attribute> = attributes.iter().filter(is_passed).cloned().collect();
    for attribute in &attributes {
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        // What cannot be read is for serde to say.
        for meta in attribute.parse_args_with(parser).into_iter().flatten() {
            if is_one_of(meta.path(), &["default", "skip", "skip_deserializing"]) {
                errors.push(&meta, "an argument's default is `#[default]` or `#[default(…)]`");
            }
        }
    }
    attributes
}

/// Takes away what only Callgate understands, for the compiler, and what clippy would say of arguments
/// that must be owned.
pub(crate) fn strip(attributes: &mut Vec<Attribute>, signature: &mut syn::Signature) {
    let owned: Attribute = syn::parse_quote!(
        #[allow(clippy::needless_pass_by_value, reason = "arguments are owned values")]
    );
    attributes.push(owned);
    for input in &mut signature.inputs {
        if let FnArg::Typed(typed) = input {
            let own = ["doc", "default", "serde", "schemars"];
            typed.attrs.retain(|attribute| !is_one_of(attribute.path(), &own));
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

/// Notes where arguments name what only the `impl` around them knows: they are read outside of it.
pub(crate) fn refuse_names_of_the_impl(
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
                    "`{name}` is not known where arguments are read; write the type or the value itself"
                );
                errors.push(name, message);
            }
        }
    }
}

fn find_ident(tokens: TokenStream, is_it: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => is_it(&ident).then_some(ident),
        TokenTree::Group(group) => find_ident(group.stream(), is_it),
        _ => None,
    })
}

/// The type in an `Option`.
pub(crate) fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { path, .. }) = ty else { return None };
    let segment = path.segments.last().filter(|segment| segment.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        syn::GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}
