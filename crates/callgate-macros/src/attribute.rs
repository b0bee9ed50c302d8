//! The arguments of an attribute.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, MetaList, Token};

use crate::errors::Errors;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Method,
    Prompt,
    Resource,
}

impl Kind {
    /// Returns the kind of an attribute, or `None` for any other attribute, such as `#[inline]`.
    pub(crate) fn of(attribute: &Attribute) -> Option<Self> {
        let name = &attribute.path().segments.last()?.ident;
        [Self::Method, Self::Prompt, Self::Resource].into_iter().find(|kind| name == kind.name())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Returns the keys with string values.
    fn string_keys(self) -> &'static [&'static str] {
        match self {
            Self::Method => &["id", "title", "tool_name"],
            Self::Prompt => &["name", "title"],
            Self::Resource => &["uri", "name", "mime_type"],
        }
    }

    fn form(self) -> &'static str {
        match self {
            Self::Method => METHOD_FORM,
            Self::Prompt => PROMPT_FORM,
            Self::Resource => RESOURCE_FORM,
        }
    }
}

#[derive(Default)]
pub(crate) struct AttributeArgs {
    strings: Vec<(String, LitStr)>,
    pub(crate) is_read_only: bool,
    pub(crate) allows_unknown_arguments: bool,
    pub(crate) sections: Vec<Section>,
    pub(crate) annotations: Vec<Annotation>,
}

/// `section("name", read)`
pub(crate) struct Section {
    pub(crate) name: LitStr,
    /// Variant of `Mask`.
    pub(crate) mask: Ident,
}

/// `key = value`
pub(crate) struct Annotation {
    pub(crate) key: LitStr,
    pub(crate) value: Expr,
}

const METHOD_FORM: &str = "`id = \"user.get\"`, `title = \"Get user\"`, `tool_name = \"get_user\"`, \
     `section(\"users\", read)`, `read_only` or `destructive`, `idempotent`, `open_world`, \
     `allow_unknown_arguments`, \
     `annotations(category = \"system\")`";
const PROMPT_FORM: &str = "`name = \"review\"`, `title = \"Review\"`, `section(\"users\", read)`";
const RESOURCE_FORM: &str = "`uri = \"shop://products/{id}\"`, `name = \"product\"`, \
     `mime_type = \"application/json\"`, `section(\"users\", read)`";
const SECTION_FORM: &str =
    "expected a section and a mask: `section(\"users\", read)`, with `read`, `write` or `execute`";
const ANNOTATIONS_FORM: &str =
    "expected names with literal values: `annotations(category = \"system\", priority = 2)`";

impl AttributeArgs {
    /// Parses the arguments. Errors about missing arguments point to the name of the function.
    pub(crate) fn parse(
        kind: Kind,
        tokens: TokenStream,
        function: &Ident,
        errors: &mut Errors,
    ) -> Self {
        let mut args = Self::default();
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        let Some(metas) = errors.take(parser.parse2(tokens)) else { return args };
        let mut safety: Vec<Meta> = Vec::new();
        for meta in metas {
            match (kind, name(&meta).as_str()) {
                (_, name) if kind.string_keys().contains(&name) => {
                    args.read_string(name, &meta, errors);
                }
                (_, "section") => args.sections.extend(section(&meta, errors)),
                (Kind::Method, "read_only" | "destructive") => {
                    if !matches!(meta, Meta::Path(_)) {
                        errors.push(&meta, "expected no value: write `read_only` or `destructive`");
                    }
                    safety.push(meta);
                }
                (Kind::Method, "idempotent") => args.hint("idempotentHint", &meta, errors),
                (Kind::Method, "open_world") => args.hint("openWorldHint", &meta, errors),
                (Kind::Method, "allow_unknown_arguments") => {
                    if !matches!(meta, Meta::Path(_)) {
                        errors.push(&meta, "expected no value: write `allow_unknown_arguments`");
                    }
                    args.allows_unknown_arguments = true;
                }
                (Kind::Method, "annotations") => args.annotate(&meta, errors),
                _ => {
                    let (attribute, name) = (kind.name(), meta.path().to_token_stream());
                    let form = kind.form();
                    errors.push(
                        &meta,
                        format_args!("unknown key `{name}` for a {attribute}; expected {form}"),
                    );
                }
            }
        }
        match (kind, safety.as_slice()) {
            (Kind::Method, []) => errors.push(
                function,
                "missing `read_only` or `destructive`: write `#[method(read_only)]` if a call \
                 changes nothing, otherwise `#[method(destructive)]`",
            ),
            (Kind::Method, [meta]) => args.is_read_only = meta.path().is_ident("read_only"),
            (Kind::Method, [.., last]) => errors.push(
                last,
                "`read_only` and `destructive` exclude each other: write one of them, once",
            ),
            (Kind::Resource, _) if args.string("uri").is_none() => {
                errors.push(function, "missing URI: write `#[resource(uri = \"shop://stock\")]`");
            }
            _ => {}
        }
        args
    }

    pub(crate) fn string(&self, name: &str) -> Option<&LitStr> {
        self.strings.iter().rev().find(|(key, _)| key == name).map(|(_, text)| text)
    }

    /// Parses `key = "string"`.
    fn read_string(&mut self, name: &str, meta: &Meta, errors: &mut Errors) {
        let value = match meta {
            Meta::NameValue(pair) => pair.value.to_token_stream(),
            other => other.to_token_stream(),
        };
        let Ok(text) = syn::parse2::<LitStr>(value.clone()) else {
            return errors.push(value, format_args!("expected a string: `{name} = \"…\"`"));
        };
        if text.value().trim().is_empty() {
            return errors.push(&text, format_args!("`{name}` must not be empty"));
        }
        if self.string(name).is_some() {
            errors.push(meta, format_args!("`{name}` is set twice"));
        }
        self.strings.push((name.to_owned(), text));
    }

    /// Parses `idempotent` or `idempotent = false`.
    fn hint(&mut self, key: &str, meta: &Meta, errors: &mut Errors) {
        let value = match meta {
            Meta::Path(_) => syn::parse_quote!(true),
            Meta::NameValue(pair) if is_bool(&pair.value) => pair.value.clone(),
            other => return errors.push(other, "expected no value, `= true` or `= false`"),
        };
        self.add(Annotation { key: LitStr::new(key, name_span(meta)), value }, errors);
    }

    fn annotate(&mut self, meta: &Meta, errors: &mut Errors) {
        let Some(list) = list(meta, ANNOTATIONS_FORM, errors) else { return };
        let parser = Punctuated::<Annotation, Token![,]>::parse_terminated;
        for annotation in errors.take(list.parse_args_with(parser)).into_iter().flatten() {
            if matches!(annotation.key.value().as_str(), "readOnlyHint" | "destructiveHint") {
                errors.push(
                    &annotation.key,
                    "write `read_only` or `destructive` instead of this annotation",
                );
                continue;
            }
            self.add(annotation, errors);
        }
    }

    fn add(&mut self, annotation: Annotation, errors: &mut Errors) {
        let key = annotation.key.value();
        if self.annotations.iter().any(|existing| existing.key.value() == key) {
            errors.push(&annotation.key, format_args!("annotation `{key}` is set twice"));
        }
        self.annotations.push(annotation);
    }
}

fn name(meta: &Meta) -> String {
    meta.path().get_ident().map(ToString::to_string).unwrap_or_default()
}

fn name_span(meta: &Meta) -> proc_macro2::Span {
    meta.path().get_ident().map_or_else(proc_macro2::Span::call_site, Ident::span)
}

fn list<'a>(meta: &'a Meta, form: &str, errors: &mut Errors) -> Option<&'a MetaList> {
    match meta {
        Meta::List(list) => Some(list),
        other => {
            errors.push(other, form);
            None
        }
    }
}

fn section(meta: &Meta, errors: &mut Errors) -> Option<Section> {
    let list = list(meta, SECTION_FORM, errors)?;
    let parsed = list.parse_args_with(|input: ParseStream<'_>| {
        let name: LitStr = input.parse()?;
        input.parse::<Token![,]>()?;
        let mask: Ident = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        Ok((name, mask))
    });
    let Ok((name, mask)) = parsed else {
        errors.push(list, SECTION_FORM);
        return None;
    };
    let variant = match mask.to_string().as_str() {
        "read" => "Read",
        "write" => "Write",
        "execute" => "Execute",
        _ => {
            errors.push(&mask, SECTION_FORM);
            return None;
        }
    };
    if name.value().trim().is_empty() {
        errors.push(&name, SECTION_FORM);
    }
    Some(Section { name, mask: Ident::new(variant, mask.span()) })
}

impl Parse for Annotation {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let invalid = |error: syn::Error| syn::Error::new(error.span(), ANNOTATIONS_FORM);
        let key = if input.peek(LitStr) {
            input.parse::<LitStr>()?
        } else {
            let key: Ident = input.parse().map_err(invalid)?;
            LitStr::new(&key.to_string(), key.span())
        };
        input.parse::<Token![=]>().map_err(invalid)?;
        let value: Expr = input.parse().map_err(invalid)?;
        if !is_literal(&value) {
            return Err(syn::Error::new_spanned(value, ANNOTATIONS_FORM));
        }
        Ok(Self { key, value })
    }
}

fn is_literal(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => {
            matches!(literal.lit, Lit::Str(_) | Lit::Bool(_) | Lit::Int(_) | Lit::Float(_))
        }
        Expr::Unary(minus) => matches!(minus.op, syn::UnOp::Neg(_)) && is_literal(&minus.expr),
        _ => false,
    }
}

fn is_bool(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }))
}
