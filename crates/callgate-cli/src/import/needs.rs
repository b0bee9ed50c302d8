//! What callers of a method need: what a source says, beside what is there and who said that.

use callgate::Mask;
use callgate::model::Safety;
use callgate_registry::MethodRow;

use super::written::{Needs, Written};
use super::{Needed, Proposal};

/// In place of a mask: a section that the row names, and no action gives a mask for.
pub(super) const CLOSED: &str = "closed";
/// In place of a kind of source: several said it together, and none of them takes it back alone.
const SEVERAL: &str = "several";

/// The first word of a source's name.
pub(super) fn kind(source: &str) -> &str {
    source.split(' ').next().unwrap_or_default()
}

/// What a method is to need.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// What is to be written; `None` leaves what is there.
    pub(super) new: Option<Needs>,
    /// What imports have written then, and the kind of source that said it.
    pub(super) said: Option<Needs>,
    pub(super) by: Option<String>,
    /// Why not all is as the source has it.
    pub(super) kept: Option<Kept>,
}

/// Why a source is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    ByHand,
    /// Another kind of source needs more.
    Another,
}

impl Settled {
    /// Of a method that needs `old` now; `None` is one that is not there yet. What people say stays, and
    /// what another kind of source said is only tightened.
    pub(super) fn new(
        proposal: &Proposal,
        row: &MethodRow,
        old: Option<&Needs>,
        last: Option<&Written>,
        source: &str,
    ) -> Self {
        let said = last.and_then(|last| last.sections.as_ref());
        let by = last.and_then(|last| last.sections_by.as_deref());
        let stays =
            |kept| Self { new: None, said: said.cloned(), by: by.map(ToOwned::to_owned), kept };
        let Some(proposed) = proposal.needs.as_deref() else { return stays(None) };
        let is_ours = said.is_none_or(Needs::is_empty) || by == Some(kind(source));
        let (none, is_new) = (Needs::new(), old.is_none());
        let old = old.unwrap_or(&none);
        let proposed = resolved(proposed, row, old, is_ours);
        if said.map_or(!old.is_empty(), |said| said != old) {
            return stays((proposed != *old).then_some(Kept::ByHand));
        }
        let new = if is_ours { proposed.clone() } else { strictest(old, &proposed) };
        let kept = (new != proposed).then_some(Kept::Another);
        if !is_ours && new == *old {
            return stays(kept);
        }
        let by = if new == proposed && !proposal.is_joined { kind(source) } else { SEVERAL };
        let is_changed = is_new || new != *old;
        Self {
            new: is_changed.then(|| new.clone()),
            said: Some(new),
            by: Some(by.to_owned()),
            kept,
        }
    }
}

/// With masks as rows have them. Where the source names none, the one that is there stays, unless it was
/// ours and is too little now.
fn resolved(needs: &[(String, Needed)], row: &MethodRow, old: &Needs, is_ours: bool) -> Needs {
    let reads = row.safety.as_deref() == Some(Safety::ReadOnly.as_str());
    let by_safety = if reads { Mask::Read } else { Mask::Write }.value().to_string();
    let mut all = Needs::new();
    for (ident, needed) in needs {
        let text = match (needed, old.get(ident)) {
            (Needed::Mask(mask), _) => mask.value().to_string(),
            (Needed::Closed, _) => CLOSED.to_owned(),
            (Needed::BySafety, Some(old))
                if !is_ours || strictness(old) > strictness(&by_safety) =>
            {
                old.clone()
            }
            (Needed::BySafety, _) => by_safety.clone(),
        };
        tighten(&mut all, ident, &text);
    }
    all
}

/// All of both.
fn strictest(one: &Needs, other: &Needs) -> Needs {
    let mut all = one.clone();
    for (ident, mask) in other {
        tighten(&mut all, ident, mask);
    }
    all
}

pub(super) fn tighten(needs: &mut Needs, ident: &str, mask: &str) {
    let known = needs.entry(ident.to_owned()).or_insert_with(|| mask.to_owned());
    if strictness(mask) > strictness(known) {
        mask.clone_into(known);
    }
}

/// Past all masks where nobody has enough.
fn strictness(mask: &str) -> i64 {
    let mask = mask.trim().parse().ok().and_then(Mask::required);
    mask.map_or(i64::MAX, Mask::value)
}
