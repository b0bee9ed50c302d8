//! Merges a proposed method with its row in the registry.

use std::collections::HashMap;

use callgate::model::LOCAL;
use callgate_registry::{CatalogRows, DEFAULT_UPSTREAM, ImportRow, MethodRow, check};

use super::Difference;
use super::columns::{columns, group, keeps_names, normalized};
use super::required_sections::{KeepReason, MergedSections, display, section_names};
use super::written::Written;
use crate::required_sections::{RequiredSections, RequiredSectionsByKey};
use crate::source::{ImportOptions, Proposal, Source};

/// A source, and indexes of the registry's rows to compare it with.
pub(super) struct Registry<'a> {
    pub(super) source: &'a Source,
    pub(super) options: &'a ImportOptions,
    /// Rows by id. If several rows have the same id, this is the first one, which is served.
    pub(super) methods: HashMap<&'a str, &'a MethodRow>,
    /// For each method, what the last import of it recorded for later imports, by upstream and id.
    pub(super) written: HashMap<(&'a str, &'a str), &'a ImportRow>,
    pub(super) needs: RequiredSectionsByKey,
    pub(super) by_action: HashMap<(String, String), Vec<&'a MethodRow>>,
    /// Ids by their form in lower case.
    by_lower_case_id: HashMap<String, &'a str>,
}

impl Merged {
    /// Makes a guessed safety a declared safety. The note keeps the guess, so that later imports recognise the approval
    /// as a manual change.
    pub(super) fn approve_guess(&mut self) {
        let declared = self.row.safety_or_guess().0.map(ToOwned::to_owned);
        let guess = std::mem::replace(&mut self.row.safety, declared.clone());
        self.changes.retain(|(column, ..)| *column != "safety");
        self.changes.push(("safety", guess, declared));
    }
}

/// A method after an import.
pub(super) struct Merged {
    pub(super) row: MethodRow,
    /// Required sections to write; `None` keeps the sections in the registry.
    pub(super) needs: Option<RequiredSections>,
    /// Required sections before the import; `None` for a new method.
    pub(super) old_needs: Option<RequiredSections>,
    pub(super) written: Written,
    pub(super) changes: Vec<Difference>,
    /// Columns that are kept although they differ from the source, with the reason.
    pub(super) kept: Vec<String>,
}

impl<'a> Registry<'a> {
    pub(super) fn new(
        source: &'a Source,
        rows: &'a CatalogRows,
        written: &'a [ImportRow],
        options: &'a ImportOptions,
    ) -> Self {
        let mut registry = Self {
            source,
            options,
            methods: HashMap::new(),
            written: HashMap::new(),
            needs: RequiredSectionsByKey::of_rows(rows),
            by_action: HashMap::new(),
            by_lower_case_id: HashMap::new(),
        };
        for row in &rows.methods {
            let id = row.rpc_method.as_str();
            registry.methods.entry(id).or_insert(row);
            registry.by_action.entry(row.action_key()).or_default().push(row);
            registry.by_lower_case_id.insert(id.to_ascii_lowercase(), id);
        }
        let key = |row: &'a ImportRow| (row.upstream.as_str(), row.rpc_method.as_str());
        registry.written.extend(written.iter().map(|row| (key(row), row)));
        registry
    }

    /// Returns the note of the last import of a proposed method.
    pub(super) fn last_import(&self, proposal: &Proposal) -> Option<&'a ImportRow> {
        let (id, upstream) = (proposal.row.rpc_method.as_str(), proposal.row.upstream_name());
        self.methods.get(id).filter(|row| row.upstream_name() == upstream)?;
        self.written.get(&(upstream, id)).copied()
    }

    /// Merges a proposal with the registry's row, or returns the reason why it is refused. `last` is the note of the
    /// last import.
    pub(super) fn merge(
        &self,
        proposal: &Proposal,
        last: Option<&ImportRow>,
    ) -> Result<Merged, String> {
        let (id, upstream) = (proposal.row.rpc_method.as_str(), proposal.row.upstream_name());
        if let Some(other) = self.differs_in_case(id) {
            return Err(case_conflict(other));
        }
        let old_row = self.methods.get(id).copied();
        if let Some(owner) = old_row.map(MethodRow::upstream_name).filter(|name| *name != upstream)
        {
            let is_configured = |names: &Vec<String>| names.iter().any(|name| name == owner);
            return Err(if self.options.upstreams.as_ref().is_none_or(is_configured) {
                format!(
                    "upstream `{owner}` already has a method with this id; import one of the two with `--prefix`"
                )
            } else {
                format!(
                    "upstream `{owner}`, which is not configured, already has a method with this id; \
                     `callgate method remove` removes it"
                )
            });
        }
        let last = last.map(Written::parse);
        let (mut row, mut changes, mut overridden) = match old_row {
            Some(row) => merge_columns(row, proposal, last.as_ref()),
            None => (new_row(&proposal.row), Vec::new(), Vec::new()),
        };
        // Finds the actions by the old key, because the import may change the key.
        let old = old_row.map(|row| self.needs.of(row));
        let source = &self.source.name;
        let needs = MergedSections::new(proposal, &row, old.as_ref(), last.as_ref(), source);
        if let Some(new) = &needs.new {
            changes.push(("sections", old.as_ref().and_then(display), display(new)));
            row.sections = section_names(new);
        }
        if upstream != LOCAL {
            check(&row).map_err(|error| error.to_string())?;
        }
        let is_action_key_changed = old_row.is_some_and(|old| old.action_key() != row.action_key());
        let claimed = needs.new.as_ref().or(old.as_ref().filter(|_| is_action_key_changed));
        claimed.map_or(Ok(()), |claimed| self.check_actions(&row, claimed))?;
        if needs.kept == Some(KeepReason::Overridden) {
            overridden.push("sections");
        }
        let overridden = Some(overridden.join(", ")).filter(|columns| !columns.is_empty());
        let overridden = overridden.map(|columns| format!("{columns}, changed by hand"));
        let other_kind = "sections, because another kind of source requires more".to_owned();
        let other_kind = Some(other_kind).filter(|_| needs.kept == Some(KeepReason::OtherKind));
        Ok(Merged {
            row,
            needs: needs.new.clone(),
            old_needs: old,
            written: Written::new(proposal, needs, last.as_ref()),
            changes,
            kept: overridden.into_iter().chain(other_kind).collect(),
        })
    }

    /// Returns an id that differs from this one only in case. Both methods would share their actions, because
    /// actions are matched to methods without regard to case.
    fn differs_in_case(&self, id: &str) -> Option<&'a str> {
        let other = self.by_lower_case_id.get(&id.to_ascii_lowercase()).copied()?;
        (other != id && !self.methods.contains_key(id)).then_some(other)
    }

    /// Checks that no method of another upstream has the same actions as this one but requires other sections than
    /// `claimed`.
    fn check_actions(&self, row: &MethodRow, claimed: &RequiredSections) -> Result<(), String> {
        let rows = self.by_action.get(&row.action_key()).into_iter().flatten();
        let mut others = rows.filter(|other| other.upstream_name() != row.upstream_name());
        let Some(other) = others.find(|other| self.needs.of(other) != *claimed) else {
            return Ok(());
        };
        let ((plugin, method), owner) = (row.permission_key(), other.upstream_name());
        Err(format!(
            "a method of upstream `{owner}` has the same plugin `{plugin}` and function `{method}`, \
             but requires different sections"
        ))
    }
}

pub(super) fn case_conflict(other: &str) -> String {
    format!("its id differs from `{other}` only in case, and both would share their sections")
}

fn new_row(proposed: &MethodRow) -> MethodRow {
    let mut row = proposed.clone();
    // Stores the key of the method's actions, so that a later change of the upstream does not change the key.
    let upstream = row.upstream_name().to_owned();
    row.method.get_or_insert_with(|| row.rpc_method.clone());
    row.plugin.get_or_insert_with(|| upstream.clone());
    row.upstream = Some(upstream).filter(|name| name != DEFAULT_UPSTREAM);
    row
}

/// Returns a row with the columns that a source proposes, the differences, and the columns that are kept because people
/// changed them.
fn merge_columns(
    row: &MethodRow,
    proposal: &Proposal,
    last: Option<&Written>,
) -> (MethodRow, Vec<Difference>, Vec<&'static str>) {
    let (old_row, new_row, mut row) = (normalized(row), normalized(&proposal.row), row.clone());
    let (mut changes, mut overridden) = (Vec::new(), Vec::new());
    for column in columns() {
        let (old, new) = (column.get(&old_row), column.get(&new_row));
        let is_unknown = proposal.unknown.contains(&column.name);
        if old == new || is_unknown || (new.is_none() && keeps_names(column)) {
            continue;
        }
        if is_overridden(column.name, &old_row, last) {
            let is_approved_guess =
                column.name == "safety" && new_row.safety_or_guess() == (old.as_deref(), true);
            if !is_approved_guess {
                overridden.push(column.name);
            }
        } else {
            column.get_mut(&mut row).clone_from(new);
            changes.push((column.name, old.clone(), new.clone()));
        }
    }
    (row, changes, overridden)
}

/// Returns `true` if a person has changed a column since the last import.
///
/// If no import has recorded its value, a column in a [`group`] counts as unchanged. Any other column then counts
/// as changed, unless it is empty.
pub(super) fn is_overridden(column: &str, row: &MethodRow, last: Option<&Written>) -> bool {
    let value = |name: &str| {
        columns().find(|other| other.name == name).and_then(|other| other.get(row).as_deref())
    };
    match group(column) {
        [] => value(column) != last.and_then(|last| last.get(column)),
        group => last.is_some_and(|last| {
            let is_changed = |column: &&str| {
                last.recorded(column).is_some_and(|written| written.as_deref() != value(column))
            };
            group.iter().any(is_changed)
        }),
    }
}
