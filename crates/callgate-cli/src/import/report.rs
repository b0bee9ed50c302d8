//! What an import did, or would do.

use std::fmt::Write as _;

use callgate::Mask;
use callgate::access::Section;
use callgate_registry::{Holder, ImportAccess, ImportGrant};
use serde_json::Value;

use super::field::Field;
use super::plan::{Added, Changed, Plan, shown};
use super::written::Needs;
use super::{Refusal, Source};
use crate::printer::{Printer, one_line, shortened};

/// How much is shown.
#[derive(Debug, Clone, Copy)]
struct Most {
    /// Of the lines of each side of a value.
    lines: usize,
    /// Of each line.
    width: usize,
}

impl Most {
    const FEW: Self = Self { lines: 24, width: 160 };
    const ALL: Self = Self { lines: usize::MAX, width: usize::MAX };
}

/// Tells, before anything is written, where methods come from and to whom they are open.
pub(super) fn preface(source: &Source, plan: &Plan, printer: &mut Printer) {
    let upstreams: Vec<String> =
        source.upstreams.iter().map(|name| format!("`{}`", one_line(name))).collect();
    let all = if upstreams.is_empty() { "none".to_owned() } else { upstreams.join(", ") };
    printer.talk(format_args!("from {}, for upstream {all}", one_line(&source.name)));
    for note in source.notes.iter().chain(&plan.notes) {
        printer.talk(one_line(note));
    }
    openness(plan, printer);
    changed_access(plan, printer);
}

/// Tells which methods need something else than before, or are shown again.
fn changed_access(plan: &Plan, printer: &mut Printer) {
    for Changed { id, fields } in &plan.changed {
        for (field, old, new) in fields {
            let words = match (*field, old.as_deref(), new.as_deref()) {
                ("sections", old, new) => {
                    let [new, old] = [new, old].map(|needs| needs.unwrap_or("no section"));
                    format!("needs {new} now, and needed {old} before")
                }
                ("exposed", Some("0"), _) => "is shown again".to_owned(),
                _ => continue,
            };
            printer.talk(format_args!("note: `{}` {words}", one_line(id)));
        }
    }
}

/// What was done.
pub(super) fn summary(source: &Source, plan: &Plan, printer: &mut Printer) {
    for id in &plan.removed {
        line(
            printer,
            "removed",
            id,
            if plan.is_pruned { "deleted" } else { "hidden; `--prune` deletes" },
        );
    }
    findings(source, plan, printer);
    let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
    if !plan.import.access.is_empty() {
        printer.data(format_args!(
            "access   {} sections, {} roles, {} users, {} grants",
            sections.len(),
            roles.len(),
            users.len(),
            grants.len()
        ));
    }
    counts(plan, printer);
}

/// What would be done, in a form that is read quickly or in full.
pub(super) fn diff(source: &Source, plan: &Plan, in_full: bool, printer: &mut Printer) {
    preface(source, plan, printer);
    for added in &plan.added {
        show_added(added, in_full, printer);
    }
    for changed in &plan.changed {
        show_changed(changed, if in_full { Most::ALL } else { Most::FEW }, printer);
    }
    for id in &plan.removed {
        let how = if plan.is_pruned { "deleted" } else { "hidden" };
        printer.data(format_args!("- {}  ({how})", one_line(id)));
    }
    for row in &plan.import.types {
        printer.data(format_args!("~ class {}", one_line(&row.name)));
        let shape = row.fields.as_deref().or(row.schema.as_deref()).filter(|_| in_full);
        show_lines("+", &lines(shape), Most::ALL, printer);
    }
    show_access(plan, printer);
    findings(source, plan, printer);
    counts(plan, printer);
    printer.talk("nothing was written: this was a dry run");
}

/// Tells what is not taken, or not as the source has it.
fn findings(source: &Source, plan: &Plan, printer: &mut Printer) {
    let all = [
        ("skipped", &source.unread),
        ("hidden", &plan.hidden),
        ("kept", &plan.kept),
        ("refused", &plan.refused),
    ];
    for (what, all) in all {
        for Refusal { id, reason, .. } in all {
            line(printer, what, id, reason);
        }
    }
}

fn show_access(plan: &Plan, printer: &mut Printer) {
    let ImportAccess { sections, roles, users, grants, .. } = &plan.import.access;
    let new = plan.import.sections.iter().map(|ident| format!("section {ident}"));
    let new = new
        .chain(sections.iter().map(|row| format!("section {}", row.ident)))
        .chain(roles.iter().map(|row| format!("role {}", row.caption)))
        .chain(users.iter().map(|row| format!("user {}", row.login)))
        .chain(grants.iter().map(|ImportGrant { holder, section, value }| {
            // Who is new is shown by name, and who was there by number.
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
        printer.data(format_args!("+ {}", one_line(&one)));
    }
}

fn line(printer: &mut Printer, what: &str, id: &str, why: &str) {
    printer.data(format_args!("{what:<8} {}: {}", one_line(id), one_line(why)));
}

fn counts(plan: &Plan, printer: &mut Printer) {
    if plan.is_idle() {
        printer.data("nothing changed");
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
    printer.data(counts);
    let guesses = plan.added.iter().filter(|added| added.safety_is_guess).count();
    if guesses > 0 {
        printer.talk(format_args!(
            "note: the safety of {guesses} methods is a guess; `callgate method edit ID --read-only` \
             or `--destructive` says it"
        ));
    }
}

/// Tells to whom the new methods are open.
fn openness(plan: &Plan, printer: &mut Printer) {
    let login = Section::authenticated();
    let shown: Vec<&Added> =
        plan.added.iter().filter(|added| added.row.exposed.as_deref() != Some("0")).collect();
    let count = |is: &dyn Fn(&Needs) -> bool| shown.iter().filter(|it| is(&it.needs)).count();
    let everybody = count(&Needs::is_empty);
    let users = count(&|needs| !needs.is_empty() && needs.keys().all(|it| it == login.as_str()));
    let sections = shown.len() - everybody - users;
    if users > 0 || sections > 0 {
        printer.talk(format_args!(
            "of {} new methods, {everybody} are open to every caller, {users} to every user who is \
             logged in, {sections} to users with grants on their sections",
            shown.len()
        ));
    }
    if everybody > 0 {
        printer.talk(format_args!(
            "note: {everybody} methods need no section, so every caller may use them, with or without a \
             token; `--section` names one"
        ));
    }
}

fn show_added(added: &Added, in_full: bool, printer: &mut Printer) {
    let row = &added.row;
    let safety = row.safety.as_deref().unwrap_or("safety unknown");
    let guessed = if added.safety_is_guess { " (guessed)" } else { "" };
    let hidden = if row.exposed.as_deref() == Some("0") { ", hidden" } else { "" };
    let needs = shown(&added.needs).map(|needs| format!(", {needs}")).unwrap_or_default();
    let id = one_line(&row.rpc_method);
    let params = one_line(&params(row.input_schema.as_deref(), row.params.as_deref()));
    printer.data(format_args!("+ {id}({params})  {safety}{guessed}{needs}{hidden}"));
    if in_full {
        for field in Field::all() {
            let Some(value) = field.value(row) else { continue };
            printer.data(format_args!("    {}", field.name()));
            show_lines("+", &lines(Some(&value)), Most::ALL, printer);
        }
    } else if let Some(line) = row.description.as_deref().and_then(|text| text.lines().next()) {
        printer.data(format_args!("    {}", shortened(line, Most::FEW.width)));
    }
}

/// The names of the parameters; `?` behind what may be left out.
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

/// Returns `true` if a parameter with a name of its own may be left out. A signature says so itself.
fn is_optional(entry: &Value) -> bool {
    entry.get("optional") == Some(&Value::Bool(true)) || entry.get("default").is_some()
}

fn show_changed(changed: &Changed, most: Most, printer: &mut Printer) {
    printer.data(format_args!("~ {}", one_line(&changed.id)));
    for (name, old, new) in &changed.fields {
        printer.data(format_args!("    {name}"));
        let (old, new) = (lines(old.as_deref()), lines(new.as_deref()));
        let (old, new) = without_common(&old, &new);
        show_lines("-", old, most, printer);
        show_lines("+", new, most, printer);
    }
}

fn show_lines(sign: &str, lines: &[String], most: Most, printer: &mut Printer) {
    for line in lines.iter().take(most.lines) {
        printer.data(format_args!("      {sign} {}", shortened(line, most.width)));
    }
    if let Some(more) = lines.len().checked_sub(most.lines).filter(|more| *more > 0) {
        printer.data(format_args!("      {sign} … {more} more lines"));
    }
}

/// Text by its lines, JSON by those of its readable form.
fn lines(value: Option<&str>) -> Vec<String> {
    let Some(text) = value else { return Vec::new() };
    let json =
        serde_json::from_str::<Value>(text).ok().filter(|json| json.is_object() || json.is_array());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    pretty.as_deref().unwrap_or(text).lines().map(ToOwned::to_owned).collect()
}

/// What is between the lines that both begin with and those that both end with.
fn without_common<'a>(old: &'a [String], new: &'a [String]) -> (&'a [String], &'a [String]) {
    let common = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(common..).unwrap_or_default(), new.get(common..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let cut = |lines: &'a [String]| lines.get(..lines.len() - tail).unwrap_or_default();
    (cut(old), cut(new))
}
