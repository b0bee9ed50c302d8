//! Sends more than a thousand requests to Callgate and to an rmcp server with the same tools. A table explains every
//! difference.

mod application;
mod exchange;
mod differences;
mod mutations;
mod templates;
mod random;
mod request;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;

use differences::DIFFERENCES;
use exchange::{Outcome, send};
use mutations::mutations;
use random::Random;
use request::{Era, Request, RequestTemplate};
use templates::templates;

/// Number of templates for each change and era.
const PER_MUTATION: usize = 3;

/// A request with its change.
struct Case {
    era: Era,
    template: RequestTemplate,
    mutation: &'static str,
    request: Request,
}

/// A request with different replies.
struct Difference<'a> {
    case: &'a Case,
    callgate: Outcome,
    rmcp: Outcome,
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { case: Case { era, template, mutation, request }, callgate, rmcp } = self;
        writeln!(f, "{} {} ({}), {mutation}", era.0, template.method, template.label)?;
        writeln!(f, "  {} {:?}\n  {}", request.verb, request.headers, request.body())?;
        writeln!(f, "  callgate {callgate}: {}", callgate.text)?;
        write!(f, "  rmcp     {rmcp}: {}", rmcp.text)
    }
}

/// Returns all requests, the same in every run.
fn cases() -> Vec<Case> {
    let mut random = Random::new(2026);
    let templates = templates(&mut random);
    let mut cases = Vec::new();
    for era in Era::ALL {
        for template in &templates {
            let request = Request::valid(era, template);
            cases.push(Case { era, template: template.clone(), mutation: "", request });
        }
        for mutation in mutations() {
            let applicable =
                templates.iter().filter(|template| (mutation.applies_to)(era, template));
            for template in random.sample(applicable.collect(), PER_MUTATION) {
                let mut request = Request::valid(era, template);
                (mutation.apply)(&mut request);
                let template = template.clone();
                cases.push(Case { era, template, mutation: mutation.name, request });
            }
        }
    }
    cases
}

async fn start(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    address
}

/// Returns the tools of Callgate's list for a modern client.
async fn tools(callgate: SocketAddr) -> Vec<Value> {
    let template = RequestTemplate {
        label: String::new(),
        method: "tools/list",
        params: serde_json::json!({}),
    };
    let reply = send(callgate, &Request::valid(Era::ALL[0], &template)).await;
    let reply: Value = serde_json::from_str(&reply.text).unwrap();
    reply["result"]["tools"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_difference_between_callgate_and_rmcp_is_explained() {
    let callgate = start(application::callgate()).await;
    let tools = tools(callgate).await;
    assert_eq!(tools.len(), 8);
    let rmcp = start(application::rmcp(tools)).await;
    let cases = cases();
    assert!(cases.len() >= 300, "{}", cases.len());

    let mut hits: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); DIFFERENCES.len()];
    let mut unexplained = Vec::new();
    let mut equivalent = 0;
    for case in &cases {
        let (callgate_reply, rmcp_reply) =
            (send(callgate, &case.request).await, send(rmcp, &case.request).await);
        if callgate_reply.is_equivalent(&rmcp_reply) {
            equivalent += 1;
            continue;
        }
        let difference = Difference { case, callgate: callgate_reply, rmcp: rmcp_reply };
        match DIFFERENCES.iter().position(|(_, matches, _)| matches(&difference)) {
            Some(index) => {
                let pair = format!("{} | {}", difference.callgate, difference.rmcp);
                *hits[index].entry(pair).or_default() += 1;
            }
            None => unexplained.push(difference.to_string()),
        }
    }
    let count = unexplained.len();
    assert!(
        unexplained.is_empty(),
        "{count} differences are not explained:\n{}",
        unexplained.join("\n")
    );
    for ((name, ..), pairs) in DIFFERENCES.iter().zip(&hits) {
        assert!(!pairs.is_empty(), "no request differs by `{name}`");
    }
    insta::assert_snapshot!(table(cases.len(), equivalent, &hits));
}

fn table(requests: usize, equivalent: usize, hits: &[BTreeMap<String, usize>]) -> String {
    let mut text = format!("{requests} requests, {equivalent} equivalent replies\n");
    for ((name, _, reason), pairs) in DIFFERENCES.iter().zip(hits) {
        let count: usize = pairs.values().sum();
        writeln!(text, "\n{name}: {count}\n  {reason}").unwrap();
        for (pair, count) in pairs {
            writeln!(text, "  {count:>4}  callgate {}", pair.replace(" | ", ", rmcp ")).unwrap();
        }
    }
    text
}
