//! Electrum: HTTP Basic, and HTTP 500 in response to batches and unknown methods.

use serde_json::json;

use super::servers::{self, SECRET};
use super::{call, call_batch, dir, wait_until_unreachable};

#[test]
fn electrum_is_called_without_batches_until_it_stops() {
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
    for (id, options) in [
        ("version", &[][..]),
        ("getbalance", &[]),
        ("unknown", &[]),
        ("validateaddress", &["--param", "string $address"]),
    ] {
        let add = ["method", "add", id, "--read-only", "--upstream", "service"];
        dir.ok(&[&add[..], options].concat());
    }
    let server = dir.serve_with(&[("ELECTRUM_PASSWORD", SECRET)], &[]);
    let versions = call_batch(&server, "version", &json!({}), 3);
    assert!(versions.iter().all(serde_json::Value::is_string), "{versions:?}");
    let address = json!({"address": "nowhere"});
    assert_eq!(call(&server, "validateaddress", &address), (false, "false".to_owned()));
    let (is_error, text) = call(&server, "getbalance", &json!({}));
    assert!(is_error && text.contains("wallet not loaded"), "{text}");
    let (is_error, text) = call(&server, "unknown", &json!({}));
    assert!(is_error && text.contains("HTTP 500"), "{text}");
    let server_with_wrong_password = dir.serve_with(&[("ELECTRUM_PASSWORD", "wr0ng")], &[]);
    let (is_error, text) = call(&server_with_wrong_password, "version", &json!({}));
    assert!(
        is_error && text.contains("credentials lack a permission or are wrong (HTTP 403)"),
        "{text}"
    );
    electrum.kill();
    wait_until_unreachable(&server, "version");
}
