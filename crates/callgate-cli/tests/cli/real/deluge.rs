//! Deluge: replies as in JSON-RPC 1.x, a login with a cookie, and no batches.

use serde_json::json;

use super::servers::{self, RunningProcess};
use super::{call, call_batch, dir};
use crate::support::TestDirectory;

fn configured(deluge: &RunningProcess) -> TestDirectory {
    let dir = dir(&format!(
        r#"
        [upstreams.service]
        url = "{}"
        params = "positional"
        batch = true
        [upstreams.service.login]
        method = "auth.login"
        params = [{{ env = "DELUGE_PASSWORD" }}]
        "#,
        deluge.url("/json")
    ));
    dir.ok(&["method", "add", "web.get_config", "--read-only", "--upstream", "service"]);
    dir
}

#[test]
fn deluge_is_called_with_a_session_that_is_renewed() {
    let mut deluge = servers::deluge();
    let dir = configured(&deluge);
    let server = dir.serve_with(&[("DELUGE_PASSWORD", "deluge")], &[]);
    let configs = call_batch(&server, "web.get_config", &json!([]), 3);
    assert!(configs.iter().all(|config| config["session_timeout"] == 3600), "{configs:?}");
    // The service loses its sessions.
    deluge.restart();
    server.wait_until("it works again", |server| {
        let (is_error, text) = call(server, "web_get_config", &json!({}));
        assert!(!text.contains("Not authenticated"), "{text}");
        !is_error && text.contains("session_timeout")
    });
}

#[test]
fn a_wrong_password_of_deluge_is_reported() {
    let deluge = servers::deluge();
    let dir = configured(&deluge);
    let server = dir.serve_with(&[("DELUGE_PASSWORD", "wr0ng-password")], &[]);
    let (is_error, text) = call(&server, "web_get_config", &json!({}));
    assert!(is_error && text.contains("does not accept Callgate's login."), "{text}");
    let (_, log) = server.stop();
    assert!(log.contains("failed to log in: the service refused the login"), "{log}");
    assert!(!log.contains("wr0ng-password"), "{log}");
}
