use proptest::prelude::*;

use super::*;

fn requirement(needs: &[(&str, Mask)]) -> Requirement {
    let mut requirement = Requirement::default();
    for (section, mask) in needs {
        requirement.add(Section::from(*section), *mask);
    }
    requirement
}

fn grants(rows: &[(&str, Mask)]) -> Grants {
    rows.iter().copied().collect()
}

#[test]
fn higher_masks_include_lower_ones() {
    let masks = [Mask::None, Mask::Read, Mask::Write, Mask::Execute];
    for required in &masks[1..] {
        for granted in masks {
            let allowed = requirement(&[("s", *required)]).allows(&grants(&[("s", granted)]));
            assert_eq!(allowed, granted.value() >= required.value(), "{granted} for {required}");
        }
    }
}

#[test]
fn granted_values_round_down_and_required_values_round_up() {
    let granted: Vec<i64> =
        [-1, 0, 1, 2, 3, 4, 5, 6, 7, 99].map(|value| Mask::granted(value).value()).into();
    assert_eq!(granted, [0, 0, 0, 2, 2, 4, 4, 6, 6, 6]);
    let required: Vec<Option<i64>> =
        [-1, 0, 1, 2, 3, 4, 5, 6, 7, 99].map(|value| Mask::required(value).map(Mask::value)).into();
    let (r, w, x) = (Some(2), Some(4), Some(6));
    assert_eq!(required, [r, r, r, r, w, w, x, x, None, None]);
}

#[test]
fn a_grant_of_the_user_overrides_the_grant_of_the_role() {
    let mut role_first = Grants::default();
    role_first.add_role("s".into(), Mask::Execute);
    role_first.add_user("s".into(), Mask::Read);
    assert_eq!(role_first.mask(&"s".into()), Mask::Read);
    let mut user_first = Grants::default();
    user_first.add_user("s".into(), Mask::Read);
    user_first.add_role("s".into(), Mask::Execute);
    assert_eq!(role_first.by_section, user_first.by_section);
}

#[test]
fn a_user_mask_of_0_denies_a_section_that_the_role_allows() {
    let mut denied = Grants::default();
    denied.add_role("s".into(), Mask::Execute);
    denied.add_user("s".into(), Mask::granted(0));
    assert!(!requirement(&[("s", Mask::Read)]).allows(&denied));
}

#[test]
fn method_in_two_sections_requires_both() {
    let both = requirement(&[("a", Mask::Read), ("b", Mask::Write)]);
    assert!(!both.allows(&grants(&[("a", Mask::Execute)])));
    assert!(!both.allows(&grants(&[("b", Mask::Execute)])));
    assert!(both.allows(&grants(&[("a", Mask::Read), ("b", Mask::Write)])));
}

#[test]
fn the_lowest_of_several_role_grants_applies() {
    for rows in [[Mask::Execute, Mask::Read], [Mask::Read, Mask::Execute]] {
        let mut role = Grants::default();
        for mask in rows {
            role.add_role("s".into(), mask);
        }
        assert_eq!(role.mask(&"s".into()), Mask::Read);
    }
}

#[test]
fn read_does_not_include_write() {
    assert_eq!((Mask::Read.value(), Mask::Write.value()), (2, 4));
    assert!(!requirement(&[("s", Mask::Write)]).allows(&grants(&[("s", Mask::Read)])));
}

#[test]
fn a_granted_mask_of_99_is_execute_and_a_required_mask_of_99_is_closed() {
    assert_eq!(Mask::granted(99), Mask::Execute);
    // No grant satisfies a requirement above the highest mask.
    let mut closed = Requirement::default();
    closed.add(
        "s".into(),
        Mask::required(99).map_or(SectionRequirement::Closed, SectionRequirement::AtLeast),
    );
    assert!(!closed.allows(&grants(&[("s", Mask::granted(99))])));
}

#[test]
fn a_method_without_sections_is_open_and_a_closed_section_denies_every_caller() {
    assert!(Requirement::OPEN.allows(&Grants::default()));
    let mut closed = requirement(&[("s", Mask::Read)]);
    closed.add("s".into(), SectionRequirement::Closed);
    assert!(!closed.allows(&grants(&[("s", Mask::Execute)])));
}

#[test]
fn decision_prints_its_reasons() {
    let both = requirement(&[("content", Mask::Write), ("system", Mask::Execute)]);
    let mut mixed = Grants::default();
    mixed.add_role("content".into(), Mask::Read);
    let mut closed = Requirement::default();
    closed.add("gone".into(), SectionRequirement::Closed);
    let enough = grants(&[("content", Mask::Execute), ("system", Mask::Execute)]);
    let reasons = [
        Requirement::OPEN.decide(&mixed),
        both.decide(&mixed),
        both.decide(&enough),
        both.decide(&grants(&[("content", Mask::Execute), ("system", Mask::None)])),
        closed.decide(&enough),
    ]
    .map(|decision| decision.to_string());
    insta::assert_debug_snapshot!(reasons);
}

proptest! {
    #[test]
    fn a_decision_agrees_with_allows(
        needs in prop::collection::vec((0..4_u8, 0..8_i64), 0..4),
        rows in prop::collection::vec((0..4_u8, -1..9_i64, any::<bool>()), 0..6),
    ) {
        let mut requirement = Requirement::default();
        for (section, mask) in needs {
            let need = Mask::required(mask).map_or(SectionRequirement::Closed, SectionRequirement::AtLeast);
            requirement.add(section.to_string().into(), need);
        }
        let mut grants = Grants::default();
        for (section, value, is_user_grant) in rows {
            let (section, mask) = (Section::from(section.to_string()), Mask::granted(value));
            if is_user_grant { grants.add_user(section, mask) } else { grants.add_role(section, mask) }
        }
        prop_assert_eq!(requirement.allows(&grants), requirement.decide(&grants).is_allowed());
    }
}

#[test]
fn a_caller_is_found_by_id_and_by_name() {
    let user = |id, name: &str| User { id, name: name.to_owned(), role: None };
    let users = [(user(1, "ada"), Grants::default()), (user(2, "ravi"), Grants::default())];
    let access = Access::new(users, Grants::default());
    assert_eq!(access.caller(1).unwrap().name(), "ada");
    assert!(access.caller(3).is_none());
    assert_eq!(access.caller_named("ravi").unwrap().user.as_ref().unwrap().id, 2);
    assert_eq!(access.anonymous().name(), "anonymous");
}

#[test]
fn a_token_digest_is_never_printed() {
    assert_eq!(format!("{:?}", TokenDigest::of("cg_secret")), "TokenDigest(…)");
}

#[test]
fn users_have_read_on_the_section_authenticated_by_default_and_anonymous_callers_do_not() {
    let mut requirement = Requirement::default();
    requirement.add(Section::authenticated(), Mask::Read);
    let user = |id: i64| User { id, name: format!("u{id}"), role: None };
    let denied = Grants::from_iter([("@authenticated", Mask::None)]);
    let mut role = Grants::default();
    role.add_role(Section::authenticated(), Mask::Write);
    let access = Access::new([(user(1), Grants::default()), (user(2), denied)], role);
    let allows = |caller: &Caller| requirement.allows(&caller.grants);
    assert!(allows(access.caller(1).unwrap()));
    assert!(!allows(access.caller(2).unwrap()), "a row of their own denies it");
    assert!(!allows(access.anonymous()), "a role cannot grant it to callers without a credential");
    assert!(!allows(&Caller::anonymous()));
    let decision = requirement.decide(&access.caller(1).unwrap().grants).to_string();
    let expected =
        "allowed: section `@authenticated` needs read (2), the grant of every user is read (2)";
    assert_eq!(decision, expected);
}
