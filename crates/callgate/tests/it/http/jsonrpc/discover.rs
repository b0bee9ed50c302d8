//! `rpc.discover`

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::*;

fn discover(params: Option<Value>) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "method": "rpc.discover", "id": 7});
    request.as_object_mut().unwrap().extend(params.map(|it| ("params".to_owned(), it)));
    request
}

async fn document(app: &App, caller: &str) -> Value {
    let reply = app.rpc(caller, discover(None)).await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(reply.header("content-length"), reply.text.len().to_string());
    let mut reply = reply.json();
    assert_eq!((&reply["jsonrpc"], &reply["id"]), (&json!("2.0"), &json!(7)));
    let document = reply["result"].take();
    check_open_rpc(&document);
    document
}

/// Checks that a document follows OpenRPC 1.3.2, for the parts that Callgate writes.
fn check_open_rpc(document: &Value) {
    let descriptor = json!({
        "type": "object",
        "required": ["name", "schema"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "description": {"type": "string"},
            "required": {"type": "boolean"},
            "schema": {"type": ["object", "boolean"]},
        },
        "additionalProperties": false,
    });
    let method = json!({
        "type": "object",
        "required": ["name", "params", "result"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "not": {"pattern": "^rpc\\."}},
            "summary": {"type": "string"},
            "description": {"type": "string"},
            "params": {"type": "array", "items": descriptor},
            "result": descriptor,
            "paramStructure": {"enum": ["by-name", "by-position", "either"]},
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": false,
    });
    let schema = json!({
        "type": "object",
        "required": ["openrpc", "info", "methods"],
        "properties": {
            "openrpc": {"const": "1.3.2"},
            "info": {
                "type": "object",
                "required": ["title", "version"],
                "properties": {"title": {"type": "string"}, "version": {"type": "string"}},
                "additionalProperties": false,
            },
            "methods": {"type": "array", "items": method},
            "components": {
                "type": "object",
                "required": ["schemas"],
                "properties": {"schemas": {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"},
                    "additionalProperties": {"type": ["object", "boolean"]},
                }},
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    });
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    if let Err(error) = validator.validate(document) {
        panic!("{}: {error}", error.instance_path());
    }
    for method in document["methods"].as_array().unwrap() {
        let params = method["params"].as_array().unwrap();
        assert!(params.is_sorted_by_key(|it| it["required"] == false), "{method}");
    }
}

/// Compiles a schema of the document. References are resolved in the document.
fn compiled(document: &Value, pointer: &str) -> jsonschema::Validator {
    assert!(document.pointer(pointer).is_some(), "{pointer}");
    let mut root = document.clone();
    root["$ref"] = json!(format!("#{pointer}"));
    jsonschema::draft202012::new(&root).unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

/// Returns pointers to all schemas of the document.
fn schemas(document: &Value) -> Vec<String> {
    let methods = document["methods"].as_array().unwrap().iter().enumerate();
    let mut found: Vec<String> = methods
        .flat_map(|(number, method)| {
            let params = 0..method["params"].as_array().unwrap().len();
            let params = params.map(move |n| format!("/methods/{number}/params/{n}/schema"));
            params.chain([format!("/methods/{number}/result/schema")])
        })
        .collect();
    let components = document.pointer("/components/schemas").and_then(Value::as_object);
    found.extend(
        components.into_iter().flatten().map(|(key, _)| format!("/components/schemas/{key}")),
    );
    found
}

#[tokio::test]
async fn the_document_of_an_administrator_has_all_methods() {
    insta::assert_json_snapshot!(document(&App::new(), "admin").await);
}

#[tokio::test]
async fn a_caller_with_fewer_grants_gets_a_smaller_document() {
    let app = App::new();
    let reader = document(&app, "reader").await;
    assert!(!reader.to_string().contains("delete"));
    insta::assert_json_snapshot!(reader);
    assert!(
        document(&app, "").await["methods"].as_array().unwrap().len()
            < reader["methods"].as_array().unwrap().len()
    );
    let empty = App::with(Local::default(), HttpOptions::default());
    assert_eq!(
        empty.rpc("", discover(None)).await.text,
        r#"{"jsonrpc":"2.0","id":7,"result":{"openrpc":"1.3.2","info":{"title":"callgate","version":"0.1.0"},"methods":[]}}"#
    );
}

#[tokio::test]
async fn every_reference_resolves_to_the_same_definition() {
    let tree = |leaf: &str| {
        json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Tree", "description": "A tree."}},
            "required": ["tree"],
            "$defs": {
                "Tree": {"type": "array", "items": {"anyOf": [
                    {"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Leaf"},
                ]}},
                "Leaf": {"type": leaf},
            },
        })
    };
    let mut local = Local::default();
    for (id, leaf) in [("a", "string"), ("b", "integer"), ("c", "string")] {
        let method = method(id).input_schema(tree(leaf)).unwrap();
        let method = method.output_schema(tree(leaf)).unwrap();
        local.method(method, async |_, _: Value| Ok::<_, Error>(1));
    }
    let document = document(&App::with(local, HttpOptions::default()), "").await;
    let all = schemas(&document);
    assert_eq!(all.len(), 10, "{document:#}");
    for pointer in &all {
        compiled(&document, pointer);
    }
    for (number, is_string) in [(0, true), (1, false), (2, true)] {
        let param = compiled(&document, &format!("/methods/{number}/params/0/schema"));
        assert_eq!(param.is_valid(&json!([["deep", []]])), is_string);
        assert_eq!(param.is_valid(&json!([[1, []]])), !is_string);
        let result = compiled(&document, &format!("/methods/{number}/result/schema"));
        assert_eq!(result.is_valid(&json!({"tree": [["deep", []]]})), is_string);
    }
    insta::assert_json_snapshot!(document);
}

#[tokio::test]
async fn rpc_discover_accepts_no_parameters() {
    let app = App::new();
    for params in [json!({}), json!([])] {
        assert!(app.rpc("", discover(Some(params))).await.json()["result"].is_object());
    }
    let spaced = r#"{"jsonrpc":"2.0","method":"rpc.discover","id":7,"params":{ }}"#;
    assert!(app.post("", PATH, spaced).await.json()["result"].is_object());
    for params in [json!([[]]), json!([{}]), json!({"a": 1})] {
        let error = error_of(&app.rpc("", discover(Some(params))).await);
        let message = "`rpc.discover` takes no parameters";
        assert_eq!(error, json!({"code": -32602, "message": message}));
    }
}

#[tokio::test]
async fn rpc_discover_is_refused_in_a_batch() {
    let reply = App::new().rpc("", json!([discover(None)])).await;
    assert_eq!(
        reply.text,
        r#"[{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"`rpc.discover` cannot be in a batch, since its reply can be large; send it by itself"}}]"#
    );
}

#[tokio::test]
async fn a_document_with_too_many_methods_is_refused_with_an_alternative() {
    let app = App::with(many(10_001), HttpOptions::default());
    let error = error_of(&app.rpc("", discover(None)).await);
    assert_eq!(
        error,
        json!({
            "code": -32000,
            "message": "10001 methods exceed the limit of 10000 per document; \
                        use GET /mcp/tools/list",
        })
    );
}

#[tokio::test]
async fn concurrent_requests_get_the_same_document() {
    let app = App::new();
    let all: [_; 8] = std::array::from_fn(|_| document(&app, "admin"));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|document| *document == all[0]));
}

#[tokio::test]
async fn a_document_counts_against_the_budget_until_it_is_sent() {
    let app = App::with(many(1_000), HttpOptions::default());
    let post = || {
        let body = Body::from(discover(None).to_string());
        request("POST", "reader", PATH).body(body).unwrap()
    };
    let (first, second) = (app.respond(post()).await, app.respond(post()).await);
    let text = second.into_body().collect().await.unwrap().to_bytes();
    assert!(app.gateway.in_flight_bytes().0 + 1_000 > text.len(), "{}", text.len());
    drop((first, text));
    assert_eq!(app.gateway.in_flight_bytes().0, 0);
}

#[test]
fn many_requests_of_one_caller_do_not_delay_another_caller() {
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    // The only thread that builds documents is busy until all callers have sent their requests.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let position = runtime.block_on(async {
        drop(tokio::task::spawn_blocking(move || blocked.recv()));
        let app = &App::new();
        let send = |caller: &'static str| {
            Box::pin(async move {
                assert!(app.rpc(caller, discover(None)).await.json()["result"].is_object());
                caller
            })
        };
        let mut all: Vec<_> = (0..100).map(|_| send("admin")).collect();
        all.push(send("reader"));
        for request in &mut all {
            assert!(request.as_mut().now_or_never().is_none());
        }
        unblock.send(()).unwrap();
        let replies = all.into_iter().collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await;
        replies.iter().position(|caller| *caller == "reader").unwrap()
    });
    assert!(position < 10, "{position}");
}
