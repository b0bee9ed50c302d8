//! The schemas of Rust types.

use std::collections::{BTreeMap, HashMap};

use callgate::{Callgate, method, methods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{anonymous, tool};

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
async fn recursion_stays_in_definitions() {
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
fn d4_nothing_is_promised_where_nothing_is_known() {
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
fn d3_names_that_clients_refuse_are_renamed() {
    #[method(read_only)]
    fn odd(#[serde(rename = "Transaction hash")] hash: String) -> String {
        hash
    }
    let gateway = Callgate::builder().methods(methods![odd]).build().unwrap();
    let properties = tool(&gateway, "odd")["inputSchema"]["properties"].clone();
    assert_eq!(properties, json!({"Transaction_hash": {"type": "string"}}));
}
