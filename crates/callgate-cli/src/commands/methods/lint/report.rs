//! The report of `callgate lint`, as text and as JSON.

use std::collections::BTreeMap;

use callgate::lint::{Level, Problem, Report};
use callgate_import::counted;
use serde_json::json;

use crate::cli::LintArgs;
use crate::printer::{self, one_line};

/// Maximum number of problems of one kind that are printed without `--all`.
const MAX_PER_KIND: usize = 3;

/// Heading of problems that do not concern a single tool.
const REGISTRY: &str = "all tools";

pub(super) fn print(report: &Report, lint: &LintArgs) {
    if lint.json {
        return printer::json(as_json(report));
    }
    let max = if lint.all { usize::MAX } else { MAX_PER_KIND };
    let mut counts: BTreeMap<(Level, &str), usize> = BTreeMap::new();
    for (method, problems) in by_method(report) {
        let mut lines = Vec::new();
        for problem in problems {
            let count = counts.entry((problem.level, problem.code)).or_default();
            *count += 1;
            if *count <= max {
                lines.push(line(problem));
            }
        }
        if !lines.is_empty() {
            printer::data(one_line(method.unwrap_or(REGISTRY)));
            for line in lines {
                printer::data(line);
            }
        }
    }
    let omitted = counts.iter().rev().filter(|(_, count)| **count > max);
    let omitted: Vec<_> =
        omitted.map(|((level, code), count)| (level, code, count - max)).collect();
    for (level, code, rest) in &omitted {
        printer::data(format_args!("… and {rest} more like this: {level} {code}"));
    }
    if !omitted.is_empty() {
        printer::message("note: `--all` and `--json` print all problems");
    }
    print_totals(report);
}

fn line(problem: &Problem) -> String {
    let clients = match problem.clients.as_slice() {
        [] => String::new(),
        clients => format!("{}: ", clients.join(", ")),
    };
    format!("  {:<8} {clients}{}", problem.level, one_line(&problem.message))
}

/// Groups problems by method, the most severe first.
fn by_method(report: &Report) -> Vec<(Option<&str>, Vec<&Problem>)> {
    let mut methods: BTreeMap<Option<&str>, Vec<&Problem>> = BTreeMap::new();
    for problem in &report.problems {
        methods.entry(problem.method.as_deref()).or_default().push(problem);
    }
    let mut methods: Vec<_> = methods.into_iter().collect();
    for (_, problems) in &mut methods {
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.level));
    }
    let max_level = |problems: &[&Problem]| problems.first().map(|problem| problem.level);
    methods.sort_by_key(|(_, problems)| std::cmp::Reverse(max_level(problems)));
    methods
}

fn print_totals(report: &Report) {
    let totals = report.totals;
    let largest: Vec<String> =
        report.largest.iter().map(|(id, tokens)| format!("{} ({tokens})", one_line(id))).collect();
    let largest = match largest.as_slice() {
        [] => String::new(),
        items => format!("; the largest: {}", items.join(", ")),
    };
    printer::data(format_args!(
        "{}, {} bytes, about {} tokens{largest}",
        counted(totals.tools, "tool"),
        totals.bytes,
        totals.tokens
    ));
    let count = |level, noun| counted(report.count(level), noun);
    printer::data(format_args!(
        "{}, {}, {}",
        count(Level::Error, "error"),
        count(Level::Warning, "warning"),
        count(Level::Note, "note")
    ));
}

fn as_json(report: &Report) -> serde_json::Value {
    let largest = report.largest.iter();
    let largest = largest.map(|(id, tokens)| json!({"method": id, "tokens": tokens}));
    json!({
        "tools": report.totals.tools,
        "bytes": report.totals.bytes,
        "tokens": report.totals.tokens,
        "largest": largest.collect::<Vec<_>>(),
        "errors": report.count(Level::Error),
        "warnings": report.count(Level::Warning),
        "notes": report.count(Level::Note),
        "problems": report.problems,
    })
}
