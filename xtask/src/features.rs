//! Builds packages with each feature alone.

use anyhow::Context as _;
use serde_json::Value;

use crate::dependencies::packages;
use crate::run::Step;

/// Packages whose features users choose.
const PACKAGES: [&str; 4] = ["callgate", "callgate-import", "callgate-registry", PROGRAM];

const PROGRAM: &str = "callgate-cli";

/// Features that only enable other features.
const LISTS: [&str; 2] = ["default", "full"];

/// Returns `true` if a feature only enables features of other packages in [`PACKAGES`].
fn is_forwarded(enabled: &Value) -> bool {
    let parts = enabled.as_array().into_iter().flatten().filter_map(Value::as_str);
    let packages = parts.map(|part| part.split_once('/').map_or("", |(package, _)| package));
    let packages: Vec<&str> = packages.collect();
    !packages.is_empty() && packages.iter().all(|package| PACKAGES.contains(package))
}

/// Returns a step for the program with its default features. For each package, also returns a step
/// without features, and a step for each feature alone.
pub(crate) fn steps(metadata: &Value) -> anyhow::Result<Vec<Step>> {
    let mut steps = vec![clippy("the program with its default features", PROGRAM)];
    for name in PACKAGES {
        let package = packages(metadata).find(|package| package["name"] == name);
        let package = package.with_context(|| format!("there is no package `{name}`"))?;
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.filter(|(_, enabled)| !is_forwarded(enabled));
        let features = features.map(|(feature, _)| feature.as_str());
        steps.push(step(name, None));
        steps.extend(
            features.filter(|feature| !LISTS.contains(feature)).map(|it| step(name, Some(it))),
        );
    }
    Ok(steps.into_iter().map(|step| step.arguments(&["--", "-D", "warnings"])).collect())
}

fn step(package: &str, feature: Option<&str>) -> Step {
    let name = match feature {
        Some(feature) => format!("{package} with `{feature}` alone"),
        None => format!("{package} without features"),
    };
    let features: Vec<&str> =
        [feature.map(|_| "--features"), feature].into_iter().flatten().collect();
    clippy(&name, package).arguments(&["--no-default-features"]).arguments(&features)
}

fn clippy(name: &str, package: &str) -> Step {
    Step::cargo(name, &["clippy", "--quiet", "--package", package])
}
