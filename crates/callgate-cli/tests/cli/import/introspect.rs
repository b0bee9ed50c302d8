//! `callgate import introspect`, with services of ours; `real/` has aria2.

use serde_json::{Value, json};

use super::registry;
use crate::fake::Fake;

/// A service with signatures and help, which it lists or not.
fn service(is_listed: bool) -> Fake {
    Fake::service(move |method, params| {
        let own = ["system.listMethods", "system.methodSignature", "system.methodHelp"];
        let own = own.map(Value::from).into_iter().filter(|_| is_listed);
        let names = ["item.get", "item.add", "odd", "system.multicall", "system.hostname", "odd"];
        let names = names.map(Value::from).into_iter().chain(own);
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
fn methods_that_a_service_lists_have_their_signatures_and_help() {
    for is_listed in [true, false] {
        let service = service(is_listed);
        let place = registry();
        let ran = place.run(&["import", "introspect", &service.url("/RPC2"), "--dry-run"]);
        if is_listed {
            let talk = service.hide(&ran.talk());
            insta::assert_snapshot!(format!("{talk}\n{}", ran.data()));
        }
        place.ok(&["import", "introspect", &service.url("/RPC2")]);
        let methods = place.exported();
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
        assert!(place.ok(&["import", "introspect", &service.url("/")]).contains("nothing changed"));
        // Both forms keep what takes anything.
        for form in ["manifest", "openrpc"] {
            let other = registry();
            other.write("exported", &place.ok(&["export", "--format", form]));
            other.ok(&["import", form, "exported"]);
            assert_eq!(other.exported(), methods, "{form}");
        }
    }
}

#[test]
fn b59_parameters_without_names_go_by_position() {
    let service = service(true);
    let place = registry();
    place.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    place.ok(&["import", "introspect"]);
    let server = place.serve(&[]);
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
    let shown = server.get("", "/mcp/tools/describe?name=odd").body;
    assert!(!shown.contains("x-callgate"), "{shown}");
}

#[test]
fn what_lists_nothing_is_told() {
    let place = registry();
    let mut told = String::new();
    let none = Fake::service(|_, _| None);
    let odd = Fake::service(|_, _| Some(json!({"methods": []})));
    let many = Fake::service(|_, _| {
        Some((0..10_001).map(|number| Value::from(format!("m{number}"))).collect())
    });
    for service in [&none, &odd, &many] {
        let (_, talk) = place.run(&["import", "introspect", &service.url("/rpc")]).failure();
        told.push_str(&service.hide(&talk));
    }
    insta::assert_snapshot!(told, @"
    callgate: http://127.0.0.1:[port]/rpc does not list its methods
      POST system.listMethods: Method not found (code -32601)
    hint: an OpenRPC document, or a manifest that you write, can be imported too
    callgate: http://127.0.0.1:[port]/rpc does not list its methods
      POST system.listMethods: the answer is no list of names
    hint: an OpenRPC document, or a manifest that you write, can be imported too
    callgate: http://127.0.0.1:[port]/rpc has 10001 methods, more than 10000
    ");
}
