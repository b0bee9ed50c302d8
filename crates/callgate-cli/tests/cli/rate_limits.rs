//! Rate limits of the configuration and of settings.

use crate::support::TestDirectory;

#[test]
fn limits_of_the_file_apply_and_settings_override_them_without_a_restart() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "[limits]\nrequests_per_caller = \"2/h\"\n");
    let server = dir.serve(&[]);
    let statuses = || [(); 3].map(|()| server.get("", "/mcp/tools/list").status);
    assert_eq!(statuses(), [200, 200, 429]);
    dir.ok(&["setting", "set", "limit_requests_per_caller", "none"]);
    server.until("there is no limit", |_| statuses() == [200; 3]);
    dir.ok(&["setting", "set", "limit_requests_per_caller", ""]);
    server.until("the limit of the file applies", |_| statuses() == [429; 3]);
}

#[test]
fn limits_that_cannot_be_read_are_errors() {
    let dir = TestDirectory::new();
    let mut failures = Vec::new();
    for text in [
        "[limits]\nrequests_per_caller = 100",
        "[limits]\nrequests = \"fast\"",
        "[limits]\ntools = \"mail.send\"",
        "[limits]\nrequests_per_user = \"1/s\"",
    ] {
        dir.write("callgate.toml", text);
        failures.push(dir.run(&["migrate"]).failure());
    }
    insta::assert_debug_snapshot!(failures);
}
