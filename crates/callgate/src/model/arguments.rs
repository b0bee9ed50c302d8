//! Checks the arguments of a call, and converts them to parameters for the upstream.
//!
//! The check schema of a method is compiled on the first call of the method. Methods with equal schemas share the
//! compiled schema.

mod problem;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::method::DefinitionError;
use crate::model::schema::normalise::closing_keyword;
use crate::model::schema::text_check::TextCheck;
use crate::model::schema::validator::{compile, compile_properties};
use crate::model::schema::walk::{for_each_schema, nodes, references};
use crate::model::schema::{REST_PARAM, UNCHECKED, WIRE_NAME};
use crate::wire::strict_json;

pub use problem::ArgumentsError;

/// Maximum number of bytes of arguments whose errors are reported in detail.
const MAX_EXPLAINED: usize = 16 * 1024;
/// Errors are reported in detail only if the number of values in the arguments, multiplied by the number of subschemas,
/// is at most this number. For details, the validator collects the errors of every branch of a union before it returns
/// the first error. So a small call could take minutes and gigabytes. Without details, the check is much faster.
const MAX_ERRORS: usize = 20_000;

/// How parameters are sent to an upstream.
///
/// Argument of [`Method::param_style`](crate::model::Method::param_style) and
/// [`ForwardOptions::params`](crate::upstream::forward::ForwardOptions::params).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum ParamStyle {
    /// By name, as an object.
    #[default]
    #[serde(rename = "name", alias = "named")]
    Named,
    /// By position, as an array in the order of the signature.
    #[serde(rename = "position", alias = "positional")]
    Positional,
    /// By position if possible, otherwise by name. By position is not possible if an argument is undeclared, or if an
    /// absent parameter before a given one has no default and does not allow null.
    #[serde(rename = "either")]
    Either,
    /// By position. For an absent parameter before a given one, the default is sent, or null if there is no default.
    #[serde(rename = "position-null")]
    PositionalNull,
}

impl ParamStyle {
    /// All styles.
    pub const ALL: [Self; 4] = [Self::Named, Self::Positional, Self::Either, Self::PositionalNull];

    /// Returns the style that applies to a method. The style of the method takes precedence over the style of the
    /// upstream. Exception: a method with [`Self::Either`] accepts all styles, so the style of the upstream applies.
    pub(crate) fn resolve(method: Option<Self>, upstream: Option<Self>) -> Self {
        match method {
            None | Some(Self::Either) => upstream.or(method).unwrap_or_default(),
            Some(style) => style,
        }
    }

    /// Returns the name of the style in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Named => "name",
            Self::Positional => "position",
            Self::Either => "either",
            Self::PositionalNull => "position-null",
        }
    }
}

impl std::str::FromStr for ParamStyle {
    type Err = DefinitionError;

    fn from_str(text: &str) -> Result<Self, DefinitionError> {
        // Also accepts the aliases that are allowed in the configuration.
        Self::deserialize(StrDeserializer::<ValueError>::new(text)).map_err(|_| {
            let expected = Self::ALL.map(Self::as_str).join("`, `");
            let problem = format_args!("expected one of `{expected}`, found `{text}`");
            DefinitionError::value("params_by", problem)
        })
    }
}

/// Form in which an upstream expects parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParamFormat {
    pub(crate) style: ParamStyle,
    /// Treats `null` as absent for optional parameters that do not allow `null`.
    pub(crate) null_is_absent: bool,
}

type NamedArguments<'a> = [(Cow<'a, str>, &'a RawValue)];

/// A method's compiled check schema.
#[derive(Debug)]
pub(crate) struct CompiledInput {
    params: Vec<CompiledParam>,
    validator: jsonschema::Validator,
    /// Accepts most valid arguments faster than the validator. `None` if [`TextCheck`] does not support the schema, or
    /// if a parameter is renamed.
    text_check: Option<TextCheck>,
    /// Whether the method accepts all arguments without a check.
    is_unchecked: bool,
    schema: Value,
    /// Number of subschemas; `None` if the schema has references.
    subschemas: Option<usize>,
    /// Checks each parameter on its own. Compiled on first use; `None` if compiling fails.
    property_validator: OnceLock<Option<jsonschema::Validator>>,
}

#[derive(Debug)]
struct CompiledParam {
    /// Name that clients see.
    name: String,
    /// Name that the upstream expects.
    wire: String,
    default: Option<Box<str>>,
    /// The default as a JSON member, `"name":default`, with the name that the upstream expects.
    default_member: Option<Box<str>>,
    /// Whether the argument is an array whose items are sent as separate parameters if parameters are sent by position.
    is_rest: bool,
    /// Cached result of [`CompiledInput::allows_null`].
    allows_null: OnceLock<Option<bool>>,
}

impl CompiledParam {
    fn new(name: &str, property: &Value) -> Self {
        let wire = property.get(WIRE_NAME).and_then(Value::as_str).unwrap_or(name);
        let default = property.get("default").map(|default| default.to_string().into_boxed_str());
        Self {
            name: name.to_owned(),
            wire: wire.to_owned(),
            default_member: default.as_ref().map(|default| member(wire, default).into()),
            default,
            is_rest: property.get(REST_PARAM) == Some(&Value::Bool(true)),
            allows_null: OnceLock::new(),
        }
    }

    fn is_renamed(&self) -> bool {
        self.name != self.wire
    }
}

fn member(name: &str, value: &str) -> String {
    format!("{}:{value}", Value::from(name))
}

impl CompiledInput {
    pub(crate) fn compile(check_schema: &[u8]) -> Result<Self, DefinitionError> {
        let mut schema: Value = serde_json::from_slice(check_schema)
            .map_err(|error| DefinitionError::InvalidSchema(error.to_string()))?;
        if let Value::Object(root) = &mut schema
            && let Some(keyword) = closing_keyword(root)
        {
            root.insert(keyword.to_owned(), Value::Bool(false));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let params = properties
            .into_iter()
            .flatten()
            .map(|(name, property)| CompiledParam::new(name, property));
        let params: Vec<CompiledParam> = params.collect();
        let is_renamed = params.iter().any(CompiledParam::is_renamed);
        Ok(Self {
            params,
            validator: compile(&schema)?,
            text_check: if is_renamed { None } else { TextCheck::compile(&schema) },
            subschemas: subschemas(&schema),
            is_unchecked: schema.get(UNCHECKED).is_some(),
            schema,
            property_validator: OnceLock::new(),
        })
    }

    /// Checks the arguments and returns the `params` for the upstream. Borrows `raw` if the arguments are sent by name
    /// and none has to be added, removed or renamed.
    pub(crate) fn params<'a>(
        &self,
        raw: Option<&'a RawValue>,
        format: impl Into<ParamFormat>,
    ) -> Result<Cow<'a, RawValue>, ArgumentsError> {
        let format = format.into();
        let style = format.style;
        if let Some(raw) = raw.filter(|_| style == ParamStyle::Named && !self.is_unchecked)
            && let Some(params) = self.params_as_given(raw)
        {
            return Ok(params);
        }
        let rest_items;
        let mut named = match raw.map(RawValue::get) {
            None => Vec::new(),
            Some(list) if list.starts_with('[') => {
                let mut items = serde_json::from_str(list).map_err(ArgumentsError::json)?;
                rest_items = self.take_rest(&mut items);
                items.extend(rest_items.as_deref());
                self.name_positional(items)?
            }
            Some(object) => strict_json::members(object).map_err(ArgumentsError::json)?,
        };
        if format.null_is_absent || matches!(style, ParamStyle::Either | ParamStyle::PositionalNull)
        {
            named.retain(|(name, value)| value.get() != "null" || !self.is_absent_null(name));
        }
        self.check(&named, raw.map_or(0, |raw| raw.get().len()))?;
        let text = match style {
            ParamStyle::Named => self.named(&named),
            style => match self.positional(&named, style) {
                Ok(text) => text,
                Err(_) if style == ParamStyle::Either => self.named(&named),
                Err(PositionalError::Gap(param)) => return Err(ArgumentsError::gap(&param.name)),
                Err(PositionalError::Undeclared) => return Err(self.undeclared(&named)),
            },
        };
        RawValue::from_string(text).map(Cow::Owned).map_err(ArgumentsError::json)
    }

    /// Fast path for valid arguments that need no change other than added defaults. Parses the arguments only once.
    fn params_as_given<'a>(&self, raw: &'a RawValue) -> Option<Cow<'a, RawValue>> {
        if let Some(present) = self.text_check.as_ref().and_then(|it| it.properties(raw.get())) {
            return self.with_defaults(raw, |number, _| present.contains(number));
        }
        let value = strict_json::value(raw.get()).ok()?;
        let given = value.as_object()?;
        let is_renamed = |param: &CompiledParam| {
            param.is_renamed()
                && (given.contains_key(&param.name) || given.contains_key(&param.wire))
        };
        if self.params.iter().any(is_renamed) || !self.validator.is_valid(&value) {
            return None;
        }
        self.with_defaults(raw, |_, param| given.contains_key(&param.name))
    }

    /// Adds the defaults of absent parameters to an object.
    fn with_defaults<'a>(
        &self,
        raw: &'a RawValue,
        is_given: impl Fn(usize, &CompiledParam) -> bool,
    ) -> Option<Cow<'a, RawValue>> {
        let mut text: Option<String> = None;
        for (number, param) in self.params.iter().enumerate() {
            let Some(default) = &param.default_member else { continue };
            if is_given(number, param) {
                continue;
            }
            let open = raw.get().trim_end().strip_suffix('}')?.trim_end();
            let text = text.get_or_insert_with(|| open.to_owned());
            if !text.ends_with('{') {
                text.push(',');
            }
            text.push_str(default);
        }
        match text {
            None => Some(Cow::Borrowed(raw)),
            Some(text) => RawValue::from_string(text + "}").ok().map(Cow::Owned),
        }
    }

    /// Returns `true` if the parameter is optional and does not allow `null`.
    fn is_absent_null(&self, name: &str) -> bool {
        let mut params = self.params.iter();
        !self.is_required(name)
            && params
                .find(|param| param.name == name)
                .is_some_and(|param| self.allows_null(param) == Some(false))
    }

    /// Returns whether a parameter allows `null`, or `None` if this is unknown.
    fn allows_null(&self, param: &CompiledParam) -> Option<bool> {
        *param.allows_null.get_or_init(|| self.is_valid_alone(&param.name, Value::Null))
    }

    /// Checks one argument on its own. Returns `None` if the properties of the schema cannot be compiled.
    fn is_valid_alone(&self, name: &str, value: Value) -> Option<bool> {
        let compiled = || compile_properties(&self.schema).ok();
        let validator = self.property_validator.get_or_init(compiled).as_ref()?;
        Some(validator.is_valid(&Value::Object(Map::from_iter([(name.to_owned(), value)]))))
    }

    fn is_required(&self, name: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|required_name| required_name == name))
    }

    /// Removes the positional arguments after the last ordinary parameter, and returns them as the array of the
    /// variadic parameter. Returns `None` if there are none.
    fn take_rest(&self, items: &mut Vec<&RawValue>) -> Option<Box<RawValue>> {
        let (_, ordinary) = self.params.split_last().filter(|(rest, _)| rest.is_rest)?;
        let rest: Vec<&str> = items.get(ordinary.len()..)?.iter().map(|item| item.get()).collect();
        items.truncate(ordinary.len());
        (!rest.is_empty()).then(|| RawValue::from_string(format!("[{}]", rest.join(","))).ok())?
    }

    fn name_positional<'a>(
        &self,
        items: Vec<&'a RawValue>,
    ) -> Result<Vec<(Cow<'a, str>, &'a RawValue)>, ArgumentsError> {
        if items.len() > self.params.len() {
            let (max, found) = (self.params.len(), items.len());
            let problem = format!("expected at most {max} arguments, found {found}");
            return Err(ArgumentsError::single(problem));
        }
        let names = self.params.iter().map(|param| Cow::Owned(param.name.clone()));
        Ok(names.zip(items).collect())
    }

    fn check(&self, named: &NamedArguments<'_>, size: usize) -> Result<(), ArgumentsError> {
        self.refuse_wire_names(named)?;
        let mut object = Map::with_capacity(named.len());
        for (name, raw) in named {
            let value = strict_json::value(raw.get()).map_err(|error| {
                let problem = strict_json::problem(&error);
                ArgumentsError::single(format!("argument `{name}`: {problem}"))
            })?;
            object.insert(name.to_string(), value);
        }
        let object = Value::Object(object);
        if self.validator.is_valid(&object) {
            return Ok(());
        }
        let is_explained = self.subschemas.is_some_and(|subschemas| {
            size <= MAX_EXPLAINED && subschemas.saturating_mul(nodes(&object)) <= MAX_ERRORS
        });
        if is_explained {
            return Err(ArgumentsError::from_validation(self.validator.iter_errors(&object), self));
        }
        Err(self.explain_briefly(&object))
    }

    /// Rejects the original names of renamed parameters. They would pass the check as unknown properties
    /// and still reach the method.
    fn refuse_wire_names(&self, named: &NamedArguments<'_>) -> Result<(), ArgumentsError> {
        let is_wire_name = |name: &str| {
            self.params.iter().any(|param| param.wire == name && param.name != name)
                && !self.params.iter().any(|param| param.name == name)
        };
        if named.iter().any(|(name, _)| is_wire_name(name)) {
            return Err(self.undeclared(named));
        }
        Ok(())
    }

    fn undeclared(&self, named: &NamedArguments<'_>) -> ArgumentsError {
        let problem = self.unknown_arguments(&named.iter().map(|(name, _)| &**name));
        ArgumentsError(problem.into_iter().collect())
    }

    /// Reports the arguments that are not declared.
    fn unknown_arguments<'n>(
        &self,
        given: &(impl Iterator<Item = &'n str> + Clone),
    ) -> Option<String> {
        let is_declared = |name: &str| self.params.iter().any(|param| param.name == name);
        let mut unknown = given.clone().filter(|name| !is_declared(name)).peekable();
        unknown.peek()?;
        Some(problem::unknown_arguments(unknown, &self.params, &|name| {
            given.clone().any(|it| it == name)
        }))
    }

    /// Lists invalid arguments without the reasons. Checks each argument once.
    fn explain_briefly(&self, object: &Value) -> ArgumentsError {
        let required = self.schema.get("required").and_then(Value::as_array);
        let missing = required.into_iter().flatten().filter_map(Value::as_str);
        let missing = missing.filter(|name| object.get(name).is_none());
        let mut problems: Vec<_> =
            missing.map(|name| format!("argument `{name}` is missing")).collect();
        let is_closed = self.schema.get("additionalProperties") == Some(&Value::Bool(false))
            && self.schema.get("patternProperties").is_none();
        if is_closed {
            let given = object.as_object().into_iter().flat_map(Map::keys);
            problems.extend(self.unknown_arguments(&given.map(String::as_str)));
        }
        if !problems.is_empty() {
            return ArgumentsError(problems);
        }
        let names = self.params.iter().map(|param| param.name.as_str());
        let given = names.filter_map(|name| Some((name, object.get(name)?)));
        let is_invalid = |(name, value): &(&str, &Value)| {
            self.is_valid_alone(name, (*value).clone()) == Some(false)
        };
        ArgumentsError::mismatches(given.filter(is_invalid), self)
    }

    fn named(&self, named: &NamedArguments<'_>) -> String {
        let given: HashSet<&str> = named.iter().map(|(name, _)| name.as_ref()).collect();
        let wire: HashMap<&str, &str> =
            self.params.iter().map(|param| (param.name.as_str(), param.wire.as_str())).collect();
        let given_members = named.iter().map(|(name, value)| {
            member(wire.get(name.as_ref()).copied().unwrap_or(name.as_ref()), value.get())
        });
        let absent = self.params.iter().filter(|param| !given.contains(param.name.as_str()));
        let default_members = absent.filter_map(|param| param.default_member.as_deref());
        let members: Vec<String> =
            given_members.chain(default_members.map(ToOwned::to_owned)).collect();
        format!("{{{}}}", members.join(","))
    }

    /// Returns the arguments in the order of the signature, without absent ones at the end.
    fn positional(
        &self,
        named: &NamedArguments<'_>,
        style: ParamStyle,
    ) -> Result<String, PositionalError<'_>> {
        let given = |param: &CompiledParam| {
            named.iter().find(|(name, _)| *name == param.name).map(|(_, value)| value.get())
        };
        let last = self.params.iter().rposition(|param| given(param).is_some());
        let (mut text, mut sent) = (String::from("["), 0);
        for param in self.params.iter().take(last.map_or(0, |last| last + 1)) {
            let value = match given(param) {
                Some(value) => {
                    sent += 1;
                    value
                }
                None => self.value_of_absent(param, style).ok_or(PositionalError::Gap(param))?,
            };
            let value = if param.is_rest { items(value) } else { value };
            if text.len() > 1 && !value.is_empty() {
                text.push(',');
            }
            text.push_str(value);
        }
        if sent < named.len() {
            return Err(PositionalError::Undeclared);
        }
        text.push(']');
        Ok(text)
    }

    /// Returns the value that is sent for an absent parameter before a given one: the default of the parameter, or null
    /// if the parameter allows null or the style sends null.
    fn value_of_absent<'p>(&self, param: &'p CompiledParam, style: ParamStyle) -> Option<&'p str> {
        let has_null =
            || style == ParamStyle::PositionalNull || self.allows_null(param) == Some(true);
        param.default.as_deref().or_else(|| has_null().then_some("null"))
    }

    /// Finds a parameter that cannot be sent by position if the optional parameter before it is absent. Returns the
    /// name of this parameter, then the name of the absent one. Returns `None` if there is no such parameter.
    pub(crate) fn unsendable(&self) -> Option<(&str, &str)> {
        let has_value = |param: &CompiledParam| {
            self.is_required(&param.name)
                || self.value_of_absent(param, ParamStyle::Positional).is_some()
        };
        let index = self.params.iter().position(|param| !has_value(param))?;
        let next = self.params.get(index + 1)?;
        Some((&next.name, &self.params.get(index)?.name))
    }
}

/// Reason why arguments cannot be sent by position.
enum PositionalError<'a> {
    /// Neither a default nor null can be sent for an absent parameter before a given one.
    Gap(&'a CompiledParam),
    /// An argument is not declared.
    Undeclared,
}

fn subschemas(schema: &Value) -> Option<usize> {
    let mut subschemas = 0;
    for_each_schema(schema, &mut |_| subschemas += 1);
    references(schema).is_empty().then_some(subschemas)
}

/// Returns the text between the brackets of an array.
fn items(list: &str) -> &str {
    let items = list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    items.map_or(list, str::trim)
}
