//! The sections that a method requires after an import. They are merged from the source, the registry and earlier
//! imports.

use callgate::Mask;
use callgate::model::Safety;
use callgate_registry::MethodRow;
use serde_json::json;

use super::written::Written;
use crate::required_sections::{CLOSED, RequiredSections, named_masks, strictness, tighten};
use crate::source::{Proposal, RequiredMask, kind};

/// Recorded instead of a kind of source if several kinds specified the required sections. None of them alone may remove
/// sections or lower masks.
const SEVERAL_KINDS: &str = "several";

/// The required sections of a method after an import.
#[derive(Debug, Default)]
pub(super) struct MergedSections {
    /// Required sections to write; `None` keeps the sections in the registry.
    pub(super) new: Option<RequiredSections>,
    /// Required sections that imports have written, and the kind of source that specified them.
    pub(super) written: Option<RequiredSections>,
    pub(super) written_by: Option<String>,
    /// Reason why the required sections differ from those of the source.
    pub(super) kept: Option<KeepReason>,
}

/// Reason why the required sections of a source are not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepReason {
    Overridden,
    /// Another kind of source requires more than this source.
    OtherKind,
}

impl MergedSections {
    /// Merges the required sections of a proposal with those of the registry (`old`; `None` for a new method). Sections
    /// that people changed are kept. If another kind of source specified the sections, this source can only add
    /// sections and raise masks.
    pub(super) fn new(
        proposal: &Proposal,
        row: &MethodRow,
        old: Option<&RequiredSections>,
        last: Option<&Written>,
        source: &str,
    ) -> Self {
        let written = last.and_then(|last| last.sections.as_ref());
        let written_by = last.and_then(|last| last.sections_by.as_deref());
        let unchanged = |kept| Self {
            new: None,
            written: written.cloned(),
            written_by: written_by.map(ToOwned::to_owned),
            kept,
        };
        let Some(proposed) = proposal.needs.as_deref() else { return unchanged(None) };
        let can_replace =
            written.is_none_or(RequiredSections::is_empty) || written_by == Some(kind(source));
        let (none, is_new) = (RequiredSections::new(), old.is_none());
        let old = old.unwrap_or(&none);
        let proposed = with_masks(proposed, row, old, can_replace);
        if written.map_or(!old.is_empty(), |written| written != old) {
            return unchanged((proposed != *old).then_some(KeepReason::Overridden));
        }
        let new = if can_replace { proposed.clone() } else { strictest(old, &proposed) };
        let kept = (new != proposed).then_some(KeepReason::OtherKind);
        if !can_replace && new == *old {
            return unchanged(kept);
        }
        let is_one_source = new == proposed && !proposal.has_combined_needs;
        let written_by = if is_one_source { kind(source) } else { SEVERAL_KINDS };
        Self {
            new: (is_new || new != *old).then(|| new.clone()),
            written: Some(new),
            written_by: Some(written_by.to_owned()),
            kept,
        }
    }
}

/// Returns required sections with masks. If the source specifies no mask for a section, the mask in the registry is
/// kept. There are two exceptions. If the registry has no mask, the safety of the method determines the mask. If an
/// import from the same kind of source wrote the mask, and the safety now requires a higher one, the mask is
/// raised.
fn with_masks(
    needs: &[(String, RequiredMask)],
    row: &MethodRow,
    old: &RequiredSections,
    can_replace: bool,
) -> RequiredSections {
    let is_read_only = row.safety_or_guess().0 == Some(Safety::ReadOnly.as_str());
    let by_safety = if is_read_only { Mask::Read } else { Mask::Write }.value().to_string();
    let mut merged = RequiredSections::new();
    for (ident, required) in needs {
        let mask = match (required, old.get(ident)) {
            (RequiredMask::Mask(mask), _) => mask.value().to_string(),
            (RequiredMask::Closed, _) => CLOSED.to_owned(),
            (RequiredMask::BySafety, Some(old))
                if !can_replace || strictness(old) > strictness(&by_safety) =>
            {
                old.clone()
            }
            (RequiredMask::BySafety, _) => by_safety.clone(),
        };
        tighten(&mut merged, ident, &mask);
    }
    merged
}

pub(super) fn strictest(first: &RequiredSections, second: &RequiredSections) -> RequiredSections {
    let mut merged = first.clone();
    for (ident, mask) in second {
        tighten(&mut merged, ident, mask);
    }
    merged
}

/// Returns the value of the column `sections`. It repeats the sections of the actions, so that a method becomes closed,
/// not open, if its action is lost.
pub(super) fn section_names(needs: &RequiredSections) -> Option<String> {
    let idents: Vec<&String> = needs.keys().collect();
    (!idents.is_empty()).then(|| json!(idents).to_string())
}

pub(super) fn masks(needs: &RequiredSections) -> Vec<(String, Mask)> {
    let mask = |text: &String| Mask::required(text.parse().ok()?);
    needs.iter().filter_map(|(ident, text)| Some((ident.clone(), mask(text)?))).collect()
}

/// Returns sections and masks as one line.
pub(super) fn display(needs: &RequiredSections) -> Option<String> {
    (!needs.is_empty()).then(|| named_masks(needs).join(" "))
}
