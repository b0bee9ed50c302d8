//! What a JSON-RPC method is: its id, parameters, texts, safety, requirement and upstream.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::access::Requirement;
use crate::model::arguments::ParamStyle;
use crate::model::schema::normalise;
use crate::model::schema::walk::references;
use crate::model::type_expr::{TypeError, TypeExpr};

/// The upstream of functions in this process.
pub const LOCAL: &str = "local";

/// A method of an application, as code or the registry defines it.
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
    pub(crate) annotations: Map<String, Value>,
    pub(crate) requirement: Requirement,
    pub(crate) upstream: Arc<str>,
    pub(crate) tool_name: Option<String>,
    pub(crate) param_style: Option<ParamStyle>,
}

/// A method's id, such as `cache.rebuild`: 1 to 255 characters, none of them a control character,
/// no white space at the ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(Arc<str>);

/// Whether calling a method changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Safety {
    /// It only reads.
    ReadOnly,
    /// It creates, changes, deletes or has another effect.
    Destructive,
}

/// What a method takes.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Params(Vec<Param>),
    /// A schema for all arguments at once, and what to show of it where that differs.
    Schema {
        check: Value,
        advertised: Option<Value>,
    },
}

/// A parameter.
#[derive(Debug, Clone)]
#[must_use]
pub struct Param {
    pub(crate) name: String,
    pub(crate) ty: ValueType,
    pub(crate) description: String,
    pub(crate) optional: bool,
    pub(crate) default: Option<Value>,
}

/// What a parameter or a result holds.
#[derive(Debug, Clone)]
pub(crate) enum ValueType {
    Type(TypeExpr),
    Schema(Value),
}

/// Why a definition cannot become a tool. The method is quarantined, the others are served.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The id is empty, too long or has control characters.
    #[error("the id `{0}` is not 1 to 255 characters without control characters or outer space")]
    Id(String),
    /// A type does not parse.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Two parameters have one name.
    #[error("two parameters are named `{0}`")]
    DuplicateParam(String),
    /// Two fields of a class have one name.
    #[error("two fields are named `{0}`")]
    DuplicateField(String),
    /// A name that cannot be a parameter's or a field's.
    #[error("`{0}` is not a name for a parameter or a field")]
    ParamName(String),
    /// Something that should be a JSON Schema.
    #[error("expected a JSON Schema (an object), found `{0}`")]
    NotASchema(String),
    /// An input schema whose root is not an object.
    #[error("the input schema must be of type `object`, found `{0}`")]
    InputNotAnObject(String),
    /// A schema that does not compile.
    #[error("the schema is not valid: {0}")]
    InvalidSchema(String),
    /// A schema nested too deeply.
    #[error("the schema is nested more than 64 levels deep")]
    SchemaTooDeep,
    /// A tool of more than 4 GiB.
    #[error("the definition is too large")]
    TooLarge,
    /// An `x-mcp-header` that would make clients drop the tool.
    #[error("`x-mcp-header` {0}")]
    Header(String),
    /// A `$ref` that leads nowhere, or outside.
    #[error(
        "`$ref` to `{0}`, which is neither in the schema's `$defs` nor a class of the registry"
    )]
    Reference(String),
    /// The tool name is not one, or is another method's.
    #[error("the tool name `{0}` {1}")]
    ToolName(String, &'static str),
    /// Another method has the same id.
    #[error("another definition has the id `{0}`")]
    DuplicateId(String),
    /// An id that JSON-RPC keeps for itself.
    #[error("the id `{0}` begins with `rpc.`, which JSON-RPC keeps for itself")]
    Reserved(String),
    /// A value that another part of the program read, with what is wrong about it.
    #[error("{place}: {problem}")]
    Value {
        /// Where it stands, such as a column.
        place: String,
        /// What is wrong.
        problem: String,
    },
}

/// A method that is not served, because its definition is invalid.
#[derive(Debug, Error)]
#[error("method `{id}`: {reason}")]
pub struct InvalidMethod {
    /// Id of the method, as far as it could be read.
    pub id: String,
    /// Why the definition is invalid.
    #[source]
    pub reason: DefinitionError,
}

impl DefinitionError {
    /// A wrong value at a named place.
    pub fn value(place: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::Value { place: place.into(), problem: problem.to_string() }
    }
}

impl Method {
    /// A method without parameters, open to every caller, on the upstream [`LOCAL`].
    pub fn new(id: MethodId) -> Self {
        Self {
            id,
            title: None,
            description: String::new(),
            input: Input::Params(Vec::new()),
            output: None,
            safety: None,
            annotations: Map::new(),
            requirement: Requirement::default(),
            upstream: LOCAL.into(),
            tool_name: None,
            param_style: None,
        }
    }

    /// The id.
    pub fn id(&self) -> &MethodId {
        &self.id
    }

    /// What callers need.
    pub fn requirement(&self) -> &Requirement {
        &self.requirement
    }

    /// The name of the upstream that runs it.
    pub fn upstream_name(&self) -> &Arc<str> {
        &self.upstream
    }

    /// Sets the title for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description; agents see little else.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a parameter behind those that are there.
    pub fn param(mut self, param: Param) -> Self {
        match &mut self.input {
            Input::Params(params) => params.push(param),
            Input::Schema { .. } => self.input = Input::Params(vec![param]),
        }
        self
    }

    /// Sets a schema for all arguments at once, in place of parameters.
    pub fn input_schema(mut self, schema: Value) -> Result<Self, DefinitionError> {
        let (check, advertised) = normalise::input(schema)?;
        compile(&check)?;
        self.input = Input::Schema { check, advertised };
        Ok(self)
    }

    /// The same, but advertised exactly as it is: with `$schema`, and with unions at the root, for
    /// which some clients drop every tool of a server.
    pub fn exact_input_schema(self, schema: Value) -> Result<Self, DefinitionError> {
        let mut method = self.input_schema(schema.clone())?;
        if let Input::Schema { check, advertised } = &mut method.input {
            *advertised = (*check != schema).then_some(schema);
        }
        Ok(method)
    }

    /// Sets a schema for the check, and another to advertise.
    #[cfg(feature = "macros")]
    pub(crate) fn input_schemas(
        self,
        check: Value,
        advertised: Value,
    ) -> Result<Self, DefinitionError> {
        let mut method = self.input_schema(advertised)?;
        let (check, _) = normalise::input(check)?;
        if let Input::Schema { check: shown, advertised } = &mut method.input
            && *shown != check
        {
            let shown = std::mem::replace(shown, check);
            advertised.get_or_insert(shown);
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

    /// Says whether calls change anything.
    pub fn safety(mut self, safety: Safety) -> Self {
        self.safety = Some(safety);
        self
    }

    /// Sets the annotations that pass through to clients.
    pub fn annotations(mut self, annotations: Map<String, Value>) -> Self {
        self.annotations = annotations;
        self
    }

    /// Adds a section and the mask that a caller needs on it; all that are added must hold.
    pub fn requires(
        mut self,
        section: impl Into<crate::access::Section>,
        mask: crate::access::Mask,
    ) -> Self {
        self.requirement.add(section.into(), mask);
        self
    }

    /// Sets what callers need, in place of all that [`Self::requires`] added.
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// Sets the upstream that runs it.
    pub fn upstream(mut self, name: impl Into<Arc<str>>) -> Self {
        self.upstream = name.into();
        self
    }

    /// Sets the tool name, without the prefix, that was chosen or given before.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.tool_name = Some(name.into());
        self
    }

    /// Says how it takes its parameters, where that is not how its upstream takes them.
    pub fn param_style(mut self, style: ParamStyle) -> Self {
        self.param_style = Some(style);
        self
    }
}

/// Checks that a schema from outside compiles; those made here do.
pub(crate) fn compile(schema: &Value) -> Result<jsonschema::Validator, DefinitionError> {
    jsonschema::draft202012::new(schema).map_err(|error| {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { String::new() } else { format!(", at `{place}`") };
        DefinitionError::InvalidSchema(format!("{error}{place}"))
    })
}

/// Compiles the schema of a property by itself, with the definitions of the schema that it is in.
pub(crate) fn compile_property(
    property: &Value,
    definitions: Option<&Value>,
) -> Result<jsonschema::Validator, DefinitionError> {
    let mut schema = property.clone();
    if let (Value::Object(schema), Some(definitions)) = (&mut schema, definitions) {
        schema.insert("$defs".to_owned(), definitions.clone());
    }
    compile(&schema)
}

impl Param {
    /// A required parameter.
    pub fn new(name: impl Into<String>, ty: TypeExpr) -> Self {
        Self {
            name: name.into(),
            ty: ValueType::Type(ty),
            description: String::new(),
            optional: false,
            default: None,
        }
    }

    /// A required parameter with a schema of its own, which may not use `$ref`.
    pub fn with_schema(name: impl Into<String>, schema: Value) -> Result<Self, DefinitionError> {
        let mut schema = normalise::subschema(schema)?;
        compile(&schema)?;
        if let Some(target) = references(&schema).first() {
            return Err(DefinitionError::Reference((*target).to_owned()));
        }
        // One place for a default, whoever says it.
        let default = schema.as_object_mut().and_then(|schema| schema.shift_remove("default"));
        Ok(Self { ty: ValueType::Schema(schema), default, ..Self::new(name, TypeExpr::Mixed) })
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Makes it optional, without a default.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Makes it optional, with what stands for it when it is absent.
    pub fn default(mut self, value: Value) -> Self {
        // In PHP, `string $x = null` takes null.
        if let (Value::Null, ValueType::Type(ty)) = (&value, &mut self.ty) {
            *ty = std::mem::replace(ty, TypeExpr::Mixed).or_null();
        }
        self.default = Some(value);
        self
    }

    /// The name that the method knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a call must have it.
    pub fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

impl MethodId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MethodId {
    type Err = DefinitionError;

    fn from_str(text: &str) -> Result<Self, DefinitionError> {
        let length = text.chars().count();
        let fits = (1..=255).contains(&length)
            && text.trim() == text
            && !text.chars().any(char::is_control);
        if fits {
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
    /// The word for it in the registry and on the command line.
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
