//! What a source proposes beside what the registry has: what is to be written, and what to tell.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use callgate::{LOCAL, Mask};
use callgate_registry::{
    AccessRows, CatalogRows, DEFAULT_UPSTREAM, Import, ImportChange, ImportRow, MethodRow,
    TokenRow, TypeRow, action_key, check,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::field::Field;
use super::needs::{CLOSED, Kept, Settled, kind, tighten};
use super::written::{Needs, Written};
use super::{Options, Proposal, Refusal, Source};

/// What is to be written, and what to tell.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) added: Vec<Added>,
    pub(super) changed: Vec<Changed>,
    /// No longer in the source: hidden, or deleted where that was asked for.
    pub(super) removed: Vec<String>,
    pub(super) is_pruned: bool,
    /// What the import leaves, and why.
    pub(super) kept: Vec<(String, String)>,
    /// Not tools, and why.
    pub(super) hidden: Vec<(String, &'static str)>,
    pub(super) refused: Vec<Refusal>,
    pub(super) unchanged: usize,
    pub(super) not_selected: usize,
    pub(super) idle_patterns: Vec<String>,
    /// What else is worth telling.
    pub(super) notes: Vec<String>,
    pub(super) import: Import,
}

/// A new method.
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
    /// Column, old and new value.
    pub(super) fields: Vec<(&'static str, Option<String>, Option<String>)>,
}

impl Plan {
    pub(super) fn new(
        source: &Source,
        rows: &CatalogRows,
        written: &[ImportRow],
        options: &Options<'_>,
    ) -> Self {
        let mut plan = Self { is_pruned: options.prune, ..Self::default() };
        plan.import.revision = rows.revision;
        let registry = Registry::new(rows, written);
        let ids: Vec<&str> =
            source.methods.iter().map(|method| method.row.rpc_method.as_str()).collect();
        plan.idle_patterns =
            options.selection.idle(&ids).into_iter().map(ToOwned::to_owned).collect();
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
    pub(super) fn add_access(&mut self, source: &Source, rows: &AccessRows, tokens: &[TokenRow]) {
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
        let mut text = String::new();
        for byte in digest {
            let _ = write!(text, "{byte:02x}");
        }
        Some(text)
    }

    fn refuse(&mut self, id: &str, reason: String) {
        self.refused.push(Refusal { id: id.to_owned(), reason, hides: false });
    }

    fn take(&mut self, source: &Source, proposal: &Proposal, registry: &Registry<'_>) {
        let id = &proposal.row.rpc_method;
        let upstream = proposal.row.upstream_name();
        if let Some(other) = registry.in_case_only(id) {
            return self.refuse(id, in_case_only(other));
        }
        let result = match registry.methods.get(id.as_str()) {
            None => Merged::new_method(proposal, &source.name),
            Some(row) if row.upstream_name() != upstream => {
                let owner = row.upstream_name();
                return self.refuse(id, format!("upstream `{owner}` has a method of that name"));
            }
            Some(row) => {
                let last = registry.written.get(&(upstream, id.as_str()));
                if let Some(last) = last.filter(|last| source.is_weaker_than(&last.source)) {
                    self.kept.push((id.clone(), format!("all of it, {} says more", last.source)));
                    return;
                }
                let last = last.map(|row| Written::read(row));
                Merged::with_row(proposal, row, last.as_ref(), registry, &source.name)
            }
        };
        if upstream != LOCAL
            && let Err(error) = check(&result.row)
        {
            return self.refuse(id, error.to_string());
        }
        if let Some(owner) = registry.loser(&result) {
            let (plugin, method) = result.row.permission_key();
            let owner = owner.upstream_name();
            let reason = format!(
                "upstream `{owner}` has a method with the actions of `{plugin}` and `{method}`, and \
                 needs something else"
            );
            return self.refuse(id, reason);
        }
        if let Some(reason) = proposal.hidden
            && result.row.exposed.as_deref() == Some("0")
        {
            self.hidden.push((id.clone(), reason));
        }
        if let Some(kept) = result.kept() {
            self.kept.push((id.clone(), kept));
        }
        self.note(result, source, proposal, registry);
    }

    fn note(
        &mut self,
        result: Merged,
        source: &Source,
        proposal: &Proposal,
        registry: &Registry<'_>,
    ) {
        let (id, upstream) = (result.row.rpc_method.clone(), proposal.row.upstream_name());
        let note = result.written.row(upstream, &id, &source.name);
        let is_new = result.row.id == 0;
        if !is_new && result.changes.is_empty() {
            self.unchanged += 1;
            let last = registry.written.get(&(upstream, id.as_str())).copied();
            // A manifest that was exported before does not take over what a document brought.
            let is_anothers = last.is_some_and(|last| kind(&last.source) != kind(&source.name));
            if !is_anothers && last != Some(&note) {
                self.import.changes.push(ImportChange::Note(note));
            }
            return;
        }
        let needs = result.needs.as_ref().map(masks);
        let row = Box::new(result.row.clone());
        self.import.changes.push(ImportChange::Write { row, needs, note });
        if is_new {
            self.added.push(Added {
                row: result.row,
                needs: result.needs.unwrap_or_default(),
                safety_is_guess: proposal.safety_is_guess,
            });
        } else {
            self.changed.push(Changed { id, fields: result.changes });
        }
    }

    /// What the source had and has no more. What it has and refuses now stays as it was.
    fn remove_the_rest(&mut self, source: &Source, registry: &Registry<'_>, options: &Options<'_>) {
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
            let row = row.filter(|row| row.upstream_name() == note.upstream);
            if let Some(row) = row {
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

impl<'a> Registry<'a> {
    fn new(rows: &'a CatalogRows, written: &'a [ImportRow]) -> Self {
        let mut methods = HashMap::new();
        let mut by_action: HashMap<_, Vec<_>> = HashMap::new();
        for row in &rows.methods {
            methods.entry(row.rpc_method.as_str()).or_insert(row);
            by_action.entry(row.action_key()).or_default().push(row);
        }
        let key = |row: &'a ImportRow| (row.upstream.as_str(), row.rpc_method.as_str());
        Self {
            methods,
            written: written.iter().map(|row| (key(row), row)).collect(),
            needs: NeedsByKey::new(rows),
            by_action,
            in_lower_case: rows
                .methods
                .iter()
                .map(|row| (row.rpc_method.to_ascii_lowercase(), row.rpc_method.as_str()))
                .collect(),
        }
    }

    /// Returns another id that differs from this one in case only: actions would be those of both.
    fn in_case_only(&self, id: &str) -> Option<&'a str> {
        let other = self.in_lower_case.get(&id.to_ascii_lowercase()).copied()?;
        (other != id && !self.methods.contains_key(id)).then_some(other)
    }

    /// A method of another upstream that would need something else: actions know no upstreams.
    fn loser(&self, result: &Merged) -> Option<&'a MethodRow> {
        let claimed = result.claimed.as_ref()?;
        let upstream = result.row.upstream_name();
        let rows = self.by_action.get(&result.row.action_key())?;
        let is_others = |row: &&&MethodRow| row.upstream_name() != upstream;
        rows.iter().filter(is_others).find(|row| self.needs.of(row) != *claimed).copied()
    }
}

fn in_case_only(other: &str) -> String {
    format!("it differs from `{other}` in case only, and what callers need would be one for both")
}

/// What methods need, by the key of their actions.
struct NeedsByKey(HashMap<(String, String), Needs>);

impl NeedsByKey {
    fn new(rows: &CatalogRows) -> Self {
        let idents: HashMap<i64, &str> =
            rows.sections.iter().map(|section| (section.id, section.ident.as_str())).collect();
        let mut needs: HashMap<(String, String), Needs> = HashMap::new();
        for action in &rows.actions {
            let number = || format!("#{}", action.id_section);
            let ident = idents.get(&action.id_section).map_or_else(number, ToString::to_string);
            let key = action_key(&action.plugin, &action.method);
            tighten(needs.entry(key).or_default(), &ident, &action.mask);
        }
        Self(needs)
    }

    fn of(&self, row: &MethodRow) -> Needs {
        let mut needs = self.0.get(&row.action_key()).cloned().unwrap_or_default();
        for ident in row.section_names().unwrap_or_default() {
            needs.entry(ident).or_insert_with(|| CLOSED.to_owned());
        }
        needs
    }
}

/// What each row's callers need, in the order of the rows.
pub(crate) fn needs_by_rows(rows: &CatalogRows) -> Vec<Needs> {
    let needs = NeedsByKey::new(rows);
    rows.methods.iter().map(|row| needs.of(row)).collect()
}

/// A proposal and what was there, put together.
struct Merged {
    row: MethodRow,
    /// What it is to need; `None` leaves that.
    needs: Option<Needs>,
    /// What its actions are to be; `None` leaves those of its key.
    claimed: Option<Needs>,
    written: Written,
    changes: Vec<(&'static str, Option<String>, Option<String>)>,
    /// What people changed.
    kept: Vec<&'static str>,
    /// Whether another kind of source needs more than this one.
    is_anothers: bool,
}

impl Merged {
    fn new_method(proposal: &Proposal, source: &str) -> Self {
        let mut row = proposal.row.clone();
        // The key of its actions stays when the upstream changes.
        let upstream = row.upstream_name().to_owned();
        row.method.get_or_insert_with(|| row.rpc_method.clone());
        row.plugin.get_or_insert_with(|| upstream.clone());
        row.upstream = Some(upstream).filter(|name| name != DEFAULT_UPSTREAM);
        let settled = Settled::new_method(proposal, &row, source);
        Self::settled(proposal, row, settled, Vec::new(), Vec::new())
    }

    fn with_row(
        proposal: &Proposal,
        row: &MethodRow,
        last: Option<&Written>,
        registry: &Registry<'_>,
        source: &str,
    ) -> Self {
        // By the key that it has now, which may become another.
        let (key, old) = (row.action_key(), registry.needs.of(row));
        let mut row = row.clone();
        let (mut changes, mut kept) = (Vec::new(), Vec::new());
        for field in Field::ALL {
            let (old, new) = (field.value(&row), field.value(&proposal.row));
            if old == new || (new.is_none() && field.is_left()) {
                continue;
            }
            // A row that was not imported is somebody's, as far as it says something.
            let is_by_hand = match last {
                Some(last) => old.as_deref() != last.get(field),
                None => old.is_some(),
            };
            if field.is_kept() && is_by_hand {
                kept.push(field.name());
            } else {
                field.set(&mut row, new.clone());
                changes.push((field.name(), old, new));
            }
        }
        let settled = Settled::with_old(proposal, &row, &old, last, source);
        if settled.kept == Some(Kept::ByHand) {
            kept.push("sections");
        }
        if let Some(new) = &settled.new {
            changes.push(("sections", shown(&old), shown(new)));
        }
        let is_moved = row.action_key() != key;
        let mut merged = Self::settled(proposal, row, settled, changes, kept);
        if is_moved {
            merged.claimed.get_or_insert(old);
        }
        merged
    }

    fn settled(
        proposal: &Proposal,
        mut row: MethodRow,
        settled: Settled,
        changes: Vec<(&'static str, Option<String>, Option<String>)>,
        kept: Vec<&'static str>,
    ) -> Self {
        if let Some(needs) = &settled.new {
            row.sections = named(needs);
        }
        let is_anothers = settled.kept == Some(Kept::Another);
        let mut written = Written::new(settled.said, settled.by, proposal.safety_is_guess);
        for field in Field::ALL.into_iter().filter(|field| field.is_kept()) {
            written.set(field, field.value(&proposal.row));
        }
        let claimed = settled.new.clone();
        Self { row, needs: settled.new, claimed, written, changes, kept, is_anothers }
    }

    /// What is not as the source has it, and why.
    fn kept(&self) -> Option<String> {
        let by_hand =
            (!self.kept.is_empty()).then(|| format!("{}, changed by hand", self.kept.join(", ")));
        let anothers = self.is_anothers.then(|| "sections, another source needs more".to_owned());
        let all: Vec<String> = by_hand.into_iter().chain(anothers).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
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
