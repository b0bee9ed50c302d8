//! For random rows, every endpoint makes the same access decision as a reference implementation of a few lines.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use callgate::local::{Error, Local};
use callgate::mcp::{Complete, CompletionRequest, Completions};
use callgate::model::{Method, Safety};
use callgate::upstream::{BoxFuture, Call, CallError, CallOutput, Upstream};
use callgate::{Callgate, Context, Mask, prompt, prompts, resource, resources};
use callgate_registry::{Exposure, Registry, Token};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::databases::Kind;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-03-26";
/// Sections. No row contains the last one.
const SECTIONS: [&str; 4] = ["@authenticated", "a", "b", "gone"];
const ROLES: usize = 2;

/// Rows of a registry.
#[derive(Debug, Clone)]
struct Rows {
    marked: bool,
    /// Grants of the roles: section and value. The role 0 is `anonymous`.
    roles: Vec<Vec<(usize, String)>>,
    users: Vec<UserRows>,
    methods: Vec<MethodRows>,
}

#[derive(Debug, Clone)]
struct UserRows {
    role: Option<usize>,
    grants: Vec<(usize, String)>,
}

#[derive(Debug, Clone)]
struct MethodRows {
    exposed: Option<bool>,
    /// Sections that the row names.
    named: Vec<usize>,
    /// Section and mask.
    actions: Vec<(usize, String)>,
}

fn rows() -> impl Strategy<Value = Rows> {
    let value = prop_oneof![
        4 => (0..7_i64).prop_map(|value| value.to_string()),
        1 => prop::sample::select(vec!["-1", "99", " 6 ", "lots", ""]).prop_map(str::to_owned),
    ];
    // Grants can refer only to sections that have rows.
    let grants = prop::collection::vec((0..SECTIONS.len() - 1, value.clone()), 0..4);
    let user_grants = prop::collection::btree_map(0..SECTIONS.len() - 1, value.clone(), 0..3);
    let user = (prop::option::weighted(0.8, 0..ROLES), user_grants)
        .prop_map(|(role, grants)| UserRows { role, grants: grants.into_iter().collect() });
    let named = prop::collection::vec(0..SECTIONS.len(), 0..2);
    let actions = prop::collection::btree_map(0..SECTIONS.len(), value, 0..3);
    let exposed = prop_oneof![3 => Just(None), 3 => Just(Some(true)), 1 => Just(Some(false))];
    let method = (exposed, named, actions).prop_map(|(exposed, named, actions)| MethodRows {
        exposed,
        named,
        actions: actions.into_iter().collect(),
    });
    (
        prop::bool::weighted(0.2),
        prop::collection::vec(grants, ROLES),
        prop::collection::vec(user, 1..4),
        prop::collection::vec(method, 1..6),
    )
        .prop_map(|(marked, roles, users, methods)| Rows { marked, roles, users, methods })
}

impl Rows {
    /// The reference implementation. Returns whether a caller, `None` if anonymous, may use a method that needs these
    /// masks.
    fn allows(&self, caller: Option<usize>, needs: &[(usize, i64)]) -> bool {
        let user = caller.map(|caller| &self.users[caller]);
        needs.iter().all(|&(section, need)| {
            let lowest = |rows: &[(usize, String)]| {
                let rows = rows.iter().filter(|row| row.0 == section);
                rows.map(|row| row.1.trim().parse().unwrap_or(0) / 2).min()
            };
            let role = user.map_or(Some(0), |user| user.role);
            let user_grant = user.and_then(|user| lowest(&user.grants));
            let granted = user_grant.or_else(|| role.and_then(|role| lowest(&self.roles[role])));
            let granted = match section {
                0 => user.map_or(0, |_| granted.unwrap_or(1)),
                _ => granted.unwrap_or(0),
            };
            section != SECTIONS.len() - 1 && granted.min(3) >= need
        })
    }

    /// Returns whether a caller may use a method of a row.
    fn may_use(&self, caller: Option<usize>, method: usize) -> bool {
        let method = &self.methods[method];
        // A mask that is not a number, or above 6, is higher than any grant.
        let need = |mask: &str| mask.trim().parse().map_or(4, |mask: i64| ((mask + 1) / 2).max(1));
        let actions: Vec<_> =
            method.actions.iter().map(|(section, mask)| (*section, need(mask))).collect();
        let named =
            method.named.iter().filter(|named| !actions.iter().any(|action| action.0 == **named));
        let needs: Vec<_> = named.map(|named| (*named, 4)).chain(actions.iter().copied()).collect();
        method.exposed.unwrap_or(!self.marked) && self.allows(caller, &needs)
    }

    /// Returns the SQL that inserts the rows. User and role ids are 1 more than their index.
    fn sql(&self, tokens: &[Token]) -> String {
        let mut sql =
            vec!["INSERT INTO users_types (caption) VALUES ('anonymous'), ('staff')".to_owned()];
        for section in &SECTIONS[..SECTIONS.len() - 1] {
            sql.push(format!("INSERT INTO sections (ident) VALUES ('{section}')"));
        }
        for (role, grants) in self.roles.iter().enumerate() {
            sql.extend(grants.iter().map(|(section, value)| {
                let values = format!("({}, {}, '{value}')", section + 1, role + 1);
                format!("INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES {values}")
            }));
        }
        for (index, user) in self.users.iter().enumerate() {
            let role = user.role.map_or("NULL".to_owned(), |role| (role + 1).to_string());
            sql.push(format!("INSERT INTO users (login, id_type) VALUES ('u{index}', {role})"));
            sql.extend(user.grants.iter().map(|(section, value)| {
                let values = format!("({}, {}, '{value}')", section + 1, index + 1);
                format!("INSERT INTO sections_user_permission (id_section, id_user, value) VALUES {values}")
            }));
            let digest = tokens[index].stored_digest();
            sql.push(format!(
                "INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES ({}, 't', '{digest}', 0)",
                index + 1
            ));
        }
        for (index, method) in self.methods.iter().enumerate() {
            let exposed =
                method.exposed.map_or("NULL".to_owned(), |exposed| u8::from(exposed).to_string());
            let named: Vec<&str> = method.named.iter().map(|section| SECTIONS[*section]).collect();
            sql.push(format!(
                "INSERT INTO rpc_methods (rpc_method, upstream, safety, exposed, sections)
                 VALUES ('m{index}', 'app', 'read_only', {exposed}, '{}')",
                named.join(",")
            ));
            sql.extend(method.actions.iter().map(|(section, mask)| {
                let values = format!("({}, 'App', 'M{index}', '{mask}')", section + 1);
                format!(
                    "INSERT INTO section_actions (id_section, plugin, method, mask) VALUES {values}"
                )
            }));
        }
        sql.join(";\n")
    }
}

/// An upstream that counts the calls.
#[derive(Debug, Clone, Default)]
struct App(Arc<AtomicUsize>);

impl Upstream for App {
    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(serde_json::value::to_raw_value("ran").unwrap().into()) })
    }
}

#[derive(Debug)]
struct Names;

impl Complete for Names {
    fn complete(
        self: Arc<Self>,
        _: Context,
        _: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completions, Error>> {
        Box::pin(async { Ok(Completions::new(["completed"])) })
    }
}

/// Needs read on `a`.
#[prompt(name = "p", section("a", read))]
fn needs_read(name: String) -> String {
    name
}

/// Needs write on `b`.
#[resource(uri = "test://r", name = "r", section("b", write))]
fn needs_write() -> String {
    "read".to_owned()
}

/// Needs write on `b`.
#[resource(uri = "test://t/{id}", name = "t", section("b", write))]
fn needs_write_template(id: String) -> String {
    id
}

fn code() -> Local {
    let mut local = Local::default();
    let method = Method::new("code".parse().unwrap()).description("Is in code.");
    let method = method.safety(Safety::ReadOnly).requires("b", Mask::Execute);
    local.method(method, async |_, _: Value| Ok::<_, Error>("ran"));
    local
}

/// A server with the rows, used by one caller.
struct Endpoints<'a> {
    router: &'a Router,
    token: Option<&'a Token>,
    session: String,
}

impl Endpoints<'_> {
    async fn send(
        &self,
        verb: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (String, Value) {
        let mut request = Request::builder().method(verb).uri(uri).header("host", "localhost");
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {}", token.expose()));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        let session = session.map_or("", |id| id.to_str().unwrap()).to_owned();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (session, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn get(&self, uri: &str) -> Value {
        self.send("GET", uri, &[], &Value::Null).await.1
    }

    async fn post(&self, uri: &str, body: &Value) -> Value {
        self.send("POST", uri, &[], body).await.1
    }

    async fn modern(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", name.as_str()));
        }
        self.send("POST", "/mcp", &headers, &request(method, &params)).await.1
    }

    async fn legacy(&self, body: &Value) -> Value {
        let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", LEGACY)];
        self.send("POST", "/mcp", &headers, body).await.1
    }

    /// Sends the request in both eras, and in a batch.
    async fn mcp(&self, method: &str, params: Value) -> Vec<(String, Value)> {
        let body = request(method, &params);
        let batch = self.legacy(&json!([body])).await;
        vec![
            (format!("{method}, modern"), self.modern(method, params).await),
            (format!("{method}, legacy"), self.legacy(&body).await),
            (format!("{method}, batch"), batch[0].clone()),
        ]
    }

    async fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        self.session = self.send("POST", "/mcp", &[], &request("initialize", &params)).await.0;
    }

    /// Returns the tools of each list.
    async fn lists(&self) -> Vec<(String, BTreeSet<String>)> {
        let names = |list: &Value| {
            let names = list.as_array().unwrap_or_else(|| panic!("no list: {list}")).iter();
            names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        let rest = self.get("/mcp/tools/list").await;
        let discovered = self.post("/jsonrpc", &request("rpc.discover", &json!({}))).await;
        let mut lists = vec![
            ("REST list".to_owned(), names(&rest["tools"])),
            ("rpc.discover".to_owned(), names(&discovered["result"]["methods"])),
        ];
        for (endpoint, reply) in self.mcp("tools/list", json!({})).await {
            lists.push((endpoint, names(&reply["result"]["tools"])));
        }
        for (endpoint, reply) in
            self.mcp("resources/read", json!({"uri": "callgate://tools"})).await
        {
            let text = reply["result"]["contents"][0]["text"].as_str().unwrap();
            let text: Value = serde_json::from_str(text).unwrap();
            lists.push((endpoint, names(&text["tools"])));
        }
        lists
    }

    /// Returns for each endpoint whether it describes or calls a tool for the caller.
    async fn uses(&self, id: &str) -> Vec<(String, bool)> {
        let call = request(id, &json!({}));
        let query = "%7B%22jsonrpc%22:%222.0%22,%22id%22:1,%22method%22:%22";
        let get = format!("/mcp/tools/{id}?query={query}{id}%22%7D");
        let described = self.get(&format!("/mcp/tools/describe?name={id}")).await;
        let invoked = self.post("/mcp/tools/invoke", &json!({"name": id, "arguments": {}})).await;
        let batch = self.post("/jsonrpc", &json!([call])).await;
        let replies = [
            ("invoke", invoked),
            ("POST of a tool", self.post(&format!("/mcp/tools/{id}"), &call).await),
            ("GET of a tool", self.get(&get).await),
            ("/jsonrpc", self.post("/jsonrpc", &call).await),
            ("/jsonrpc batch", batch[0].clone()),
        ];
        let mut uses = vec![("describe".to_owned(), described["tool"]["name"] == id)];
        uses.extend(
            replies.map(|(endpoint, reply)| (endpoint.to_owned(), reply["result"] == "ran")),
        );
        for (endpoint, reply) in self.mcp("tools/call", json!({"name": id, "arguments": {}})).await
        {
            uses.push((endpoint, reply["result"]["content"][0]["text"] == "ran"));
        }
        uses
    }

    /// For each endpoint of prompts and of resources, returns whether the endpoint serves the caller.
    async fn features(&self) -> [Vec<(String, bool)>; 2] {
        let [mut prompt, mut resource] = [Vec::new(), Vec::new()];
        let record = async |results: &mut Vec<_>,
                            method: &str,
                            params: Value,
                            pointer: &str,
                            value: &str| {
            for (endpoint, reply) in self.mcp(method, params).await {
                results.push((
                    format!("{endpoint} {value}"),
                    reply.pointer(pointer) == Some(&json!(value)),
                ));
            }
        };
        let get = json!({"name": "p", "arguments": {"name": "said"}});
        record(&mut prompt, "prompts/list", json!({}), "/result/prompts/0/name", "p").await;
        record(&mut prompt, "prompts/get", get, "/result/messages/0/content/text", "said").await;
        let argument = json!({"name": "name", "value": ""});
        let of_prompt = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": argument});
        let of_template =
            json!({"ref": {"type": "ref/resource", "uri": "test://t/{id}"}, "argument": argument});
        let completed = "/result/completion/values/0";
        record(&mut prompt, "completion/complete", of_prompt, completed, "completed").await;
        record(&mut resource, "completion/complete", of_template, completed, "completed").await;
        let listed = "/result/resources/1/uri";
        record(&mut resource, "resources/list", json!({}), listed, "test://r").await;
        let listed = "/result/resourceTemplates/0/uriTemplate";
        record(&mut resource, "resources/templates/list", json!({}), listed, "test://t/{id}").await;
        let text = "/result/contents/0/text";
        record(&mut resource, "resources/read", json!({"uri": "test://r"}), text, "read").await;
        record(&mut resource, "resources/read", json!({"uri": "test://t/7"}), text, "7").await;
        [prompt, resource]
    }
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Serves the rows and compares all endpoints, for all callers, with the reference.
async fn check(rows: &Rows) -> Result<(), TestCaseError> {
    let test_registry = Kind::Sqlite.registry().await;
    let tokens: Vec<Token> = rows.users.iter().map(|_| Token::generate().unwrap()).collect();
    test_registry.database.sql(&rows.sql(&tokens)).await;
    let exposure = if rows.marked { Exposure::Marked } else { Exposure::All };
    let registry = Registry::new(Arc::new(test_registry.store)).exposure(exposure);
    let app = App::default();
    let gateway = Callgate::builder()
        .local(code())
        .upstream("app", app.clone())
        .prompts(prompts![needs_read])
        .resources(resources![needs_write, needs_write_template])
        .completion(Names)
        .authenticate(registry.authenticator())
        .sessions(registry.sessions().await.unwrap())
        .build()
        .unwrap();
    let following = registry.follow(&gateway).await.unwrap();
    let router = gateway.router();
    for caller in std::iter::once(None).chain((0..rows.users.len()).map(Some)) {
        let token = caller.map(|caller| &tokens[caller]);
        let mut endpoints = Endpoints { router: &router, token, session: String::new() };
        endpoints.initialize().await;
        let mut expected: BTreeSet<String> = (0..rows.methods.len())
            .filter(|method| rows.may_use(caller, *method))
            .map(|method| format!("m{method}"))
            .collect();
        if rows.allows(caller, &[(2, 3)]) {
            expected.insert("code".to_owned());
        }
        for (endpoint, listed) in endpoints.lists().await {
            prop_assert_eq!(&listed, &expected, "{} for {:?}", endpoint, caller);
        }
        let row_methods = (0..rows.methods.len()).map(|index| format!("m{index}"));
        for method in row_methods.chain(["code".to_owned()]) {
            let before = app.0.load(Ordering::SeqCst);
            let is_allowed = expected.contains(&method);
            for (endpoint, served) in endpoints.uses(&method).await {
                prop_assert_eq!(served, is_allowed, "{} of {} for {:?}", endpoint, method, caller);
            }
            let runs = app.0.load(Ordering::SeqCst) - before;
            let is_row = method != "code";
            prop_assert_eq!(runs, if is_allowed && is_row { 8 } else { 0 }, "runs of {}", method);
        }
        let needs = [[(1, 1)], [(2, 2)]];
        for (uses, needs) in endpoints.features().await.into_iter().zip(needs) {
            for (endpoint, served) in uses {
                let is_allowed = rows.allows(caller, &needs);
                prop_assert_eq!(served, is_allowed, "{} for {:?}", endpoint, caller);
            }
        }
    }
    following.end().await;
    Ok(())
}

#[test]
fn each_endpoint_makes_the_same_access_decision_as_the_reference() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config =
        ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&rows(), |rows| runtime.block_on(check(&rows)));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
