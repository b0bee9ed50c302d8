//! Each feature of a package, alone.

use anyhow::Context as _;
use serde_json::Value;

use crate::dependencies::packages;
use crate::run::Step;

/// The packages that others build with features of their choice.
const PACKAGES: [&str; 4] = ["callgate", "callgate-import", "callgate-registry", PROGRAM];

/// The package of the program.
const PROGRAM: &str = "callgate-cli";

/// Features that are lists of others.
const LISTS: [&str; 2] = ["default", "full"];

/// Whether a feature turns on nothing but a feature of another package of ours, which is built there.
fn is_of_another(turned_on: &Value) -> bool {
    let parts = turned_on.as_array().into_iter().flatten().filter_map(Value::as_str);
    let packages = parts.map(|part| part.split_once('/').map_or("", |(package, _)| package));
    let packages: Vec<&str> = packages.collect();
    !packages.is_empty() && packages.iter().all(|package| PACKAGES.contains(package))
}

/// A step for each package without features and with each of its features alone, and for the program as it is built
/// by default.
pub(crate) fn steps(metadata: &Value) -> anyhow::Result<Vec<Step>> {
    let mut steps = vec![clippy("the program with its default features", PROGRAM)];
    for name in PACKAGES {
        let package = packages(metadata).find(|package| package["name"] == name);
        let package = package.with_context(|| format!("there is no package `{name}`"))?;
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.filter(|(_, turned_on)| !is_of_another(turned_on));
        let features = features.map(|(feature, _)| feature.as_str());
        steps.push(step(name, None));
        steps.extend(
            features.filter(|feature| !LISTS.contains(feature)).map(|it| step(name, Some(it))),
        );
    }
    Ok(steps.into_iter().map(|step| step.arguments(&["--", "-D", "warnings"])).collect())
}

fn step(package: &str, feature: Option<&str>) -> Step {
    let what = match feature {
        Some(feature) => format!("{package} with `{feature}` alone"),
        None => format!("{package} without features"),
    };
    let features: Vec<&str> =
        [feature.map(|_| "--features"), feature].into_iter().flatten().collect();
    clippy(&what, package).arguments(&["--no-default-features"]).arguments(&features)
}

fn clippy(what: &str, package: &str) -> Step {
    Step::cargo(what, &["clippy", "--quiet", "--package", package])
}
