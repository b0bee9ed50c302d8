//! What an import did, or would do, as lines of text.

use std::fmt::{Display, Write as _};

use callgate::Mask;
use callgate::access::Section;
use callgate_registry::{Holder, ImportAccess, ImportGrant};
use serde_json::Value;

use super::columns::{columns, normalized};
use super::needs::display;
use super::{Added, Changed, Plan};
use crate::needs::Needs;
use crate::source::{Refusal, Source};
use crate::text::{one_line, shortened};

/// How much a preview shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The first lines of long values.
    Brief,
    /// All values of all methods.
    Full,
}

impl Detail {
    /// Maximum number of lines of each side of a difference.
    fn max_lines(self) -> usize {
        if self == Self::Full { usize::MAX } else { 24 }
    }

    /// Maximum length of a line in characters.
    fn max_width(self) -> usize {
        if self == Self::Full { usize::MAX } else { 160 }
    }
}

/// The lines of a report, and the digest of the change.
#[derive(Debug, Default)]
pub struct Report {
    /// The lines in order.
    pub lines: Vec<Line>,
    /// Identifies the change; `None` if nothing changes.
    pub digest: Option<String>,
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
    pub(super) fn of_preview(source: &Source, plan: &Plan, detail: Detail) -> Self {
        let mut report = Self { digest: plan.digest(), ..Self::default() };
        preface(source, plan, &mut report);
        changes(source, plan, detail, &mut report);
        report
    }

    /// Reports what was written.
    pub(super) fn of_import(source: &Source, plan: &Plan) -> Self {
        let mut report = Self { digest: plan.digest(), ..Self::default() };
        preface(source, plan, &mut report);
        summary(source, plan, &mut report);
        report
    }

    /// Returns the results without the notes.
    pub fn data_text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            if let Line::Data(line) = line {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    fn data(&mut self, line: impl Display) {
        self.lines.push(Line::Data(line.to_string()));
    }

    fn note(&mut self, line: impl Display) {
        self.lines.push(Line::Note(line.to_string()));
    }
}

/// Reports the origin of the methods, and who can call them.
fn preface(source: &Source, plan: &Plan, report: &mut Report) {
    let upstreams: Vec<String> =
        source.upstreams.iter().map(|name| format!("`{}`", one_line(name))).collect();
    let all = if upstreams.is_empty() { "none".to_owned() } else { upstreams.join(", ") };
    report.note(format_args!("from {}, for upstream {all}", one_line(&source.name)));
    for note in source.notes.iter().chain(&plan.notes) {
        report.note(one_line(note));
    }
    openness(plan, report);
    changed_access(plan, report);
}

/// Reports methods whose needs change, and methods that are exposed again.
fn changed_access(plan: &Plan, report: &mut Report) {
    for Changed { id, fields } in &plan.changed {
        for (field, old, new) in fields {
            let words = match (*field, old.as_deref(), new.as_deref()) {
                ("sections", old, new) => {
                    let [new, old] = [new, old].map(|needs| needs.unwrap_or("no section"));
                    format!("needs {new} now, and needed {old} before")
                }
                ("exposed", Some("0"), _) => "is exposed again".to_owned(),
                _ => continue,
            };
            report.note(format_args!("note: `{}` {words}", one_line(id)));
        }
    }
}

fn summary(source: &Source, plan: &Plan, report: &mut Report) {
    for id in &plan.removed {
        line(
            report,
            "removed",
            id,
            if plan.is_pruned { "deleted" } else { "hidden; `--prune` deletes it" },
        );
    }
    findings(source, plan, report);
    let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
    if !plan.import.access.is_empty() {
        report.data(format_args!(
            "access   {} sections, {} roles, {} users, {} grants",
            sections.len(),
            roles.len(),
            users.len(),
            grants.len()
        ));
    }
    counts(plan, report);
}

fn changes(source: &Source, plan: &Plan, detail: Detail, report: &mut Report) {
    for added in &plan.added {
        show_added(added, detail, report);
    }
    for changed in &plan.changed {
        show_changed(changed, detail, report);
    }
    for id in &plan.removed {
        let how = if plan.is_pruned { "deleted" } else { "hidden" };
        report.data(format_args!("- {}  ({how})", one_line(id)));
    }
    for row in &plan.import.types {
        report.data(format_args!("~ class {}", one_line(&row.name)));
        let shape =
            row.fields.as_deref().or(row.schema.as_deref()).filter(|_| detail == Detail::Full);
        show_lines("+", &lines(shape), detail, report);
    }
    show_access(plan, report);
    findings(source, plan, report);
    counts(plan, report);
    report.note("nothing was written: this was a dry run");
}

/// Reports what is not imported, or not as the source has it.
fn findings(source: &Source, plan: &Plan, report: &mut Report) {
    let all = [
        ("skipped", &source.unread),
        ("hidden", &plan.hidden),
        ("kept", &plan.kept),
        ("refused", &plan.refused),
    ];
    for (what, all) in all {
        for Refusal { id, reason, .. } in all {
            line(report, what, id, reason);
        }
    }
}

fn show_access(plan: &Plan, report: &mut Report) {
    let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
    let new = plan.import.sections.iter().map(|ident| format!("section {ident}"));
    let new = new
        .chain(sections.iter().map(|row| format!("section {}", row.ident)))
        .chain(roles.iter().map(|row| format!("role {}", row.caption)))
        .chain(users.iter().map(|row| format!("user {}", row.login)))
        .chain(grants.iter().map(|ImportGrant { holder, section, value }| {
            // New holders are shown by name, existing ones by id.
            let (what, id, name) = match holder {
                Holder::User(id) => {
                    ("user", id, users.iter().find(|row| row.id == *id).map(|row| &row.login))
                }
                Holder::Role(id) => {
                    ("role", id, roles.iter().find(|row| row.id == *id).map(|row| &row.caption))
                }
            };
            let who = name.map_or_else(|| id.to_string(), Clone::clone);
            format!("grant {what} {who} {section}:{}", Mask::granted(*value))
        }));
    for one in new {
        report.data(format_args!("+ {}", one_line(&one)));
    }
}

fn line(report: &mut Report, what: &str, id: &str, why: &str) {
    report.data(format_args!("{what:<8} {}: {}", one_line(id), one_line(why)));
}

fn counts(plan: &Plan, report: &mut Report) {
    if plan.is_unchanged() {
        report.data("nothing changed");
    }
    let mut counts = format!(
        "{} added, {} changed, {} removed, {} hidden, {} kept, {} refused, {} unchanged",
        plan.added.len(),
        plan.changed.len(),
        plan.removed.len(),
        plan.hidden.len(),
        plan.kept.len(),
        plan.refused.len(),
        plan.unchanged,
    );
    if plan.not_selected > 0 {
        let _ = write!(counts, ", {} not selected", plan.not_selected);
    }
    report.data(counts);
    let guesses = plan.added.iter().filter(|added| added.safety_is_guess).count();
    if guesses > 0 {
        report.note(format_args!(
            "note: the safety of {guesses} methods is a guess; set it with `callgate method edit ID \
             --read-only` or `--destructive`"
        ));
    }
}

/// Reports who can call the new methods.
fn openness(plan: &Plan, report: &mut Report) {
    let login = Section::authenticated();
    let shown: Vec<&Added> =
        plan.added.iter().filter(|added| added.row.exposed.as_deref() != Some("0")).collect();
    let count = |is: &dyn Fn(&Needs) -> bool| shown.iter().filter(|it| is(&it.needs)).count();
    let everybody = count(&Needs::is_empty);
    let users = count(&|needs| !needs.is_empty() && needs.keys().all(|it| it == login.as_str()));
    let sections = shown.len() - everybody - users;
    if users > 0 || sections > 0 {
        report.note(format_args!(
            "of {} new methods, {everybody} are open to every caller, {users} to every authenticated user, \
             {sections} to users with grants on their sections",
            shown.len()
        ));
    }
    if everybody > 0 {
        report.note(format_args!(
            "note: {everybody} methods need no section, so every caller can call them, with or without a \
             token; `--section` adds one"
        ));
    }
}

fn show_added(added: &Added, detail: Detail, report: &mut Report) {
    let row = &added.row;
    let safety = row.safety.as_deref().unwrap_or("safety unknown");
    let guessed = if added.safety_is_guess { " (guessed)" } else { "" };
    let hidden = if row.exposed.as_deref() == Some("0") { ", hidden" } else { "" };
    let needs = display(&added.needs).map(|needs| format!(", {needs}")).unwrap_or_default();
    let id = one_line(&row.rpc_method);
    let params = one_line(&params(row.input_schema.as_deref(), row.params.as_deref()));
    report.data(format_args!("+ {id}({params})  {safety}{guessed}{needs}{hidden}"));
    if detail == Detail::Full {
        let row = normalized(row);
        for column in columns() {
            let Some(value) = column.get(&row) else { continue };
            report.data(format_args!("    {}", column.name));
            show_lines("+", &lines(Some(value)), detail, report);
        }
    } else if let Some(line) = row.description.as_deref().and_then(|text| text.lines().next()) {
        report.data(format_args!("    {}", shortened(line, detail.max_width())));
    }
}

/// Returns the names of the parameters, with `?` behind optional ones.
fn params(schema: Option<&str>, params: Option<&str>) -> String {
    let parsed = |text: Option<&str>| serde_json::from_str::<Value>(text?).ok();
    if let Some(schema) = parsed(schema) {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(|properties| properties.keys());
        let names = names.map(|name| format!("{name}{}", if is_required(name) { "" } else { "?" }));
        return names.collect::<Vec<_>>().join(", ");
    }
    let params = parsed(params);
    let entries = params.as_ref().and_then(Value::as_array).into_iter().flatten();
    let names = entries.map(|entry| match entry.get("name").unwrap_or(entry) {
        Value::String(text) if is_optional(entry) => format!("{text}?"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Returns `true` if a parameter given as an object is optional. A signature has its own mark.
fn is_optional(entry: &Value) -> bool {
    entry.get("optional") == Some(&Value::Bool(true)) || entry.get("default").is_some()
}

fn show_changed(changed: &Changed, detail: Detail, report: &mut Report) {
    report.data(format_args!("~ {}", one_line(&changed.id)));
    for (name, old, new) in &changed.fields {
        report.data(format_args!("    {name}"));
        let (old, new) = (lines(old.as_deref()), lines(new.as_deref()));
        let (old, new) = without_common(&old, &new);
        show_lines("-", old, detail, report);
        show_lines("+", new, detail, report);
    }
}

fn show_lines(sign: &str, lines: &[String], detail: Detail, report: &mut Report) {
    for line in lines.iter().take(detail.max_lines()) {
        report.data(format_args!("      {sign} {}", shortened(line, detail.max_width())));
    }
    if let Some(more) = lines.len().checked_sub(detail.max_lines()).filter(|more| *more > 0) {
        report.data(format_args!("      {sign} … {more} more lines"));
    }
}

/// Returns the lines of a text, or of the indented form of JSON.
fn lines(value: Option<&str>) -> Vec<String> {
    let Some(text) = value else { return Vec::new() };
    let json =
        serde_json::from_str::<Value>(text).ok().filter(|json| json.is_object() || json.is_array());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    pretty.as_deref().unwrap_or(text).lines().map(ToOwned::to_owned).collect()
}

/// Returns the lines between the common beginning and the common end.
fn without_common<'a>(old: &'a [String], new: &'a [String]) -> (&'a [String], &'a [String]) {
    let common = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(common..).unwrap_or_default(), new.get(common..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let cut = |lines: &'a [String]| lines.get(..lines.len() - tail).unwrap_or_default();
    (cut(old), cut(new))
}
