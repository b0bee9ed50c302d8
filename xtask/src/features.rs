//! Each feature of a package, alone.

use serde_json::Value;

use crate::dependencies::packages;
use crate::run::Step;

/// The packages that others build with features of their choice.
const PACKAGES: [&str; 3] = ["callgate", "callgate-registry", "callgate-cli"];

/// Features that are lists of others.
const LISTS: [&str; 2] = ["default", "full"];

/// Whether a feature turns on nothing but a feature of another package of ours, which is built there.
fn is_of_another(turned_on: &Value) -> bool {
    let parts = turned_on.as_array().into_iter().flatten().filter_map(Value::as_str);
    let packages = parts.map(|part| part.split_once('/').map_or("", |(package, _)| package));
    let packages: Vec<&str> = packages.collect();
    !packages.is_empty() && packages.iter().all(|package| PACKAGES.contains(package))
}

/// A step for each package without features, and with each of its features alone.
pub(crate) fn steps(metadata: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    for package in packages(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        if !PACKAGES.contains(&name) {
            continue;
        }
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.filter(|(_, turned_on)| !is_of_another(turned_on));
        let features = features.map(|(feature, _)| feature.as_str());
        steps.push(step(name, None));
        steps.extend(
            features.filter(|feature| !LISTS.contains(feature)).map(|it| step(name, Some(it))),
        );
    }
    steps
}

fn step(package: &str, feature: Option<&str>) -> Step {
    let what = match feature {
        Some(feature) => format!("{package} with `{feature}` alone"),
        None => format!("{package} without features"),
    };
    let arguments = ["clippy", "--quiet", "--package", package, "--no-default-features"];
    let features = [feature.map(|_| "--features"), feature].into_iter().flatten();
    let features: Vec<&str> = features.collect();
    Step::cargo(what, &arguments).arguments(&features).arguments(&["--", "-D", "warnings"])
}
