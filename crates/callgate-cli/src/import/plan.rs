//! What a source proposes beside what the registry has: what is to be written, and what to tell.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use callgate::Mask;
use callgate::model::LOCAL;
use callgate_registry::{
    AccessRows, ActionRow, CatalogRows, DEFAULT_UPSTREAM, Import, ImportChange, ImportRow,
    MethodRow, SectionRow, SqlStore, Store as _, TokenRow, TypeRow, action_key, check,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::field::Field;
use super::needs::{CLOSED, Kept, Settled, kind, tighten};
use super::written::{Needs, Written};
use super::{Proposal, Refusal, Source};
use crate::cli::ImportOptions;

/// What is to be written, and what to tell.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) added: Vec<Added>,
    pub(super) changed: Vec<Changed>,
    /// No longer in the source: hidden, or deleted where that was asked for.
    pub(super) removed: Vec<String>,
    pub(super) is_pruned: bool,
    /// What the import leaves, and why.
    pub(super) kept: Vec<Refusal>,
    /// Not tools, and why.
    pub(crate) hidden: Vec<Refusal>,
    pub(crate) refused: Vec<Refusal>,
    pub(super) unchanged: usize,
    pub(super) not_selected: usize,
    /// What else is worth telling.
    pub(super) notes: Vec<String>,
    pub(super) import: Import,
}

#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) row: MethodRow,
    pub(super) needs: Needs,
    pub(crate) safety_is_guess: bool,
}

/// A method that is another one now.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) id: String,
    pub(super) fields: Vec<Difference>,
}

/// A column, its old and its new value.
pub(super) type Difference = (&'static str, Option<String>, Option<String>);

impl Plan {
    /// Compares a source with what a store has.
    pub(super) async fn read(
        store: &Arc<SqlStore>,
        source: &Source,
        options: &ImportOptions,
    ) -> anyhow::Result<Self> {
        let written = store.imports().await?;
        let rows = store.catalog_rows().await?;
        let mut plan = Self::new(source, &rows, &written, options);
        if !source.access.is_empty() {
            plan.add_access(source, &store.access_rows().await?, &store.tokens().await?);
        }
        if !source.unread.is_empty() {
            let note = "note: nothing is removed, since not all of the source was read";
            plan.notes.push(note.to_owned());
        }
        let ids: Vec<&str> = source.methods.iter().map(|it| it.row.rpc_method.as_str()).collect();
        let idle = options.selection.idle(&ids).into_iter();
        plan.notes.extend(idle.map(|pattern| format!("note: no method is like `{pattern}`")));
        Ok(plan)
    }

    pub(crate) fn new(
        source: &Source,
        rows: &CatalogRows,
        written: &[ImportRow],
        options: &ImportOptions,
    ) -> Self {
        let mut plan = Self { is_pruned: options.prune, ..Self::default() };
        plan.import.revision = rows.revision;
        let registry = Registry::new(rows, written);
        for refusal in source.refused.iter().filter(|one| options.selection.has(&one.id)) {
            plan.refuse(&refusal.id, refusal.reason.clone());
        }
        let mut seen: HashMap<String, &str> = HashMap::new();
        for proposal in &source.methods {
            let id = proposal.row.rpc_method.as_str();
            if !options.selection.has(id) {
                plan.not_selected += 1;
                continue;
            }
            match *seen.entry(id.to_ascii_lowercase()).or_insert(id) {
                // An entry of its own, or the first of several.
                first if std::ptr::eq(first, id) => plan.take(source, proposal, &registry),
                first if first == id => {
                    plan.refuse(id, "another method of the source has the same name".to_owned());
                }
                first => plan.refuse(id, in_case_only(first)),
            }
        }
        if source.unread.is_empty() {
            plan.remove_the_rest(source, &registry, options);
        }
        plan.types(source, rows);
        plan.missing_sections(rows);
        plan
    }

    /// Whether there is nothing to write but notes.
    pub(super) fn is_idle(&self) -> bool {
        self.added.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && self.import.types.is_empty()
            && self.import.access.is_empty()
    }

    /// What the source says of who may do what, where the registry says nothing.
    fn add_access(&mut self, source: &Source, rows: &AccessRows, tokens: &[TokenRow]) {
        let (access, notes) = source.access.absent(rows, tokens);
        let made: HashSet<&str> = access.sections.iter().map(|row| row.ident.as_str()).collect();
        self.import.sections.retain(|ident| !made.contains(ident.as_str()));
        self.notes.extend(notes);
        self.import.access = access;
    }

    /// Stands for all that changes; `None` where nothing does.
    pub(super) fn digest(&self) -> Option<String> {
        let Import { sections, types, changes, access, .. } = &self.import;
        if self.is_idle() {
            return None;
        }
        // Not the revisions: others may write something else meanwhile.
        let access = (&access.sections, &access.roles, &access.users, &access.grants);
        let digest = Sha256::digest(format!("{sections:?}{types:?}{changes:?}{access:?}"));
        Some(callgate_registry::hex::to_hex(&digest))
    }

    fn refuse(&mut self, id: &str, reason: String) {
        self.refused.push(Refusal::new(id, reason));
    }

    fn take(&mut self, source: &Source, proposal: &Proposal, registry: &Registry<'_>) {
        let (id, upstream) = (proposal.row.rpc_method.as_str(), proposal.row.upstream_name());
        let row = registry.methods.get(id).filter(|row| row.upstream_name() == upstream);
        let last = registry.written.get(&(upstream, id)).copied().filter(|_| row.is_some());
        let is_stronger = |last: &&ImportRow| {
            source.weaker_than.iter().any(|stronger| last.source.starts_with(stronger))
        };
        if let Some(last) = last.filter(is_stronger) {
            let reason = format!("all of it, {} says more", last.source);
            return self.kept.push(Refusal::new(id, reason));
        }
        let merged = match registry.merged(source, proposal, last) {
            Ok(merged) => merged,
            Err(reason) => return self.refuse(id, reason),
        };
        if let Some(reason) = proposal.hidden
            && merged.row.exposed.as_deref() == Some("0")
        {
            self.hidden.push(Refusal::new(id, reason));
        }
        if !merged.kept.is_empty() {
            self.kept.push(Refusal::new(id, merged.kept.join("; ")));
        }
        let note = merged.written.row(upstream, id, &source.name);
        if row.is_some() && merged.changes.is_empty() {
            self.unchanged += 1;
            // A manifest that was exported before does not take over what a document brought.
            let is_anothers = last.is_some_and(|last| kind(&last.source) != kind(&source.name));
            if !is_anothers && last != Some(&note) {
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
        if row.is_some() {
            self.changed.push(Changed { id: id.to_owned(), fields: changes });
        } else {
            let needs = needs.unwrap_or_default();
            self.added.push(Added { row: new, needs, safety_is_guess: proposal.safety_is_guess });
        }
    }

    /// What the source had and has no more. What it has and refuses now stays as it was.
    fn remove_the_rest(
        &mut self,
        source: &Source,
        registry: &Registry<'_>,
        options: &ImportOptions,
    ) {
        let known: HashSet<&str> = source
            .methods
            .iter()
            .map(|method| method.row.rpc_method.as_str())
            .chain(source.refused.iter().filter(|it| !it.hides).map(|it| it.id.as_str()))
            .collect();
        let mut gone: Vec<&ImportRow> = registry.written.values().copied().collect();
        gone.retain(|note| {
            (note.source == source.name || source.supersedes.contains(&note.source.as_str()))
                && source.upstreams.contains(&note.upstream)
                && !known.contains(note.rpc_method.as_str())
                && options.selection.has(&note.rpc_method)
        });
        gone.sort_by(|a, b| a.rpc_method.cmp(&b.rpc_method));
        for note in gone {
            let row = registry.methods.get(note.rpc_method.as_str());
            if let Some(row) = row.filter(|row| row.upstream_name() == note.upstream) {
                self.remove(row, note, options.prune);
            }
        }
    }

    fn remove(&mut self, row: &MethodRow, note: &ImportRow, prune: bool) {
        let mut written = Written::read(note);
        if prune {
            self.import.changes.push(ImportChange::Remove(Box::new(row.clone())));
        } else if written.get(Field::Exposed) == Some("0")
            || Field::Exposed.value(row).as_deref() == Some("0")
        {
            // Hidden before, by an import or by hand; who shows it since, or hid it, decides.
            return;
        } else {
            let hidden = Some("0".to_owned());
            written.set(Field::Exposed, hidden.clone());
            let note = written.row(&note.upstream, &note.rpc_method, &note.source);
            let row = Box::new(MethodRow { exposed: hidden, ..row.clone() });
            self.import.changes.push(ImportChange::Write { row, needs: None, note });
        }
        self.removed.push(row.rpc_method.clone());
    }

    fn types(&mut self, source: &Source, rows: &CatalogRows) {
        let known: HashMap<&str, &TypeRow> =
            rows.types.iter().map(|row| (row.name.as_str(), row)).collect();
        let is_new = |row: &&TypeRow| known.get(row.name.as_str()) != Some(row);
        self.import.types = source.types.iter().filter(is_new).cloned().collect();
        // Nothing says whose it was.
        let names = self.import.types.iter().map(|row| row.name.as_str());
        let others: Vec<&str> = names.filter(|name| known.contains_key(name)).collect();
        if !others.is_empty() {
            self.notes.push(format!(
                "note: classes that were there with other fields have those of this source now: `{}`",
                others.join("`, `")
            ));
        }
    }

    fn missing_sections(&mut self, rows: &CatalogRows) {
        let known: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
        let mut missing = BTreeSet::new();
        for change in &self.import.changes {
            if let ImportChange::Write { needs: Some(needs), .. } = change {
                let idents = needs.iter().map(|(ident, _)| ident);
                missing.extend(idents.filter(|ident| !known.contains(ident.as_str())).cloned());
            }
        }
        self.import.sections = missing.into_iter().collect();
    }
}

/// The registry, by what it is asked for.
struct Registry<'a> {
    /// Of several rows with one id the first, which is the one that is served.
    methods: HashMap<&'a str, &'a MethodRow>,
    written: HashMap<(&'a str, &'a str), &'a ImportRow>,
    needs: NeedsByKey,
    by_action: HashMap<(String, String), Vec<&'a MethodRow>>,
    /// Ids of methods, by the same in lower case.
    in_lower_case: HashMap<String, &'a str>,
}

/// A proposal and what was there, put together.
struct Merged {
    row: MethodRow,
    /// What it is to need; `None` leaves that.
    needs: Option<Needs>,
    written: Written,
    changes: Vec<Difference>,
    /// What is not as the source has it, and why.
    kept: Vec<String>,
}

impl<'a> Registry<'a> {
    fn new(rows: &'a CatalogRows, written: &'a [ImportRow]) -> Self {
        let mut registry = Self {
            methods: HashMap::new(),
            written: HashMap::new(),
            needs: NeedsByKey::new(&rows.sections, &rows.actions),
            by_action: HashMap::new(),
            in_lower_case: HashMap::new(),
        };
        for row in &rows.methods {
            let id = row.rpc_method.as_str();
            registry.methods.entry(id).or_insert(row);
            registry.by_action.entry(row.action_key()).or_default().push(row);
            registry.in_lower_case.insert(id.to_ascii_lowercase(), id);
        }
        let key = |row: &'a ImportRow| (row.upstream.as_str(), row.rpc_method.as_str());
        registry.written.extend(written.iter().map(|row| (key(row), row)));
        registry
    }

    /// Returns what a method becomes, or why it is refused. `last` is what an import wrote of it.
    fn merged(
        &self,
        source: &Source,
        proposal: &Proposal,
        last: Option<&ImportRow>,
    ) -> Result<Merged, String> {
        let (id, upstream) = (proposal.row.rpc_method.as_str(), proposal.row.upstream_name());
        if let Some(other) = self.in_case_only(id) {
            return Err(in_case_only(other));
        }
        let old_row = self.methods.get(id).copied();
        if let Some(owner) = old_row.map(MethodRow::upstream_name).filter(|it| *it != upstream) {
            return Err(format!("upstream `{owner}` has a method of that name"));
        }
        let last = last.map(Written::read);
        let (mut row, mut changes, mut by_hand) = match old_row {
            Some(row) => with_columns(row, &proposal.row, last.as_ref()),
            None => (new_row(&proposal.row), Vec::new(), Vec::new()),
        };
        // By the key that it has now, which may become another.
        let old = old_row.map(|row| self.needs.of(row));
        let settled = Settled::new(proposal, &row, old.as_ref(), last.as_ref(), &source.name);
        if let Some(new) = &settled.new {
            changes.push(("sections", old.as_ref().and_then(shown), shown(new)));
            row.sections = named(new);
        }
        if upstream != LOCAL {
            check(&row).map_err(|error| error.to_string())?;
        }
        let is_moved = old_row.is_some_and(|old| old.action_key() != row.action_key());
        let claimed = settled.new.as_ref().or(old.as_ref().filter(|_| is_moved));
        claimed.map_or(Ok(()), |claimed| self.check_actions(&row, claimed))?;
        if settled.kept == Some(Kept::ByHand) {
            by_hand.push("sections");
        }
        let by_hand = Some(by_hand.join(", ")).filter(|columns| !columns.is_empty());
        let by_hand = by_hand.map(|columns| format!("{columns}, changed by hand"));
        let another = "sections, another source needs more".to_owned();
        let another = Some(another).filter(|_| settled.kept == Some(Kept::Another));
        Ok(Merged {
            row,
            needs: settled.new.clone(),
            written: Written::new(proposal, settled),
            changes,
            kept: by_hand.into_iter().chain(another).collect(),
        })
    }

    /// Returns another id that differs from this one in case only: actions would be those of both.
    fn in_case_only(&self, id: &str) -> Option<&'a str> {
        let other = self.in_lower_case.get(&id.to_ascii_lowercase()).copied()?;
        (other != id && !self.methods.contains_key(id)).then_some(other)
    }

    /// Checks that no method of another upstream would need something else then: actions know no upstreams.
    fn check_actions(&self, row: &MethodRow, claimed: &Needs) -> Result<(), String> {
        let rows = self.by_action.get(&row.action_key()).into_iter().flatten();
        let mut others = rows.filter(|other| other.upstream_name() != row.upstream_name());
        let Some(other) = others.find(|other| self.needs.of(other) != *claimed) else {
            return Ok(());
        };
        let ((plugin, method), owner) = (row.permission_key(), other.upstream_name());
        Err(format!(
            "upstream `{owner}` has a method with the actions of `{plugin}` and `{method}`, and needs \
             something else"
        ))
    }
}

fn in_case_only(other: &str) -> String {
    format!("it differs from `{other}` in case only, and what callers need would be one for both")
}

/// Returns the row of a method that is not there yet.
fn new_row(proposed: &MethodRow) -> MethodRow {
    let mut row = proposed.clone();
    // The key of its actions stays when the upstream changes.
    let upstream = row.upstream_name().to_owned();
    row.method.get_or_insert_with(|| row.rpc_method.clone());
    row.plugin.get_or_insert_with(|| upstream.clone());
    row.upstream = Some(upstream).filter(|name| name != DEFAULT_UPSTREAM);
    row
}

/// Returns a row with the columns that a source proposes, what that changes, and the columns that people
/// have changed, which stay.
fn with_columns(
    row: &MethodRow,
    proposed: &MethodRow,
    last: Option<&Written>,
) -> (MethodRow, Vec<Difference>, Vec<&'static str>) {
    let mut row = row.clone();
    let (mut changes, mut by_hand) = (Vec::new(), Vec::new());
    for field in Field::all() {
        let (old, new) = (field.value(&row), field.value(proposed));
        if old == new || (new.is_none() && field.is_left()) {
            continue;
        }
        // A row that was not imported is somebody's, as far as it says something.
        let is_by_hand = match last {
            Some(last) => old.as_deref() != last.get(field),
            None => old.is_some(),
        };
        if field.is_kept() && is_by_hand {
            by_hand.push(field.name());
        } else {
            field.set(&mut row, new.clone());
            changes.push((field.name(), old, new));
        }
    }
    (row, changes, by_hand)
}

/// What methods need, by the key of their actions.
pub(super) struct NeedsByKey(HashMap<(String, String), Needs>);

impl NeedsByKey {
    pub(super) fn new(sections: &[SectionRow], actions: &[ActionRow]) -> Self {
        let idents: HashMap<i64, &str> =
            sections.iter().map(|section| (section.id, section.ident.as_str())).collect();
        let mut needs: HashMap<(String, String), Needs> = HashMap::new();
        for action in actions {
            let number = || format!("#{}", action.id_section);
            let ident = idents.get(&action.id_section).map_or_else(number, ToString::to_string);
            let key = action_key(&action.plugin, &action.method);
            tighten(needs.entry(key).or_default(), &ident, &action.mask);
        }
        Self(needs)
    }

    pub(super) fn of(&self, row: &MethodRow) -> Needs {
        let mut needs = self.0.get(&row.action_key()).cloned().unwrap_or_default();
        for ident in row.section_names().unwrap_or_default() {
            needs.entry(ident).or_insert_with(|| CLOSED.to_owned());
        }
        needs
    }
}

/// What each row's callers need, in the order of the rows.
pub(crate) fn needs_by_rows(rows: &CatalogRows) -> Vec<Needs> {
    let needs = NeedsByKey::new(&rows.sections, &rows.actions);
    rows.methods.iter().map(|row| needs.of(row)).collect()
}

/// Named in the row too: should an action be lost, the method is closed and not open.
fn named(needs: &Needs) -> Option<String> {
    let idents: Vec<&String> = needs.keys().collect();
    (!idents.is_empty()).then(|| json!(idents).to_string())
}

fn masks(needs: &Needs) -> Vec<(String, Mask)> {
    let mask = |text: &String| Mask::required(text.parse().ok()?);
    needs.iter().filter_map(|(ident, text)| Some((ident.clone(), mask(text)?))).collect()
}

/// Sections and masks in one line.
pub(super) fn shown(needs: &Needs) -> Option<String> {
    let word = |mask: &str| match mask {
        "2" => "read".to_owned(),
        "4" => "write".to_owned(),
        "6" => "execute".to_owned(),
        other => other.to_owned(),
    };
    let needs: Vec<String> =
        needs.iter().map(|(ident, mask)| format!("{ident}:{}", word(mask))).collect();
    (!needs.is_empty()).then(|| needs.join(" "))
}
