//! Parsers of values.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, SystemTime};

use callgate::Mask;
use callgate::gateway::SETTING_KEYS;
use callgate::model::{ParamStyle, TypeExpr};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum lifetime of a token: 100 years.
const MAX_LIFETIME: Duration = Duration::from_hours(876_600);

const LIFETIME_RANGE: &str = "expected a time between 1 second and 100 years from now";
const EXPIRY_FORMAT: &str = "expected a duration such as `30d` or `12h`, or a date such as `2030-01-31` or \
     `2030-01-31T12:00:00Z`";

/// Parses an address. A name such as `localhost` is resolved, and its first address is used.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let addresses = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    addresses.ok_or_else(|| "expected an address such as `127.0.0.1:8080`".to_owned())
}

/// Parses a duration from now, or a date or time in UTC.
pub(super) fn expiry(text: &str) -> Result<SystemTime, String> {
    let now = SystemTime::now();
    let end = match humantime::parse_duration(text) {
        Ok(lifetime) => now.checked_add(lifetime).ok_or(LIFETIME_RANGE)?,
        Err(_) => humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z"))
            .or_else(|_| humantime::parse_rfc3339_weak(text))
            .map_err(|_| EXPIRY_FORMAT)?,
    };
    match end.duration_since(now) {
        Ok(lifetime) if (Duration::from_secs(1)..=MAX_LIFETIME).contains(&lifetime) => Ok(end),
        _ => Err(LIFETIME_RANGE.to_owned()),
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

/// Returns a parser for styles of parameters. The parsed value is the name that the registry
/// stores.
pub(super) fn param_style() -> impl TypedValueParser<Value = String> {
    let aliases = ["named", "positional"].map(|alias| PossibleValue::new(alias).hide(true));
    let styles = ParamStyle::ALL.map(|style| PossibleValue::new(style.as_str()));
    PossibleValuesParser::new(styles.into_iter().chain(aliases))
        .try_map(|text| text.parse::<ParamStyle>().map(|style| style.as_str().to_owned()))
}

pub(super) fn section_and_mask(text: &str) -> Result<(String, Mask), String> {
    let (section, mask) =
        text.rsplit_once(':').ok_or("expected a section and a mask, such as `content:read`")?;
    match mask.parse() {
        _ if section.trim().is_empty() => Err("expected the name of a section".to_owned()),
        Ok(Mask::None) => Err("expected the mask `read`, `write` or `execute`".to_owned()),
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

/// Checks that a parameter has a name, and returns the text unchanged. In rows of the registry, the
/// name may be missing. On the command line, the name is required.
pub(super) fn param(text: &str) -> Result<String, String> {
    if let Some((_, name)) = text.split_once('$') {
        return match name.split_once('=').map(|(_, default)| default.trim()) {
            Some(default) if !is_literal(default) => Err(format!(
                "the default `{default}` is not a value such as `3`, `'text'`, `true`, `null` or `[]`"
            )),
            _ => Ok(text.to_owned()),
        };
    }
    let (declaration, default) = text.split_at(text.find('=').unwrap_or(text.len()));
    let is_type = |text: &str| match text.parse() {
        Ok(TypeExpr::Class(_)) | Err(_) => false,
        Ok(_) => true,
    };
    let tokens: Vec<&str> =
        declaration.split([' ', ':']).filter(|token| !token.is_empty()).collect();
    let (ty, name) = match *tokens {
        [ty] if is_type(ty) => (ty.to_owned(), "name"),
        [name] => ("mixed".to_owned(), name),
        [name, ty] if is_type(ty) && !is_type(name) => (ty.to_owned(), name),
        [ref ty @ .., name] => (ty.join(" "), name),
        [] => return Err("expected a parameter such as `int $id`".to_owned()),
    };
    let space = if default.is_empty() { "" } else { " " };
    Err(format!("write `{ty} ${name}{space}{default}`"))
}

fn is_literal(text: &str) -> bool {
    matches!(text.parse(), Ok(TypeExpr::Literal(_) | TypeExpr::Null))
        || ["[]", "array()"].contains(&text)
}
