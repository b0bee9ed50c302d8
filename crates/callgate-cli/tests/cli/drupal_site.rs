//! A Drupal site that replies like a real one, with the recording in `tests/drupal` of the library.

use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;

use super::fake::{FakeResponse, FakeService, ReceivedRequest};

/// The recording, one exchange per line.
static EXCHANGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = include_str!("../../../callgate/tests/drupal/exchanges.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
});

/// A rule that replaces replies of the recording.
type Rule = Box<dyn Fn(&ReceivedRequest) -> Option<FakeResponse> + Send + Sync>;

/// The site. Users authenticate with `Bearer NAME` or with `Basic NAME`, where the name is also the password.
pub(crate) struct Site {
    pub(crate) fake: FakeService,
    rule: Arc<Mutex<Option<Rule>>>,
}

impl Site {
    pub(crate) fn start() -> Self {
        let rule: Arc<Mutex<Option<Rule>>> = Arc::default();
        let shared = Arc::clone(&rule);
        let fake = FakeService::start(move |request| {
            let overridden = shared.lock().unwrap().as_ref().and_then(|rule| rule(request));
            overridden.or_else(|| recorded_reply(request)).unwrap_or_else(not_found)
        });
        Self { fake, rule }
    }

    pub(crate) fn url(&self) -> String {
        self.fake.url("")
    }

    /// Adds a rule. If the rule returns a reply, the reply is used from now on.
    pub(crate) fn rule(
        &self,
        rule: impl Fn(&ReceivedRequest) -> Option<FakeResponse> + Send + Sync + 'static,
    ) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }
}

/// Returns the names of the tools on all pages of a user's list.
pub(crate) fn recorded_tools(user: &str) -> Vec<String> {
    let is_list = |exchange: &&Value| {
        let path = exchange["request"]["path"].as_str().unwrap();
        path.starts_with("/mcp/tools/list") && exchange["request"]["as"] == user
    };
    let pages = EXCHANGES.iter().filter(is_list).map(|exchange| &exchange["response"]["json"]);
    let tools = pages.filter_map(|page| page["tools"].as_array()).flatten();
    let mut names: Vec<String> =
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Returns Drupal's page for an unknown path.
pub(crate) fn not_found() -> FakeResponse {
    page(404)
}

/// Returns an HTML page, which Drupal has for every status.
pub(crate) fn page(status: u16) -> FakeResponse {
    FakeResponse::text(status, "text/html; charset=UTF-8", "<!DOCTYPE html>\n<html lang=\"en\">")
}

/// Returns the site's recorded reply to the same request of the same user.
fn recorded_reply(request: &ReceivedRequest) -> Option<FakeResponse> {
    let (method, path) = request.target().split_once(' ').unwrap();
    let user = user_of(&request.head);
    let is_match = |exchange: &&Value| {
        let recorded = &exchange["request"];
        let label = exchange["label"].as_str().unwrap();
        recorded["method"] == method
            && recorded["path"] == path
            && recorded["as"] == user.as_str()
            && !label.starts_with("in maintenance")
            && is_same_call(recorded["body"].as_str(), &request.body)
    };
    let exchange = EXCHANGES.iter().find(is_match)?;
    Some(reply_from(&exchange["response"], &request.body["id"]))
}

/// Returns `true` if both are the same method with the same parameters.
fn is_same_call(recorded: Option<&str>, body: &Value) -> bool {
    let recorded: Value =
        recorded.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_default());
    let is_empty = |params: &Value| params.as_object().is_none_or(serde_json::Map::is_empty);
    let (actual, expected) = (&body["params"], &recorded["params"]);
    recorded["method"] == body["method"]
        && (actual == expected || (is_empty(actual) && is_empty(expected)))
}

/// Returns the response, with the id of the request if the site repeated an id.
fn reply_from(response: &Value, id: &Value) -> FakeResponse {
    let mut json = response["json"].clone();
    if json["id"] == 1 {
        json["id"] = id.clone();
    }
    let body = if json.is_null() {
        response["text"].as_str().unwrap_or_default().to_owned()
    } else {
        json.to_string()
    };
    let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
    let headers = response["headers"].as_object().unwrap();
    headers.iter().fold(FakeResponse::empty(status).body(body), |reply, (name, value)| {
        reply.with(name, value.as_str().unwrap())
    })
}

fn user_of(head: &str) -> String {
    let header = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    match header.and_then(|header| header.split_once(' ')) {
        Some((scheme, name)) => format!("{name}-{scheme}"),
        None => "nobody".to_owned(),
    }
}
