//! `@open-rpc/mock-server`: replies to `rpc.discover` with its document, and to calls with the examples in the
//! document.

use serde_json::{Value, json};

use super::servers::{self, RunningProcess};
use super::{call, dir};
use crate::support::{Server, TestDirectory};

fn document() -> Value {
    let id = json!({"name": "id", "required": true, "schema": {"$ref": "#/components/schemas/Id"}});
    let pet = json!({"name": "pet", "schema": {"type": "string"}});
    let seven = json!({"name": "seven", "params": [{"name": "id", "value": 7}], "result": {"name": "pet", "value": "Rex"}});
    json!({
        "openrpc": "1.2.6",
        "info": {"title": "Pets", "version": "1"},
        "methods": [
            {"name": "get_pet", "summary": "One pet.", "params": [id], "result": pet, "examples": [seven]},
            {"name": "remove_pet", "params": [id], "result": pet, "examples": [seven]},
        ],
        "components": {"schemas": {"Id": {"type": "integer", "minimum": 1}}},
    })
}

fn mock(dir: &TestDirectory) -> RunningProcess {
    dir.write("pets.json", &document().to_string());
    servers::mock(&dir.path("pets.json"))
}

#[test]
fn discovered_methods_are_imported_listed_and_called() {
    let files = TestDirectory::new();
    let mock = mock(&files);
    let dir = dir(&format!("[upstreams.service]\nurl = \"{}\"\n", mock.url("/")));
    let stdout = dir.ok(&["import", "openrpc", "--upstream", "service"]);
    assert!(stdout.contains("2 added"), "{stdout}");
    let server = dir.serve(&[]);
    assert_eq!(server.tools(""), ["get_pet", "remove_pet"]);
    assert_eq!(call(&server, "get_pet", &json!({"id": 7})), (false, "Rex".to_owned()));
    let invalid = r#"{"jsonrpc":"2.0","id":1,"method":"get_pet","params":{"id":"x"}}"#;
    let refused_by_callgate = server.request("POST /jsonrpc", "", invalid).json();
    assert_eq!(refused_by_callgate["error"]["code"], -32602);
    // If arguments pass the check but the service refuses them, the caller gets the message of the service.
    dir.ok(&["method", "set", "get_pet", "--input-schema", r#"{"properties":{"id":{}}}"#]);
    server.wait_until("the service is asked", |server| {
        server.request("POST /jsonrpc", "", invalid).json()["error"]["message"] == "Invalid params"
    });
    let refused_by_service = server.request("POST /jsonrpc", "", invalid).json();
    assert_eq!(refused_by_service["error"]["code"], -32602);
    assert_eq!(
        refused_by_service["error"]["data"][0]["name"], "ParameterValidationError",
        "{refused_by_service}"
    );
}

#[test]
fn the_mock_server_can_be_tried_without_configuration() {
    let dir = TestDirectory::new();
    let mock = mock(&dir);
    let server = Server::start(dir.command(&["try", &mock.url("/"), "--json"]));
    assert_eq!(server.start["found_by"], "rpc.discover");
    assert_eq!(call(&server, "get_pet", &json!({"id": 7})), (false, "Rex".to_owned()));
    assert_eq!(server.invoke("", "get_pet", &json!({"id": 0})).status, 400);
}
