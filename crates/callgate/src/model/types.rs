//! Classes that the registry defines.
//!
//! A class is defined by fields or by a JSON Schema. Many clients ignore `$ref`, so classes are inlined. Recursive and
//! large classes are written to `$defs` instead. Which classes are inlined is decided when the definitions are loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::model::method::DefinitionError;
use crate::model::schema::normalise;
use crate::model::schema::walk::{for_each_reference_mut, json_bytes, nodes, references};
use crate::model::tool::is_portable;
use crate::model::type_expr::{ClassName, TypeExpr};

/// Maximum number of nodes (JSON values) of an inlined definition.
pub(crate) const MAX_INLINE_NODES: usize = 200;
/// Maximum size of an inlined definition, in bytes.
pub(crate) const MAX_INLINE_BYTES: usize = 32 << 10;
/// Maximum size of all classes in one schema, in bytes.
const MAX_CLASS_BYTES: usize = 1 << 20;

/// Prefix of references to definitions.
const DEFINITIONS: &str = "#/$defs/";

/// Validated definitions of classes.
///
/// ```
/// use callgate::catalog::CatalogBuilder;
/// use callgate::model::{ClassName, Method, Prefix, TypeDefinition, TypeField, Types};
/// use serde_json::Value;
///
/// let class = ClassName::parse(r"Shop\User").ok_or("not a class name")?;
/// let id = "id".to_owned();
/// let id = TypeField { name: id, ty: "int".parse()?, description: String::new(), required: true };
/// let (types, rejected) = Types::new([(class, TypeDefinition::Fields(vec![id]))]);
/// assert!(rejected.is_empty());
///
/// let find = Method::new("user.find".parse()?).returns(r"Shop\User[]".parse()?);
/// let mut builder = CatalogBuilder::new(Prefix::default(), None);
/// builder.add(find, 1, &types, []);
/// let catalog = builder.finish();
/// let entry = catalog.by_id("user.find").ok_or("there is no such tool")?;
/// let tool: Value = serde_json::from_slice(&catalog.tool(entry))?;
/// assert_eq!(tool["outputSchema"]["items"]["properties"]["id"]["type"], "integer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Types {
    definitions: BTreeMap<ClassName, TypeDefinition>,
    /// For each class, the defined classes that its definition refers to.
    edges: HashMap<ClassName, Vec<ClassName>>,
    by_reference: HashSet<ClassName>,
    /// Sizes of the definitions, including the classes that are inlined in them.
    sizes: HashMap<ClassName, Size>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    /// Size of a reference.
    const REFERENCE: Self = Self { nodes: 1, bytes: 32 };

    fn of(definition: &TypeDefinition) -> Self {
        match definition {
            TypeDefinition::Fields(fields) => {
                let bytes = fields.iter().map(|field| {
                    // The schema of a type has at least the length of the type's text.
                    Self::REFERENCE.bytes
                        + field.name.len()
                        + field.description.len()
                        + field.ty.to_string().len()
                });
                Self { nodes: 1 + fields.len(), bytes: bytes.sum() }
            }
            TypeDefinition::Schema(schema) => Self {
                nodes: nodes(schema),
                bytes: json_bytes(schema, MAX_CLASS_BYTES).unwrap_or(usize::MAX),
            },
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Definition of a class.
///
/// Argument of [`Types::new`]. [`Types`] has an example.
#[derive(Debug, Clone)]
pub enum TypeDefinition {
    /// Properties in order.
    Fields(Vec<TypeField>),
    /// A JSON Schema. `#/$defs/Name` refers to a definition in the schema's own `$defs`, or to another class.
    Schema(Value),
}

/// A property of a class.
///
/// Part of [`TypeDefinition::Fields`]. [`Types`] has an example.
#[derive(Debug, Clone)]
pub struct TypeField {
    /// Name in JSON (Festi's `JsonProperty`), which may differ from the name of the PHP property.
    pub name: String,
    /// Type of the value.
    pub ty: TypeExpr,
    /// Description for agents; may be empty.
    pub description: String,
    /// Whether the property is required.
    pub required: bool,
}

/// How a class is written in the schema that uses it.
#[derive(Debug)]
pub(crate) enum Resolved<'a> {
    Inline(&'a TypeDefinition),
    /// Key in `$defs`.
    Reference(String),
    Undefined,
}

impl Types {
    /// Validates definitions. Returns the valid definitions, and the names of the invalid ones with the reasons.
    pub fn new(
        definitions: impl IntoIterator<Item = (ClassName, TypeDefinition)>,
    ) -> (Self, Vec<(ClassName, DefinitionError)>) {
        let mut types = Self::default();
        let mut rejected = Vec::new();
        let mut schemas = Vec::new();
        for (name, definition) in definitions {
            match definition {
                TypeDefinition::Schema(schema) => schemas.push((name, schema)),
                TypeDefinition::Fields(fields) => {
                    let names = fields.iter().map(|field| &field.name);
                    match check_names(names, DefinitionError::DuplicateField) {
                        Ok(()) => {
                            types.definitions.insert(name, TypeDefinition::Fields(fields));
                        }
                        Err(error) => rejected.push((name, error)),
                    }
                }
            }
        }
        let mut known: HashSet<ClassName> = types.definitions.keys().cloned().collect();
        known.extend(schemas.iter().map(|(name, _)| name.clone()));
        for (name, schema) in schemas {
            if let Err(error) = types.add_schema(&name, schema, &known) {
                rejected.push((name, error));
            }
        }
        types.reject_dangling(&mut rejected);
        types.collect_edges();
        types.choose_by_reference();
        (types, rejected)
    }

    /// Adds a class's schema. The definitions in its `$defs` become separate classes, so that the schema can be nested
    /// in other schemas.
    fn add_schema(
        &mut self,
        name: &ClassName,
        schema: Value,
        known: &HashSet<ClassName>,
    ) -> Result<(), DefinitionError> {
        let mut schema = normalise::subschema(schema)?;
        // References to other classes cannot be resolved yet, so the schema is not compiled.
        jsonschema::draft202012::meta::validate(&schema)
            .map_err(|error| DefinitionError::InvalidSchema(error.to_string()))?;
        let parts = match schema.as_object_mut().and_then(|root| root.shift_remove("$defs")) {
            Some(Value::Object(parts)) => parts,
            _ => Map::new(),
        };
        let names: HashMap<&str, ClassName> =
            parts.keys().map(|part| (part.as_str(), name.part_of(&sanitised(part)))).collect();
        let mut added = vec![(name.clone(), schema)];
        added.extend(parts.iter().filter_map(|(part, schema)| {
            Some((names.get(part.as_str())?.clone(), schema.clone()))
        }));
        let class_of = |target: &str| {
            if target == "#" {
                return Some(name.clone());
            }
            let part = target.strip_prefix(DEFINITIONS)?;
            let class = || ClassName::parse(&part.replace('.', "\\"));
            names.get(part).cloned().or_else(|| class().filter(|class| known.contains(class)))
        };
        let mut unresolved = None;
        for (_, schema) in &mut added {
            for_each_reference_mut(schema, &mut |keyword, target| match class_of(target) {
                _ if keyword != "$ref" => {}
                Some(class) => {
                    *target = format!("{DEFINITIONS}{}", key_of(&class));
                    self.by_reference.insert(class);
                }
                None => unresolved = unresolved.take().or_else(|| Some(target.clone())),
            });
        }
        if let Some(target) = unresolved {
            return Err(DefinitionError::Reference(target));
        }
        let added = added.into_iter();
        self.definitions.extend(added.map(|(name, schema)| (name, TypeDefinition::Schema(schema))));
        Ok(())
    }

    /// Rejects classes that refer to rejected classes, until no such class is left.
    fn reject_dangling(&mut self, rejected: &mut Vec<(ClassName, DefinitionError)>) {
        loop {
            let keys: HashSet<String> = self.definitions.keys().map(key_of).collect();
            let dangling = self.definitions.iter().find_map(|(name, definition)| {
                let TypeDefinition::Schema(schema) = definition else { return None };
                let missing = keys_in(schema).filter(|key| !keys.contains(*key)).last()?;
                Some((name.clone(), missing.to_owned()))
            });
            let Some((name, key)) = dangling else { return };
            self.definitions.remove(&name);
            rejected.push((name, DefinitionError::Reference(format!("{DEFINITIONS}{key}"))));
        }
    }

    fn collect_edges(&mut self) {
        let by_key: HashMap<String, &ClassName> =
            self.definitions.keys().map(|name| (key_of(name), name)).collect();
        let mut edges = HashMap::new();
        for (name, definition) in &self.definitions {
            let mut referenced: Vec<ClassName> = Vec::new();
            match definition {
                TypeDefinition::Fields(fields) => {
                    for field in fields {
                        field.ty.for_each_class(&mut |class| {
                            referenced
                                .extend(self.lookup(class).map(|(defined, _)| defined.clone()));
                        });
                    }
                }
                TypeDefinition::Schema(schema) => {
                    referenced.extend(
                        keys_in(schema).filter_map(|key| Some((*by_key.get(key)?).clone())),
                    );
                }
            }
            edges.insert(name.clone(), referenced);
        }
        self.edges = edges;
    }

    fn choose_by_reference(&mut self) {
        let names: Vec<ClassName> = self.definitions.keys().cloned().collect();
        let is_recursive =
            |name: &&ClassName| self.reachable(self.references_of(name)).contains(*name);
        let recursive: Vec<ClassName> = names.iter().filter(is_recursive).cloned().collect();
        self.by_reference.extend(recursive);
        for name in &names {
            self.measure(name, 0);
        }
        for name in
            names.into_iter().filter(|name| self.by_reference.contains(name)).collect::<Vec<_>>()
        {
            let size = self.inlined_size(&name, 0);
            self.sizes.insert(name, size);
        }
    }

    /// Returns the size that a class has where it is used. A class that is too large, or at the end of a long chain of
    /// references, is written as a reference. It therefore has the size of a reference.
    fn measure(&mut self, name: &ClassName, depth: usize) -> Size {
        if self.by_reference.contains(name) {
            return Size::REFERENCE;
        }
        if let Some(&size) = self.sizes.get(name) {
            return size;
        }
        let size = self.inlined_size(name, depth);
        let is_large = size.nodes > MAX_INLINE_NODES || size.bytes > MAX_INLINE_BYTES;
        if is_large || depth >= MAX_INLINE_NODES {
            self.by_reference.insert(name.clone());
            return Size::REFERENCE;
        }
        self.sizes.insert(name.clone(), size);
        size
    }

    /// Returns the size of a definition, including the classes that are inlined in it.
    fn inlined_size(&mut self, name: &ClassName, depth: usize) -> Size {
        let Some(definition) = self.definitions.get(name) else { return Size::REFERENCE };
        let mut size = Size::of(definition);
        if depth < MAX_INLINE_NODES {
            for nested in self.references_of(name).cloned().collect::<Vec<_>>() {
                size = size.plus(self.measure(&nested, depth + 1));
            }
        }
        size
    }

    /// Checks the total size of the classes that the schema of these types would contain, before the schema is written.
    pub(crate) fn check_size<'t>(
        &self,
        types: impl IntoIterator<Item = &'t TypeExpr> + Clone,
    ) -> Result<(), DefinitionError> {
        let mut bytes = 0_usize;
        let mut add = |name: &ClassName| {
            let size = self.sizes.get(name).map_or(usize::MAX, |size| size.bytes);
            bytes = bytes.saturating_add(size);
        };
        for ty in types.clone() {
            ty.for_each_class(&mut |class| match self.lookup(class) {
                Some((name, _)) if !self.by_reference.contains(name) => add(name),
                _ => {}
            });
        }
        let classes = self.classes_in(types).into_iter();
        classes.filter(|name| self.by_reference.contains(*name)).for_each(add);
        if bytes > MAX_CLASS_BYTES {
            return Err(DefinitionError::ClassesTooLarge(MAX_CLASS_BYTES));
        }
        Ok(())
    }

    /// Returns the classes that a class refers to.
    fn references_of(&self, name: &ClassName) -> impl Iterator<Item = &ClassName> {
        self.edges.get(name).into_iter().flatten()
    }

    /// Returns these classes and all classes that they refer to.
    fn reachable<'a>(
        &'a self,
        roots: impl Iterator<Item = &'a ClassName>,
    ) -> BTreeSet<&'a ClassName> {
        let mut reachable = BTreeSet::new();
        let mut pending: Vec<&ClassName> = roots.collect();
        while let Some(next) = pending.pop() {
            if reachable.insert(next) {
                pending.extend(self.references_of(next));
            }
        }
        reachable
    }

    /// Returns the defined classes that types refer to, directly or indirectly.
    fn classes_in<'t>(
        &self,
        types: impl IntoIterator<Item = &'t TypeExpr>,
    ) -> BTreeSet<&ClassName> {
        let mut referenced = Vec::new();
        for ty in types {
            ty.for_each_class(&mut |class| {
                referenced.extend(self.lookup(class).map(|(defined, _)| defined));
            });
        }
        self.reachable(referenced.into_iter())
    }

    /// Finds a definition by the full name, otherwise by the short name. A definition without a namespace applies to
    /// classes in any namespace.
    fn lookup(&self, name: &ClassName) -> Option<(&ClassName, &TypeDefinition)> {
        self.definitions
            .get_key_value(name)
            .or_else(|| self.definitions.get_key_value(&ClassName::parse(name.short())?))
    }

    pub(crate) fn resolve(&self, name: &ClassName) -> Resolved<'_> {
        match self.lookup(name) {
            None => Resolved::Undefined,
            Some((defined, _)) if self.by_reference.contains(defined) => {
                Resolved::Reference(key_of(defined))
            }
            Some((_, definition)) => Resolved::Inline(definition),
        }
    }

    /// Returns the `$defs` that `roots` need, by key.
    pub(crate) fn definitions_for<'t>(
        &self,
        roots: impl IntoIterator<Item = &'t TypeExpr>,
    ) -> BTreeMap<String, &TypeDefinition> {
        let classes = self.classes_in(roots).into_iter();
        let classes = classes.filter(|name| self.by_reference.contains(*name));
        classes.filter_map(|name| Some((key_of(name), self.definitions.get(name)?))).collect()
    }

    /// Returns the fields of all classes that `ty` refers to.
    pub(crate) fn fields_in(&self, ty: &TypeExpr) -> impl Iterator<Item = &TypeField> {
        let definitions = self.classes_in([ty]).into_iter();
        definitions.filter_map(|name| self.definitions.get(name)).flat_map(|definition| {
            match definition {
                TypeDefinition::Fields(fields) => fields.as_slice(),
                TypeDefinition::Schema(_) => &[],
            }
        })
    }

    /// Returns names of fields that clients may reject.
    pub(crate) fn unportable_fields_in(&self, ty: &TypeExpr) -> BTreeSet<String> {
        let names = self.fields_in(ty).map(|field| &field.name);
        names.filter(|name| !is_portable(name)).cloned().collect()
    }

    /// Returns undefined classes that `ty` refers to, directly or through fields.
    pub(crate) fn undefined_in(&self, ty: &TypeExpr) -> BTreeSet<ClassName> {
        let mut undefined = BTreeSet::new();
        for ty in self.fields_in(ty).map(|field| &field.ty).chain([ty]) {
            ty.for_each_class(&mut |class| {
                if self.lookup(class).is_none() {
                    undefined.insert(class.clone());
                }
            });
        }
        undefined
    }
}

/// Checks the names of parameters or fields. `duplicate` creates the error for a name that occurs twice.
pub(crate) fn check_names<'a>(
    names: impl Iterator<Item = &'a String>,
    duplicate: fn(String) -> DefinitionError,
) -> Result<(), DefinitionError> {
    let mut unique = HashSet::new();
    for name in names {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(DefinitionError::ParamName(name.escape_debug().to_string()));
        }
        if !unique.insert(name) {
            return Err(duplicate(name.clone()));
        }
    }
    Ok(())
}

/// Returns the key of a class in `$defs`. The key must be valid in a URI. Names of PHP classes do not contain `-`, so
/// the escape `-u…-` for other characters is unambiguous.
fn key_of(name: &ClassName) -> String {
    let mut key = String::with_capacity(name.as_str().len());
    for c in name.as_str().chars() {
        match c {
            '\\' => key.push('.'),
            c if c.is_ascii() => key.push(c),
            c => key.extend(["-u", &format!("{:x}", u32::from(c)), "-"]),
        }
    }
    key
}

fn sanitised(part: &str) -> String {
    part.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Returns the keys in `$defs` that a schema refers to.
fn keys_in(schema: &Value) -> impl Iterator<Item = &str> {
    references(schema).into_iter().filter_map(|target| target.strip_prefix(DEFINITIONS))
}
