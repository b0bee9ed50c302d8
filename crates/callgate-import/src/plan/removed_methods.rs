//! Methods that a source no longer has.

use std::collections::HashSet;

use callgate_registry::{ImportChange, ImportRow, MethodRow};

use super::Plan;
use super::columns::normalized;
use super::merge::Registry;
use super::written::Written;
use crate::source::Refusal;

impl Plan {
    /// Removes methods that the source no longer has. Keeps methods that the source still has but that are refused now.
    pub(super) fn remove_missing(&mut self, registry: &Registry<'_>) {
        let Registry { source, options, .. } = registry;
        let current_ids: HashSet<&str> = source
            .methods
            .iter()
            .map(|method| method.row.rpc_method.as_str())
            .chain(
                source
                    .refused
                    .iter()
                    .filter(|refusal| !refusal.hides)
                    .map(|refusal| refusal.id.as_str()),
            )
            .collect();
        let suffix = options.name_suffix();
        let is_superseded = |name: &str| {
            name.strip_suffix(&suffix).is_some_and(|name| source.supersedes.contains(&name))
        };
        let mut missing: Vec<&ImportRow> = registry.written.values().copied().collect();
        missing.retain(|note| {
            source.upstreams.contains(&note.upstream)
                && !current_ids.contains(note.rpc_method.as_str())
                && options.selects(&note.rpc_method)
        });
        missing.sort_by(|a, b| a.rpc_method.cmp(&b.rpc_method));
        for note in missing {
            let row = registry.methods.get(note.rpc_method.as_str());
            let Some(row) = row.filter(|row| row.upstream_name() == note.upstream) else {
                continue;
            };
            let mut written = Written::parse(note);
            if note.source == source.name || is_superseded(&note.source) {
                self.remove(row, note, written, options.prune);
            } else if written.also_in.remove(&source.name) {
                self.record_note(&written, note, &note.source);
            }
        }
        if !self.removed.is_empty() && source.can_be_named() {
            self.notes.push(format!(
                "note: if the removed methods came from another source that is also called {}, import that source again \
                 with `--name NAME`",
                source.name
            ));
        }
    }

    fn remove(&mut self, row: &MethodRow, note: &ImportRow, mut written: Written, prune: bool) {
        if let Some(other) = written.also_in.pop_first() {
            let reason = format!("all columns, since {other} has the method");
            self.kept.push(Refusal::new(&note.rpc_method, reason));
            // This style was set for all methods of the source that no longer has the method.
            written.source_params_by = None;
            return self.record_note(&written, note, &other);
        }
        let was_removed = std::mem::replace(&mut written.is_removed, true);
        if prune {
            self.import.changes.push(ImportChange::Remove(Box::new(row.clone())));
        } else if written.is_hidden() || normalized(row).exposed.as_deref() == Some("0") {
            // The method was hidden before. If a person has exposed it since then, it stays exposed.
            if !was_removed {
                self.record_note(&written, note, &note.source);
            }
            return;
        } else {
            let hidden = Some("0".to_owned());
            written.set_hidden();
            let note = written.to_row(&note.upstream, &note.rpc_method, &note.source);
            let row = Box::new(MethodRow { exposed: hidden, ..row.clone() });
            self.import.changes.push(ImportChange::Write { row, needs: None, note });
        }
        self.removed.push(row.rpc_method.clone());
    }
}
