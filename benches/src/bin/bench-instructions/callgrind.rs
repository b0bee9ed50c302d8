//! Runs a program under callgrind and reads its counts.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use callgate_test_support::debian;

/// Counts of a program or of a request.
#[derive(Debug, Default)]
pub(crate) struct Counts<T> {
    pub(crate) instructions: T,
    pub(crate) allocations: T,
}

/// Functions of the allocators. Each call of one of them is one allocation.
const ALLOCATION_FUNCTIONS: [&str; 10] = [
    "mi_malloc",
    "mi_malloc_aligned",
    "mi_zalloc",
    "mi_zalloc_aligned",
    "mi_calloc",
    "mi_realloc",
    "mi_realloc_aligned",
    "malloc",
    "calloc",
    "realloc",
];

/// Returns a command that runs a program under callgrind and writes the counts to a file.
pub(crate) fn command(program: &Path, out: &Path) -> anyhow::Result<Command> {
    let target = std::env::current_exe()?;
    let target = target.ancestors().nth(2).context("program is not below the target directory")?;
    let mut command = debian(&target.join("tmp"), "valgrind", "valgrind");
    command.args(["--tool=callgrind", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    Ok(command)
}

/// Reads the counts of a finished program.
pub(crate) fn read(out: &Path) -> anyhow::Result<Counts<u64>> {
    let text = std::fs::read_to_string(out).context("callgrind wrote no counts")?;
    parse_counts(&text).context("callgrind's counts have no total")
}

/// Parses callgrind's output. A function is first written as `(number) name`, later only as `(number)`. A line that
/// begins with `cfn=` has a called function. The next line begins with `calls=` and the number of calls.
fn parse_counts(text: &str) -> Option<Counts<u64>> {
    let mut counts = Counts::default();
    let mut allocating = Vec::new();
    let mut is_allocating = false;
    let mut total = None;
    for line in text.lines() {
        let function = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn="));
        if let Some((number, name)) =
            function.map(|function| function.split_once(' ').unwrap_or((function, "")))
        {
            if ALLOCATION_FUNCTIONS.contains(&name.trim_end_matches("'2")) {
                allocating.push(number);
            }
            is_allocating = line.starts_with("cfn=") && allocating.contains(&number);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| is_allocating) {
            counts.allocations += calls.split(' ').next()?.parse::<u64>().ok()?;
        } else if let Some(instructions) = line.strip_prefix("totals: ") {
            total = instructions.trim().parse().ok();
        }
    }
    Some(Counts { instructions: total?, ..counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_allocators_are_counted_by_the_numbers_of_functions() {
        let text = "fn=(1) main\n1 5\ncfn=(2) mi_malloc\ncalls=3 0\n1 60\ncfn=(3) other\ncalls=9 0\n1 9\n\
                    fn=(4) more\ncfn=(2)\ncalls=2 0\n1 40\nfn=(2)\n1 100\ntotals: 214\n";
        let counts = parse_counts(text).unwrap();
        assert_eq!((counts.instructions, counts.allocations), (214, 5));
    }
}
