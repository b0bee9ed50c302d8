//! `#[prompt]` and `#[resource]`, over the protocol.

use callgate::mcp::GetPromptResult;
use callgate::upstream::ResourceContents;
use callgate::{
    BuildError, Callgate, Content, Context, Error, Mask, plugin, prompt, prompts, resource,
    resources,
};
use serde_json::{Value, json};

use crate::macros::serving::send_request;
use crate::macros::{anonymous, caller};

/// Reviews code.
///
/// # Errors
///
/// Never.
#[prompt(name = "code-review", title = "Review code")]
async fn review(
    ctx: &Context,
    /// The code.
    code: String,
    /// How many remarks.
    #[default(3)]
    remarks: u8,
    /// What to look for.
    focus: Option<String>,
) -> Result<GetPromptResult, Error> {
    let focus = focus.unwrap_or_else(|| "everything".to_owned());
    let text = format!("{} wants {remarks} remarks on {focus}: {code}", ctx.caller.name());
    Ok(GetPromptResult::default()
        .user(text)
        .message(callgate::upstream::Role::Assistant, "Gladly."))
}

/// Says hello.
#[prompt(section("staff", read))]
fn hello() -> &'static str {
    "Hello."
}

/// What is there.
#[resource(uri = "shop://stock", mime_type = "application/json")]
fn stock() -> String {
    json!({"tea": 3}).to_string()
}

/// A product.
#[resource(uri = "shop://products/{id}/{part}", name = "product", mime_type = "text/plain")]
async fn product(ctx: &Context, id: u32, part: String) -> Result<Option<String>, Error> {
    Ok((id < 10).then(|| format!("{part} of {id} for {}", ctx.caller.name())))
}

/// The books.
#[resource(uri = "shop://books", section("staff", read))]
fn books() -> Vec<u8> {
    vec![1, 2, 3]
}

struct Archive(Vec<&'static str>);

#[plugin::methods]
impl Archive {
    /// A page of the archive.
    #[resource(uri = "archive://{number}")]
    fn page(&self, number: usize) -> Option<ResourceContents> {
        let text = self.0.get(number)?;
        Some(ResourceContents::text(format!("archive://{number}"), *text).mime_type("text/x-page"))
    }

    /// Starts from a page.
    #[prompt]
    fn begin(&self, number: usize) -> Result<Content, Error> {
        let text = self.0.get(number).ok_or_else(|| Error::tool("there is no such page"))?;
        Ok(Content::text(*text))
    }
}

fn gateway() -> Callgate {
    Callgate::builder()
        .prompts(prompts![review, hello])
        .resources(resources![stock, product, books])
        .plugin(Archive(vec!["first", "second"]))
        .build()
        .unwrap()
}

async fn result(method: &str, params: Value) -> Value {
    let reply = send_request(&gateway(), &anonymous(), "2025-11-25", method, params).await;
    let mut reply: Value = serde_json::from_str(&reply).unwrap();
    reply.as_object_mut().unwrap().retain(|key, _| key == "result" || key == "error");
    reply
}

#[tokio::test]
async fn prompts_are_listed_and_rendered() {
    insta::assert_json_snapshot!(result("prompts/list", json!({})).await);
    let get = async |name: &str, arguments: Value| {
        result("prompts/get", json!({"name": name, "arguments": arguments})).await
    };
    insta::assert_json_snapshot!(get("code-review", json!({"code": "x", "remarks": "5"})).await);
    let wrong = get("code-review", json!({"code": "x", "remarks": "many"})).await;
    assert_eq!(wrong["error"]["code"], -32602);
    let message = "the argument `remarks` cannot be parsed: invalid digit found in string";
    assert_eq!(wrong["error"]["message"], message);
    assert_eq!(get("code-review", json!({})).await["error"]["code"], -32602);
    let page = get("begin", json!({"number": "1"})).await;
    assert_eq!(page["result"]["messages"][0]["content"]["text"], "second");
}

#[tokio::test]
async fn prompts_and_resources_require_their_sections() {
    let staff = caller("ada", &[("staff", Mask::Read)]);
    let send_request = async |caller: &callgate::Caller, method: &str, params: Value| {
        send_request(&gateway(), caller, "2025-11-25", method, params).await
    };
    assert!(!send_request(&anonymous(), "prompts/list", json!({})).await.contains("hello"));
    assert!(send_request(&staff, "prompts/list", json!({})).await.contains("hello"));
    let hello = json!({"name": "hello"});
    let refused = send_request(&anonymous(), "prompts/get", hello.clone()).await;
    assert!(refused.contains("Prompt 'hello' not found"), "{refused}");
    assert!(send_request(&staff, "prompts/get", hello).await.contains("Hello."));
    let books = json!({"uri": "shop://books"});
    assert!(!send_request(&anonymous(), "resources/list", json!({})).await.contains("books"));
    let refused = send_request(&anonymous(), "resources/read", books.clone()).await;
    assert!(refused.contains("not found"), "{refused}");
    assert!(send_request(&staff, "resources/read", books).await.contains("\"blob\":\"AQID\""));
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    insta::assert_json_snapshot!(result("resources/list", json!({})).await);
    insta::assert_json_snapshot!(result("resources/templates/list", json!({})).await);
    let read = async |uri: &str| result("resources/read", json!({"uri": uri})).await;
    let text = |value: Value| value["result"]["contents"][0]["text"].clone();
    assert_eq!(text(read("shop://stock").await), "{\"tea\":3}");
    assert_eq!(text(read("shop://products/3/a%20box").await), "a box of 3 for anonymous");
    assert_eq!(read("shop://products/30/a").await["error"]["code"], -32002);
    assert_eq!(read("shop://products/3").await["error"]["code"], -32002);
    assert_eq!(read("shop://products/x/a").await["error"]["code"], -32602);
    let page = read("archive://1").await;
    assert_eq!(page["result"]["contents"][0]["mimeType"], "text/x-page");
}

#[test]
fn duplicate_prompts_and_resources_are_rejected() {
    let error = Callgate::builder().prompts(prompts![hello, hello]).build().unwrap_err();
    assert!(matches!(error, BuildError::Duplicate("prompts", _)));
    let error = Callgate::builder().resources(resources![stock, stock]).build().unwrap_err();
    assert_eq!(error.to_string(), "two resources are named `shop://stock`");
}

/// The plan of the safe.
#[resource(uri = "safe://plan", section("staff", read))]
fn plan() -> &'static str {
    "secret"
}

/// Something of the safe.
#[resource(uri = "safe://{what}")]
fn of_the_safe(what: String) -> String {
    format!("the family got {what}")
}

#[tokio::test]
async fn a_denied_resource_does_not_fall_through_to_a_template() {
    let resources = resources![of_the_safe, plan];
    let gateway = Callgate::builder().resources(resources).build().unwrap();
    let read = async |caller: &callgate::Caller, uri: &str| {
        send_request(&gateway, caller, "2025-11-25", "resources/read", json!({"uri": uri})).await
    };
    let denied = read(&anonymous(), "safe://plan").await;
    assert!(denied.contains("not found"), "{denied}");
    let staff = caller("ada", &[("staff", Mask::Read)]);
    assert!(read(&staff, "safe://plan").await.contains("secret"));
    assert!(read(&anonymous(), "safe://door").await.contains("the family got door"));
}

#[tokio::test]
async fn a_denied_resource_sends_no_notifications() {
    let gateway = Callgate::builder()
        .resources(resources![plan, stock])
        .resource_subscriptions()
        .build()
        .unwrap();
    let params =
        json!({"notifications": {"resourceSubscriptions": ["safe://plan", "shop://stock"]}});
    let mut events = crate::macros::serving::listen(&gateway, &anonymous(), params).await;
    assert!(events.next().await.contains("acknowledged"));
    gateway.mcp().resource_updated("safe://plan");
    gateway.mcp().resource_updated("shop://stock");
    let first = events.next().await;
    assert!(first.contains("shop://stock"), "{first}");
}

#[test]
fn duplicate_resource_templates_are_rejected() {
    /// The same again.
    #[resource(uri = "safe://{other}")]
    fn duplicate(other: String) -> String {
        other
    }
    let error =
        Callgate::builder().resources(resources![of_the_safe, duplicate]).build().unwrap_err();
    assert_eq!(error.to_string(), "two resources are named `safe://{}`");
}
