//! `callgate import introspect` with fake services. `real/` has aria2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::fake::{FakeResponse, FakeService};
use crate::support::TestDirectory;

/// Returns a service with signatures and help. `is_listed` decides whether its list of methods
/// contains the methods of introspection.
fn service(is_listed: bool) -> FakeService {
    FakeService::json_rpc(move |method, params| {
        let introspection = ["system.listMethods", "system.methodSignature", "system.methodHelp"];
        let introspection = introspection.map(Value::from).into_iter().filter(|_| is_listed);
        let names = ["item.get", "item.add", "odd", "system.multicall", "system.hostname", "odd"];
        let names = names.map(Value::from).into_iter().chain(introspection);
        match (method, params[0].as_str()) {
            ("system.listMethods", _) => Some(names.collect()),
            ("system.methodSignature", Some("item.get")) => Some(json!([["struct", "int"]])),
            ("system.methodSignature", Some("item.add")) => {
                Some(json!([["int", "struct"], ["int", "struct", "boolean"]]))
            }
            ("system.methodSignature", _) => Some(json!("undef")),
            ("system.methodHelp", Some("item.get")) => Some(json!("Returns one item.\n")),
            ("system.methodHelp", Some("odd")) => None,
            ("system.methodHelp", _) => Some(json!("")),
            _ => Some(params.clone()),
        }
    })
}

#[test]
fn listed_methods_have_their_signatures_and_help() {
    for is_listed in [true, false] {
        let service = service(is_listed);
        let dir = TestDirectory::migrated();
        let output = dir.run(&["import", "introspect", &service.url("/RPC2"), "--dry-run"]);
        if is_listed {
            let stderr = service.mask_port(&output.stderr());
            insta::assert_snapshot!(format!("{stderr}\n{}", output.stdout()));
        }
        dir.ok(&["import", "introspect", &service.url("/RPC2")]);
        let methods = dir.exported();
        let schema = json!({
            "type": "object",
            "properties": {"param1": {"type": "object"}, "param2": {"type": "boolean"}},
            "required": ["param1"],
            "additionalProperties": false,
        });
        assert_eq!(methods["item.add"]["input_schema"], schema);
        assert_eq!(methods["item.get"]["description"], "Returns one item.");
        assert!(methods["odd"].get("description").is_none());
        assert_eq!(methods.len(), 4, "`system.hostname` is a method like others");
        assert!(dir.ok(&["import", "introspect", &service.url("/")]).contains("nothing changed"));
        // Parameters without a type survive an export and an import in both formats.
        for format in ["manifest", "openrpc"] {
            let other_dir = TestDirectory::migrated();
            other_dir.write("exported", &dir.ok(&["export", "--format", format]));
            other_dir.ok(&["import", format, "exported"]);
            assert_eq!(other_dir.exported(), methods, "{format}");
        }
    }
}

/// Codes and messages of errors. The last value is `true` if the service does not know the method
/// or has no information about the method, and `false` for a refusal.
const ERRORS: [(i64, &str, bool); 17] = [
    (-32601, "nope", true),
    (-32602, "Invalid params", true),
    (1, "No such method: system.methodHelp", true),
    (1, "UNKNOWN_METHOD", true),
    (3, "Can't introspect: method unknown", true),
    (-506, "Method 'system.methodHelp' not defined", true),
    (-32000, "rpc: can't find method", true),
    (-32000, "the method system.methodHelp does not exist/is not available", true),
    (0, "SIGNATURE_UNSUPPORTED", true),
    (0, "system.methodHelp is not supported", true),
    (-32603, "Internal error", false),
    (-32000, "Server is busy", false),
    (-32000, "system.methodHelp: unknown error", false),
    (1, "Unauthorized", false),
    (-32000, "method temporarily not available", false),
    (-32000, "host not found", false),
    // Deluge
    (3, "JSONException: Unknown system method", false),
];

#[test]
fn a_refused_description_is_noted_and_does_not_remove_an_imported_description() {
    for (code, message, is_unknown) in ERRORS {
        for is_listed in [true, false] {
            let fails = Arc::new(AtomicBool::new(true));
            let is_failing = Arc::clone(&fails);
            let service = FakeService::start(move |request| {
                let (body, introspection) =
                    (&request.body, ["system.listMethods", "system.methodHelp"]);
                let listed = introspection
                    .into_iter()
                    .filter(|_| is_listed)
                    .chain(["item.get", "item.list"]);
                let mut reply = json!({"jsonrpc": "2.0", "id": body["id"]});
                match body["method"].as_str() {
                    Some("system.listMethods") => reply["result"] = listed.collect(),
                    Some("system.methodHelp") if !is_failing.load(Ordering::SeqCst) => {
                        reply["result"] = json!("Returns one item, and deletes it.");
                    }
                    Some("system.methodHelp") => {
                        reply["error"] = json!({"code": code, "message": message});
                    }
                    _ => reply["error"] = json!({"code": -32601, "message": "none"}),
                }
                (200, reply.to_string())
            });
            let dir = TestDirectory::migrated();
            let import = ["import", "introspect", &service.url("/")];
            let note = format!(
                "note: the service refused `system.methodHelp` for 2 methods: {message} (code {code}). New methods \
                 are imported without help; methods that were imported before keep their help"
            );
            let import_while_refused = || {
                let output = dir.run(&import);
                assert!(output.0.status.success(), "{message}: {}", output.stderr());
                assert_eq!(!is_unknown, output.stderr().contains(&note), "{}", output.stderr());
            };
            import_while_refused();
            assert!(dir.exported()["item.get"].get("description").is_none());
            fails.store(false, Ordering::SeqCst);
            dir.ok(&import);
            let before = dir.exported();
            assert_eq!(before["item.get"]["description"], "Returns one item, and deletes it.");
            assert_eq!(before["item.get"]["safety"], "guessed_destructive");
            fails.store(true, Ordering::SeqCst);
            import_while_refused();
            assert_eq!(dir.exported() == before, !is_unknown, "{message}");
        }
    }
}

#[test]
fn an_import_fails_if_the_connection_closes_while_methods_are_described() {
    let service = FakeService::start(|request| match request.method() {
        "system.listMethods" => request.result(json!(["item.get"])),
        _ => FakeResponse::close(),
    });
    let dir = TestDirectory::migrated();
    let stderr = dir.run(&["import", "introspect", &service.url("/")]).failure().1;
    assert!(stderr.contains("system.methodSignature of `item.get`: "), "{stderr}");
    assert!(dir.exported().is_empty());
}

#[test]
fn parameters_without_names_are_positional() {
    let service = service(true);
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    dir.ok(&["import", "introspect"]);
    let server = dir.serve(&[]);
    for (name, arguments, sent) in [
        ("odd", json!({"params": [1, "two", [3]]}), json!([1, "two", [3]])),
        ("odd", json!({}), json!([])),
        ("item.get", json!({"param1": 7}), json!([7])),
    ] {
        let reply = server.invoke("", name, &arguments).json();
        assert_eq!(reply, json!({"result": sent}), "{name}");
    }
    let reply = server.invoke("", "item.get", &json!({"param1": "x"}));
    assert_eq!(reply.status, 400, "{}", reply.body);
    let description = server.get("", "/mcp/tools/describe?name=odd").body;
    assert!(!description.contains("x-callgate"), "{description}");
}

#[test]
fn a_service_without_a_valid_list_of_methods_is_an_error() {
    let dir = TestDirectory::migrated();
    let mut errors = String::new();
    let none = FakeService::json_rpc(|_, _| None);
    let invalid = FakeService::json_rpc(|_, _| Some(json!({"methods": []})));
    let many = FakeService::json_rpc(|_, _| {
        Some((0..10_001).map(|number| Value::from(format!("m{number}"))).collect())
    });
    for service in [&none, &invalid, &many] {
        let (_, stderr) = dir.run(&["import", "introspect", &service.url("/rpc")]).failure();
        errors.push_str(&service.mask_port(&stderr));
    }
    insta::assert_snapshot!(errors, @"
    callgate: http://127.0.0.1:[port]/rpc does not list its methods
      POST system.listMethods: Method not found (code -32601)
    hint: import an OpenRPC document or a manifest instead
    callgate: http://127.0.0.1:[port]/rpc: POST system.listMethods: the reply is not a list of names
    hint: a login page or a proxy may have replied; try the same URL with curl
    callgate: http://127.0.0.1:[port]/rpc has 10001 methods, more than 10000
    ");
}
