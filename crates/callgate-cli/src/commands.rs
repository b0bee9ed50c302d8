//! One file and one function for each command.

pub(crate) mod bridge;
pub(crate) mod call;
pub(crate) mod copy;
pub(crate) mod credential;
pub(crate) mod export;
pub(crate) mod grant;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod lint;
pub(crate) mod method;
pub(crate) mod migrate;
pub(crate) mod section;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod token;
pub(crate) mod try_service;
pub(crate) mod upstream;
pub(crate) mod user;

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use callgate::{Catalog, SettingError, Settings};
use callgate_registry::{Assembly, CatalogRows, assemble, settings};

use crate::config::Config;
use crate::errors::hinted;

/// A text or a dash.
fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// Seconds since 1970 as people and programs read them.
fn timestamp(seconds: i64) -> String {
    /// The last second that can be written with four digits for the year.
    const LAST: u64 = 253_402_300_799;
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LAST));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// A name that a person gives to something.
fn plain_name(what: &str, name: &str) -> anyhow::Result<()> {
    let fits = (1..=128).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(hinted(
        format!("`{}` is not a name for a {what}", name.escape_debug()),
        "use 1 to 128 characters, without space around them",
    ))
}

fn json_line(value: &impl serde::Serialize) -> anyhow::Result<String> {
    serde_json::to_string(value).context("cannot write JSON")
}

/// What `serve` would make of these rows.
struct Served {
    catalog: Catalog,
    settings: Settings,
    refused: Vec<SettingError>,
}

impl Served {
    fn of(config: &Config, rows: &CatalogRows) -> Self {
        let (settings, refused) = settings(&rows.settings, &Settings::default());
        let assembly = Assembly {
            code: &[],
            exposure: config.exposure,
            prefix: settings.tools_prefix.clone(),
            upstreams: config.upstreams.names().collect(),
            previous: None,
        };
        Self { catalog: assemble(rows, assembly).catalog, settings, refused }
    }
}
