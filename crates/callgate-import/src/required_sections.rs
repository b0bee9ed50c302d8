//! The sections that callers of a method need. Sections and masks are texts, as in the registry's rows.

use std::collections::{BTreeMap, HashMap};

use callgate::Mask;
use callgate_registry::{ActionRow, CatalogRows, MethodRow, SectionRow, action_key};

/// The sections that a method requires, each with its mask as the actions contain it, such as `2`, or `CLOSED`.
pub type RequiredSections = BTreeMap<String, String>;

/// Mask of a section that a row names but that has no action.
pub(crate) const CLOSED: &str = "closed";

/// The required sections of methods, by the key of their actions.
#[derive(Debug)]
pub struct RequiredSectionsByKey(HashMap<(String, String), RequiredSections>);

impl RequiredSectionsByKey {
    pub(crate) fn new(sections: &[SectionRow], actions: &[ActionRow]) -> Self {
        let idents: HashMap<i64, &str> =
            sections.iter().map(|section| (section.id, section.ident.as_str())).collect();
        let mut needs: HashMap<(String, String), RequiredSections> = HashMap::new();
        for action in actions {
            let number = || format!("#{}", action.id_section);
            let ident = idents.get(&action.id_section).map_or_else(number, ToString::to_string);
            let key = action_key(&action.plugin, &action.method);
            tighten(needs.entry(key).or_default(), &ident, &action.mask);
        }
        Self(needs)
    }

    /// Returns the required sections that the rows of a registry define.
    pub fn of_rows(rows: &CatalogRows) -> Self {
        Self::new(&rows.sections, &rows.actions)
    }

    /// Returns the sections and masks of the actions with this key.
    pub(crate) fn of_key(&self, key: &(String, String)) -> RequiredSections {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Returns the sections and masks that a method requires.
    pub fn of(&self, row: &MethodRow) -> RequiredSections {
        let mut needs = self.of_key(&row.action_key());
        // If the list is invalid, the method is closed.
        let unparsed = || row.sections.iter().map(|text| text.trim().to_owned()).collect();
        for ident in row.section_names().unwrap_or_else(|_| unparsed()) {
            needs.entry(ident).or_insert_with(|| CLOSED.to_owned());
        }
        needs
    }
}

/// Returns sections with the names of their masks, such as `content:read`.
pub fn named_masks(needs: &RequiredSections) -> Vec<String> {
    let name = |mask| match mask {
        "2" => "read",
        "4" => "write",
        "6" => "execute",
        other => other,
    };
    needs.iter().map(|(ident, mask)| format!("{ident}:{}", name(mask))).collect()
}

/// Adds a section. If the section is already required, the stricter mask applies.
pub(crate) fn tighten(needs: &mut RequiredSections, ident: &str, mask: &str) {
    let current = needs.entry(ident.to_owned()).or_insert_with(|| mask.to_owned());
    if strictness(mask) > strictness(current) {
        mask.clone_into(current);
    }
}

/// Returns a number that is higher the stricter the mask is.
pub(crate) fn strictness(mask: &str) -> i64 {
    let mask = mask.trim().parse().ok().and_then(Mask::required);
    mask.map_or(i64::MAX, Mask::value)
}
