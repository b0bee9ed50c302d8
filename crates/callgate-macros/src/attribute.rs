//! What stands in the parentheses of an attribute.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Meta, MetaList, Token};

use crate::errors::Errors;

/// `#[method(…)]`
#[derive(Default)]
pub(crate) struct MethodAttribute {
    pub(crate) id: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) tool_name: Option<LitStr>,
    pub(crate) is_read_only: bool,
    pub(crate) sections: Vec<Section>,
    pub(crate) annotations: Vec<Annotation>,
}

/// `#[prompt(…)]`
#[derive(Default)]
pub(crate) struct PromptAttribute {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) sections: Vec<Section>,
}

/// `#[resource(…)]`
#[derive(Default)]
pub(crate) struct ResourceAttribute {
    pub(crate) uri: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) mime_type: Option<LitStr>,
    pub(crate) sections: Vec<Section>,
}

/// `section("name", read)`
pub(crate) struct Section {
    pub(crate) name: LitStr,
    /// A variant of `Mask`.
    pub(crate) mask: Ident,
}

/// `key = value`
pub(crate) struct Annotation {
    pub(crate) key: LitStr,
    pub(crate) value: Expr,
}

const METHOD_FORM: &str = "`id = \"user.get\"`, `title = \"Get user\"`, `tool_name = \"get_user\"`, \
     `section(\"users\", read)`, `read_only` or `destructive`, `idempotent`, `open_world`, \
     `annotations(category = \"system\")`";
const PROMPT_FORM: &str = "`name = \"review\"`, `title = \"Review\"`, `section(\"users\", read)`";
const RESOURCE_FORM: &str = "`uri = \"shop://products/{id}\"`, `name = \"product\"`, \
     `mime_type = \"application/json\"`, `section(\"users\", read)`";
const SECTION_FORM: &str = "expected a section and what a caller needs on it: `section(\"users\", read)`, `write` or `execute`";
const ANNOTATIONS_FORM: &str =
    "expected names and values: `annotations(category = \"system\", priority = 2)`";

impl MethodAttribute {
    /// What is missing is told at the function's name.
    pub(crate) fn parse(tokens: TokenStream, function: &Ident, errors: &mut Errors) -> Self {
        let mut attribute = Self::default();
        let mut safety: Vec<Meta> = Vec::new();
        let items = Items::of(tokens, errors);
        let is_readable = items.is_readable;
        for meta in items.metas {
            match name(&meta).as_str() {
                "id" => text(&meta, &mut attribute.id, errors),
                "title" => text(&meta, &mut attribute.title, errors),
                "tool_name" => text(&meta, &mut attribute.tool_name, errors),
                "read_only" | "destructive" => {
                    if !matches!(meta, Meta::Path(_)) {
                        errors.push(&meta, "expected the word alone: `read_only` or `destructive`");
                    }
                    safety.push(meta);
                }
                "idempotent" => attribute.hint("idempotentHint", &meta, errors),
                "open_world" => attribute.hint("openWorldHint", &meta, errors),
                "section" => attribute.sections.extend(section(&meta, errors)),
                "annotations" => attribute.annotate(&meta, errors),
                _ => unknown(&meta, "a method", METHOD_FORM, errors),
            }
        }
        match safety.as_slice() {
            [one] => attribute.is_read_only = one.path().is_ident("read_only"),
            [] if is_readable => errors.push(
                function,
                "a method says whether calling it changes anything: \
                 add `read_only` or `destructive`, as in `#[method(read_only)]`",
            ),
            [] => {}
            [.., last] => errors.push(
                last,
                "a method is either `read_only` or `destructive`: say one of them, once",
            ),
        }
        attribute
    }

    /// `idempotent`, or `idempotent = false`.
    fn hint(&mut self, key: &str, meta: &Meta, errors: &mut Errors) {
        let value = match meta {
            Meta::Path(_) => syn::parse_quote!(true),
            Meta::NameValue(pair) if is_bool(&pair.value) => pair.value.clone(),
            other => return errors.push(other, "expected the word alone, or `= false`"),
        };
        self.add(Annotation { key: LitStr::new(key, name_span(meta)), value }, errors);
    }

    fn annotate(&mut self, meta: &Meta, errors: &mut Errors) {
        let Some(list) = list(meta, ANNOTATIONS_FORM, errors) else { return };
        let parser = Punctuated::<Annotation, Token![,]>::parse_terminated;
        for annotation in errors.take(list.parse_args_with(parser)).into_iter().flatten() {
            if matches!(annotation.key.value().as_str(), "readOnlyHint" | "destructiveHint") {
                errors.push(&annotation.key, "`read_only` or `destructive` says this already");
                continue;
            }
            self.add(annotation, errors);
        }
    }

    fn add(&mut self, annotation: Annotation, errors: &mut Errors) {
        let key = annotation.key.value();
        if self.annotations.iter().any(|known| known.key.value() == key) {
            errors.push(&annotation.key, format_args!("`{key}` is annotated twice"));
        }
        self.annotations.push(annotation);
    }
}

impl PromptAttribute {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut attribute = Self::default();
        for meta in Items::of(tokens, errors).metas {
            match name(&meta).as_str() {
                "name" => text(&meta, &mut attribute.name, errors),
                "title" => text(&meta, &mut attribute.title, errors),
                "section" => attribute.sections.extend(section(&meta, errors)),
                _ => unknown(&meta, "a prompt", PROMPT_FORM, errors),
            }
        }
        attribute
    }
}

impl ResourceAttribute {
    /// What is missing is told at the function's name.
    pub(crate) fn parse(tokens: TokenStream, function: &Ident, errors: &mut Errors) -> Self {
        let mut attribute = Self::default();
        let items = Items::of(tokens, errors);
        for meta in items.metas {
            match name(&meta).as_str() {
                "uri" => text(&meta, &mut attribute.uri, errors),
                "name" => text(&meta, &mut attribute.name, errors),
                "mime_type" => text(&meta, &mut attribute.mime_type, errors),
                "section" => attribute.sections.extend(section(&meta, errors)),
                _ => unknown(&meta, "a resource", RESOURCE_FORM, errors),
            }
        }
        if items.is_readable && attribute.uri.is_none() {
            errors
                .push(function, "a resource has an address: `#[resource(uri = \"shop://stock\")]`");
        }
        attribute
    }
}

/// The parts of an attribute, and whether they could be told apart at all.
struct Items {
    metas: Vec<Meta>,
    is_readable: bool,
}

impl Items {
    fn of(tokens: TokenStream, errors: &mut Errors) -> Self {
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        let metas = errors.take(parser.parse2(tokens));
        let is_readable = metas.is_some();
        Self { metas: metas.into_iter().flatten().collect(), is_readable }
    }
}

fn name(meta: &Meta) -> String {
    meta.path().get_ident().map(ToString::to_string).unwrap_or_default()
}

fn name_span(meta: &Meta) -> proc_macro2::Span {
    meta.path().get_ident().map_or_else(proc_macro2::Span::call_site, Ident::span)
}

fn unknown(meta: &Meta, what: &str, form: &str, errors: &mut Errors) {
    let name = meta.path().to_token_stream();
    errors.push(meta, format_args!("{what} has no `{name}`; it takes {form}"));
}

/// `key = "text"`, once.
fn text(meta: &Meta, place: &mut Option<LitStr>, errors: &mut Errors) {
    let name = name(meta);
    let value = match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.clone(),
            other => return errors.push(other, format_args!("expected text: `{name} = \"…\"`")),
        },
        other => return errors.push(other, format_args!("expected text: `{name} = \"…\"`")),
    };
    if value.value().trim().is_empty() {
        return errors.push(&value, format_args!("`{name}` is empty"));
    }
    if place.replace(value).is_some() {
        errors.push(meta, format_args!("`{name}` is said twice"));
    }
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
        let wrong = |error: syn::Error| syn::Error::new(error.span(), ANNOTATIONS_FORM);
        let key = if input.peek(LitStr) {
            input.parse::<LitStr>()?
        } else {
            let key: Ident = input.parse().map_err(wrong)?;
            LitStr::new(&key.to_string(), key.span())
        };
        input.parse::<Token![=]>().map_err(wrong)?;
        let value: Expr = input.parse().map_err(wrong)?;
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
