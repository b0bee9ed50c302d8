//! The schemas of Rust types.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use callgate::{Callgate, method, methods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::macros::{anonymous, tool};

/// Where somebody lives.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Address {
    street: String,
    /// Two letters.
    #[serde(rename = "countryCode")]
    country: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Payment {
    Cash,
    Card { number: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    #[serde(default)]
    branches: Vec<Tree>,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    address: Address,
}

#[test]
fn nested_types_are_inlined_with_serdes_names() {
    #[method(destructive)]
    async fn order(
        /// Where it goes.
        to: Address,
        from: Address,
        bill: Option<Address>,
        payment: Payment,
        extras: BTreeMap<String, i32>,
        anything: Value,
        #[default(vec![1, 2])] counts: Vec<u8>,
    ) -> Result<Receipt, std::io::Error> {
        let _ = (to.street, from.country, bill, payment, extras, anything, counts);
        Err(std::io::Error::other("closed"))
    }
    let gateway = Callgate::builder().methods(methods![order]).build().unwrap();
    insta::assert_json_snapshot!(tool(&gateway, "order"));
}

#[tokio::test]
async fn recursive_types_stay_in_definitions() {
    #[method(read_only)]
    fn prune(tree: Tree) -> Tree {
        Tree { branches: Vec::new(), ..tree }
    }
    let gateway = Callgate::builder().methods(methods![prune]).build().unwrap();
    insta::assert_json_snapshot!(tool(&gateway, "prune"));
    let arguments = json!({"tree": {"name": "a", "branches": [{"name": "b"}]}});
    let pruned = gateway.as_caller(anonymous()).call("prune", arguments).await.unwrap();
    assert_eq!(pruned, json!({"name": "a", "branches": []}));
    let wrong = json!({"tree": {"name": "a", "branches": [{"name": 1}]}});
    assert!(gateway.as_caller(anonymous()).call("prune", wrong).await.is_err());
}

#[test]
fn a_type_without_structure_has_no_output_schema() {
    #[method(read_only)]
    fn any() -> Value {
        Value::Null
    }
    #[method(read_only)]
    fn none() {}
    #[method(read_only)]
    fn many() -> HashMap<String, Value> {
        HashMap::new()
    }
    #[method(read_only)]
    fn list() -> Vec<Value> {
        Vec::new()
    }
    let gateway = Callgate::builder().methods(methods![any, none, many, list]).build().unwrap();
    let of = |id: &str| {
        let tool = tool(&gateway, id);
        (tool["inputSchema"].to_string(), tool["outputSchema"].to_string())
    };
    let no_arguments = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
    assert_eq!(of("any"), (no_arguments.to_owned(), "null".to_owned()));
    assert_eq!(of("none").1, "null");
    assert_eq!(of("many").1, r#"{"type":"object","additionalProperties":true}"#);
    assert_eq!(of("list").1, r#"{"type":"array","items":{}}"#);
}

#[test]
fn property_names_that_clients_reject_are_renamed() {
    #[method(read_only)]
    fn odd(#[serde(rename = "Transaction hash")] hash: String) -> String {
        hash
    }
    let gateway = Callgate::builder().methods(methods![odd]).build().unwrap();
    let properties = tool(&gateway, "odd")["inputSchema"]["properties"].clone();
    assert_eq!(properties, json!({"Transaction_hash": {"type": "string"}}));
}

#[derive(Deserialize, JsonSchema)]
struct Card {
    number: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Tagged {
    Cash,
    Card(Card),
}

#[tokio::test]
async fn a_tagged_type_keeps_its_fields() {
    #[method(destructive)]
    fn pay(how: Tagged) -> String {
        match how {
            Tagged::Cash => "cash".to_owned(),
            Tagged::Card(Card { number }) => number,
        }
    }
    let gateway = Callgate::builder().methods(methods![pay]).build().unwrap();
    let card = tool(&gateway, "pay")["inputSchema"]["properties"]["how"]["oneOf"][1].clone();
    assert_eq!(card["required"], json!(["kind", "number"]));
    let anonymous_caller = gateway.as_caller(anonymous());
    let paid = anonymous_caller.call("pay", json!({"how": {"kind": "card", "number": "7"}})).await;
    assert_eq!(paid.unwrap(), "7");
    let wrong = anonymous_caller.call("pay", json!({"how": {"kind": "card"}})).await.unwrap_err();
    assert!(wrong.to_string().starts_with("argument `how`"), "{wrong}");
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Filter {
    limit: i64,
    #[serde(flatten)]
    by: By,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum By {
    Name(String),
    Age(u8),
}

#[tokio::test]
async fn an_optional_union_accepts_null() {
    #[method(read_only)]
    fn find(filter: Option<Filter>) -> Option<Filter> {
        filter
    }
    let gateway = Callgate::builder().methods(methods![find]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    assert_eq!(anonymous_caller.call("find", json!({"filter": null})).await.unwrap(), Value::Null);
    let filter = json!({"limit": 1, "age": 3});
    assert_eq!(anonymous_caller.call("find", json!({"filter": filter})).await.unwrap(), filter);
}

/// The union is checked, although clients only see its property names.
#[tokio::test]
async fn a_flattened_union_lists_its_properties() {
    #[method(read_only)]
    fn find(#[serde(flatten)] by: By) -> String {
        match by {
            By::Name(name) => name,
            By::Age(age) => age.to_string(),
        }
    }
    let gateway = Callgate::builder().methods(methods![find]).build().unwrap();
    let schema = tool(&gateway, "find")["inputSchema"].clone();
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["name", "age"]);
    assert!(schema.get("oneOf").is_none() && schema.get("anyOf").is_none(), "{schema}");
    let anonymous_caller = gateway.as_caller(anonymous());
    assert_eq!(anonymous_caller.call("find", json!({"age": 3})).await.unwrap(), "3");
    assert!(anonymous_caller.call("find", json!({})).await.is_err());
}

#[tokio::test]
async fn defaults_are_computed_for_each_call() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    #[method(read_only)]
    fn next(#[default(CALLS.fetch_add(1, Ordering::SeqCst))] number: u64) -> u64 {
        number
    }
    #[method(read_only)]
    fn up_to(
        #[default(f64::INFINITY)] max: f64,
        #[serde(alias = "n")]
        #[default(1)]
        count: u8,
        #[default(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}))] schema: Value,
        _tree: Option<Address>,
    ) -> String {
        format!("{} {count} {schema}", max.is_finite())
    }
    let gateway = Callgate::builder().methods(methods![next, up_to]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    let first = anonymous_caller.call("next", ()).await.unwrap().as_u64().unwrap();
    assert_eq!(anonymous_caller.call("next", ()).await.unwrap(), first + 1);
    let expected = r#"false 1 {"anyOf":[{"type":"string"},{"type":"null"}]}"#;
    assert_eq!(anonymous_caller.call("up_to", ()).await.unwrap(), expected);
    assert!(
        anonymous_caller
            .call("up_to", json!({"n": 5}))
            .await
            .unwrap()
            .as_str()
            .unwrap()
            .contains(" 5 ")
    );
    let properties = tool(&gateway, "up_to")["inputSchema"]["properties"].clone();
    assert_eq!(properties["max"], json!({"type": "number"}), "infinity is not valid JSON");
    assert_eq!(properties["count"]["default"], 1);
}

#[tokio::test]
async fn a_renamed_parameter_keeps_the_check_of_unknown_arguments() {
    #[method(read_only)]
    fn renamed(#[serde(rename = "alias_id")] id: u8) -> u8 {
        id
    }
    let gateway = Callgate::builder().methods(methods![renamed]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    assert_eq!(anonymous_caller.call("renamed", json!({"alias_id": 1})).await.unwrap(), 1);
    assert!(anonymous_caller.call("renamed", json!({"alias_id": 1, "other": 2})).await.is_err());
}

#[tokio::test]
async fn bounds_of_integers_are_checked() {
    #[method(read_only)]
    fn small(n: i32, m: u64) -> i64 {
        i64::from(n) + i64::try_from(m).unwrap_or(0)
    }
    let gateway = Callgate::builder().methods(methods![small]).build().unwrap();
    let properties = tool(&gateway, "small")["inputSchema"]["properties"].clone();
    assert_eq!(properties["n"], json!({"type": "integer"}));
    let anonymous_caller = gateway.as_caller(anonymous());
    let wrong = anonymous_caller.call("small", json!([10_000_000_000_i64, 1])).await.unwrap_err();
    assert!(wrong.to_string().starts_with("argument `n`"), "{wrong}");
    assert!(anonymous_caller.call("small", json!([1, 1e30])).await.is_err());
    assert_eq!(anonymous_caller.call("small", json!([-1, 1])).await.unwrap(), 0);
}

#[test]
fn a_type_alias_of_result_is_rejected() {
    type Answer = Result<String, String>;
    #[method(read_only)]
    fn leaks() -> Answer {
        Err("the password".to_owned())
    }
    let error = Callgate::builder().methods(methods![leaks]).build().unwrap_err();
    assert!(error.to_string().contains("write `Result<…>`"), "{error}");
}

/// Which come first.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sort {
    Title,
    /// Newest acquisitions first.
    Newest,
}

#[tokio::test]
async fn an_enum_with_described_variants_is_a_list_of_choices() {
    #[method(read_only)]
    fn search(
        /// How to sort.
        sort: Sort,
        other: Option<Sort>,
    ) -> bool {
        matches!((sort, other), (Sort::Title, Some(Sort::Newest)))
    }
    let gateway = Callgate::builder().methods(methods![search]).build().unwrap();
    let properties = tool(&gateway, "search")["inputSchema"]["properties"].clone();
    let variant = "- `newest`: Newest acquisitions first.";
    let expected = json!({
        "type": "string", "enum": ["title", "newest"],
        "description": format!("How to sort.\n\n{variant}"),
    });
    assert_eq!(properties["sort"], expected);
    assert_eq!(properties["other"]["enum"], json!(["title", "newest", null]), "{properties}");
    let anonymous_caller = gateway.as_caller(anonymous());
    let wrong = anonymous_caller.call("search", json!({"sort": "size"})).await.unwrap_err();
    let message = "argument `sort`: expected one of \"title\", \"newest\", found string \"size\"";
    assert_eq!(wrong.to_string(), message);
    assert_eq!(anonymous_caller.call("search", json!(["title", "newest"])).await.unwrap(), true);
}
