//! `[imports.NAME]`: imports that `callgate serve` repeats.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use callgate_import::watch::Policy;
use serde::Deserialize;
use serde_json::json;

use super::known_keys::{IMPORT_KEYS, Keys};
use crate::cli::Import;
use crate::error_hints::hinted;

#[derive(Debug, Default)]
pub(crate) struct Imports(BTreeMap<String, ConfiguredImport>);

#[derive(Debug)]
pub(crate) struct ConfiguredImport {
    pub(crate) import: Import,
    pub(crate) interval: Duration,
    pub(crate) policy: Policy,
}

#[derive(Deserialize)]
struct ImportTable {
    arguments: Vec<String>,
    every_seconds: Option<u32>,
    #[serde(default)]
    policy: Policy,
}

impl Imports {
    pub(super) fn read(value: &toml::Value, source: &str) -> anyhow::Result<Self> {
        let expected = || format!("`imports` in {source} must have a table for each import");
        let tables = value.as_table().with_context(expected)?;
        let mut imports = BTreeMap::new();
        for (name, value) in tables {
            let table = value.as_table().with_context(expected)?;
            IMPORT_KEYS.check(&format!("imports.{name}"), table.keys(), source)?;
            let place = || format!("`imports.{name}` in {source}");
            let keys = table.clone().try_into().with_context(expected)?;
            let table: ImportTable =
                Keys::read(keys, ("arguments", json!([]))).with_context(place)?;
            imports.insert(name.clone(), table.resolve().with_context(place)?);
        }
        Ok(Self(imports))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ConfiguredImport)> {
        self.0.iter().map(|(name, import)| (name.as_str(), import))
    }

    pub(crate) fn get(&self, name: &str) -> anyhow::Result<&ConfiguredImport> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let hint = match known.as_slice() {
                [] => "the configuration has no imports".to_owned(),
                known => format!("known imports: {}", known.join(", ")),
            };
            hinted(format!("there is no import `{name}`"), hint)
        })
    }
}

impl ImportTable {
    fn resolve(self) -> anyhow::Result<ConfiguredImport> {
        let import = Import::read(&self.arguments)?;
        let options = import.options();
        if options.dry_run || options.watch.is_some() || options.review.is_some() {
            return Err(hinted(
                "`arguments` must not contain `--dry-run`, `--watch` or `--review`",
                "use `policy = \"show\"` and `every_seconds` instead",
            ));
        }
        // With `--prune`, a method that is missing in the source only once would lose the sections
        // that people have set.
        if options.prune {
            return Err(hinted(
                "`arguments` must not contain `--prune`",
                "without `--prune`, methods that the source no longer has are hidden, and keep their sections; \
                 `callgate import … --prune` deletes such methods",
            ));
        }
        let interval = self.every_seconds.unwrap_or(300);
        if !(1..=86_400).contains(&interval) {
            anyhow::bail!("`every_seconds` must be from 1 to 86400");
        }
        let interval = Duration::from_secs(interval.into());
        Ok(ConfiguredImport { import, interval, policy: self.policy })
    }
}
