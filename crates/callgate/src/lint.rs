//! Checks tools for problems with known MCP clients.
//!
//! [`lint`] checks the tools that `tools/list` returns. Some checks apply to every client, others only to the clients
//! of a [`ClientProfile`].
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
//! let server = Callgate::builder().methods(methods![greet]).build()?;
//! let report = lint(&server.gateway().catalog(), &LintOptions::default());
//! assert_eq!(report.count(Level::Error), 0);
//! # Ok(())
//! # }
//! ```

mod client_check;
pub(crate) mod examples;
mod general;
pub(crate) mod invisible;
mod client_profile;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::access::Grants;
use crate::catalog::{Catalog, Entry};
use crate::gateway::Settings;
use crate::model::ParamStyle;
use crate::model::tool::ToolFormat;
use client_check::{LintedTool, name_list};
use examples::refused_examples;

pub use client_check::Check;
pub use client_profile::{ClientProfile, Rule};

/// Estimated number of bytes of JSON per token of a model. Tools of real services have 3.2 to 4.6 bytes per token with
/// the tokenizer `o200k_base`, and similar values with `cl100k_base`.
const BYTES_PER_TOKEN: usize = 4;

/// Maximum number of tools in the report's list of largest tools.
const LARGEST_TOOLS: usize = 5;

/// Severity of a problem.
///
/// Value of [`Problem::level`]. The module [`lint`](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For information.
    Note,
    /// Some versions of a client reject the tool, a client or its model ignores part of the tool, or an administrator
    /// should correct the definition.
    Warning,
    /// A client rejects the tool or does not show it, the tool has invisible characters, or a call that its schema
    /// allows cannot be sent.
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

/// Options of [`lint`].
///
/// [`ClientProfile`] has an example.
#[derive(Debug, Clone)]
pub struct LintOptions<'a> {
    /// Profiles of clients to check for.
    pub profiles: Vec<&'static ClientProfile>,
    /// Name that the clients' configuration gives this server.
    pub server_name: &'a str,
    /// Checks only tools that these grants allow. Defaults to all tools.
    pub grants: Option<&'a Grants>,
    /// Maximum number of tools on a page of `tools/list`.
    pub page_size: usize,
    /// The style of parameters that is configured for each upstream, by the name of the upstream.
    pub param_styles: HashMap<String, ParamStyle>,
}

impl Default for LintOptions<'_> {
    fn default() -> Self {
        Self {
            profiles: ClientProfile::ALL.iter().collect(),
            server_name: "callgate",
            grants: None,
            page_size: Settings::default().page_size as usize,
            param_styles: HashMap::new(),
        }
    }
}

/// A problem with a tool or the whole list.
///
/// Part of a [`Report`]. [`ClientProfile`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Id of the method; `None` for a problem of the whole list.
    pub method: Option<String>,
    /// Severity.
    pub level: Level,
    /// Machine-readable code.
    pub code: &'static str,
    /// Affected profiles; empty if all clients are affected.
    pub clients: Vec<&'static str>,
    /// Description of the problem, and the remedy.
    pub message: String,
}

/// Size of all tools.
///
/// Value of [`Report::totals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of tools.
    pub tools: usize,
    /// Size as JSON, in bytes.
    pub bytes: usize,
    /// Estimated number of tokens.
    pub tokens: usize,
}

/// Result of [`lint`].
///
/// The module [`lint`](self) has an example.
#[derive(Debug, Default)]
pub struct Report {
    /// Size of all tools.
    pub totals: Totals,
    /// Ids of the largest tools, each with the estimated number of tokens of the tool.
    pub largest: Vec<(String, usize)>,
    /// Problems of the methods that are not served, then of each tool in the catalog's order, then of the whole list.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Returns the number of problems of a severity.
    pub fn count(&self, level: Level) -> usize {
        self.problems.iter().filter(|problem| problem.level == level).count()
    }
}

/// Checks the tools of a catalog.
///
/// The module [`lint`](self) has an example.
pub fn lint(catalog: &Catalog, options: &LintOptions<'_>) -> Report {
    let mut report = Report::default();
    report.problems.extend(catalog.quarantined().iter().map(|definition| {
        let message = format!("not served: {}", definition.reason);
        general::problem(&definition.id, Level::Error, "quarantined", message)
    }));
    let mut sizes = Vec::new();
    let listing = options.grants.map(|grants| catalog.listing(grants));
    let is_visible = |entry: &&Entry| {
        listing
            .as_ref()
            .is_none_or(|listing| listing.ordinals.binary_search(&entry.ordinal).is_ok())
    };
    for entry in catalog.entries().filter(is_visible) {
        let bytes = catalog.arena(ToolFormat::AnyOutput).tool(entry.ordinal);
        sizes.push((entry.id().to_string(), bytes.len()));
        let id = entry.id().as_str();
        report.problems.extend(general::findings(id, entry.findings()));
        report.problems.extend(check_tool(id, &bytes, options));
        report.problems.extend(check_examples(id, &bytes, &catalog.check_schema(entry)));
        report.problems.extend(general::unsendable(catalog, entry, options));
    }
    let bytes = sizes.iter().map(|(_, size)| size).sum();
    let totals = Totals { tools: sizes.len(), bytes, tokens: tokens(bytes) };
    report.largest = largest(sizes);
    report.problems.extend(general::pages(&totals, options.page_size));
    report.problems.extend(check_profiles(None, options, |check| check.check_list(&totals)));
    Report { totals, ..report }
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

fn largest(mut sizes: Vec<(String, usize)>) -> Vec<(String, usize)> {
    sizes.sort_by(|(a, size_a), (b, size_b)| size_b.cmp(size_a).then_with(|| a.cmp(b)));
    sizes.truncate(LARGEST_TOOLS);
    sizes.into_iter().map(|(id, size)| (id, tokens(size))).collect()
}

fn check_tool(id: &str, bytes: &[u8], options: &LintOptions<'_>) -> Vec<Problem> {
    let tool: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let invisible = general::invisible(id, &tool);
    let text = |name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default();
    let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
    let (name, description) = (text("name"), text("description"));
    let tool = LintedTool { name, description, schema, server: options.server_name };
    let mut problems = check_profiles(Some(id), options, |check| check.check_tool(&tool));
    problems.extend(invisible);
    problems.extend(general::check_tool(id, &tool, bytes.len()));
    problems
}

/// Checks the examples of a serialized tool against its check schema.
fn check_examples(id: &str, tool: &[u8], check: &[u8]) -> Option<Problem> {
    let [tool, check] =
        [tool, check].map(|json| serde_json::from_slice::<Value>(json).unwrap_or_default());
    let refused = refused_examples(&check, tool.get("inputSchema")?);
    (!refused.is_empty()).then(|| {
        let message = format!(
            "an example of {} does not match the schema; correct the example or the schema, or turn off the check of \
             arguments with `callgate method set ID --unchecked`",
            name_list(&refused)
        );
        general::problem(id, Level::Warning, "refused-example", message)
    })
}

/// Applies the rules of all profiles. Merges problems that several profiles have in common.
fn check_profiles(
    method: Option<&str>,
    options: &LintOptions<'_>,
    apply: impl Fn(Check) -> Option<String>,
) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for profile in &options.profiles {
        for rule in profile.rules {
            let Some(message) = apply(rule.check) else { continue };
            let is_same = |existing: &&mut Problem| {
                (existing.level, &existing.message) == (rule.level, &message)
            };
            match problems.iter_mut().find(is_same) {
                Some(existing) => existing.clients.push(profile.name),
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
