//! Reports the changes of an import, or of a preview, as lines of text.

use std::fmt::{Display, Write as _};

use callgate::Mask;
use callgate::access::Section;
use callgate_registry::{GrantHolder, ImportAccess, ImportGrant};
use serde_json::Value;

use super::columns::{columns, normalized};
use super::required_sections::display;
use super::{Added, Changed, Plan};
use crate::required_sections::RequiredSections;
use crate::source::{Refusal, Source};
use crate::text::{counted, one_line, shortened};

/// How much a preview shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The first lines of long values.
    Brief,
    /// All values of all methods.
    Full,
}

impl Detail {
    /// Returns the maximum number of lines on each side of a difference, and the maximum number of characters in a
    /// line.
    fn limits(self) -> (usize, usize) {
        if self == Self::Full { (usize::MAX, usize::MAX) } else { (24, 160) }
    }
}

/// The lines of a report, and the digest of the change.
#[derive(Debug, Default)]
pub struct Report {
    /// The lines in order.
    pub lines: Vec<Line>,
    /// Digest that identifies the change; `None` if nothing changes.
    pub digest: Option<String>,
    /// Whether the import changes nothing but the values that are recorded for later imports.
    pub(crate) has_only_notes: bool,
}

/// A line of a report.
#[derive(Debug)]
pub enum Line {
    /// A result, for stdout.
    Data(String),
    /// A note, for stderr.
    Note(String),
}

impl Report {
    /// Reports what would change.
    pub(crate) fn of_preview(source: &Source, plan: &Plan, detail: Detail) -> Self {
        let mut report = Self::begin(source, plan);
        plan.added.iter().for_each(|added| report.added(added, detail));
        plan.changed.iter().for_each(|changed| report.changed(changed, detail));
        for id in &plan.removed {
            let action = if plan.is_pruned { "deleted" } else { "hidden" };
            report.data(format_args!("- {id}  ({action})"));
        }
        for row in &plan.import.types {
            let sign = if plan.changed_types.contains(&row.name) { "~" } else { "+" };
            report.data(format_args!("{sign} class {}", row.name));
            for definition in [&row.fields, &row.schema] {
                let definition = definition.as_deref().filter(|_| detail == Detail::Full);
                report.value_lines("+", &lines(definition), detail);
            }
        }
        report.access(plan);
        report.findings(source, plan);
        report.counts(plan);
        report.note("nothing was written: this was a dry run");
        report
    }

    /// Reports what was written.
    pub(super) fn of_import(source: &Source, plan: &Plan) -> Self {
        let mut report = Self::begin(source, plan);
        let action = if plan.is_pruned { "deleted" } else { "hidden; `--prune` deletes it" };
        plan.removed.iter().for_each(|id| report.finding("removed", id, action));
        report.findings(source, plan);
        let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
        if !plan.import.access.is_empty() {
            report.data(format_args!(
                "access   {}, {}, {}, {}",
                counted(sections.len(), "section"),
                counted(roles.len(), "role"),
                counted(users.len(), "user"),
                counted(grants.len(), "grant")
            ));
        }
        report.counts(plan);
        report
    }

    /// Returns the results without the notes.
    pub fn data_text(&self) -> String {
        let data = self.lines.iter().filter_map(|line| match line {
            Line::Data(line) => Some(format!("{line}\n")),
            Line::Note(_) => None,
        });
        data.collect()
    }

    fn data(&mut self, line: impl Display) {
        self.lines.push(Line::Data(one_line(&line.to_string())));
    }

    fn note(&mut self, line: impl Display) {
        self.lines.push(Line::Note(one_line(&line.to_string())));
    }

    fn finding(&mut self, label: &str, id: &str, reason: &str) {
        self.data(format_args!("{label:<8} {id}: {reason}"));
    }

    /// Reports the origin of the methods, and changes of the access to them.
    fn begin(source: &Source, plan: &Plan) -> Self {
        let (digest, has_only_notes) = (plan.digest(), plan.has_only_notes());
        let mut report = Self { digest, has_only_notes, ..Self::default() };
        let upstreams: Vec<String> =
            source.upstreams.iter().map(|name| format!("`{name}`")).collect();
        let all = if upstreams.is_empty() { "none".to_owned() } else { upstreams.join(", ") };
        report.note(format_args!("from {}, for upstream {all}", source.name));
        source.notes.iter().chain(&plan.notes).for_each(|note| report.note(note));
        report.callers(plan);
        for Changed { id, fields } in &plan.changed {
            for (field, old, new) in fields {
                match (*field, old.as_deref(), new.as_deref()) {
                    ("sections", old, new) => {
                        let [new, old] = [new, old].map(|needs| needs.unwrap_or("no section"));
                        report.note(format_args!(
                            "note: `{id}` now requires {new}; before, it required {old}"
                        ));
                    }
                    ("exposed", Some("0"), _) => {
                        report.note(format_args!("note: `{id}` is exposed again"));
                    }
                    _ => {}
                }
            }
        }
        report
    }

    /// Reports who can call the new methods.
    fn callers(&mut self, plan: &Plan) {
        let login = Section::authenticated();
        let exposed = plan.added.iter().filter(|added| added.row.exposed.as_deref() != Some("0"));
        let needs: Vec<&RequiredSections> = exposed.map(|added| &added.needs).collect();
        let (all, open) = (needs.len(), needs.iter().filter(|needs| needs.is_empty()).count());
        let requires_only_login =
            |needs: &RequiredSections| needs.keys().all(|ident| ident == login.as_str());
        let users = needs.iter().filter(|needs| requires_only_login(needs)).count() - open;
        let sections = all - open - users;
        if users > 0 || sections > 0 {
            self.note(format_args!(
                "{}: {open} open to every caller, {users} to every authenticated user, {sections} to users \
                 with grants on the required sections",
                counted(all, "new method")
            ));
        }
        if open > 0 {
            self.note(format_args!(
                "note: no section is required for {}, so every caller, even without a token, can call such a \
                 method unless `open_methods` or `require_auth` forbids it; `--section` adds a section",
                counted(open, "method")
            ));
        }
    }

    fn added(&mut self, added: &Added, detail: Detail) {
        let row = normalized(&added.row);
        let (id, params) =
            (&row.rpc_method, params(row.input_schema.as_deref(), row.params.as_deref()));
        let (safety, is_guess) = row.safety_or_guess();
        let safety = safety.unwrap_or("safety unknown");
        let guessed = if is_guess { " (guessed)" } else { "" };
        let needs = display(&added.needs).map(|needs| format!(", {needs}")).unwrap_or_default();
        let hidden = if row.exposed.as_deref() == Some("0") { ", hidden" } else { "" };
        self.data(format_args!("+ {id}({params})  {safety}{guessed}{needs}{hidden}"));
        if detail == Detail::Full {
            for column in columns() {
                let Some(value) = column.get(&row) else { continue };
                self.data(format_args!("    {}", column.name));
                self.value_lines("+", &lines(Some(value)), detail);
            }
        } else if let Some(line) = row.description.as_deref().and_then(|text| text.lines().next()) {
            self.data(format_args!("    {}", shortened(line, detail.limits().1)));
        }
    }

    fn changed(&mut self, changed: &Changed, detail: Detail) {
        self.data(format_args!("~ {}", changed.id));
        for (name, old, new) in &changed.fields {
            self.data(format_args!("    {name}"));
            let (old, new) = (lines(old.as_deref()), lines(new.as_deref()));
            let (old, new) = without_common(&old, &new);
            self.value_lines("-", old, detail);
            self.value_lines("+", new, detail);
        }
    }

    fn value_lines(&mut self, sign: &str, lines: &[String], detail: Detail) {
        let (max_lines, max_width) = detail.limits();
        for line in lines.iter().take(max_lines) {
            self.data(format_args!("      {sign} {}", shortened(line, max_width)));
        }
        if lines.len() > max_lines {
            self.data(format_args!("      {sign} … {} more lines", lines.len() - max_lines));
        }
    }

    fn access(&mut self, plan: &Plan) {
        let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
        for ident in plan.import.sections.iter().chain(sections.iter().map(|row| &row.ident)) {
            self.data(format_args!("+ section {ident}"));
        }
        for row in roles {
            self.data(format_args!("+ role {}", row.caption));
        }
        for row in users {
            self.data(format_args!("+ user {}", row.login));
        }
        for ImportGrant { holder, section, value } in grants {
            // New holders are shown by name, existing holders by id.
            let (kind, id, name) = match holder {
                GrantHolder::User(id) => {
                    ("user", id, users.iter().find(|row| row.id == *id).map(|row| &row.login))
                }
                GrantHolder::Role(id) => {
                    ("role", id, roles.iter().find(|row| row.id == *id).map(|row| &row.caption))
                }
            };
            let name = name.map_or_else(|| id.to_string(), Clone::clone);
            self.data(format_args!("+ grant {kind} {name} {section}:{}", Mask::granted(*value)));
        }
    }

    /// Reports methods that are not imported, or that differ from the source.
    fn findings(&mut self, source: &Source, plan: &Plan) {
        let findings = [
            ("skipped", &source.unread),
            ("hidden", &plan.hidden),
            ("kept", &plan.kept),
            ("refused", &plan.refused),
        ];
        for (label, all) in findings {
            for Refusal { id, reason, .. } in all {
                self.finding(label, id, reason);
            }
        }
    }

    fn counts(&mut self, plan: &Plan) {
        if plan.is_unchanged() {
            self.data("nothing changed");
        }
        let [added, changed, removed] = [plan.added.len(), plan.changed.len(), plan.removed.len()];
        let [hidden, kept, refused] = [&plan.hidden, &plan.kept, &plan.refused].map(Vec::len);
        let mut counts = format!(
            "{added} added, {changed} changed, {removed} removed, {hidden} hidden, {kept} kept, \
             {refused} refused, {} unchanged",
            plan.unchanged
        );
        if plan.not_selected > 0 {
            let _ = write!(counts, ", {} not selected", plan.not_selected);
        }
        self.data(counts);
        if plan.approved > 0 {
            let methods = counted(plan.approved, "method");
            self.note(format_args!("note: the approved safety of {methods} is kept"));
        }
        let guesses = plan.added.iter().filter(|added| added.row.safety_or_guess().1).count();
        if guesses > 0 {
            self.note(format_args!(
                "note: the safety of {} is a guess; `--review` lists guesses, `--review=approve` \
                 approves them, and `callgate method set ID` with `--read-only` or \
                 `--destructive` replaces one",
                counted(guesses, "method")
            ));
        }
    }
}

/// Returns the names of the parameters, with `?` after optional ones.
fn params(schema: Option<&str>, params: Option<&str>) -> String {
    let parsed = |text: Option<&str>| serde_json::from_str::<Value>(text?).ok();
    let optional = |is_optional: bool| if is_optional { "?" } else { "" };
    let names: Vec<String> = if let Some(schema) = parsed(schema) {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|entry| entry == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(|properties| properties.keys());
        names.map(|name| format!("{name}{}", optional(!is_required(name)))).collect()
    } else {
        let params = parsed(params);
        let entries = params.as_ref().and_then(Value::as_array).into_iter().flatten();
        let name = |entry: &Value| match entry.get("name").unwrap_or(entry) {
            Value::String(text) => format!("{text}{}", optional(is_optional(entry))),
            other => other.to_string(),
        };
        entries.map(name).collect()
    };
    names.join(", ")
}

/// Returns `true` if a parameter that is written as an object is optional. A parameter that is written as text
/// already shows this, as in `int $limit = 10`.
fn is_optional(entry: &Value) -> bool {
    entry.get("optional") == Some(&Value::Bool(true)) || entry.get("default").is_some()
}

/// Returns the lines of a text, or of the indented form of JSON.
fn lines(value: Option<&str>) -> Vec<String> {
    let Some(text) = value else { return Vec::new() };
    let json =
        serde_json::from_str::<Value>(text).ok().filter(|json| json.is_object() || json.is_array());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    pretty.as_deref().unwrap_or(text).lines().map(ToOwned::to_owned).collect()
}

/// Returns the lines that remain without the common beginning and the common end.
fn without_common<'a>(old: &'a [String], new: &'a [String]) -> (&'a [String], &'a [String]) {
    let common = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(common..).unwrap_or_default(), new.get(common..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let cut = |lines: &'a [String]| lines.get(..lines.len() - tail).unwrap_or_default();
    (cut(old), cut(new))
}
