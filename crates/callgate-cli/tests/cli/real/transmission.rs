//! Transmission: HTTP 409 without its session header, and a protocol that is not JSON-RPC.

use serde_json::json;

use super::{call, dir, servers};
use crate::support::TestDirectory;

#[test]
fn the_session_and_the_protocol_of_transmission_are_diagnosed() {
    let (transmission, empty_dir) = (servers::transmission(), TestDirectory::new());
    let url = transmission.url("/transmission/rpc");
    let stderr = empty_dir.run(&["try", &url]).failure().1;
    assert!(
        stderr.contains("HTTP 409: the service expects a session: \"409: Conflict Your"),
        "{stderr}"
    );
    assert!(stderr.contains("set `login.header` to `x-transmission-session-id`"), "{stderr}");
    let dir = dir(&format!(
        "[upstreams.service]\nurl = \"{url}\"\nlogin = {{ header = \"X-Transmission-Session-Id\" }}"
    ));
    dir.ok(&["method", "add", "session-stats", "--read-only", "--upstream", "service"]);
    let server = dir.serve(&[]);
    let (is_error, text) = call(&server, "session-stats", &json!({}));
    let expected = "responded with the RPC protocol of Transmission, which is not JSON-RPC.";
    assert!(is_error && text.contains(expected), "{text}");
}
