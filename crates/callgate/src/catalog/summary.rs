//! A summary of a caller's tools, for the instructions to clients.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Catalog, Entry, Listing};
use crate::access::Section;
use crate::model::method::Safety;

/// Maximum number of characters of a summary. Some clients pass only the first 512 characters of the instructions to
/// the model.
const MAX_CHARACTERS: usize = 380;

/// Describes the tools of a listing: their number, the first words of their ids and their sections.
pub(super) fn summary(catalog: &Catalog, listing: &Listing) -> String {
    let entries = || listing.ordinals.iter().filter_map(|it| catalog.entry(*it));
    let count = entries().count();
    if count == 0 {
        return "no tools for this caller at the moment.".to_owned();
    }
    let read_only = entries().filter(|entry| entry.safety == Safety::ReadOnly).count();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!("{count} tool{plural}, {read_only} read-only.");
    let group = |entry: &Entry| {
        let id = entry.id.as_str();
        Some(id.split_once(['.', '_', '/'])?.0.to_owned()).filter(|group| !group.is_empty())
    };
    append(&mut text, "Subjects", entries().filter_map(group));
    let sections = entries().flat_map(|entry| entry.requirement.sections());
    let names = sections.map(|(section, _)| section).filter(|it| **it != Section::authenticated());
    append(&mut text, "Sections", names.map(|section| section.as_str().to_owned()));
    text
}

/// Appends as many of `names` (first words of ids, or sections) as fit, each with the number of its tools. The
/// names with the most tools come first.
fn append(text: &mut String, title: &str, names: impl Iterator<Item = String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut remaining = MAX_CHARACTERS.saturating_sub(text.chars().count() + title.len() + 20);
    let fitting_items = counts.iter().map_while(|(name, count)| {
        let item = format!("{name} ({count})");
        remaining = remaining.checked_sub(item.chars().count() + 2)?;
        Some(item)
    });
    let items: Vec<String> = fitting_items.collect();
    if items.is_empty() {
        return;
    }
    let more = match counts.len() - items.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let _ = write!(text, " {title}: {}{more}.", items.join(", "));
}
