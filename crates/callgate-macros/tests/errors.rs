//! What the compiler says of wrong uses. `TRYBUILD=overwrite cargo test -p callgate-macros` writes the
//! `.stderr` files anew; each tells all that is wrong with the functions beside it.

#[test]
fn b46_d8_wrong_uses_are_told_at_once_with_the_expected_form() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
}
