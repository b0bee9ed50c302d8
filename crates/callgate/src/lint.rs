//! What clients would choke on, seen in the tools as they are served.
//!
//! [`lint`] takes the very bytes that `tools/list` gives, not what they were made from. What holds for
//! every client is looked for always; what one of them refuses is data, in [`Profile`].
//!
//! ```
//! use callgate::lint::{Level, LintOptions, lint};
//! use callgate::{Callgate, method, methods};
//!
//! /// Greets somebody.
//! #[method(read_only)]
//! fn greet(
//!     /// Whom.
//!     name: String,
//! ) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gateway = Callgate::builder().methods(methods![greet]).build()?;
//! let report = lint(&gateway.gateway().catalog(), &LintOptions::default());
//! assert_eq!(report.count(Level::Error), 0);
//! # Ok(())
//! # }
//! ```

mod check;
mod general;
mod profile;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::access::Grants;
use crate::catalog::{Catalog, Entry};
use crate::model::tool::ToolFormat;
use check::LintedTool;

pub use check::Check;
pub use profile::{Profile, Rule};

/// Bytes of JSON for one token of a model: on the tools of real documents it is 3.2 to 4.6 with the
/// tokenizer `o200k_base`, and much the same with `cl100k_base`.
const BYTES_PER_TOKEN: usize = 4;

/// So many of the heaviest tools are named.
const HEAVIEST: usize = 5;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Some client, or its model, gets less than there is.
    Warning,
    /// Some client loses the tool, or all of them.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// What is looked at, and for whom.
#[derive(Debug, Clone)]
pub struct LintOptions<'a> {
    /// The clients.
    pub profiles: Vec<&'static Profile>,
    /// What clients call the server: their configuration says, not ours.
    pub server_name: &'a str,
    /// Only what these may use; everything where there are none.
    pub grants: Option<&'a Grants>,
}

impl Default for LintOptions<'_> {
    fn default() -> Self {
        Self { profiles: Profile::ALL.iter().collect(), server_name: "callgate", grants: None }
    }
}

/// Something to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The method's id; absent where it is about all of them.
    pub method: Option<String>,
    /// How bad it is.
    pub level: Level,
    /// A word for it, for programs.
    pub code: &'static str,
    /// Who chokes on it; empty is everybody.
    pub clients: Vec<&'static str>,
    /// What it is, and what to do.
    pub message: String,
}

/// What all tools come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many there are.
    pub tools: usize,
    /// As JSON.
    pub bytes: usize,
    /// An estimate, for a model.
    pub tokens: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// What all tools come to.
    pub totals: Totals,
    /// The ids of those with the most tokens, and how many these are.
    pub heaviest: Vec<(String, usize)>,
    /// By method, in the catalog's order.
    pub problems: Vec<Problem>,
}

impl Report {
    /// How many problems there are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.problems.iter().filter(|problem| problem.level == level).count()
    }
}

/// Looks at the tools of a catalog as clients get them.
pub fn lint(catalog: &Catalog, scope: &LintOptions<'_>) -> Report {
    let mut report = Report::default();
    report.problems.extend(catalog.quarantined().iter().map(|one| {
        let message = format!("not served: {}", one.reason);
        general::problem(&one.id, Level::Error, "quarantined", message)
    }));
    let mut sizes = Vec::new();
    let listing = scope.grants.map(|grants| catalog.listing(grants));
    let is_seen = |entry: &&Entry| {
        listing
            .as_ref()
            .is_none_or(|listing| listing.ordinals.binary_search(&entry.ordinal).is_ok())
    };
    for entry in catalog.entries().iter().filter(is_seen) {
        let bytes = catalog.arena(ToolFormat::AnyOutput).tool(entry.ordinal);
        sizes.push((entry.id().to_string(), bytes.len()));
        let id = entry.id().as_str();
        report.problems.extend(general::findings(id, entry.findings()));
        report.problems.extend(of_tool(id, &bytes, scope));
    }
    let bytes = sizes.iter().map(|(_, size)| size).sum();
    let totals = Totals { tools: sizes.len(), bytes, tokens: tokens(bytes) };
    report.heaviest = heaviest(sizes);
    report.problems.extend(by_clients(None, scope, |check| check.of_list(&totals)));
    Report { totals, ..report }
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

fn heaviest(mut sizes: Vec<(String, usize)>) -> Vec<(String, usize)> {
    sizes.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    sizes.truncate(HEAVIEST);
    sizes.into_iter().map(|(id, size)| (id, tokens(size))).collect()
}

/// What is wrong with a tool, as the bytes that clients get.
fn of_tool(id: &str, bytes: &[u8], scope: &LintOptions<'_>) -> Vec<Problem> {
    let tool: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default();
    let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
    let (name, description) = (text("name"), text("description"));
    let tool = LintedTool { name, description, schema, server: scope.server_name };
    let mut problems = by_clients(Some(id), scope, |check| check.of_tool(&tool));
    problems.extend(general::of_tool(id, &tool, bytes.len()));
    problems
}

/// What the rules of all clients find; the same for several of them is one problem.
fn by_clients(
    method: Option<&str>,
    scope: &LintOptions<'_>,
    look: impl Fn(Check) -> Option<String>,
) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for profile in &scope.profiles {
        for rule in profile.rules {
            let Some(message) = look(rule.check) else { continue };
            let is_same =
                |known: &&mut Problem| (known.level, &known.message) == (rule.level, &message);
            match problems.iter_mut().find(is_same) {
                Some(known) => known.clients.push(profile.name),
                None => problems.push(Problem {
                    method: method.map(ToOwned::to_owned),
                    level: rule.level,
                    code: rule.check.code(),
                    clients: vec![profile.name],
                    message,
                }),
            }
        }
    }
    problems
}
