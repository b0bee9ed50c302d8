//! Electrum: HTTP Basic, and HTTP 500 in response to batches and unknown methods.

use serde_json::json;

use super::servers::{self, SECRET};
use super::{call, dir, together, until_gone};

#[test]
fn it_is_called_one_by_one_until_it_stops() {
    let mut electrum = servers::electrum();
    let dir = dir(&format!(
        r#"
        [upstreams.service]
        url = "{}"
        batch = true
        basic_user = "ada"
        basic_password = {{ env = "ELECTRUM_PASSWORD" }}
        "#,
        electrum.url("/")
    ));
    for (id, more) in [
        ("version", &[][..]),
        ("getbalance", &[]),
        ("unknown", &[]),
        ("validateaddress", &["--param", "string $address"]),
    ] {
        let add = ["method", "add", id, "--read-only", "--upstream", "service"];
        dir.ok(&[&add[..], more].concat());
    }
    let server = dir.serve_with(&[("ELECTRUM_PASSWORD", SECRET)], &[]);
    let versions = together(&server, "version", &json!({}), 3);
    assert!(versions.iter().all(serde_json::Value::is_string), "{versions:?}");
    let address = json!({"address": "nowhere"});
    assert_eq!(call(&server, "validateaddress", &address), (false, "false".to_owned()));
    let (is_error, text) = call(&server, "getbalance", &json!({}));
    assert!(is_error && text.contains("wallet not loaded"), "{text}");
    let (is_error, text) = call(&server, "unknown", &json!({}));
    assert!(is_error && text.contains("HTTP 500"), "{text}");
    let stranger = dir.serve_with(&[("ELECTRUM_PASSWORD", "wr0ng")], &[]);
    let (is_error, text) = call(&stranger, "version", &json!({}));
    assert!(
        is_error && text.contains("credentials lack a permission or are wrong (HTTP 403)"),
        "{text}"
    );
    electrum.kill();
    until_gone(&server, "version");
}
