//! Questions with types, errors with data, and the client for tests.

use std::sync::atomic::{AtomicU32, Ordering};

use callgate::ask::{Elicit, Elicited, ListRoots};
use callgate::upstream::{CallError, Capability};
use callgate::{
    Callgate, Context, Error, Mask, method, methods, prompt, prompts, resource, resources,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::macros::{anonymous, caller};

/// How fast.
#[derive(Deserialize, Serialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Speed {
    /// Within a week.
    Normal,
    /// Tomorrow.
    Express,
}

#[derive(Deserialize, Serialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Wrapping {
    Paper,
    Box,
}

/// Where to send it.
#[derive(Deserialize, Serialize, JsonSchema, Debug, PartialEq)]
struct Delivery {
    /// Street and town.
    address: String,
    count: u8,
    weight: Option<f64>,
    speed: Speed,
    wrapping: Option<Wrapping>,
    other: Option<Speed>,
    #[serde(default)]
    is_gift: bool,
}

static RUNS: AtomicU32 = AtomicU32::new(0);

/// Sends something.
#[method(id = "shop.send", destructive, section("shop", write))]
async fn send(ctx: &Context) -> Result<String, Error> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    let Some(delivery) = ctx.ask_for::<Delivery>("Where to?").await? else {
        return Err(Error::tool("nothing was sent").with_data(json!({"reason": "declined"})));
    };
    let Some(billing) = ctx.ask_for::<Delivery>("And the bill?").await? else {
        return Ok("no bill".to_owned());
    };
    Ok(format!("{} to {}, bill to {}", delivery.count, delivery.address, billing.address))
}

/// Asks for the roots, if it can.
#[method(read_only)]
async fn roots(ctx: &Context) -> Result<usize, Error> {
    if !ctx.supports(Capability::Roots) {
        return Ok(0);
    }
    Ok(ctx.ask("roots", ListRoots).await?.roots.len())
}

/// Reviews code of someone.
#[prompt]
async fn review(ctx: &Context, code: String) -> Result<String, Error> {
    let delivery = ctx.ask_for::<Delivery>("For whom?").await?;
    Ok(format!("{code} for {}", delivery.map_or_else(String::new, |it| it.address)))
}

/// What is there.
#[resource(uri = "shop://stock", section("shop", read))]
fn stock() -> Result<String, Error> {
    Err(Error::tool("the stock is being counted").with_data(json!({"until": "noon"})))
}

fn gateway() -> Callgate {
    let builder = Callgate::builder().methods(methods![send, roots]).prompts(prompts![review]);
    builder.resources(resources![stock]).metrics().build().unwrap()
}

fn delivery() -> Delivery {
    Delivery {
        address: "1 Main St".to_owned(),
        count: 3,
        weight: None,
        speed: Speed::Express,
        wrapping: Some(Wrapping::Box),
        other: None,
        is_gift: true,
    }
}

/// Returns the fields without absent ones, as clients send them.
fn filled() -> Value {
    let mut fields = json!(delivery());
    fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    fields
}

#[tokio::test]
async fn a_typed_question_has_the_schema_of_its_type_and_its_answer_is_parsed() {
    let gateway = gateway();
    let ada = gateway.test_client(caller("ada", &[("shop", Mask::Write)]));
    let questions = std::sync::Mutex::new(Vec::new());
    let ada = ada.answering(|question| {
        questions.lock().unwrap().push(question.clone());
        Elicited::accept(filled())
    });
    let before = RUNS.load(Ordering::SeqCst);
    let result = ada.call("shop.send", ()).await.unwrap();
    assert_eq!(result["content"][0]["text"], "3 to 1 Main St, bill to 1 Main St");
    assert_eq!(RUNS.load(Ordering::SeqCst) - before, 3, "the method runs again for each question");
    drop(ada);
    let questions = questions.into_inner().unwrap();
    assert_eq!(questions.len(), 2);
    insta::assert_json_snapshot!(questions[0]);
}

#[tokio::test]
async fn a_declined_question_has_no_answer_and_an_error_has_data() {
    let gateway = gateway();
    let ada = caller("ada", &[("shop", Mask::Write)]);
    let client = gateway.test_client(ada.clone()).answering(|_| Elicited::decline());
    let result = client.call("shop_send", json!({})).await.unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "nothing was sent\n{\"reason\":\"declined\"}");
    assert_eq!(result.get("structuredContent"), None, "data does not match the output schema");
    let wrong = gateway.test_client(ada.clone()).answering(|_| json!({"action": "accept"}));
    let error = wrong.call("shop.send", ()).await.unwrap_err();
    assert!(error.message.contains("did not accept the answer"), "{error}");
    let silent = gateway.test_client(ada.clone());
    assert_eq!(silent.call("shop.send", ()).await.unwrap_err().code, -32021);
    // Without a client, asking the question fails.
    let refused = gateway.as_caller(ada).call("shop.send", ()).await.unwrap_err();
    assert!(matches!(refused, CallError::Rpc(_)), "{refused}");
}

#[tokio::test]
async fn the_test_client_supports_prompts_resources_and_capabilities() {
    let gateway = gateway();
    let ada = gateway.test_client(caller("ada", &[("shop", Mask::Write)]));
    let anonymous_client = gateway.test_client(anonymous());
    assert_eq!(anonymous_client.call("roots", ()).await.unwrap()["content"][0]["text"], "0");
    let answering = gateway.test_client(anonymous()).answering(|question| {
        assert_eq!(question["method"], "roots/list");
        json!({"roots": [{"uri": "file:///a"}]})
    });
    assert_eq!(answering.call("roots", ()).await.unwrap()["content"][0]["text"], "1");
    let prompts = anonymous_client.prompts().await.unwrap();
    assert_eq!(prompts[0]["name"], "review");
    let reviewing = gateway.test_client(anonymous()).answering(|_| Elicited::accept(filled()));
    let prompt = reviewing.prompt("review", json!({"code": "x"})).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "x for 1 Main St");
    let uris = async |client: &callgate::mcp::TestClient<'_>| {
        let all = client.resources().await.unwrap();
        all.iter().map(|entry| entry["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(uris(&ada).await, ["callgate://tools", "shop://stock"]);
    assert_eq!(uris(&anonymous_client).await, ["callgate://tools"]);
    assert!(
        anonymous_client.read("callgate://tools").await.unwrap()["contents"][0]["text"].is_string()
    );
    let error = ada.read("shop://stock").await.unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.data),
        ("the stock is being counted", Some(json!({"until": "noon"})))
    );
    assert_eq!(anonymous_client.read("shop://stock").await.unwrap_err().code, -32602);
    assert_eq!(anonymous_client.call("shop.send", ()).await.unwrap_err().code, -32602);
}

#[test]
fn only_flat_types_are_accepted_as_forms() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Basket {
        name: String,
        items: Vec<String>,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Nested {
        delivery: Delivery,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Either {
        One { a: u8 },
        Other,
    }
    #[derive(JsonSchema)]
    struct Nothing {}
    let problems = [
        Elicit::form_for::<Basket>("?").unwrap_err(),
        Elicit::form_for::<Nested>("?").unwrap_err(),
        Elicit::form_for::<Either>("?").unwrap_err(),
        Elicit::form_for::<String>("?").unwrap_err(),
        Elicit::form_for::<Nothing>("?").unwrap_err(),
    ];
    insta::assert_debug_snapshot!(problems);
}
