//! Serialization of a [`Method`] as a tool.

mod header;
mod format;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::finding::Finding;
use crate::model::method::{DefinitionError, Input, Method, Param, Safety, ValueType};
use crate::model::schema::validator::unchecked_patterns;
use crate::model::schema::{Purpose, REST_PARAM, UNCHECKED, WIRE_NAME, normalise};
use crate::model::type_expr::TypeExpr;
use crate::model::types::{Types, check_names};

use format::McpSchemas;
pub(crate) use format::{OutputKind, ToolFormat, ToolParts};
#[cfg(feature = "bridge")]
pub(crate) use header::params as header_params;
pub(crate) use header::{HeaderParam, KEYWORD as HEADER_KEYWORD};

/// Reserved paths of the REST endpoint. A method whose id is one of these paths has no URL.
pub(crate) const RESERVED_IDS: [&str; 3] = ["list", "describe", "invoke"];

/// A tool as JSON in the REST format, with the data that calls need.
#[derive(Debug)]
pub(crate) struct SerializedTool {
    pub(crate) bytes: Bytes,
    pub(crate) parts: ToolParts,
    /// Arguments that clients repeat in HTTP headers.
    pub(crate) headers: Box<[HeaderParam]>,
    /// Check schema, if it differs from the advertised one.
    pub(crate) check: Option<Box<[u8]>>,
    /// Safety that clients see.
    pub(crate) safety: Safety,
    /// Safety that decides whether a call may be repeated. A guess counts as destructive.
    pub(crate) call_safety: Safety,
    pub(crate) findings: Vec<Finding>,
}

/// Serializes a method in the REST format. A tool in this format has the members of the newest MCP format, but its name
/// is the id of the method.
pub(crate) fn write(method: &Method, types: &Types) -> Result<SerializedTool, DefinitionError> {
    if method.id.as_str().starts_with("rpc.") {
        return Err(DefinitionError::Reserved(method.id.to_string()));
    }
    let mut findings = Vec::new();
    let (input, mut check) = input_schemas(method, types, &mut findings)?;
    refuse_inner_rest_param(check.as_deref().unwrap_or(&input))?;
    if method.is_unchecked
        && let Value::Object(root) = check.get_or_insert_with(|| input.clone()).to_mut()
    {
        root.insert(UNCHECKED.to_owned(), true.into());
    }
    let headers = header::params(&input)?;
    let output = output_schema(method, types)?;
    let mut bytes = Vec::new();
    let out = &mut bytes;
    let mark = |out: &Vec<u8>| u32::try_from(out.len()).map_err(|_| DefinitionError::TooLarge);
    out.extend_from_slice(b"{\"name\":");
    json(out, method.id.as_str());
    let name_end = mark(out)?;
    if let Some(title) = &method.title {
        out.extend_from_slice(b",\"title\":");
        json(out, title);
    }
    let title_end = mark(out)?;
    out.extend_from_slice(b",\"description\":");
    json(out, &method.description);
    out.extend_from_slice(b",\"inputSchema\":");
    let input_start = mark(out)?;
    json(out, &input);
    let input_end = mark(out)?;
    if let Some(output) = &output {
        out.extend_from_slice(format::OUTPUT_KEY);
        json(out, output);
    }
    let output_end = mark(out)?;
    let closes_input = closes_input(method, &input, check.as_deref());
    out.extend_from_slice(b",\"annotations\":");
    let (safety, call_safety) = write_annotations(method, out, &mut findings);
    out.push(b'}');
    if RESERVED_IDS.contains(&method.id.as_str()) {
        findings.push(Finding::ReservedId);
    }
    Ok(SerializedTool {
        bytes: bytes.into(),
        parts: ToolParts {
            name_end,
            title_end,
            input_start,
            input_end,
            output_end,
            closes_input,
            output: output.as_deref().map_or(OutputKind::Unknown, format::classify_output),
            mcp: McpSchemas::of(&input, output.as_deref()).map(Arc::new),
        },
        headers,
        check: check.map(|check| check.to_string().into_bytes().into()),
        safety,
        call_safety,
        findings,
    })
}

/// Appends a value as JSON. Writing strings and JSON values to a `Vec` cannot fail.
pub(crate) fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}

/// A schema borrowed from the method, or generated from its types.
type MethodSchema<'a> = Cow<'a, Value>;

/// Returns the advertised schema, and the check schema if it differs.
fn input_schemas<'m>(
    method: &'m Method,
    types: &Types,
    findings: &mut Vec<Finding>,
) -> Result<(MethodSchema<'m>, Option<MethodSchema<'m>>), DefinitionError> {
    let params = match &method.input {
        Input::Params(params) => params,
        Input::Schema { check, advertised, .. } => {
            let visible_schema = advertised.as_ref().unwrap_or(check);
            report_unportable_properties(visible_schema, findings);
            report_patterns(check, findings);
            let check = advertised.as_ref().map(|_| Cow::Borrowed(check));
            report_differences(check.as_deref(), findings);
            return Ok((Cow::Borrowed(visible_schema), check));
        }
    };
    check_names(params.iter().map(|param| &param.name), DefinitionError::DuplicateParam)?;
    for param in params {
        match &param.ty {
            ValueType::Type(ty) => {
                findings.extend(types.undefined_in(ty).into_iter().map(Finding::UndefinedClass));
                findings.extend(
                    types.unportable_fields_in(ty).into_iter().map(Finding::UnportableProperty),
                );
                if param.default.as_ref().is_some_and(|default| !ty.accepts_type_of(default)) {
                    findings.push(Finding::DefaultMismatch(param.name.clone()));
                }
            }
            ValueType::Schema(schema) => {
                report_unportable_properties(schema, findings);
                report_patterns(schema, findings);
            }
        }
    }
    types.check_size(params.iter().filter_map(Param::type_expr))?;
    let advertised = types.input_schema(params, Purpose::Advertise);
    let may_differ = params.iter().any(check_may_differ);
    let check = may_differ.then(|| types.input_schema(params, Purpose::Check));
    let check = check.filter(|check| *check != advertised);
    report_differences(check.as_ref(), findings);
    Ok((Cow::Owned(advertised), check.map(Cow::Owned)))
}

/// Refuses a variadic parameter that is not the last one. If parameters were sent by position, its values could not be
/// told apart from the values of the next parameter.
fn refuse_inner_rest_param(check: &Value) -> Result<(), DefinitionError> {
    let properties = check.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut before_last = properties.rev().skip(1);
    match before_last.find(|(_, property)| property.get(REST_PARAM) == Some(&Value::Bool(true))) {
        Some((name, _)) => Err(DefinitionError::VariadicNotLast(name.clone())),
        None => Ok(()),
    }
}

/// Returns `true` if undeclared arguments are refused, but the advertised schema has no `additionalProperties` that
/// says so.
fn closes_input(method: &Method, advertised: &Value, check: Option<&Value>) -> bool {
    let is_exact = matches!(method.input, Input::Schema { is_exact: true, .. });
    let closing = check.unwrap_or(advertised).as_object().and_then(normalise::closing_keyword);
    let keyword = "additionalProperties";
    !is_exact
        && !method.is_unchecked
        && closing == Some(keyword)
        && advertised.get(keyword).is_none()
}

/// Returns `true` if the check schema of the parameter may differ from its advertised schema. Most methods have no such
/// parameter, so only one schema is generated.
fn check_may_differ(param: &Param) -> bool {
    let is_array = |part: &TypeExpr| matches!(part, TypeExpr::Array | TypeExpr::Class(_));
    !is_portable(&param.name)
        || param.variadic
        || param.type_expr().is_some_and(|ty| ty.any(&mut |part| is_array(part)))
}

/// Returns an unused name that clients accept.
pub(crate) fn portable_name(name: &str, used_names: &mut HashSet<String>) -> String {
    let base: String = name.chars().map(portable).take(60).collect();
    let mut name = base.clone();
    for number in 2.. {
        if used_names.insert(name.clone()) {
            break;
        }
        name = format!("{base}_{number}");
    }
    name
}

/// Adds findings for renamed parameters, and for unions at the root that clients do not see.
fn report_differences(check: Option<&Value>, findings: &mut Vec<Finding>) {
    let Some(check) = check else { return };
    let properties = check.get("properties").and_then(Value::as_object).into_iter().flatten();
    findings.extend(properties.filter_map(|(name, property)| {
        let from = property.get(WIRE_NAME)?.as_str()?.to_owned();
        Some(Finding::RenamedParam { from, to: name.clone() })
    }));
    if normalise::HIDDEN_AT_ROOT.iter().any(|keyword| check.get(*keyword).is_some()) {
        findings.push(Finding::HiddenRootUnion);
    }
}

fn report_patterns(schema: &Value, findings: &mut Vec<Finding>) {
    let unchecked = unchecked_patterns(schema).into_iter();
    findings.extend(unchecked.map(|pattern| Finding::UncheckedPattern(pattern.to_owned())));
}

fn report_unportable_properties(schema: &Value, findings: &mut Vec<Finding>) {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        if !is_portable(name) {
            findings.push(Finding::UnportableProperty(name.clone()));
        }
        report_unportable_properties(property, findings);
    }
}

pub(crate) fn portable(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' }
}

pub(crate) fn is_portable(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| portable(c) == c)
}

fn output_schema<'m>(
    method: &'m Method,
    types: &Types,
) -> Result<Option<MethodSchema<'m>>, DefinitionError> {
    Ok(match &method.output {
        Some(ValueType::Schema(schema)) => Some(Cow::Borrowed(schema)),
        Some(ValueType::Type(ty)) if is_specific(ty, types) => {
            types.check_size([ty])?;
            Some(Cow::Owned(types.schema_of(ty)))
        }
        Some(ValueType::Type(_)) | None => None,
    })
}

/// Returns `true` if every result is known to match the type. Returns `false` for types that contain `mixed`, `null`,
/// an undefined class, or PHP's `array`, which can become `{}` or `[]`.
fn is_specific(ty: &TypeExpr, types: &Types) -> bool {
    let is_unspecific = |ty: &TypeExpr| {
        ty.any(&mut |part| matches!(part, TypeExpr::Array | TypeExpr::Mixed | TypeExpr::Null))
    };
    !is_unspecific(ty)
        && types.undefined_in(ty).is_empty()
        && !types.fields_in(ty).any(|field| is_unspecific(&field.ty))
}

/// Writes the annotations. Both hints, read-only and destructive, are always present. A declared safety overrides the
/// annotations, and the annotations override a guess. Returns the safety that clients see, and the safety that decides
/// whether calls may be repeated.
fn write_annotations(
    method: &Method,
    out: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) -> (Safety, Safety) {
    let hint = |name: &str| method.annotations.get(name).and_then(Value::as_bool);
    let (is_read_only, is_destructive) = (hint("readOnlyHint"), hint("destructiveHint"));
    let is_both = is_read_only == Some(true) && is_destructive == Some(true);
    let hinted = match (is_read_only, is_destructive) {
        (Some(true), _) if !is_both => Some(Safety::ReadOnly),
        (Some(_), _) | (None, Some(true)) => Some(Safety::Destructive),
        (None, _) => None,
    };
    let declared = method.safety.filter(|_| !method.safety_is_guess).or(hinted);
    let safety = declared.or(method.safety).unwrap_or(Safety::Destructive);
    if declared.is_none() {
        let is_guess = method.safety.is_some();
        findings.push(if is_guess { Finding::GuessedSafety } else { Finding::MissingSafety });
    }
    if is_both || hinted.is_some_and(|hinted| hinted != safety) {
        findings.push(Finding::SafetyConflict);
    }
    let read_only = safety == Safety::ReadOnly;
    let hints = [("readOnlyHint", read_only), ("destructiveHint", !read_only)];
    let mut annotations: Map<String, Value> =
        hints.map(|(hint, is_set)| (hint.to_owned(), is_set.into())).into_iter().collect();
    for (key, value) in &method.annotations {
        annotations.entry(key).or_insert_with(|| value.clone());
    }
    json(out, &annotations);
    (safety, declared.unwrap_or(Safety::Destructive))
}
