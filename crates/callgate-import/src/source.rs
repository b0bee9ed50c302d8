//! The methods and access rules that a source proposes, before they are compared with the registry.

mod safety_guess;
mod selection;

use std::collections::BTreeSet;

use callgate::Mask;
use callgate::internal::refused_examples;
use callgate::model::{ParamStyle, Safety};
use callgate_registry::{
    GUESSED, ImportGrant, MethodRow, RoleRow, SectionRow, TypeRow, UserRow, check,
};
use serde_json::Value;

use crate::hinted::hinted;
use crate::limits::{
    MAX_METHOD_BYTES, MAX_SOURCE_BYTES, METHOD_OVERHEAD, method_bytes, type_bytes,
};
use crate::text::shortened;

pub use selection::Selection;

pub(crate) use safety_guess::declared as declared_safety;

/// Options of an import from any source.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Prefix of the ids. The methods' names at the service do not have the prefix.
    pub prefix: String,
    /// Which methods are imported. Patterns apply to the names in the source.
    pub selection: Selection,
    /// Sections from the command line that callers need. For tools of a Drupal site, they are required in addition
    /// to those of the site. For other sources, they apply only to methods for which the source specifies none.
    pub sections: Vec<(String, RequiredMask)>,
    /// How parameters of the source's methods are sent. Defaults to the value that was set for an earlier import of the
    /// source.
    pub params_by: Option<SourceParams>,
    /// Whether the output schemas of the source are dropped.
    pub no_output_schemas: bool,
    /// Whether methods that the source no longer has are deleted instead of hidden.
    pub prune: bool,
    /// Whether a guessed safety is approved, so that it counts as declared.
    pub approves_guesses: bool,
    /// Names of the configured upstreams, if they are known.
    pub upstreams: Option<Vec<String>>,
}

impl ImportOptions {
    /// Returns `true` if a method is imported.
    pub(crate) fn selects(&self, id: &str) -> bool {
        self.selection.matches(self.name_in_source(id))
    }

    pub(crate) fn name_in_source<'i>(&self, id: &'i str) -> &'i str {
        id.strip_prefix(&*self.prefix).unwrap_or(id)
    }

    /// Returns the text that is added to the name of a source that is imported with a prefix, or an empty text.
    pub(crate) fn name_suffix(&self) -> String {
        match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!(" with prefix `{prefix}`"),
        }
    }
}

/// How the parameters of all methods of a source are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceParams {
    /// As the source describes for each method.
    Described,
    /// In this style.
    Style(ParamStyle),
}

/// The methods that a source describes.
#[derive(Debug, Default)]
pub struct Source {
    /// Identifies the source. If an earlier import from a source with this name wrote a method, and the source no
    /// longer has the method, the method is removed.
    pub name: String,
    /// The upstreams of the methods.
    pub upstreams: BTreeSet<String>,
    /// Methods that can be imported.
    pub methods: Vec<Proposal>,
    /// Methods that cannot be imported.
    pub refused: Vec<Refusal>,
    /// Classes that are used as types of methods.
    pub types: Vec<TypeRow>,
    /// Parts that could not be read. If there are any, no method is removed, because these parts may contain it.
    pub unread: Vec<Refusal>,
    /// Sections, roles, users and grants of the source.
    pub(crate) access: AccessProposal,
    /// Whether sections from the command line are required in addition to those of the source, as for the tools of
    /// a Drupal site. Otherwise they apply only to methods for which the source specifies no sections.
    pub(crate) combines_sections: bool,
    /// Names of sources that this one replaces. Methods that only those sources have are removed.
    pub(crate) supersedes: &'static [&'static str],
    /// Prefixes of the names of sources whose methods this source does not change, because those sources describe the
    /// methods in more detail.
    pub(crate) preferred_sources: &'static [&'static str],
    /// Keys that the configuration of the upstream should have; `None` if the source does not know the URL of the
    /// service.
    pub upstream_keys: Option<UpstreamKeys>,
    /// Lines for the report.
    pub notes: Vec<String>,
    /// Size of the methods, refusals and classes that were added.
    pub(crate) bytes: usize,
}

/// Keys of an upstream's configuration and their values.
pub type UpstreamKeys = Vec<(&'static str, Value)>;

impl Source {
    /// Creates a source whose methods are on one upstream.
    pub(crate) fn new(name: impl Into<String>, upstream: &str) -> Self {
        let upstreams = BTreeSet::from([upstream.to_owned()]);
        // The registry stores the name once for each method, so its length is limited.
        let name = truncated(name.into().replace('\0', ""), MAX_NAME);
        Self { name, upstreams, ..Self::default() }
    }

    /// Returns `true` if the source has no methods, no refused methods and no parts that could not be read.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty() && self.refused.is_empty() && self.unread.is_empty()
    }

    /// Returns `true` if `--name` sets the name of the source.
    pub(crate) fn can_be_named(&self) -> bool {
        ["OpenRPC", "PHP", "manifest"].contains(&kind(&self.name))
    }

    /// Returns `true` if `name` is the name of another source of the same kind. The methods of such a source are not
    /// changed.
    pub(crate) fn is_another_of_same_kind(&self, name: &str) -> bool {
        self.can_be_named() && name != self.name && kind(name) == kind(&self.name)
    }

    /// Returns `true` if users are imported too.
    pub fn has_users(&self) -> bool {
        !self.access.users.is_empty()
    }

    /// Adds a method or a refusal. A method that names no upstream gets the upstream of the source. A method that is
    /// too large is refused. Fails if the source is too large.
    pub(crate) fn add(&mut self, method: Result<Proposal, Refusal>) -> anyhow::Result<()> {
        let method = method.and_then(|proposal| self.checked(proposal));
        match method {
            Ok(mut proposal) => {
                self.count(method_bytes(&proposal.row))?;
                let upstream = proposal.row.upstream.take();
                proposal.row.upstream = upstream.or_else(|| self.upstreams.first().cloned());
                self.methods.push(proposal);
            }
            Err(refusal) => {
                self.count(refusal.id.len() + refusal.reason.len())?;
                self.refused.push(refusal);
            }
        }
        Ok(())
    }

    /// Adds the size of a method, a refusal or a class to the size of the source. Fails if the source is too large.
    fn count(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(METHOD_OVERHEAD);
        if self.bytes > MAX_SOURCE_BYTES {
            return Err(hinted(
                format!("the methods of the source have more than {MAX_SOURCE_BYTES} bytes"),
                "import the source in parts, or shorten descriptions that many methods share",
            ));
        }
        Ok(())
    }

    /// Refuses a method that is too large, or that a database cannot store.
    fn checked(&self, proposal: Proposal) -> Result<Proposal, Refusal> {
        let (bytes, row) = (method_bytes(&proposal.row), &proposal.row);
        let mut sections = proposal.needs.iter().flatten();
        let mut columns = MethodRow::COLUMNS.iter();
        let nul_column = columns.find(|column| column.get(row).as_deref().is_some_and(has_nul));
        let nul_column =
            nul_column.map(|column| column.name).or(has_nul(&row.rpc_method).then_some("id"));
        let nul_column =
            nul_column.or(sections.any(|(ident, _)| has_nul(ident)).then_some("section"));
        let reason = if bytes > MAX_METHOD_BYTES {
            format!("it has {bytes} bytes, more than {MAX_METHOD_BYTES}")
        } else if let Some(column) = nul_column {
            format!("its {column} has a NUL character, which databases refuse")
        } else {
            return Ok(proposal);
        };
        let hides = self.combines_sections && proposal.needs.is_some();
        Err(Refusal { hides, ..Refusal::new(proposal.row.rpc_method, reason) })
    }

    /// Adds classes, except those that a database cannot store. Fails if the source is too large.
    pub(crate) fn add_types(
        &mut self,
        types: impl IntoIterator<Item = TypeRow>,
    ) -> anyhow::Result<()> {
        for row in types {
            self.count(type_bytes(&row))?;
            if [Some(&row.name), row.fields.as_ref(), row.schema.as_ref()]
                .into_iter()
                .flatten()
                .any(|text| has_nul(text))
            {
                self.notes.push(format!(
                    "note: class `{}` is not imported: it has a NUL character, which databases refuse",
                    row.name
                ));
                continue;
            }
            self.types.push(row);
        }
        Ok(())
    }

    /// Applies options to all methods. Drops an invalid output schema, because the method works without it.
    pub fn apply_options(&mut self, options: &ImportOptions) {
        self.note_refused_examples(&options.selection);
        self.name.push_str(&options.name_suffix());
        for refusal in &mut self.refused {
            refusal.id.insert_str(0, &options.prefix);
        }
        for method in &mut self.methods {
            method.add_prefix(&options.prefix);
            method.add_sections(&options.sections, self.combines_sections);
            let row = &mut method.row;
            if row.output_schema.is_none() && row.return_type.is_none() {
                continue;
            }
            let without_output =
                MethodRow { output_schema: None, return_type: None, ..row.clone() };
            if options.no_output_schemas {
                *row = without_output;
            } else if let Err(problem) = check(row)
                && check(&without_output).is_ok()
            {
                let id = &row.rpc_method;
                self.notes.push(format!("note: `{id}` has no output schema: {problem}"));
                *row = without_output;
            }
        }
    }
}

fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

/// Returns the first word of a source's name.
pub(crate) fn kind(source: &str) -> &str {
    source.split(' ').next().unwrap_or_default()
}

/// Maximum number of methods that a note lists.
const MAX_NOTED: usize = 3;

impl Source {
    /// Adds a note about methods whose schema refuses an example in the same source.
    fn note_refused_examples(&mut self, selection: &Selection) {
        let mut refused: Vec<String> = Vec::new();
        for row in self
            .methods
            .iter()
            .map(|method| &method.row)
            .filter(|row| selection.matches(&row.rpc_method))
        {
            let schema: Value = row
                .input_schema
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            if let Some(param) = refused_examples(&schema, &schema).first() {
                refused.push(format!("`{param}` of `{}`", row.rpc_method));
            }
        }
        let omitted = refused.len().saturating_sub(MAX_NOTED);
        refused.truncate(MAX_NOTED);
        if omitted > 0 {
            refused.push(format!("and {omitted} more methods"));
        }
        if !refused.is_empty() {
            self.notes.push(format!(
                "note: the source contradicts itself: its schemas refuse its examples of {}; `callgate lint` \
                 lists them, and `callgate method set ID --unchecked` stops checking the arguments of a method",
                refused.join(", ")
            ));
        }
    }
}

/// A method that a source proposes.
#[derive(Debug, Clone, Default)]
pub struct Proposal {
    /// The row that the source proposes.
    pub(crate) row: MethodRow,
    /// Sections that callers need; `None` if the source does not specify them.
    pub(crate) needs: Option<Vec<(String, RequiredMask)>>,
    /// Whether `needs` contains both the sections of the source and those of the command line.
    pub(crate) has_combined_needs: bool,
    /// Columns that the source failed to describe. If the method was imported before, these columns are kept.
    pub(crate) unknown: Vec<&'static str>,
    /// Reason why the method is not exposed as a tool.
    pub(crate) hidden: Option<&'static str>,
}

impl Proposal {
    /// Creates a proposal. If `safety` is `None`, the safety is guessed from the id and the description.
    pub(crate) fn new(mut row: MethodRow, safety: Option<Safety>) -> Self {
        let description = row.description.as_deref().unwrap_or_default();
        let guess =
            if safety.is_none() { safety_guess::guess(&row.rpc_method, description) } else { None };
        row.safety = match (safety, guess) {
            (Some(safety), _) => Some(safety.as_str().to_owned()),
            (None, guess) => guess.map(|guess| format!("{GUESSED}{}", guess.as_str())),
        };
        Self { row, ..Self::default() }
    }

    /// Adds a prefix to the id. Clears the tool name, the plugin and the function, because methods with another
    /// prefix could have the same ones. They are then derived from the new id.
    fn add_prefix(&mut self, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        let row = &mut self.row;
        let id = format!("{prefix}{}", row.rpc_method);
        let name = std::mem::replace(&mut row.rpc_method, id);
        row.remote_name.get_or_insert(name);
        (row.tool_name, row.plugin, row.method) = (None, None, None);
    }

    /// Hides the method if `reason` is set.
    pub(crate) fn hide(mut self, reason: Option<&'static str>) -> Self {
        if reason.is_some() {
            self.row.exposed = Some("0".to_owned());
        }
        Self { hidden: reason, ..self }
    }

    fn add_sections(&mut self, sections: &[(String, RequiredMask)], combines_sections: bool) {
        if sections.is_empty() {
            return;
        }
        if combines_sections {
            self.has_combined_needs = true;
            self.needs.get_or_insert_default().extend_from_slice(sections);
        } else {
            self.needs.get_or_insert_with(|| sections.to_vec());
        }
    }
}

/// The mask that callers need on a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredMask {
    /// This mask.
    Mask(Mask),
    /// Read for read-only methods, write for other methods.
    BySafety,
    /// No mask is sufficient.
    Closed,
}

/// Maximum length of the name of a source, and of the id in a refusal, in bytes.
const MAX_NAME: usize = 1024;
/// Maximum length of the reason in a refusal, in bytes.
const MAX_REASON: usize = 4096;

/// Truncates a text that is longer than a limit.
fn truncated(text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes { shortened(&text, max_bytes / 4) } else { text }
}

/// A part of a source that is not imported, or is imported differently.
#[derive(Debug)]
pub struct Refusal {
    /// The method's id, or its position in the source.
    pub id: String,
    /// Reason of the refusal.
    pub reason: String,
    /// If set and the method was imported before, the method is hidden, because it may be restricted now.
    pub(crate) hides: bool,
}

impl Refusal {
    /// Creates a refusal that does not hide a method that was imported before. An id above the limit is truncated.
    /// It need not be found in a registry, because no registry contains an id of this length.
    pub(crate) fn new(id: impl Into<String>, reason: impl Into<String>) -> Self {
        let (id, reason) = (truncated(id.into(), MAX_NAME), truncated(reason.into(), MAX_REASON));
        Self { id, reason, hides: false }
    }
}

/// Sections, roles, users and grants of a source.
#[derive(Debug, Default)]
pub(crate) struct AccessProposal {
    pub(crate) sections: Vec<SectionRow>,
    pub(crate) roles: Vec<RoleRow>,
    pub(crate) users: Vec<UserRow>,
    /// Grants. They refer to users and roles by the ids in the source, not by the ids in the registry.
    pub(crate) grants: Vec<ImportGrant>,
}

impl AccessProposal {
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.roles.is_empty() && self.grants.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every importer adds its methods with [`Source::add`].
    #[test]
    fn the_total_size_of_a_source_is_limited() {
        let mut source = Source::new("a", "b");
        let row = |length: usize| {
            let description = Some("a".repeat(length));
            MethodRow { rpc_method: "m".to_owned(), description, ..MethodRow::default() }
        };
        let mut add = |length| source.add(Ok(Proposal { row: row(length), ..Proposal::default() }));
        add(MAX_METHOD_BYTES).unwrap();
        let error = std::iter::repeat_with(|| add(1 << 20)).take(1000).find_map(Result::err);
        let limit = format!("the methods of the source have more than {MAX_SOURCE_BYTES} bytes");
        assert_eq!(error.unwrap().to_string(), limit);
        let bytes: usize = source.methods.iter().map(|method| method_bytes(&method.row)).sum();
        assert!(bytes <= MAX_SOURCE_BYTES);
        let [refused] = source.refused.as_slice() else { panic!("{:?}", source.refused) };
        assert_eq!(refused.reason, "it has 4194305 bytes, more than 4194304");
        // Small methods count too.
        let mut source = Source::new("a", "b");
        let mut small = std::iter::repeat_with(|| source.add(Err(Refusal::new("m", ""))));
        assert!(small.by_ref().take(MAX_SOURCE_BYTES / 1000).any(|result| result.is_err()));
    }

    #[test]
    fn methods_and_classes_with_nul_characters_are_not_imported() {
        let mut source = Source::new("manifest `a\0b`", "b");
        let row = MethodRow { rpc_method: "m".to_owned(), ..MethodRow::default() };
        let needs = Some(vec![("pe\0ts".to_owned(), RequiredMask::BySafety)]);
        source.add(Ok(Proposal { row, needs, ..Proposal::default() })).unwrap();
        let class = |name: &str, fields: &str| TypeRow {
            name: name.to_owned(),
            fields: Some(fields.to_owned()),
            schema: None,
        };
        let classes = [class("A\0", "{}"), class("B", "{\0}"), class("C", "{}")];
        source.add_types(classes).unwrap();
        assert_eq!(source.name, "manifest `ab`");
        assert!(source.methods.is_empty());
        let reason = "its section has a NUL character, which databases refuse";
        assert_eq!(source.refused[0].reason, reason);
        assert_eq!((source.types.len(), source.notes.len()), (1, 2));
        assert_eq!(source.types[0].name, "C");
    }
}
