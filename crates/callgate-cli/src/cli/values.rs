//! Parsers of values.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use callgate::Mask;
use callgate::gateway::SETTING_KEYS;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum lifetime of a token: 100 years.
const MAX_LIFETIME: Duration = Duration::from_hours(876_600);

/// Parses an address. Names such as `localhost` are resolved, and their first address is used.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| "expected an address such as `127.0.0.1:8080`".to_owned())
}

pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_secs(1)..=MAX_LIFETIME).contains(&lifetime) {
        Ok(lifetime)
    } else {
        Err("expected between 1 second and 100 years".to_owned())
    }
}

/// Names and numbers of the masks.
const MASKS: [(&str, &str); 4] = [("none", "0"), ("read", "2"), ("write", "4"), ("execute", "6")];

/// Parses the name of a mask, or its number.
pub(super) fn mask() -> impl TypedValueParser<Value = Mask> {
    let values = MASKS.map(|(name, number)| PossibleValue::new(name).alias(number));
    PossibleValuesParser::new(values).try_map(|mask| mask.parse::<Mask>())
}

pub(crate) fn mask_name(mask: Mask) -> &'static str {
    let is_name = |name: &str| name.parse() == Ok(mask);
    MASKS.iter().map(|(name, _)| *name).find(|name| is_name(name)).unwrap_or_default()
}

pub(super) fn section_and_mask(text: &str) -> Result<(String, Mask), String> {
    let (section, mask) =
        text.rsplit_once(':').ok_or("expected a section and a mask, such as `content:read`")?;
    match mask.parse() {
        _ if section.trim().is_empty() => Err("expected the name of a section".to_owned()),
        Ok(Mask::None) => Err("expected the mask read, write or execute".to_owned()),
        Ok(mask) => Ok((section.to_owned(), mask)),
        Err(error) => Err(format!("{error}")),
    }
}

pub(super) fn setting_name() -> PossibleValuesParser {
    PossibleValuesParser::new(SETTING_KEYS)
}

/// Parses a JSON object, and returns its text unchanged.
pub(super) fn json_object(text: &str) -> Result<String, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => Ok(text.to_owned()),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("expected a JSON object: {error}")),
    }
}

/// Parses JSON, and returns its text unchanged.
pub(super) fn json(text: &str) -> Result<String, String> {
    serde_json::from_str::<&RawValue>(text).map_err(|error| format!("expected JSON: {error}"))?;
    Ok(text.to_owned())
}
