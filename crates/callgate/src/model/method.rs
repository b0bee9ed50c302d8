//! Methods of an application: id, parameters, safety, requirement and upstream.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::access::Requirement;
use crate::model::arguments::ParamStyle;
use crate::model::schema::normalise;
use crate::model::schema::validator::compile;
use crate::model::schema::walk::references;
use crate::model::type_expr::{TypeError, TypeExpr};

/// Name of the upstream for functions in this process.
///
/// Methods with this upstream run in a [`Local`](crate::local::Local). [`Gateway`](crate::gateway::Gateway) has an
/// example.
pub const LOCAL: &str = "local";

/// A method of an application, defined in code or in the registry.
///
/// ```
/// use callgate::Mask;
/// use callgate::model::{Method, Param, Safety};
///
/// let method = Method::new("user.get".parse()?)
///     .description("Looks up a user.")
///     .param(Param::new("id_user", "int".parse()?))
///     .safety(Safety::ReadOnly)
///     .requires("user_management", Mask::Read);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Method {
    pub(crate) id: MethodId,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input: Input,
    pub(crate) output: Option<ValueType>,
    pub(crate) safety: Option<Safety>,
    pub(crate) safety_is_guess: bool,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) requirement: Requirement,
    pub(crate) upstream: Arc<str>,
    pub(crate) tool_name: Option<String>,
    pub(crate) remote_name: Option<Box<str>>,
    pub(crate) param_style: Option<ParamStyle>,
    pub(crate) is_unchecked: bool,
}

/// Id of a method, such as `cache.rebuild`: 1 to 255 characters, without control characters, and without white space
/// at the ends.
///
/// Ids are parsed from text. [`Method`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(Arc<str>);

/// Whether calls have side effects.
///
/// Argument of [`Method::safety`]. [`Method`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Safety {
    /// A call changes nothing.
    ReadOnly,
    /// A call can create, change or delete data, or have other effects.
    Destructive,
}

#[derive(Debug, Clone)]
pub(crate) enum Input {
    Params(Vec<Param>),
    /// A schema for all arguments. If clients see a different schema, it is in `advertised`.
    Schema {
        check: Value,
        advertised: Option<Value>,
        /// Whether clients must see the schema exactly as the application declared it.
        is_exact: bool,
    },
}

/// A parameter of a method.
///
/// Argument of [`Method::param`]. [`Method`] has an example.
#[derive(Debug, Clone)]
#[must_use]
pub struct Param {
    pub(crate) name: String,
    pub(crate) ty: ValueType,
    pub(crate) description: String,
    pub(crate) optional: bool,
    pub(crate) default: Option<Value>,
    pub(crate) variadic: bool,
}

/// Type of a parameter or result.
#[derive(Debug, Clone)]
pub(crate) enum ValueType {
    Type(TypeExpr),
    Schema(Value),
}

/// Reason why a definition is invalid. A method with an invalid definition is not served.
///
/// Part of an [`InvalidMethod`], and error of functions such as [`Method::input_schema`].
/// [`CatalogBuilder`](crate::catalog::CatalogBuilder) has an example.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The id is not valid.
    #[error(
        "the id `{0}` must have 1 to 255 characters, without control characters and without spaces at its ends"
    )]
    Id(String),
    /// A type expression is not valid.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Two parameters have the same name.
    #[error("two parameters are named `{0}`")]
    DuplicateParam(String),
    /// A variadic parameter is not the last one.
    #[error("the variadic parameter `{0}` must be the last one")]
    VariadicNotLast(String),
    /// Two fields of a class have the same name.
    #[error("two fields are named `{0}`")]
    DuplicateField(String),
    /// The name of a parameter or field is not valid.
    #[error("`{0}` is not a valid name for a parameter or a field")]
    ParamName(String),
    /// The value is not a JSON Schema.
    #[error("expected a JSON Schema (an object), found `{0}`")]
    NotASchema(String),
    /// The root of the input schema is not of type `object`.
    #[error("the input schema must be of type `object`, found `{0}`")]
    InputNotAnObject(String),
    /// The schema does not compile.
    #[error("the schema is not valid: {0}")]
    InvalidSchema(String),
    /// The schema is nested too deeply.
    #[error("the schema is nested more than 64 levels deep")]
    SchemaTooDeep,
    /// The classes of the parameters or of the result are too large together.
    #[error(
        "the classes of the parameters or of the result take more than {0} bytes in the schema; shorten \
         the descriptions of these classes"
    )]
    ClassesTooLarge(usize),
    /// The tool is larger than 4 GiB.
    #[error("the tool is larger than 4 GiB")]
    TooLarge,
    /// An `x-mcp-header` annotation is invalid; clients would drop the tool.
    #[error("`x-mcp-header` {0}")]
    Header(String),
    /// A `$ref` cannot be resolved.
    #[error(
        "`$ref` refers to `{0}`, which is neither in the schema's `$defs` nor a class of the registry"
    )]
    Reference(String),
    /// The tool name is invalid or already used.
    #[error("the tool name `{0}` {1}")]
    ToolName(String, &'static str),
    /// The id is used twice.
    #[error("another definition has the id `{0}`")]
    DuplicateId(String),
    /// The id is reserved by JSON-RPC.
    #[error("the id `{0}` begins with `rpc.`, which JSON-RPC reserves")]
    Reserved(String),
    /// A value is invalid.
    #[error("{place}: {problem}")]
    Value {
        /// Where the value was found, such as a column.
        place: String,
        /// Description of the problem.
        problem: String,
    },
}

/// A method that is not served, because its definition is invalid.
///
/// [`BuildError`](crate::BuildError) has an example.
#[derive(Debug, Error)]
#[error("method `{id}`: {reason}")]
pub struct InvalidMethod {
    /// Id of the method, or the part of it that could be read.
    pub id: String,
    /// Why the definition is invalid.
    #[source]
    pub reason: DefinitionError,
}

impl DefinitionError {
    /// Creates a [`DefinitionError::Value`].
    pub fn value(place: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::Value { place: place.into(), problem: problem.to_string() }
    }
}

impl Method {
    /// Creates a method without parameters on the upstream [`LOCAL`], open to every caller.
    pub fn new(id: MethodId) -> Self {
        Self {
            id,
            title: None,
            description: String::new(),
            input: Input::Params(Vec::new()),
            output: None,
            safety: None,
            safety_is_guess: false,
            annotations: Map::new(),
            requirement: Requirement::default(),
            upstream: LOCAL.into(),
            tool_name: None,
            remote_name: None,
            param_style: None,
            is_unchecked: false,
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &MethodId {
        &self.id
    }

    /// Returns the requirement for callers.
    pub fn requirement(&self) -> &Requirement {
        &self.requirement
    }

    /// Returns the name of the upstream.
    pub fn upstream_name(&self) -> &Arc<str> {
        &self.upstream
    }

    /// Sets the title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description. Agents choose tools by their descriptions.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Appends a parameter. Replaces a schema that was set with [`Self::input_schema`].
    pub fn param(mut self, param: Param) -> Self {
        match &mut self.input {
            Input::Params(params) => params.push(param),
            Input::Schema { .. } => self.input = Input::Params(vec![param]),
        }
        self
    }

    /// Sets a schema for all arguments, which replaces the parameters.
    pub fn input_schema(mut self, schema: Value) -> Result<Self, DefinitionError> {
        let (check, advertised) = normalise::input(schema)?;
        compile(&check)?;
        self.input = Input::Schema { check, advertised, is_exact: false };
        Ok(self)
    }

    /// Like [`Self::input_schema`], but clients see the schema unchanged, even if it has `$schema` or unions at the
    /// root. Some clients drop all tools of a server that has such a schema.
    pub fn exact_input_schema(self, schema: Value) -> Result<Self, DefinitionError> {
        let mut method = self.input_schema(schema.clone())?;
        if let Input::Schema { check, advertised, is_exact } = &mut method.input {
            *advertised = (*check != schema).then_some(schema);
            *is_exact = true;
        }
        Ok(method)
    }

    /// Sets one schema for the check and another one for clients.
    #[cfg(feature = "macros")]
    pub(crate) fn input_schemas(
        self,
        check: Value,
        advertised: Value,
    ) -> Result<Self, DefinitionError> {
        let mut method = self.input_schema(advertised)?;
        let (check, _) = normalise::input(check)?;
        if let Input::Schema { check: current, advertised, .. } = &mut method.input
            && *current != check
        {
            let current = std::mem::replace(current, check);
            advertised.get_or_insert(current);
        }
        Ok(method)
    }

    /// Sets the type of the result.
    pub fn returns(mut self, ty: TypeExpr) -> Self {
        self.output = Some(ValueType::Type(ty));
        self
    }

    /// Sets the schema of the result.
    pub fn output_schema(mut self, schema: Value) -> Result<Self, DefinitionError> {
        let schema = normalise::output(schema)?;
        compile(&schema)?;
        self.output = Some(ValueType::Schema(schema));
        Ok(self)
    }

    /// Sets whether calls have side effects.
    pub fn safety(mut self, safety: Safety) -> Self {
        (self.safety, self.safety_is_guess) = (Some(safety), false);
        self
    }

    /// Sets a guess about side effects. Clients see the guess. A failed call is not repeated, even if the guess is
    /// [`Safety::ReadOnly`].
    pub fn guessed_safety(mut self, guess: Safety) -> Self {
        (self.safety, self.safety_is_guess) = (Some(guess), true);
        self
    }

    /// Sets annotations that are sent to clients.
    pub fn annotations(mut self, annotations: Map<String, Value>) -> Self {
        self.annotations = annotations;
        self
    }

    /// Requires a mask on a section, in addition to the masks required so far.
    pub fn requires(
        mut self,
        section: impl Into<crate::access::Section>,
        mask: crate::access::Mask,
    ) -> Self {
        self.requirement.add(section.into(), mask);
        self
    }

    /// Replaces the requirement, including masks added with [`Self::requires`].
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// Sets the upstream that runs the method.
    pub fn upstream(mut self, name: impl Into<Arc<str>>) -> Self {
        self.upstream = name.into();
        self
    }

    /// Sets the tool name without the prefix.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.tool_name = Some(name.into());
        self
    }

    /// Sets the name of the method at its service, if it differs from the id.
    pub fn remote_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.remote_name = Some(name.into());
        self
    }

    /// Passes arguments to the upstream without checking them. Clients still see the schema.
    pub fn unchecked(mut self) -> Self {
        self.is_unchecked = true;
        self
    }

    /// Sets how parameters are sent. A style other than [`ParamStyle::Either`] overrides the style of the upstream.
    pub fn param_style(mut self, style: ParamStyle) -> Self {
        self.param_style = Some(style);
        self
    }
}

impl Param {
    /// Creates a required parameter.
    pub fn new(name: impl Into<String>, ty: TypeExpr) -> Self {
        Self {
            name: name.into(),
            ty: ValueType::Type(ty),
            description: String::new(),
            optional: false,
            default: None,
            variadic: false,
        }
    }

    /// Creates a required parameter from a JSON Schema without `$ref`.
    pub fn with_schema(name: impl Into<String>, schema: Value) -> Result<Self, DefinitionError> {
        let mut schema = normalise::subschema(schema)?;
        compile(&schema)?;
        if let Some(target) = references(&schema).first() {
            return Err(DefinitionError::Reference((*target).to_owned()));
        }
        // The default is kept in the parameter, not in its schema.
        let default = schema.as_object_mut().and_then(|schema| schema.shift_remove("default"));
        Ok(Self { ty: ValueType::Schema(schema), default, ..Self::new(name, TypeExpr::Mixed) })
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Makes the parameter optional, without a default.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Makes the parameter optional, with a default.
    pub fn default(mut self, value: Value) -> Self {
        // In PHP, `string $x = null` accepts null.
        if let (Value::Null, ValueType::Type(ty)) = (&value, &mut self.ty) {
            *ty = std::mem::replace(ty, TypeExpr::Mixed).or_null();
        }
        self.default = Some(value);
        self
    }

    /// Makes the parameter optional and variadic; it must be the last one. If parameters are sent by position, each
    /// item of its list is sent as a separate parameter.
    pub fn variadic(self) -> Self {
        Self { variadic: true, ..self.optional() }
    }

    /// Returns the name that the method itself uses, which may differ from the name that clients see.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type, unless the parameter has a schema.
    pub(crate) fn type_expr(&self) -> Option<&TypeExpr> {
        match &self.ty {
            ValueType::Type(ty) => Some(ty),
            ValueType::Schema(_) => None,
        }
    }

    /// Returns `true` if the parameter has no default and is not optional.
    pub fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

impl MethodId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MethodId {
    type Err = DefinitionError;

    fn from_str(text: &str) -> Result<Self, DefinitionError> {
        let length = text.chars().count();
        let is_valid = (1..=255).contains(&length)
            && text.trim() == text
            && !text.chars().any(char::is_control);
        if is_valid {
            Ok(Self(text.into()))
        } else {
            Err(DefinitionError::Id(text.escape_debug().take(80).collect()))
        }
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for MethodId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Safety {
    /// Returns the name in the registry and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Destructive => "destructive",
        }
    }
}

impl FromStr for Safety {
    type Err = DefinitionError;

    fn from_str(text: &str) -> Result<Self, DefinitionError> {
        match text {
            "read_only" => Ok(Self::ReadOnly),
            "destructive" => Ok(Self::Destructive),
            other => Err(DefinitionError::value(
                "safety",
                format_args!("expected `read_only` or `destructive`, found `{other}`"),
            )),
        }
    }
}
