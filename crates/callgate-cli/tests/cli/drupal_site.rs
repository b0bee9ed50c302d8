//! A Drupal site that answers as a real one did: the recording in `tests/drupal` of the library.

use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;

use super::fake::{FakeResponse, FakeService, ReceivedRequest};

/// What was recorded, one exchange a line.
static EXCHANGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = include_str!("../../../callgate/tests/drupal/exchanges.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
});

/// A rule that answers in place of the recording.
type Rule = Box<dyn Fn(&ReceivedRequest) -> Option<FakeResponse> + Send + Sync>;

/// The site. Users come with `Bearer NAME` or with `Basic NAME`, which stands for their password too.
pub(crate) struct Site {
    pub(crate) fake: FakeService,
    rule: Arc<Mutex<Option<Rule>>>,
}

impl Site {
    pub(crate) fn start() -> Self {
        let rule: Arc<Mutex<Option<Rule>>> = Arc::default();
        let shared = Arc::clone(&rule);
        let fake = FakeService::start(move |asked| {
            let ruled = shared.lock().unwrap().as_ref().and_then(|rule| rule(asked));
            ruled.or_else(|| recorded(asked)).unwrap_or_else(not_found)
        });
        Self { fake, rule }
    }

    pub(crate) fn url(&self) -> String {
        self.fake.url("")
    }

    /// From now on answers with what `rule` says, where it says something.
    pub(crate) fn rule(
        &self,
        rule: impl Fn(&ReceivedRequest) -> Option<FakeResponse> + Send + Sync + 'static,
    ) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }
}

/// The names of the tools in the list that a user was shown, of all pages.
pub(crate) fn listed(who: &str) -> Vec<String> {
    let is_list = |exchange: &&Value| {
        let path = exchange["request"]["path"].as_str().unwrap();
        path.starts_with("/mcp/tools/list") && exchange["request"]["as"] == who
    };
    let pages = EXCHANGES.iter().filter(is_list).map(|exchange| &exchange["response"]["json"]);
    let tools = pages.filter_map(|page| page["tools"].as_array()).flatten();
    let mut names: Vec<String> =
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Drupal's page for what is not there.
pub(crate) fn not_found() -> FakeResponse {
    page(404)
}

/// A page of HTML, as Drupal has for every status.
pub(crate) fn page(status: u16) -> FakeResponse {
    FakeResponse::text(status, "text/html; charset=UTF-8", "<!DOCTYPE html>\n<html lang=\"en\">")
}

/// What the site answered to the same request of the same user.
fn recorded(asked: &ReceivedRequest) -> Option<FakeResponse> {
    let (method, path) = asked.target().split_once(' ').unwrap();
    let who = who(&asked.head);
    let is_it = |exchange: &&Value| {
        let request = &exchange["request"];
        let label = exchange["label"].as_str().unwrap();
        request["method"] == method
            && request["path"] == path
            && request["as"] == who.as_str()
            && !label.starts_with("in maintenance")
            && is_same_call(request["body"].as_str(), &asked.body)
    };
    let exchange = EXCHANGES.iter().find(is_it)?;
    Some(replied(&exchange["response"], &asked.body["id"]))
}

/// Whether it is the same method with the same parameters.
fn is_same_call(recorded: Option<&str>, body: &Value) -> bool {
    let recorded: Value =
        recorded.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_default());
    let empty = |params: &Value| params.as_object().is_none_or(serde_json::Map::is_empty);
    let (ours, theirs) = (&body["params"], &recorded["params"]);
    recorded["method"] == body["method"] && (ours == theirs || (empty(ours) && empty(theirs)))
}

/// The response, with the id of the request where the site repeated one.
fn replied(response: &Value, id: &Value) -> FakeResponse {
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
    headers.iter().fold(FakeResponse::empty(status).body(body), |answer, (name, value)| {
        answer.with(name, value.as_str().unwrap())
    })
}

fn who(head: &str) -> String {
    let header = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    match header.and_then(|header| header.split_once(' ')) {
        Some((scheme, name)) => format!("{name}-{scheme}"),
        None => "nobody".to_owned(),
    }
}
