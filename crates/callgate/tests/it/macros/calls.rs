//! Calls of functions with the attribute, through the gateway.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use callgate::upstream::{CallError, ToolContent};
use callgate::{Callgate, Content, Context, Error, Mask, Response, method, methods, plugin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::macros::{anonymous, caller};

#[derive(Debug, Serialize, JsonSchema)]
struct User {
    id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

/// Looks up a user.
#[method(id = "user.get", title = "Get user", section("user_management", read), read_only)]
async fn get_user(
    ctx: &Context,
    /// The user's numeric id.
    id_user: i64,
    /// Also return e-mail and roles.
    #[default(false)]
    include_details: bool,
) -> Result<User, Error> {
    if id_user == 0 {
        return Err(Error::tool(format!("{} asks for nobody", ctx.caller.name())));
    }
    Ok(User { id: id_user, email: include_details.then(|| "ada@example.com".to_owned()) })
}

#[tokio::test]
async fn arguments_are_accepted_by_name_and_by_position_with_defaults() {
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    let reader = gateway.as_caller(caller("ada", &[("user_management", Mask::Read)]));
    let call = async |arguments: Value| reader.call("user.get", arguments).await.unwrap();
    assert_eq!(call(json!({"id_user": 3})).await, json!({"id": 3}));
    let details = json!({"id": 3, "email": "ada@example.com"});
    assert_eq!(call(json!({"id_user": 3, "include_details": true})).await, details);
    assert_eq!(call(json!([3, true])).await, details);
    assert_eq!(call(json!({"id_user": 3.0})).await, json!({"id": 3}));
}

#[tokio::test]
async fn access_and_arguments_are_checked_before_a_call() {
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    let denied = anonymous_caller.call("user.get", json!({"id_user": 3})).await.unwrap_err();
    assert_eq!(denied.to_string(), "Tool 'user.get' not found or access denied");
    assert!(anonymous_caller.methods().is_empty());
    let reader = gateway.as_caller(caller("ada", &[("user_management", Mask::Write)]));
    assert_eq!(reader.methods(), ["user.get"]);
    let wrong = reader.call("user.get", json!({"id_user": "3"})).await.unwrap_err();
    assert_eq!(wrong.to_string(), "argument `id_user`: expected integer, found string \"3\"");
    let missing = reader.call("user.get", ()).await.unwrap_err();
    assert_eq!(missing.to_string(), "argument `id_user` is missing");
    let error = reader.call("user.get", json!({"id_user": 0})).await.unwrap_err();
    assert_eq!(error.to_string(), "ada asks for nobody (code 1)");
}

#[tokio::test]
async fn all_section_requirements_must_be_met() {
    #[method(section("a", read), section("b", execute), destructive)]
    fn both() -> bool {
        true
    }
    let gateway = Callgate::builder().methods(methods![both]).build().unwrap();
    let is_visible =
        |grants: &[(&str, Mask)]| !gateway.as_caller(caller("ada", grants)).methods().is_empty();
    assert!(!is_visible(&[("a", Mask::Execute)]));
    assert!(!is_visible(&[("a", Mask::Read), ("b", Mask::Write)]));
    assert!(is_visible(&[("a", Mask::Read), ("b", Mask::Execute)]));
}

#[tokio::test]
async fn the_content_of_a_filled_response_is_the_result() {
    #[method(read_only)]
    async fn report(response: &mut Response, ctx: &Context, year: u16) -> Result<bool, Error> {
        if year < 2000 {
            return Err(Error::tool("too long ago"));
        }
        response.set("year", year);
        response.set("for", ctx.caller.name());
        Ok(false)
    }
    #[method(read_only)]
    fn plain(response: &mut Response) {
        response.set("a", 1);
    }
    let gateway = Callgate::builder().methods(methods![report, plain]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    let result = anonymous_caller.call("report", json!({"year": 2026})).await.unwrap();
    assert_eq!(result, json!({"year": 2026, "for": "anonymous"}));
    let error = anonymous_caller.call("report", json!({"year": 1999})).await.unwrap_err();
    assert_eq!(error.to_string(), "too long ago (code 1)");
    assert_eq!(anonymous_caller.call("plain", ()).await.unwrap(), json!({"a": 1}));
    let tool = anonymous_caller.describe("report").unwrap();
    let names: Vec<&String> =
        tool["inputSchema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["year"]);
    assert!(tool.get("outputSchema").is_none());
}

#[tokio::test]
async fn only_public_error_messages_reach_the_caller() {
    #[method(read_only)]
    fn breaks(how: String) -> anyhow::Result<()> {
        anyhow::bail!("the password of {how} is 1234")
    }
    #[method(read_only)]
    async fn breaks_inside() -> Result<u8, Error> {
        Ok("x".parse::<u8>()?)
    }
    #[method(read_only)]
    async fn panics() -> u8 {
        panic!("no")
    }
    let gateway =
        Callgate::builder().methods(methods![breaks, breaks_inside, panics]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    for (id, arguments) in
        [("breaks", json!({"how": "ada"})), ("breaks_inside", json!({})), ("panics", json!({}))]
    {
        let failed = anonymous_caller.call(id, arguments).await.unwrap_err();
        assert!(matches!(failed, CallError::Failed { .. }), "{failed:?}");
        assert_eq!(failed.to_string(), "Tool execution failed");
    }
}

#[tokio::test]
async fn results_are_json_or_content() {
    #[method(read_only)]
    fn nothing() {}
    #[method(read_only)]
    fn maybe(n: u8) -> Option<u8> {
        (n > 0).then_some(n)
    }
    #[method(read_only)]
    fn words() -> Content {
        "Hello.".into()
    }
    #[method(read_only)]
    async fn failure() -> Result<ToolContent, std::io::Error> {
        Ok(ToolContent::new(["No.".into()]).error())
    }
    let methods = methods![nothing, maybe, words, failure];
    let gateway = Callgate::builder().methods(methods).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    assert_eq!(anonymous_caller.call("nothing", ()).await.unwrap(), Value::Null);
    assert_eq!(anonymous_caller.call("maybe", json!([0])).await.unwrap(), Value::Null);
    assert_eq!(anonymous_caller.call("maybe", json!([1])).await.unwrap(), json!(1));
    let content = anonymous_caller.call("words", ()).await.unwrap();
    assert_eq!(content, json!({"content": [{"type": "text", "text": "Hello."}]}));
    let failed = anonymous_caller.call("failure", ()).await.unwrap_err();
    assert_eq!(failed.to_string(), "No. (code 1)");
}

#[derive(Default)]
struct Shop {
    orders: AtomicU64,
}

#[plugin::methods]
impl Shop {
    fn next(&self) -> u64 {
        self.orders.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Orders a product.
    #[method(id = "shop.order", section("shop", write), destructive)]
    async fn order(&self, ctx: &Context, product: String) -> Result<String, Error> {
        Ok(format!("{}: {product} for {}", self.next(), ctx.caller.name()))
    }

    /// When it is open.
    #[method(id = "shop.hours", read_only)]
    fn hours() -> &'static str {
        "nine to five"
    }
}

#[tokio::test]
async fn methods_of_a_plugin_share_its_state() {
    let shop = Arc::new(Shop::default());
    let gateway = Callgate::builder().shared_plugin(Arc::clone(&shop)).build().unwrap();
    let ada = gateway.as_caller(caller("ada", &[("shop", Mask::Write)]));
    assert_eq!(ada.methods(), ["shop.hours", "shop.order"]);
    let order = async || ada.call("shop.order", json!({"product": "tea"})).await.unwrap();
    assert_eq!(order().await, "1: tea for ada");
    assert_eq!(order().await, "2: tea for ada");
    assert_eq!(shop.orders.load(Ordering::SeqCst), 2);
    assert_eq!(ada.call("shop.hours", ()).await.unwrap(), "nine to five");
}

#[tokio::test]
async fn a_function_with_the_attribute_can_be_called_directly() {
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    drop(gateway);
    assert_eq!(Shop::hours(), "nine to five");
}

mod other_module {
    use callgate::method;

    /// Adds.
    #[method(read_only)]
    pub(crate) fn add(a: i64, b: i64) -> i64 {
        a + b
    }
}

#[tokio::test]
async fn a_method_is_found_by_its_path() {
    assert_eq!(other_module::add(1, 2), 3);
    let by_path = Callgate::builder().methods(methods![other_module::add]).build().unwrap();
    let imported = {
        use other_module::add;
        Callgate::builder().methods(methods![add]).build().unwrap()
    };
    for gateway in [by_path, imported] {
        assert_eq!(gateway.as_caller(anonymous()).call("add", json!([1, 2])).await.unwrap(), 3);
    }
}

/// The names could clash with names in the generated code.
#[tokio::test]
async fn arguments_may_have_any_name() {
    #[derive(Deserialize, JsonSchema)]
    struct Arguments {
        x: i64,
    }
    #[method(read_only)]
    async fn odd(
        context: String,
        arguments: Arguments,
        r#type: Vec<u8>,
        #[serde(rename = "maxAge")] max_age: Option<u8>,
        mut response: i64,
    ) -> String {
        response += arguments.x;
        format!("{context} {response} {type:?} {max_age:?}")
    }
    let gateway = Callgate::builder().methods(methods![odd]).build().unwrap();
    let arguments = json!({
        "context": "a", "arguments": {"x": 1}, "type": [2], "maxAge": 3, "response": 4,
    });
    let result = gateway.as_caller(anonymous()).call("odd", arguments).await.unwrap();
    assert_eq!(result, "a 5 [2] Some(3)");
}

#[tokio::test]
async fn fields_of_a_flattened_struct_are_arguments() {
    #[derive(Deserialize, JsonSchema)]
    struct Page {
        /// How many.
        #[schemars(range(min = 1, max = 100))]
        limit: u32,
    }
    #[method(read_only)]
    fn list(#[serde(flatten)] page: Page, word: String) -> String {
        word.repeat(page.limit as usize)
    }
    let gateway = Callgate::builder().methods(methods![list]).build().unwrap();
    let anonymous_caller = gateway.as_caller(anonymous());
    let result = anonymous_caller.call("list", json!({"limit": 2, "word": "a"})).await.unwrap();
    assert_eq!(result, "aa");
    let wrong = anonymous_caller.call("list", json!({"limit": 0, "word": "a"})).await.unwrap_err();
    assert!(wrong.to_string().contains("limit"), "{wrong}");
}

#[tokio::test]
async fn dropping_a_call_cancels_its_context() {
    type SharedContext = Arc<Mutex<Option<Context>>>;
    struct ContextRecorder(SharedContext, tokio::sync::Notify);
    #[plugin::methods]
    impl ContextRecorder {
        #[method(read_only)]
        async fn wait(&self, ctx: &Context) {
            *self.0.lock().unwrap() = Some(ctx.clone());
            self.1.notify_one();
            std::future::pending::<()>().await;
        }
    }
    let recorder = Arc::new(ContextRecorder(SharedContext::default(), tokio::sync::Notify::new()));
    let gateway = Callgate::builder().shared_plugin(Arc::clone(&recorder)).build().unwrap();
    let calling =
        tokio::spawn(async move { gateway.as_caller(anonymous()).call("wait", ()).await });
    recorder.1.notified().await;
    let context = recorder.0.lock().unwrap().take().unwrap();
    assert!(!context.is_finished());
    calling.abort();
    context.finished().await;
    assert!(context.is_finished());
}
