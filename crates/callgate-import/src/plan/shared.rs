//! Methods with the same plugin and function share their actions, so the strictest requirement applies to all of them.

use std::collections::{BTreeMap, HashSet};

use callgate_registry::MethodRow;

use super::merge::{Merged, Registry};
use super::required_sections::{display, section_names, strictest};
use crate::required_sections::RequiredSections;

/// Sets the required sections of methods that share actions. Returns notes about methods that the import itself does
/// not write.
pub(super) fn share_actions<'m>(
    methods: impl Iterator<Item = &'m mut Merged>,
    registry: &Registry<'_>,
) -> Vec<String> {
    let mut by_key: BTreeMap<_, Vec<&mut Merged>> = BTreeMap::new();
    for merged in methods {
        by_key.entry(merged.row.action_key()).or_default().push(merged);
    }
    let mut notes = Vec::new();
    for (key, group) in by_key {
        let ids: HashSet<&str> =
            group.iter().map(|merged| merged.row.rpc_method.as_str()).collect();
        let rows = registry.by_action.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_other = |row: &&&MethodRow| !ids.contains(row.rpc_method.as_str());
        let others: Vec<&&MethodRow> = rows.iter().filter(is_other).collect();
        // The registry may contain actions without a method, which were written before the method.
        let mut combined =
            if rows.is_empty() { registry.needs.of_key(&key) } else { RequiredSections::new() };
        for needs in others.iter().map(|row| registry.needs.of(row)) {
            combined = strictest(&combined, &needs);
        }
        for merged in &group {
            combined = strictest(&combined, &merged.needs_after_import());
        }
        for row in others.iter().filter(|row| registry.needs.of(row) != combined) {
            let (id, needs) = (&row.rpc_method, display(&combined).unwrap_or_default());
            let (plugin, method) = row.permission_key();
            notes.push(format!(
                "note: `{id}` now requires {needs}, because other methods of plugin `{plugin}` and function `{method}` require it"
            ));
        }
        for merged in group {
            merged.require(&combined, registry);
        }
    }
    notes
}

impl Merged {
    fn needs_after_import(&self) -> RequiredSections {
        self.needs.clone().or_else(|| self.old_needs.clone()).unwrap_or_default()
    }

    /// Replaces the required sections by stricter ones.
    fn require(&mut self, combined: &RequiredSections, registry: &Registry<'_>) {
        if self.needs_after_import() == *combined {
            return;
        }
        let (plugin, method) = self.row.permission_key();
        self.kept.push(format!(
            "sections, since other methods of plugin `{plugin}` and function `{method}` require more"
        ));
        let old = registry.methods.get(self.row.rpc_method.as_str());
        let old = old.filter(|old| old.action_key() == self.row.action_key());
        let is_unchanged = old.is_some() && self.old_needs.as_ref() == Some(combined);
        self.changes.retain(|(column, ..)| *column != "sections");
        if let Some(old) = old.filter(|_| is_unchanged) {
            self.row.sections.clone_from(&old.sections);
            self.needs = None;
        } else {
            self.row.sections = section_names(combined);
            self.needs = Some(combined.clone());
            self.changes.push((
                "sections",
                self.old_needs.as_ref().and_then(display),
                display(combined),
            ));
        }
        if let Some(written) = &mut self.written.sections {
            written.clone_from(combined);
        }
    }
}
