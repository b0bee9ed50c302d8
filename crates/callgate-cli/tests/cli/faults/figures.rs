//! The figures of `docs/reliability.md`, from the program as it is released.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::alone;
use super::cluster::Brand;
use super::filled::{Filled, Program};
use super::proxy::Wire;
use super::record::{Call, Outcome};
use super::scenario::{self, GRACE, Shown};
use super::start_up;
use super::warm::{Kept, warm_calls};

/// Around what is written anew.
const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];
const METHODS: usize = 100_000;
const CALLS: usize = 100_000;
/// Of so many starts the median is told.
const STARTS: usize = 5;

#[test]
#[ignore = "takes minutes and wants a quiet machine; `cargo xtask bench` runs it"]
fn the_figures_of_the_page_on_reliability() {
    let _alone = alone();
    let mut text = String::from("\n");
    faults(&mut text);
    starts(&mut text);
    warm(&mut text);
    eprintln!("{text}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md");
    let old = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = old.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let [begin, end] = MARKS;
    std::fs::write(&page, format!("{before}{begin}{text}\n{end}{after}")).unwrap();
}

fn faults(text: &mut String) {
    let release = Program::Release;
    let mut all = Vec::new();
    for brand in [Brand::Postgres, Brand::MariaDb] {
        all.push(Shown::judged(|| scenario::database_is_killed(release, brand)));
        all.push(Shown::judged(|| scenario::gateway_is_killed(release, brand)));
        for how in [Wire::Swallows, Wire::IsCut] {
            all.push(Shown::judged(|| scenario::gateway_is_cut_off(release, brand, how)));
        }
    }
    *text += "| what happens | calls | answered | 503 | broken off | lasted | well again after |\n\
              | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for shown in &all {
        fault(text, shown);
    }
    *text += "\nWrong answers, calls that ran twice, errors outside of a fault: none, or there would be no table.\n\n";
    let _ = writeln!(
        text,
        "| a token is revoked and a grant withdrawn | refused by the others after | honoured by the one \
         that is cut off for (bound: {} s) |\n| --- | ---: | ---: |",
        GRACE.as_secs()
    );
    for Shown { what, times, .. } in &all {
        if let (Some(heard), Some(honoured)) = (times.heard, times.honoured) {
            let _ = writeln!(text, "| {what} | {} | {} |", shown_time(heard), shown_time(honoured));
        }
    }
}

fn fault(text: &mut String, shown: &Shown) {
    let calls = &shown.story.calls;
    let count = |is_it: fn(&Call) -> bool| calls.iter().filter(|call| is_it(call)).count();
    let answered = count(|call| {
        !matches!(call.outcome, Outcome::Away | Outcome::Broken(_) | Outcome::Failed(_))
    });
    let away = count(|call| call.outcome == Outcome::Away);
    let broken = count(|call| matches!(call.outcome, Outcome::Broken(_) | Outcome::Failed(_)));
    let lasted = shown.story.faults.iter().map(|fault| fault.end - fault.begin).max();
    let (what, all) = (&shown.what, calls.len());
    let (lasted, recovery) =
        (shown_time(lasted.unwrap_or_default()), shown_time(shown.times.recovery));
    let _ = writeln!(
        text,
        "| {what} | {all} | {answered} | {away} | {broken} | {lasted} | {recovery} |"
    );
}

fn starts(text: &mut String) {
    let _ = writeln!(
        text,
        "\n## Start-up\n\nWith {METHODS} methods, from the start of the process until `/readyz` is 200; the \
         median of {STARTS}.\n\n| database | start-up | of that, reading the rows |\n| --- | ---: | ---: |"
    );
    for (name, kept) in Kept::all() {
        let filled = Filled::new(Program::Release, kept.url());
        start_up::add_methods(&filled, &kept, METHODS);
        eprintln!("{name} has {METHODS} methods");
        let mut starts: Vec<_> = (0..STARTS).map(|_| start_up::start(&filled, &kept)).collect();
        starts.sort_by_key(|start| start.all);
        let start = starts[STARTS / 2];
        eprintln!("{name}: {starts:?}");
        assert!(start.tools >= METHODS as u64, "{start:?}");
        let _ =
            writeln!(text, "| {name} | {} | {} |", shown_time(start.all), shown_time(start.read));
    }
}

fn warm(text: &mut String) {
    let _ = writeln!(
        text,
        "\n## What calls cost the database\n\n| database | calls | looks for changes | statements sent | \
         counted by the database |\n| --- | ---: | ---: | ---: | ---: |"
    );
    for (name, kept) in Kept::all() {
        let filled = Filled::new(Program::Release, kept.url());
        let counted = warm_calls(&filled, &kept, CALLS);
        eprintln!("{name}: {counted:?}");
        assert_eq!(counted.statements, counted.looks);
        let seen = counted.seen.map_or_else(String::new, |seen| seen.to_string());
        let (calls, looks, statements) = (counted.calls, counted.looks, counted.statements);
        let _ = writeln!(text, "| {name} | {calls} | {looks} | {statements} | {seen} |");
    }
}

fn shown_time(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        millis => format!("{}.{:02} s", millis / 1000, millis % 1000 / 10),
    }
}
