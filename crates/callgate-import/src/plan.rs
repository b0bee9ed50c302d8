//! Compares a source with the registry. Returns the rows to write and the text to report.

mod access;
pub(crate) mod columns;
mod merge;
mod required_sections;
mod overrides;
mod removed_methods;
mod report;
mod shared;
mod written;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use callgate_registry::{
    AccessRows, CatalogRows, Import, ImportChange, ImportRow, MethodRow, SqlStore, Store as _,
    StoreError, TokenRow, TypeRow,
};
use sha2::{Digest as _, Sha256};

use crate::hinted::hinted;
use crate::required_sections::RequiredSections;
use crate::source::{ImportOptions, Proposal, Refusal, Source, SourceParams, kind};
use merge::{Merged, Registry, case_conflict};
use required_sections::{display, masks, strictest};
use shared::share_actions;
use written::Written;

pub use overrides::{ImportedMethod, Override};
pub use report::{Detail, Line, Report};

/// Maximum number of attempts if other programs write to the registry at the same time, for example the other imports
/// of a server that starts.
const ATTEMPTS: usize = 20;

/// An import of a source into a registry.
#[derive(Debug, Clone, Copy)]
pub struct Importer<'a> {
    /// The source, with the options applied.
    pub source: &'a Source,
    /// The registry.
    pub store: &'a Arc<SqlStore>,
    /// Options.
    pub options: &'a ImportOptions,
}

impl Importer<'_> {
    /// Reports what would change.
    pub async fn preview(self, detail: Detail) -> anyhow::Result<Report> {
        Ok(Report::of_preview(self.source, &self.plan().await?, detail))
    }

    /// Imports the source. If `expected` is set, fails unless the change has this digest.
    pub async fn write(self, expected: Option<&str>) -> anyhow::Result<Report> {
        for _ in 0..ATTEMPTS {
            let plan = self.plan().await?;
            if expected.is_some_and(|expected| plan.digest().as_deref() != Some(expected)) {
                return Err(hinted(
                    "the source or the registry has changed since this change was prepared; nothing was written",
                    "preview the import again",
                ));
            }
            match self.store.import(&plan.import).await {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Ok(Report::of_import(self.source, &plan)),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Records which sources have the methods. Does nothing if the import would also change anything else.
    pub(crate) async fn write_notes(self) -> anyhow::Result<()> {
        let plan = self.plan().await?;
        if !plan.has_only_notes() {
            return Ok(());
        }
        match self.store.import(&plan.import).await {
            // After a conflict, the next import of the source writes the notes.
            Ok(()) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the methods whose safety is unknown, or a guess that nobody has approved: read-only ones first,
    /// unknown ones last.
    pub async fn review(self) -> anyhow::Result<Vec<Guess>> {
        let mut guesses = self.plan().await?.guesses;
        guesses.sort_by(|a, b| {
            let key = |guess: &Guess| (guess.safety.is_some(), guess.safety.clone());
            key(b).cmp(&key(a)).then_with(|| a.id.cmp(&b.id))
        });
        Ok(guesses)
    }

    async fn plan(self) -> anyhow::Result<Plan> {
        let Self { source, store, options } = self;
        let written = store.imports().await?;
        let rows = store.catalog_rows().await?;
        let mut plan = Plan::new(source, &rows, &written, options);
        if !source.access.is_empty() {
            plan.add_access(source, &store.access_rows().await?, &store.tokens().await?);
        }
        if !source.unread.is_empty() {
            let note = "note: nothing is removed, since not all of the source was read";
            plan.notes.push(note.to_owned());
        }
        let methods = source.methods.iter().map(|method| &method.row.rpc_method);
        let ids = methods.chain(source.refused.iter().map(|refusal| &refusal.id));
        let ids: Vec<&str> = ids.map(|id| options.name_in_source(id)).collect();
        let unused = options.selection.unused(&ids).into_iter();
        plan.notes.extend(unused.map(|pattern| format!("note: no method matches `{pattern}`")));
        Ok(plan)
    }
}

/// A method whose safety nobody has declared.
#[derive(Debug)]
pub struct Guess {
    /// Id of the method.
    pub id: String,
    /// Guessed safety, `read_only` or `destructive`; `None` if it is unknown.
    pub safety: Option<String>,
    /// First line of the description.
    pub description: String,
}

/// The changes that an import makes.
#[derive(Debug, Default)]
pub struct Plan {
    /// New methods.
    pub added: Vec<Added>,
    changed: Vec<Changed>,
    /// Methods that the source no longer has. They are hidden, or deleted if `is_pruned` is set.
    removed: Vec<String>,
    is_pruned: bool,
    /// Values of the registry that are kept, with the reason.
    kept: Vec<Refusal>,
    /// Methods that are not tools, with the reason.
    pub hidden: Vec<Refusal>,
    /// Methods that are not imported, with the reason.
    pub refused: Vec<Refusal>,
    /// Style of the parameters of all methods. It replaces the style in the source.
    params_by: Option<String>,
    unchanged: usize,
    not_selected: usize,
    /// Methods whose safety is unknown or a guess.
    guesses: Vec<Guess>,
    /// Number of methods whose guessed safety was approved before this import.
    approved: usize,
    notes: Vec<String>,
    import: Import,
    /// Names of classes in `import` that the registry already has.
    changed_types: Vec<String>,
}

/// A new method.
#[derive(Debug)]
pub struct Added {
    /// The row to write.
    pub row: MethodRow,
    needs: RequiredSections,
}

#[derive(Debug)]
struct Changed {
    id: String,
    fields: Vec<Difference>,
}

/// A column, its old value and its new value.
type Difference = (&'static str, Option<String>, Option<String>);

impl Plan {
    /// Compares a source with the rows of a registry.
    pub fn new(
        source: &Source,
        rows: &CatalogRows,
        written: &[ImportRow],
        options: &ImportOptions,
    ) -> Self {
        let mut plan = Self { is_pruned: options.prune, ..Self::default() };
        plan.import.change_counter = rows.change_counter;
        let registry = Registry::new(source, rows, written, options);
        plan.set_params_by(&registry);
        for refusal in source.refused.iter().filter(|refusal| options.selects(&refusal.id)) {
            plan.refuse(&refusal.id, refusal.reason.clone());
        }
        let mut merged: Vec<(Cow<'_, Proposal>, Merged)> = Vec::new();
        let mut first_ids: HashMap<String, &str> = HashMap::new();
        for proposal in &source.methods {
            let id = proposal.row.rpc_method.as_str();
            if !options.selects(id) {
                plan.not_selected += 1;
                continue;
            }
            match *first_ids.entry(id.to_ascii_lowercase()).or_insert(id) {
                // The id occurs for the first time.
                first if std::ptr::eq(first, id) => {
                    let proposal = plan.with_params_style(proposal);
                    let method = plan.merge(&proposal, &registry);
                    merged.extend(method.map(|method| (proposal, method)));
                }
                first if first == id => {
                    plan.refuse(id, "another method of the source has the same name".to_owned());
                }
                first => plan.refuse(id, case_conflict(first)),
            }
        }
        plan.notes.extend(share_actions(merged.iter_mut().map(|(_, method)| method), &registry));
        for (proposal, method) in merged {
            plan.plan_method(&proposal, method, &registry);
        }
        if source.unread.is_empty() {
            plan.remove_missing(&registry);
        }
        plan.add_types(source, rows, written);
        plan.add_missing_sections(rows);
        plan
    }

    /// Sets the style of the parameters from the options, or else from the last import of the source.
    fn set_params_by(&mut self, registry: &Registry<'_>) {
        let source = registry.source;
        self.params_by = match registry.options.params_by {
            Some(SourceParams::Style(style)) => Some(style.as_str().to_owned()),
            Some(SourceParams::Described) => None,
            None => {
                // Sources of different upstreams can have the same name.
                let mut notes = registry.written.values().filter(|note| {
                    note.source == source.name && source.upstreams.contains(&note.upstream)
                });
                let style = notes.find_map(|note| Written::parse(note).source_params_by);
                self.notes.extend(style.as_ref().map(|style| {
                    format!(
                        "note: an earlier import set `--params-by {style}`, which still applies; \
                         `--params-by described` removes this style"
                    )
                }));
                style
            }
        };
    }

    /// Returns `true` if no method, type or grant changes.
    fn is_unchanged(&self) -> bool {
        self.added.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && self.import.types.is_empty()
            && self.import.access.is_empty()
    }

    /// Returns `true` if the import would change nothing but the values that are recorded for later imports.
    fn has_only_notes(&self) -> bool {
        self.is_unchanged() && !self.import.changes.is_empty()
    }

    /// Adds sections, roles, users and grants that the registry does not have.
    fn add_access(&mut self, source: &Source, rows: &AccessRows, tokens: &[TokenRow]) {
        let (access, notes) = access::missing(&source.access, rows, tokens);
        let created: HashSet<&str> = access.sections.iter().map(|row| row.ident.as_str()).collect();
        self.import.sections.retain(|ident| !created.contains(ident.as_str()));
        self.notes.extend(notes);
        self.import.access = access;
    }

    /// Returns a digest of all changes, or `None` if there are none.
    fn digest(&self) -> Option<String> {
        let Import { sections, types, changes, access, .. } = &self.import;
        if self.is_unchanged() {
            return None;
        }
        // The digest excludes the change counters, because other programs may write unrelated rows meanwhile.
        let access = (&access.sections, &access.roles, &access.users, &access.grants);
        let digest = Sha256::digest(format!("{sections:?}{types:?}{changes:?}{access:?}"));
        Some(callgate_registry::hex::to_hex(&digest))
    }

    fn refuse(&mut self, id: &str, reason: String) {
        self.refused.push(Refusal::new(id, reason));
    }

    /// Returns a proposal with the style of parameters that applies to the whole source.
    fn with_params_style<'p>(&self, proposal: &'p Proposal) -> Cow<'p, Proposal> {
        let mut proposal = Cow::Borrowed(proposal);
        if self.params_by.is_some() {
            proposal.to_mut().row.params_by.clone_from(&self.params_by);
        }
        proposal
    }

    /// Merges a proposal with the registry, or records why the method is not imported.
    fn merge(&mut self, proposal: &Proposal, registry: &Registry<'_>) -> Option<Merged> {
        let (id, source) = (proposal.row.rpc_method.as_str(), registry.source);
        let last = registry.last_import(proposal);
        let is_preferred = |last: &&ImportRow| {
            source.preferred_sources.iter().any(|prefix| last.source.starts_with(prefix))
        };
        if let Some(last) = last.filter(is_preferred) {
            let reason =
                format!("all columns, since {} describes the method in more detail", last.source);
            self.kept.push(Refusal::new(id, reason));
            return None;
        }
        if let Some(last) = last.filter(|last| source.is_another_of_same_kind(&last.source))
            && let written = Written::parse(last)
            && !written.is_removed
        {
            let merged = registry.merge(proposal, Some(last)).ok();
            self.keep_method_of_other_source(
                last,
                written,
                source,
                merged.as_ref().and_then(stricter_sections),
            );
            return None;
        }
        let merged = registry.merge(proposal, last);
        merged.map_err(|reason| self.refuse(id, reason)).ok()
    }

    /// Plans the import of one method.
    fn plan_method(&mut self, proposal: &Proposal, mut merged: Merged, registry: &Registry<'_>) {
        let source = registry.source;
        let (id, upstream) = (proposal.row.rpc_method.as_str(), proposal.row.upstream_name());
        let (is_new, last) = (merged.row.id == 0, registry.last_import(proposal));
        self.add_guess(&merged.row, proposal);
        if registry.options.approves_guesses && merged.row.safety_or_guess().1 {
            merged.approve_guess();
        }
        if let Some(reason) = proposal.hidden
            && merged.row.exposed.as_deref() == Some("0")
        {
            self.hidden.push(Refusal::new(id, reason));
        }
        if !merged.kept.is_empty() {
            self.kept.push(Refusal::new(id, merged.kept.join("; ")));
        }
        merged.written.source_params_by.clone_from(&self.params_by);
        merged.written.also_in.remove(&source.name);
        let note = merged.written.to_row(upstream, id, &source.name);
        if !is_new && merged.changes.is_empty() {
            self.unchanged += 1;
            // Importing a manifest that was exported before does not make it the source of the methods.
            let is_of_another_kind =
                last.is_some_and(|last| kind(&last.source) != kind(&source.name));
            if !is_of_another_kind && last != Some(&note) {
                self.import.changes.push(ImportChange::Note(note));
            }
            return;
        }
        let Merged { row: new, needs, changes, .. } = merged;
        self.import.changes.push(ImportChange::Write {
            row: Box::new(new.clone()),
            needs: needs.as_ref().map(masks),
            note,
        });
        if is_new {
            let needs = needs.unwrap_or_default();
            self.added.push(Added { row: new, needs });
        } else {
            self.changed.push(Changed { id: id.to_owned(), fields: changes });
        }
    }

    /// Adds a method to `guesses` if its safety is unknown or guessed. Counts a method whose guess was approved.
    fn add_guess(&mut self, row: &MethodRow, proposal: &Proposal) {
        let (safety, is_guess) = row.safety_or_guess();
        if is_guess || safety.is_none() {
            let text = row.description.as_deref().and_then(|text| text.lines().next());
            let description = text.unwrap_or_default().to_owned();
            let (id, safety) = (row.rpc_method.clone(), safety.map(ToOwned::to_owned));
            self.guesses.push(Guess { id, safety, description });
        } else if proposal.row.safety_or_guess() == (safety, true) {
            self.approved += 1;
        }
    }

    /// Keeps a method that another source of the same kind wrote and still has. `stricter` are the sections of this
    /// source, if they require more than the sections in the registry.
    fn keep_method_of_other_source(
        &mut self,
        last: &ImportRow,
        mut written: Written,
        source: &Source,
        stricter: Option<String>,
    ) {
        let mut reason = format!("all columns, since {} has the method too", last.source);
        if let Some(sections) = stricter {
            reason.push_str("; the imported source requires ");
            reason.push_str(&sections);
        }
        self.kept.push(Refusal::new(&last.rpc_method, reason));
        if written.also_in.insert(source.name.clone()) {
            self.record_note(&written, last, &last.source);
        }
        let hint = "note: if two sources have the same method, the columns of the source that added it are \
                    kept; to import both methods, use `--prefix`; if this source is a new version of the other one, import this source with \
                    `--name` and the earlier title";
        if !self.notes.iter().any(|note| note == hint) {
            self.notes.push(hint.to_owned());
        }
    }

    fn record_note(&mut self, written: &Written, last: &ImportRow, source: &str) {
        let note = written.to_row(&last.upstream, &last.rpc_method, source);
        self.import.changes.push(ImportChange::Note(note));
    }

    /// Adds classes. If all methods are on one upstream, the classes apply only to its methods, because another service
    /// may have different classes with the same names.
    fn add_types(&mut self, source: &Source, rows: &CatalogRows, written: &[ImportRow]) {
        let existing: HashMap<&str, &TypeRow> =
            rows.types.iter().map(|row| (row.name.as_str(), row)).collect();
        let upstreams: BTreeSet<&str> =
            source.methods.iter().map(|method| method.row.upstream_name()).collect();
        let upstream = upstreams.first().copied().filter(|_| upstreams.len() == 1);
        for row in &source.types {
            let mut row = row.clone();
            if let (Some(upstream), (None, class)) = (upstream, row.class()) {
                let scoped_name = TypeRow::name_for(upstream, class);
                if existing.contains_key(scoped_name.as_str()) || existing.get(class) != Some(&&row)
                {
                    row.name = scoped_name;
                }
            }
            if existing.get(row.name.as_str()) != Some(&&row) {
                self.import.types.push(row);
            }
        }
        // The registry does not record which of several sources a class comes from.
        let is_of_another_source = |note: &ImportRow| {
            note.source != source.name && upstream.is_none_or(|upstream| note.upstream == upstream)
        };
        let names = self.import.types.iter().map(|row| &row.name);
        self.changed_types =
            names.filter(|name| existing.contains_key(name.as_str())).cloned().collect();
        if !self.changed_types.is_empty() && written.iter().any(is_of_another_source) {
            self.notes.push(format!(
                "note: this source replaces the fields of these classes: `{}`",
                self.changed_types.join("`, `")
            ));
        }
    }

    fn add_missing_sections(&mut self, rows: &CatalogRows) {
        let existing: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
        let mut missing = BTreeSet::new();
        for change in &self.import.changes {
            if let ImportChange::Write { needs: Some(needs), .. } = change {
                let idents = needs.iter().map(|(ident, _)| ident);
                missing.extend(idents.filter(|ident| !existing.contains(ident.as_str())).cloned());
            }
        }
        self.import.sections = missing.into_iter().collect();
    }
}

/// Returns the sections that a source specifies, if they require more than the sections in the registry.
fn stricter_sections(merged: &Merged) -> Option<String> {
    let (old, new) = (merged.old_needs.as_ref()?, merged.needs.as_ref()?);
    display(new).filter(|_| strictest(old, new) != *old)
}

#[cfg(test)]
pub(crate) mod tests {
    use callgate_registry::{DatabaseOptions, DatabaseUrl};
    use tempfile::TempDir;

    use super::*;

    /// Returns an empty registry, and the directory of its file.
    pub(crate) async fn new_registry() -> (Arc<SqlStore>, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(directory.path().join("a.db"));
        let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
        (Arc::new(store), directory)
    }

    #[tokio::test]
    async fn an_import_is_written_only_if_it_equals_the_preview() {
        let (store, _directory) = new_registry().await;
        let mut source = Source { name: "manifest".to_owned(), ..Source::default() };
        let row = MethodRow { rpc_method: "pet.get".to_owned(), ..MethodRow::default() };
        source.methods.push(Proposal { row, ..Proposal::default() });
        let (store, options) = (&store, &ImportOptions::default());
        let first = Importer { source: &source, store, options };
        let digest = first.preview(Detail::Brief).await.unwrap().digest.unwrap();
        // The source changes between the preview and the import.
        source.methods[0].row.title = Some("Other".to_owned());
        let changed = Importer { source: &source, store, options };
        let error = changed.write(Some(&digest)).await.unwrap_err();
        assert!(error.to_string().contains("nothing was written"), "{error}");
        assert!(store.catalog_rows().await.unwrap().methods.is_empty());
        source.methods[0].row.title = None;
        let same = Importer { source: &source, store, options };
        same.write(Some(&digest)).await.unwrap();
        assert_eq!(store.catalog_rows().await.unwrap().methods.len(), 1);
    }
}
