//! Builds a catalog from rows and from methods in code.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use callgate::Mask;
use callgate::access::{Requirement, Section, SectionRequirement};
use callgate::catalog::{Catalog, CatalogBuilder, Entry};
use callgate::gateway::{OpenMethods, Settings};
use callgate::model::{
    ClassName, DefinitionError, Finding, LOCAL, Method, Prefix, TypeDefinition, Types,
};

use crate::catalog::definition;
use crate::rows::{ActionRow, CatalogRows, MethodRow, SettingRow, TypeRow, action_key, non_empty};

/// Specifies which methods are tools, except for methods whose row specifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exposure {
    /// All methods, as in Festi.
    #[default]
    All,
    /// Only methods whose row marks them as tools, as in Drupal.
    Marked,
}

/// Inputs of a catalog besides the rows.
#[derive(Debug, Default)]
pub struct Assembly<'a> {
    /// Methods that are defined in code.
    pub code: &'a [Method],
    /// Exposure of methods whose row does not specify it.
    pub exposure: Exposure,
    /// Whether methods without a section may be called. A setting of the registry takes precedence.
    pub open_methods: Option<OpenMethods>,
    /// Prefix of all tool names.
    pub prefix: Prefix,
    /// Names of upstreams that are not defined in the registry.
    pub upstreams: Vec<&'a str>,
    /// Previous catalog. Its unchanged entries are reused.
    pub previous: Option<Arc<Catalog>>,
}

/// A catalog, and the tool names to store.
#[derive(Debug)]
pub struct Assembled {
    /// Catalog.
    pub catalog: Catalog,
    /// Tool names that were assigned and that differ from the method's id, by row id.
    pub new_names: Vec<(i64, String)>,
}

/// Builds a catalog.
pub fn assemble(rows: &CatalogRows, assembly: Assembly<'_>) -> Assembled {
    let (context, rejected_types) = Context::of(rows, &assembly);
    let code: HashMap<&str, &Method> =
        assembly.code.iter().map(|method| (method.id().as_str(), method)).collect();
    let mut overlays: HashMap<&str, &MethodRow> = HashMap::new();
    let mut builder = CatalogBuilder::new(assembly.prefix, assembly.previous);
    for row in &rows.methods {
        match code.get(row.rpc_method.as_str()) {
            None => context.add_row(&mut builder, row),
            Some(_) if row.upstream_name() != LOCAL => {
                let problem = format_args!(
                    "expected `local`, because code defines the method; found `{}`",
                    row.upstream_name()
                );
                let reason = DefinitionError::value("upstream", problem);
                builder.quarantine(label(row), reason);
            }
            Some(_) => match overlays.entry(&row.rpc_method) {
                MapEntry::Vacant(entry) => {
                    entry.insert(row);
                }
                MapEntry::Occupied(_) => {
                    let reason = DefinitionError::DuplicateId(row.rpc_method.clone());
                    builder.quarantine(label(row), reason);
                }
            },
        }
    }
    for method in assembly.code {
        context.add_code(&mut builder, method, overlays.get(method.id().as_str()).copied());
    }
    for (class, reason) in rejected_types {
        builder.quarantine(format!("class {class}"), reason);
    }
    let catalog = builder.finish();
    Assembled { new_names: new_names(rows, &catalog), catalog }
}

struct Context<'a> {
    /// Classes for all methods.
    types: Types,
    /// Classes for the methods of an upstream that defines classes of its own.
    upstream_types: HashMap<&'a str, Types>,
    salt: u64,
    idents: HashMap<i64, &'a str>,
    actions: HashMap<(String, String), Vec<&'a ActionRow>>,
    exposure: Exposure,
    open_methods: Option<OpenMethods>,
    upstreams: HashSet<&'a str>,
}

impl<'a> Context<'a> {
    /// Returns the context, and the names of the classes whose definition is invalid, each with its error.
    fn of(
        rows: &'a CatalogRows,
        assembly: &Assembly<'a>,
    ) -> (Self, Vec<(String, DefinitionError)>) {
        let (types, upstream_types, rejected) = types(rows);
        let context = Self {
            types,
            upstream_types,
            salt: salt(rows),
            idents: rows.sections.iter().map(|row| (row.id, row.ident.as_str())).collect(),
            actions: actions(rows),
            exposure: assembly.exposure,
            open_methods: open_methods(rows, assembly.open_methods),
            upstreams: assembly
                .upstreams
                .iter()
                .copied()
                .chain(rows.upstreams.iter().map(|row| row.name.as_str()))
                .collect(),
        };
        (context, rejected)
    }

    fn add_row(&self, builder: &mut CatalogBuilder, row: &MethodRow) {
        match self.row_requirement(row) {
            // The method is not a tool now, but its name stays reserved.
            Ok(None) => {
                if let Some(name) = explicit_tool_name(row) {
                    builder.reserve_name(name);
                }
            }
            Ok(Some((requirement, mut findings))) => {
                if !self.upstreams.contains(row.upstream_name()) {
                    findings.push(Finding::UnknownUpstream(row.upstream_name().to_owned()));
                }
                let fingerprint = self.fingerprint(Some(row), &requirement, &findings);
                if builder.reuse(&row.rpc_method, fingerprint, explicit_tool_name(row)) {
                    return;
                }
                match definition::method(row, requirement) {
                    Ok(method) => {
                        let types = self.types_of(row.upstream_name());
                        builder.add(method, fingerprint, types, findings);
                    }
                    Err(reason) => builder.quarantine(label(row), reason),
                }
            }
            Err(reason) => builder.quarantine(label(row), reason),
        }
    }

    fn types_of(&self, upstream: &str) -> &Types {
        self.upstream_types.get(upstream).unwrap_or(&self.types)
    }

    /// Returns the requirement of a row, or `None` if the row is not a tool.
    fn row_requirement(
        &self,
        row: &MethodRow,
    ) -> Result<Option<(Requirement, Vec<Finding>)>, DefinitionError> {
        let is_exposed = row.is_exposed()?.unwrap_or(self.exposure == Exposure::All);
        if !is_exposed {
            return Ok(None);
        }
        if row.upstream_name() == LOCAL {
            let problem = "found `local`, but this program defines no method with this id";
            return Err(DefinitionError::value("upstream", problem));
        }
        let mut findings = Vec::new();
        let mut requirement = self.action_requirement(row.permission_key(), &mut findings);
        self.close_named_sections(row, &mut requirement, &mut findings)?;
        if requirement.is_open() && self.open_methods == Some(OpenMethods::Refuse) {
            findings.push(Finding::NoSection);
            requirement = Requirement::closed();
        }
        Ok(Some((requirement, findings)))
    }

    /// Adds a closed requirement for each section that the row names but for which the method has no action. In Festi,
    /// such a method would be open.
    fn close_named_sections(
        &self,
        row: &MethodRow,
        requirement: &mut Requirement,
        findings: &mut Vec<Finding>,
    ) -> Result<(), DefinitionError> {
        for ident in row.section_names()? {
            let section = Section::from(ident);
            if requirement.sections().iter().any(|(named, _)| *named == section) {
                continue;
            }
            let exists = self.idents.values().any(|existing| *existing == section.as_str());
            findings.push(if exists {
                Finding::SectionWithoutAction(section.clone())
            } else {
                Finding::MissingSection(section.clone())
            });
            requirement.add(section, SectionRequirement::Closed);
        }
        Ok(())
    }

    /// Returns the sections and masks of all actions of a method.
    fn action_requirement(&self, key: (&str, &str), findings: &mut Vec<Finding>) -> Requirement {
        let mut requirement = Requirement::default();
        for action in self.actions.get(&action_key(key.0, key.1)).into_iter().flatten() {
            match self.idents.get(&action.id_section) {
                Some(ident) => {
                    let (section, required) = (Section::from(*ident), parse_mask(&action.mask));
                    if required == SectionRequirement::Closed {
                        findings.push(Finding::InvalidMask(section.clone(), action.mask.clone()));
                    }
                    requirement.add(section, required);
                }
                None => {
                    let section = Section::from(format!("#{}", action.id_section));
                    findings.push(Finding::MissingSection(section.clone()));
                    requirement.add(section, SectionRequirement::Closed);
                }
            }
        }
        requirement
    }

    /// Adds a method that is defined in code. The row of the method may change masks, texts, safety and exposure, and
    /// may add sections. The row cannot change parameters or remove sections.
    fn add_code(&self, builder: &mut CatalogBuilder, method: &Method, row: Option<&MethodRow>) {
        let id = method.id().as_str();
        match row.map(MethodRow::is_exposed).transpose() {
            Ok(Some(Some(false))) => return,
            Ok(_) => {}
            Err(reason) => return builder.quarantine(id, reason),
        }
        let key = row.map_or((LOCAL, id), MethodRow::permission_key);
        let mut findings = Vec::new();
        let mut requirement = self.action_requirement(key, &mut findings);
        for (section, required) in method.requirement().sections() {
            if !requirement.sections().iter().any(|(named, _)| named == section) {
                requirement.add(section.clone(), *required);
            }
        }
        if let Some(row) = row
            && let Err(reason) = self.close_named_sections(row, &mut requirement, &mut findings)
        {
            return builder.quarantine(id, reason);
        }
        let fingerprint = self.fingerprint(row, &requirement, &findings);
        if builder.reuse(id, fingerprint, row.and_then(explicit_tool_name)) {
            return;
        }
        let method = method.clone().with_requirement(requirement);
        let overlaid = match row {
            Some(row) => definition::overlay(method, row),
            None => Ok(method),
        };
        match overlaid {
            Ok(method) => builder.add(method, fingerprint, self.types_of(LOCAL), findings),
            Err(reason) => builder.quarantine(id, reason),
        }
    }

    /// Returns a hash of all data that defines a method, except its tool name.
    fn fingerprint(
        &self,
        row: Option<&MethodRow>,
        requirement: &Requirement,
        findings: &[Finding],
    ) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.salt, row.map(MethodRow::without_tool_name), requirement).hash(&mut hasher);
        for finding in findings {
            finding.to_string().hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Returns whether methods without a section may be called. A setting of the registry overrides `configured`. If the
/// setting is invalid, such methods are refused.
pub fn open_methods(rows: &CatalogRows, configured: Option<OpenMethods>) -> Option<OpenMethods> {
    let row = rows.settings.iter().find(|row| row.name == "open_methods");
    let mut settings = Settings::default();
    match row.map(|row| settings.set(&row.name, &row.value)) {
        Some(Err(_)) => Some(OpenMethods::Refuse),
        _ => settings.open_methods.or(configured),
    }
}

/// Returns the methods of the registry that every caller may call.
pub fn open_entries(catalog: &Catalog) -> impl Iterator<Item = &Entry> {
    let registry_entries = catalog.entries().filter(|entry| entry.upstream() != LOCAL);
    registry_entries.filter(|entry| catalog.requirement(entry).is_open())
}

fn explicit_tool_name(row: &MethodRow) -> Option<&str> {
    non_empty(row.tool_name.as_deref())
}

fn parse_mask(mask: &str) -> SectionRequirement {
    // A mask that is not a number closes the method to everybody.
    let value = mask.trim().parse().ok();
    value.and_then(Mask::required).map_or(SectionRequirement::Closed, SectionRequirement::AtLeast)
}

fn label(row: &MethodRow) -> String {
    if row.rpc_method.trim().is_empty() {
        format!("(row {})", row.id)
    } else {
        row.rpc_method.escape_debug().to_string()
    }
}

/// Returns the classes for all methods, the classes for the methods of single upstreams, and invalid definitions.
fn types(rows: &CatalogRows) -> (Types, HashMap<&str, Types>, Vec<(String, DefinitionError)>) {
    let (mut rejected, mut common) = (Vec::new(), BTreeMap::new());
    let mut by_upstream: HashMap<&str, BTreeMap<ClassName, TypeDefinition>> = HashMap::new();
    for row in &rows.types {
        match (definition::type_definition(row), row.class().0) {
            (Ok((name, definition)), None) => {
                common.insert(name, definition);
            }
            (Ok((name, definition)), Some(upstream)) => {
                by_upstream.entry(upstream).or_default().insert(name, definition);
            }
            (Err(error), _) => rejected.push((row.name.clone(), error)),
        }
    }
    let by_upstream = by_upstream.into_iter().map(|(upstream, definitions)| {
        let names: BTreeSet<ClassName> = definitions.keys().cloned().collect();
        let mut all = common.clone();
        all.extend(definitions);
        let (types, unlinked) = Types::new(all);
        let unlinked = unlinked.into_iter().filter(|(name, _)| names.contains(name));
        let name = |name: ClassName| TypeRow::name_for(upstream, &name.to_string());
        rejected.extend(unlinked.map(|(class, error)| (name(class), error)));
        (upstream, types)
    });
    let by_upstream = by_upstream.collect();
    let (types, unlinked) = Types::new(common);
    rejected.extend(unlinked.into_iter().map(|(name, error)| (name.to_string(), error)));
    (types, by_upstream, rejected)
}

fn actions(rows: &CatalogRows) -> HashMap<(String, String), Vec<&ActionRow>> {
    let mut actions: HashMap<(String, String), Vec<&ActionRow>> = HashMap::new();
    for action in &rows.actions {
        actions.entry(action_key(&action.plugin, &action.method)).or_default().push(action);
    }
    actions
}

/// Returns a hash of the rows that all methods depend on.
fn salt(rows: &CatalogRows) -> u64 {
    let mut hasher = DefaultHasher::new();
    rows.types.hash(&mut hasher);
    hasher.finish()
}

fn new_names(rows: &CatalogRows, catalog: &Catalog) -> Vec<(i64, String)> {
    // If two rows have the same id, only the first is served. Existing tool names do not change.
    let mut ids = HashSet::new();
    let served = rows.methods.iter().filter(|row| ids.insert(row.rpc_method.as_str()));
    let names = served.filter(|row| explicit_tool_name(row).is_none()).filter_map(|row| {
        let name = catalog.prefix().strip(catalog.by_id(&row.rpc_method)?.name());
        (name != row.rpc_method).then(|| (row.id, name.to_owned()))
    });
    names.collect()
}

/// Details of a method that can be derived from its rows alone.
#[derive(Debug)]
pub struct Inspection {
    /// Row.
    pub row: MethodRow,
    /// Requirement that the rows define.
    pub requirement: Requirement,
    /// Tool as JSON, or `None` for methods in code and for methods that are not exposed.
    pub tool: Option<String>,
    /// Problems that were found.
    pub findings: Vec<Finding>,
}

/// Inspects the first row with this id.
pub fn inspect(
    rows: &CatalogRows,
    id: &str,
    assembly: Assembly<'_>,
) -> Result<Option<Inspection>, DefinitionError> {
    let Some(row) = rows.methods.iter().find(|row| row.rpc_method == id) else { return Ok(None) };
    let context = Context::of(rows, &assembly).0;
    let mut findings = Vec::new();
    let is_local = row.upstream_name() == LOCAL;
    let exposed = if is_local { None } else { context.row_requirement(row)? };
    let Some((requirement, _)) = exposed else {
        let requirement = context.action_requirement(row.permission_key(), &mut findings);
        return Ok(Some(Inspection { row: row.clone(), requirement, tool: None, findings }));
    };
    let mut builder = CatalogBuilder::new(assembly.prefix, None);
    context.add_row(&mut builder, row);
    let mut catalog = builder.finish();
    if let Some(quarantined) = catalog.take_quarantined().pop() {
        return Err(quarantined.reason);
    }
    let entry = catalog.by_id(id);
    Ok(Some(Inspection {
        row: row.clone(),
        requirement,
        tool: entry.map(|entry| String::from_utf8_lossy(&catalog.tool(entry)).into_owned()),
        findings: entry.map(|entry| entry.findings().to_vec()).unwrap_or_default(),
    }))
}

/// Checks that a row defines a valid method. Returns the findings that depend only on the row.
pub fn check(row: &MethodRow) -> Result<Vec<Finding>, DefinitionError> {
    row.is_exposed()?;
    let method = definition::method(row, Requirement::default())?;
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    builder.add(method, 0, &Types::default(), []);
    let mut catalog = builder.finish();
    match catalog.take_quarantined().pop() {
        Some(quarantined) => Err(quarantined.reason),
        None => Ok(catalog.entries().flat_map(|entry| entry.findings().to_vec()).collect()),
    }
}

/// Returns the settings in the rows, and an error for each invalid value. An invalid value is replaced by the value in
/// `current`.
pub fn settings(
    rows: &[SettingRow],
    current: &Settings,
) -> (Settings, Vec<callgate::gateway::SettingError>) {
    let mut settings = Settings::default();
    let mut errors = Vec::new();
    for row in rows {
        if !callgate::gateway::SETTING_KEYS.contains(&row.name.as_str()) {
            continue;
        }
        if let Err(error) = settings.set(&row.name, &row.value) {
            errors.push(error);
            if let Ok(value) = current.get(&row.name) {
                let _ = settings.set(&row.name, &value);
            }
        }
    }
    (settings, errors)
}
