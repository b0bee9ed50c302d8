//! Transmission: HTTP 409 without its session header, and a protocol that is not JSON-RPC.

use serde_json::json;

use super::{call, dir, servers};
use crate::support::TestDirectory;

#[test]
fn it_is_diagnosed() {
    let (transmission, empty) = (servers::transmission(), TestDirectory::new());
    let url = transmission.url("/transmission/rpc");
    let told = empty.run(&["try", &url]).failure().1;
    assert!(
        told.contains("HTTP 409: the service expects a session: \"409: Conflict Your"),
        "{told}"
    );
    assert!(told.contains("set `login.header` to `x-transmission-session-id`"), "{told}");
    let dir = dir(&format!(
        "[upstreams.service]\nurl = \"{url}\"\nlogin = {{ header = \"X-Transmission-Session-Id\" }}"
    ));
    dir.ok(&["method", "add", "session-stats", "--read-only", "--upstream", "service"]);
    let server = dir.serve(&[]);
    let (is_error, text) = call(&server, "session-stats", &json!({}));
    let words = "responded with the RPC protocol of Transmission, which is not JSON-RPC.";
    assert!(is_error && text.contains(words), "{text}");
}
