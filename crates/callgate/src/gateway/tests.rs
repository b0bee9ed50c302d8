use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::access::{Grants, Mask, User};
use crate::catalog::CatalogBuilder;
use crate::model::arguments::ParamStyle;
use crate::model::method::{LOCAL, Method, Param, Safety};
use crate::model::tool_name::Prefix;
use crate::model::types::Types;
use crate::upstream::local::{Error, Local};
use crate::upstream::{BoxFuture, Call, CallError, CallFailure, CallOutput};

fn gateway_with(local: Local, timeout: Duration) -> Gateway {
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for method in local.methods() {
        builder.add(method.clone(), 0, &Types::default(), []);
    }
    let orphan = Method::new("orphan".parse().unwrap()).upstream("nowhere");
    builder.add(orphan, 0, &Types::default(), []);
    let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)])
        .call_timeout(timeout);
    gateway.set_catalog(Arc::new(builder.finish()));
    gateway
}

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap())
}

fn reader() -> Caller {
    let user = User { id: 2, name: "reader".to_owned(), role: None };
    Caller::user(user, Grants::from_iter([("s", Mask::Read)]))
}

async fn call(gateway: &Gateway, id: &str, arguments: &str) -> Result<String, CallError> {
    let arguments: &RawValue = serde_json::from_str(arguments).unwrap();
    let request = CallRequest { id, arguments: Some(arguments), read_only: false };
    gateway.call(&reader(), request).await.map(|result| result.value.get().to_owned())
}

fn gateway_of(build: impl FnOnce(&mut Local)) -> Gateway {
    let mut local = Local::default();
    build(&mut local);
    gateway_with(local, DEFAULT_CALL_TIMEOUT)
}

#[tokio::test]
async fn display_method_returns_the_contents_of_its_response() {
    let gateway = gateway_of(|local| {
        local.display_method(
            method("report").param(Param::new("n", "int".parse().unwrap())),
            |response, context, arguments: serde_json::Value| {
                Box::pin(async move {
                    response.set("n", arguments["n"].clone());
                    response.set("for", context.caller.name());
                    Ok("ignored")
                })
            },
        );
    });
    assert_eq!(call(&gateway, "report", r#"{"n":3}"#).await.unwrap(), r#"{"n":3,"for":"reader"}"#);
    let tool = gateway.describe(&reader(), "report").unwrap();
    assert!(!std::str::from_utf8(&tool).unwrap().contains("esponse"), "not in the schema");
}

#[tokio::test]
async fn a_denied_tool_is_reported_as_unknown_and_does_not_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let gateway = gateway_of(|local| {
        local.method(
            method("delete").requires("s", Mask::Execute),
            move |_, _: serde_json::Value| {
                counter.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Error>(true) }
            },
        );
    });
    let denied = call(&gateway, "delete", "{}").await.unwrap_err();
    let unknown = call(&gateway, "delet", "{}").await.unwrap_err();
    assert_eq!(denied.to_string(), "Tool 'delete' not found or access denied");
    assert_eq!(unknown.to_string(), "Tool 'delet' not found or access denied");
    // The arguments are not even checked.
    assert!(matches!(call(&gateway, "delete", "[1,2,3]").await, Err(CallError::NotFound(_))));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_the_method_runs() {
    let gateway = gateway_of(|local| {
        local.method(
            method("strict").param(Param::new("n", "int".parse().unwrap())),
            async |_, _: serde_json::Value| -> Result<bool, Error> { panic!("ran") },
        );
    });
    let error = call(&gateway, "strict", r#"{"n":"x"}"#).await.unwrap_err();
    assert_eq!(error.to_string(), "argument `n`: expected integer, found string \"x\"");
}

#[tokio::test]
async fn a_large_schema_is_compiled_on_a_blocking_thread() {
    let with_values = |count: usize| {
        let values: Vec<String> = (0..count).map(|number| format!("value {number}")).collect();
        let param = Param::with_schema("value", json!({"enum": values})).unwrap();
        move |local: &mut Local| {
            let handler = async |_, _: serde_json::Value| Ok::<_, Error>(true);
            local.method(method("pick").param(param), handler);
        }
    };
    let (small, large) = (gateway_of(with_values(1)), gateway_of(with_values(10_000)));
    let arguments = r#"{"value":"value 0"}"#;
    assert!(call(&small, "pick", arguments).now_or_never().is_some());
    assert!(call(&large, "pick", arguments).now_or_never().is_none());
    assert_eq!(call(&large, "pick", arguments).await.unwrap(), "true");
}

#[tokio::test]
async fn internal_errors_are_not_sent_to_the_caller() {
    let gateway = gateway_of(|local| {
        local.method(method("tool"), async |_, _: serde_json::Value| -> Result<(), Error> {
            Err(Error::tool("no such article"))
        });
        local.method(method("internal"), async |_, _: serde_json::Value| -> Result<(), Error> {
            Err(std::io::Error::other("password=hunter2"))?
        });
        local.method(method("panics"), async |_, _: serde_json::Value| -> Result<(), Error> {
            panic!("at the secret place")
        });
    });
    assert_eq!(
        call(&gateway, "tool", "{}").await.unwrap_err().to_string(),
        "no such article (code 1)"
    );
    let not_configured = "The service behind this tool is not configured. Nothing was run; an administrator has \
                   to configure it.";
    let general = "Tool execution failed";
    for (id, expected) in [("internal", general), ("panics", general), ("orphan", not_configured)] {
        let error = call(&gateway, id, "{}").await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{id}");
        let CallError::Failed(CallFailure { error_id, .. }) = error else { panic!() };
        assert!(error_id.starts_with("mcp_"), "{error_id}");
    }
}

#[tokio::test]
async fn integers_are_accepted_in_any_notation_and_too_large_ones_are_invalid_arguments() {
    #[derive(serde::Deserialize)]
    struct Ids {
        id: i64,
    }
    let gateway = gateway_of(|local| {
        let get = method("get").param(Param::new("id", "int".parse().unwrap()));
        local.method(get, async |_, Ids { id }| Ok::<_, Error>(id));
    });
    for (text, id) in [("1", "1"), ("1.0", "1"), ("1e2", "100"), ("-3.0", "-3")] {
        assert_eq!(call(&gateway, "get", &format!(r#"{{"id":{text}}}"#)).await.unwrap(), id);
    }
    let huge = call(&gateway, "get", r#"{"id":99999999999999999999999}"#).await.unwrap_err();
    assert!(matches!(huge, CallError::Arguments(_)), "{huge}");
}

#[tokio::test]
async fn the_first_of_two_functions_with_the_same_id_is_called() {
    let gateway = gateway_of(|local| {
        local.method(method("m"), async |_, _: serde_json::Value| Ok::<_, Error>("first, open"));
        let second = method("m").requires("system", Mask::Execute);
        local.method(second, async |_, _: serde_json::Value| Ok::<_, Error>("second, closed"));
    });
    assert_eq!(call(&gateway, "m", "{}").await.unwrap(), "\"first, open\"");
}

#[tokio::test]
async fn arguments_are_checked_even_if_the_upstream_is_not_configured() {
    let gateway = gateway_of(|_| {});
    let error = call(&gateway, "orphan", r#"{"x":1}"#).await.unwrap_err();
    assert!(matches!(error, CallError::Arguments(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn call_fails_after_the_time_limit() {
    let mut local = Local::default();
    local.method(method("slow"), async |_, _: serde_json::Value| {
        std::future::pending::<()>().await;
        Ok::<_, Error>(())
    });
    let gateway = gateway_with(local, Duration::from_secs(30));
    assert!(matches!(call(&gateway, "slow", "{}").await, Err(CallError::Failed(_))));
}

#[tokio::test]
async fn a_read_only_request_runs_only_read_only_methods() {
    let gateway = gateway_of(|local| {
        local.method(method("writes"), async |_, _: serde_json::Value| Ok::<_, Error>(1));
        let reads = method("reads").safety(Safety::ReadOnly);
        local.method(reads, async |_, _: serde_json::Value| Ok::<_, Error>(2));
    });
    let request = |id| CallRequest { id, arguments: None, read_only: true };
    assert!(matches!(
        gateway.call(&reader(), request("writes")).await,
        Err(CallError::NotReadOnly(_))
    ));
    assert_eq!(gateway.call(&reader(), request("reads")).await.unwrap().value.get(), "2");
}

#[derive(Debug)]
struct Echo(Option<ParamStyle>);

impl Upstream for Echo {
    fn param_style(&self) -> Option<ParamStyle> {
        self.0
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let text = json!({"method": call.method, "id": call.id}).to_string();
        let text = format!("{},\"params\":{}}}", text.trim_end_matches('}'), call.params.get());
        Box::pin(async move { Ok(RawValue::from_string(text).unwrap().into()) })
    }
}

#[tokio::test]
async fn upstream_gets_method_params_and_a_unique_id() {
    let upstream: Arc<dyn Upstream> = Arc::new(Echo(Some(ParamStyle::Positional)));
    let gateway = Gateway::new([(Arc::from("php"), upstream)]);
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    let int = || "int".parse().unwrap();
    let add = method("add").param(Param::new("a", int())).param(Param::new("b", int()));
    builder.add(add.upstream("php"), 0, &Types::default(), []);
    gateway.set_catalog(Arc::new(builder.finish()));
    let mut ids = std::collections::HashSet::new();
    for _ in 0..3 {
        let result = call(&gateway, "add", r#"{"b":2,"a":1}"#).await.unwrap();
        let echoed: serde_json::Value = serde_json::from_str(&result).unwrap();
        assert_eq!((&echoed["method"], &echoed["params"]), (&json!("add"), &json!([1, 2])));
        let id = echoed["id"].as_str().unwrap().to_owned();
        assert!(id.starts_with("mcp_") && ids.insert(id));
    }
}

#[tokio::test]
async fn method_overrides_the_parameter_style_of_its_upstream() {
    let upstream: Arc<dyn Upstream> = Arc::new(Echo(Some(ParamStyle::Positional)));
    let gateway = Gateway::new([(Arc::from("node"), upstream)]);
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    let add = method("add").param(Param::new("a", "int".parse().unwrap())).upstream("node");
    builder.add(add.param_style(ParamStyle::Named), 0, &Types::default(), []);
    gateway.set_catalog(Arc::new(builder.finish()));
    let result = call(&gateway, "add", r#"{"a":1}"#).await.unwrap();
    assert!(result.ends_with(r#""params":{"a":1}}"#), "{result}");
}

#[tokio::test]
async fn the_style_either_uses_the_style_of_the_upstream_if_configured() {
    for (configured, sent) in [
        (None, r#"{"b":2}"#),
        (Some(ParamStyle::Either), r#"{"b":2}"#),
        (Some(ParamStyle::Named), r#"{"b":2}"#),
        (Some(ParamStyle::PositionalNull), "[null,2]"),
    ] {
        let upstream: Arc<dyn Upstream> = Arc::new(Echo(configured));
        let gateway = Gateway::new([(Arc::from("node"), upstream)]);
        let mut builder = CatalogBuilder::new(Prefix::default(), None);
        let param = |name: &str| Param::new(name, "int".parse().unwrap()).optional();
        let add = method("add").param(param("a")).param(param("b")).upstream("node");
        builder.add(add.param_style(ParamStyle::Either), 0, &Types::default(), []);
        gateway.set_catalog(Arc::new(builder.finish()));
        let result = call(&gateway, "add", r#"{"b":2}"#).await.unwrap();
        assert!(result.ends_with(&format!(r#""params":{sent}}}"#)), "{configured:?}: {result}");
    }
}

#[tokio::test]
async fn a_new_catalog_is_served_at_once_and_running_calls_keep_the_previous_catalog() {
    let (entered, release) =
        (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (on_enter, on_release) = (Arc::clone(&entered), Arc::clone(&release));
    let gateway = Arc::new(gateway_of(|local| {
        local.method(method("slow"), move |_, _: serde_json::Value| {
            let (entered, release) = (Arc::clone(&on_enter), Arc::clone(&on_release));
            async move {
                entered.notify_one();
                release.notified().await;
                Ok::<_, Error>("done")
            }
        });
    }));
    let shared = Arc::clone(&gateway);
    let running = tokio::spawn(async move { call(&shared, "slow", "{}").await });
    entered.notified().await;
    gateway.set_catalog(Arc::default());
    assert!(gateway.describe(&reader(), "slow").is_err());
    release.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), "\"done\"");
}
