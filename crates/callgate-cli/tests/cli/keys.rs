//! The keys that sign sessions, listed and replaced with `callgate key`.

use serde_json::Value;

use super::mcp::{DATABASE, PING, initialize, persistent_token, session_request};
use super::support::TestDirectory;

/// Returns the number and the state of each key.
fn keys(dir: &TestDirectory) -> Vec<(i64, String)> {
    let lines = dir.ok(&["key", "list", "--json", "--database", DATABASE]);
    let key = |line: &str| {
        let key: Value = serde_json::from_str(line).unwrap();
        (key["id"].as_i64().unwrap(), key["state"].as_str().unwrap().to_owned())
    };
    lines.lines().map(key).collect()
}

#[test]
fn a_new_key_is_announced_and_sessions_stay_valid() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = persistent_token(&dir);
    let session = initialize(&server, &token);
    assert_eq!(keys(&dir), [(1, "signs".to_owned())]);
    let rotated = dir.run(&["key", "rotate", "--database", DATABASE]);
    assert!(rotated.stderr().contains("key 2 signs from"), "{}", rotated.stderr());
    assert_eq!(keys(&dir), [(2, "announced".to_owned()), (1, "signs".to_owned())]);
    server.wait_until("it signs", |_| {
        assert_eq!(session_request(&server, "POST", &session, &token, PING).status, 200);
        let new = initialize(&server, &token);
        assert_eq!(session_request(&server, "POST", &new, &token, PING).status, 200);
        keys(&dir) == [(2, "signs".to_owned()), (1, "recognised".to_owned())]
    });
    let new = initialize(&server, &token);
    for valid in [&session, &new] {
        assert_eq!(session_request(&server, "POST", valid, &token, PING).status, 200);
    }
}

#[test]
fn a_key_with_a_creation_time_in_the_future_can_be_replaced() {
    let dir = TestDirectory::new();
    dir.ok(&["migrate", "--database", DATABASE]);
    let sql = "INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
               VALUES ('session', 'aa', 4102444800, 0)";
    dir.sql(DATABASE.trim_start_matches("sqlite:"), sql);
    insta::assert_debug_snapshot!(dir.run(&["key", "rotate", "--database", DATABASE]).failure());
    assert_eq!(keys(&dir), [(1, "signs".to_owned())]);
    dir.ok(&["key", "rotate", "--now", "--database", DATABASE]);
    assert_eq!(keys(&dir), [(2, "signs".to_owned())]);
}

#[test]
fn a_key_can_be_replaced_immediately_and_its_sessions_become_invalid() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = persistent_token(&dir);
    let session = initialize(&server, &token);
    let rotated = dir.run(&["key", "rotate", "--now", "--database", DATABASE]);
    insta::assert_snapshot!(rotated.stderr());
    server.wait_until("what it signed is over", |server| {
        session_request(server, "POST", &session, &token, PING).status == 404
    });
    let new_session = initialize(&server, &token);
    assert_eq!(session_request(&server, "POST", &new_session, &token, PING).status, 200);
    let listed = dir.ok(&["key", "list", "--database", DATABASE]);
    assert!(listed.contains("signs") && listed.lines().count() == 2, "{listed}");
    let is_hexadecimal =
        |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(!listed.split_whitespace().any(is_hexadecimal), "{listed}");
}
