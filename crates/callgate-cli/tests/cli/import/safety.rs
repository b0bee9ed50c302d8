//! Guesses of the safety: how they are made, reviewed and approved.

use serde_json::json;

use super::{document, simple_method};
use crate::fake::{FakeResponse, FakeService};
use crate::support::TestDirectory;

#[test]
fn safety_is_guessed_and_not_read_only_if_the_guess_is_uncertain() {
    let dir = TestDirectory::migrated();
    let definitions = json!([
        simple_method("pet.get", ""),
        simple_method("pet.delete", ""),
        simple_method("pet.feed", "Returns whether it ate."),
        {"name": "pet.poke", "result": {"name": "ok"}, "x-annotations": {"readOnlyHint": true}},
    ]);
    let output = dir.run_import(&document(&definitions), &[]);
    assert!(output.stderr().contains("the safety of 2 methods is a guess"), "{}", output.stderr());
    let methods = dir.exported();
    let safety = |id: &str| methods[id]["safety"].as_str().unwrap().to_owned();
    assert_eq!(
        ["pet.get", "pet.delete", "pet.feed", "pet.poke"].map(safety),
        ["guessed_read_only", "guessed_destructive", "unknown", "read_only"]
    );
    assert_eq!(dir.tool("pet.feed")["annotations"]["destructiveHint"], true);
    let is_marked = |id: &str| dir.ok(&["method", "show", id]).contains("the safety is guessed");
    assert!(is_marked("pet.get") && is_marked("pet.delete") && !is_marked("pet.poke"));
    dir.ok(&["method", "set", "pet.get", "--destructive"]);
    assert!(!is_marked("pet.get"), "a person said it");
}

/// The comment begins with the name of the method.
const PAYCH_GET: &str = "PaychGet gets or creates a payment channel between address pair";

#[test]
fn guesses_are_listed_in_one_table_and_approved_together() {
    let dir = TestDirectory::migrated();
    let source = document(&json!([
        simple_method("Filecoin.PaychGet", PAYCH_GET),
        simple_method(
            "Filecoin.StateGetActor",
            "StateGetActor returns the indicated actor's nonce and balance."
        ),
        simple_method("Filecoin.ChainHead", "ChainHead returns the current head of the chain."),
        simple_method("Filecoin.MpoolPending", "MpoolPending: pending messages."),
    ]));
    let listed = dir.run_import(&source, &["--review"]);
    insta::assert_snapshot!(listed.stdout());
    assert!(
        listed.stderr().contains("`--review=approve` approves these guesses"),
        "{}",
        listed.stderr()
    );
    assert!(dir.exported().is_empty(), "a review writes nothing");
    dir.import(&source, &[]);
    let safety = |id: &str| dir.exported()[id]["safety"].as_str().unwrap().to_owned();
    assert_eq!(safety("Filecoin.StateGetActor"), "guessed_read_only");
    let approved = dir.run_import(&source, &["--review=approve", "--select", "*.State*"]);
    assert!(approved.stdout().contains("0 added, 1 changed"), "{}", approved.stdout());
    assert_eq!(safety("Filecoin.StateGetActor"), "read_only");
    assert_eq!(safety("Filecoin.PaychGet"), "guessed_destructive");
    // An approval is permanent.
    let repeated = dir.run_import(&source, &[]);
    assert!(
        repeated
            .stdout()
            .contains("nothing changed\n0 added, 0 changed, 0 removed, 0 hidden, 0 kept"),
        "{}",
        repeated.stdout()
    );
    let note = "note: the approved safety of 1 method is kept\n";
    assert!(repeated.stderr().contains(note), "{}", repeated.stderr());
    assert_eq!(safety("Filecoin.StateGetActor"), "read_only");
    let remaining = dir.import(&source, &["--review"]);
    assert!(
        remaining.contains("Filecoin.PaychGet") && !remaining.contains("StateGetActor"),
        "{remaining}"
    );
    // In a new registry, one command imports the methods and approves the guesses.
    let dir = TestDirectory::migrated();
    dir.import(&source, &["--review=approve"]);
    assert_eq!(dir.exported()["Filecoin.PaychGet"]["safety"], "destructive");
    let remaining = dir.import(&source, &["--review"]);
    assert_eq!(remaining.lines().count(), 3, "those whose safety is unknown: {remaining}");
    dir.ok(&["method", "set", "Filecoin.ChainHead", "--read-only"]);
    dir.ok(&["method", "set", "Filecoin.MpoolPending", "--read-only"]);
    let stderr = dir.run_import(&source, &["--review"]).stderr();
    assert_eq!(stderr, "the safety of all methods is declared\n");
}

#[test]
fn a_call_of_a_method_with_guessed_safety_is_not_retried() {
    let service = FakeService::start(|_| FakeResponse::close());
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    let source = document(&json!([simple_method("pet.get", "A pet.")]));
    for (arguments, sent) in [(&[][..], 1), (&["--review=approve"], 2)] {
        dir.import(&source, arguments);
        let before = service.log.requests().len();
        assert_eq!(dir.serve(&[]).invoke("", "pet.get", &json!({})).status, 500);
        assert_eq!(service.log.requests().len() - before, sent, "{arguments:?}");
    }
}
