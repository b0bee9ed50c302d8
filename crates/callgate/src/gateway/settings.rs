//! Settings that are stored in the registry.

use std::str::FromStr;

use thiserror::Error;

use crate::access::{LimitError, RateLimits};
use crate::model::tool_name::Prefix;
use crate::wire::revision::Revision;

/// Settings of the gateway.
///
/// ```
/// use callgate::Callgate;
/// use callgate::gateway::Settings;
///
/// let mut settings = Settings { page_size: 100, ..Settings::default() };
/// settings.set("mcp_tools_prefix", "shop")?;
/// assert_eq!(settings.get("mcp_page_size")?, "100");
/// assert!(settings.set("mcp_page_size", "0").is_err());
///
/// let server = Callgate::builder().settings(settings).build()?;
/// assert_eq!(server.gateway().settings().tools_prefix.as_str(), "shop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `mcp_protocol_version`: newest supported revision of MCP.
    pub protocol_version: Revision,
    /// `mcp_server_name`
    pub server_name: String,
    /// `mcp_server_version`
    pub server_version: String,
    /// `mcp_instructions`: text about the server for models. If it is empty, models get a summary of the caller's
    /// tools.
    pub instructions: String,
    /// `mcp_tools_prefix`
    pub tools_prefix: Prefix,
    /// `mcp_page_size`: maximum number of tools per page over MCP.
    pub page_size: u32,
    /// `mcp_list_ttl_ms`: time for which clients may cache lists, in milliseconds.
    pub list_ttl_ms: u32,
    /// `limit_requests_per_caller`, `limit_requests`, `limit_tools`: limits. If a value is empty, the limit of the
    /// configuration applies.
    pub limits: RateLimits,
    /// `open_methods`: whether methods that name no section may be called. `None` means that the configuration decides.
    pub open_methods: Option<OpenMethods>,
}

/// Whether methods of the registry that name no section may be called.
///
/// Part of [`Settings`]. For implementations of a registry, such as `callgate-registry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenMethods {
    /// Every caller may call methods that name no section.
    Allow,
    /// Nobody may call methods that name no section.
    Refuse,
}

impl OpenMethods {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol_version: Revision::NEWEST,
            server_name: "callgate".to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: String::new(),
            tools_prefix: Prefix::default(),
            page_size: 1_000,
            list_ttl_ms: 0,
            limits: RateLimits::default(),
            open_methods: None,
        }
    }
}

/// An invalid setting.
///
/// Error of [`Settings::get`] and [`Settings::set`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// The key is unknown.
    #[error("there is no setting `{0}`; expected one of {keys}", keys = KEYS.join(", "))]
    Unknown(String),
    /// The value is invalid.
    #[error("`{value}` is not a valid value for `{key}`; expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Expected value.
        expected: String,
    },
}

/// Keys of all settings.
///
/// Arguments of [`Settings::get`] and [`Settings::set`].
pub const KEYS: [&str; 11] = [
    "mcp_protocol_version",
    "mcp_server_name",
    "mcp_server_version",
    "mcp_instructions",
    "mcp_tools_prefix",
    "mcp_page_size",
    "mcp_list_ttl_ms",
    "limit_requests_per_caller",
    "limit_requests",
    "limit_tools",
    "open_methods",
];

impl Settings {
    /// Sets a value by key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let invalid = |expected: &str| SettingError::Value {
            key: key.to_owned(),
            value: value.chars().take(80).collect(),
            expected: expected.to_owned(),
        };
        let text = || {
            let fits =
                (1..=128).contains(&value.chars().count()) && !value.chars().any(char::is_control);
            if fits { Ok(value.to_owned()) } else { Err(invalid("1 to 128 printable characters")) }
        };
        match key {
            "mcp_protocol_version" => {
                let names = || format!("one of {}", Revision::ALL.map(Revision::as_str).join(", "));
                self.protocol_version = value.parse().map_err(|_| invalid(&names()))?;
            }
            "mcp_server_name" => self.server_name = text()?,
            "mcp_server_version" => self.server_version = text()?,
            "mcp_instructions" => {
                let is_hidden = |c: char| c.is_control() && c != '\n';
                if value.chars().count() > MAX_INSTRUCTIONS || value.chars().any(is_hidden) {
                    return Err(invalid("up to 4000 printable characters and line breaks"));
                }
                value.clone_into(&mut self.instructions);
            }
            "mcp_tools_prefix" => {
                self.tools_prefix =
                    value.parse().map_err(|_| invalid("up to 40 letters, digits, `_` and `-`"))?;
            }
            "mcp_page_size" => {
                let size = value.parse().ok().filter(|size| (1..=10_000).contains(size));
                self.page_size = size.ok_or_else(|| invalid("a number from 1 to 10000"))?;
            }
            "mcp_list_ttl_ms" => {
                self.list_ttl_ms =
                    value.parse().map_err(|_| invalid("a number of milliseconds, 0 or more"))?;
            }
            "limit_requests_per_caller" => {
                self.limits.per_caller = limit(value).map_err(|_| invalid(RATE))?;
            }
            "limit_requests" => self.limits.total = limit(value).map_err(|_| invalid(RATE))?,
            "limit_tools" => self.limits.tools = limit(value).map_err(|_| invalid(TOOL_LIMITS))?,
            "open_methods" => {
                self.open_methods = match value {
                    "" => None,
                    "allow" => Some(OpenMethods::Allow),
                    "refuse" => Some(OpenMethods::Refuse),
                    _ => {
                        return Err(invalid(
                            "`allow` or `refuse`, or an empty value to use the configuration",
                        ));
                    }
                };
            }
            _ => return Err(SettingError::Unknown(key.to_owned())),
        }
        Ok(())
    }

    /// Returns a value by key.
    pub fn get(&self, key: &str) -> Result<String, SettingError> {
        Ok(match key {
            "mcp_protocol_version" => self.protocol_version.to_string(),
            "mcp_server_name" => self.server_name.clone(),
            "mcp_server_version" => self.server_version.clone(),
            "mcp_instructions" => self.instructions.clone(),
            "mcp_tools_prefix" => self.tools_prefix.as_str().to_owned(),
            "mcp_page_size" => self.page_size.to_string(),
            "mcp_list_ttl_ms" => self.list_ttl_ms.to_string(),
            "limit_requests_per_caller" => text(self.limits.per_caller.as_ref()),
            "limit_requests" => text(self.limits.total.as_ref()),
            "limit_tools" => text(self.limits.tools.as_ref()),
            "open_methods" => self.open_methods.map_or("", OpenMethods::as_str).to_owned(),
            _ => return Err(SettingError::Unknown(key.to_owned())),
        })
    }
}

/// Maximum number of characters of the instructions.
const MAX_INSTRUCTIONS: usize = 4000;

/// Expected value of a rate limit.
const RATE: &str = "a rate such as `100/s`, `10/min burst 20` or `5/h`, or `none`, or an empty value to use the configuration";

/// Expected value of the limits of tools.
const TOOL_LIMITS: &str = "methods with limits, such as `mail.send 10/min per caller, report.* 2 concurrent, \
     report.* 30 seconds`, or `none`, or an empty value to use the configuration";

fn limit<T: FromStr<Err = LimitError>>(value: &str) -> Result<Option<T>, LimitError> {
    if value.is_empty() { Ok(None) } else { value.parse().map(Some) }
}

fn text(limit: Option<&impl ToString>) -> String {
    limit.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_read_and_written() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("mcp_protocol_version", "2025-06-18"),
            ("mcp_server_name", "festi-mcp"),
            ("mcp_server_version", "1.0.0"),
            ("mcp_instructions", "Use `order.find` first.\nAmounts are in cents."),
            ("mcp_instructions", ""),
            ("mcp_tools_prefix", "FESTI_MCP"),
            ("mcp_page_size", "10"),
            ("mcp_list_ttl_ms", "500"),
            ("limit_requests_per_caller", "100/s burst 500"),
            ("limit_requests", "none"),
            ("limit_requests", ""),
            ("limit_tools", "mail.send 10/min per caller, report.* 2/s, report.* 30 seconds"),
            ("open_methods", "refuse"),
            ("open_methods", ""),
        ] {
            settings.set(key, value).unwrap();
            assert_eq!(settings.get(key).unwrap(), value);
        }
    }

    #[test]
    fn invalid_settings_are_rejected_and_change_nothing() {
        let mut settings = Settings::default();
        let errors: Vec<String> = [
            ("mcp_protocol_version", "2025-01-01"),
            ("mcp_server_name", ""),
            ("mcp_instructions", "a\u{7}"),
            ("mcp_tools_prefix", "a::b"),
            ("mcp_tools_prefix", "a b"),
            ("mcp_tools_prefix", "a.b"),
            ("mcp_page_size", "0"),
            ("mcp_list_ttl_ms", "-1"),
            ("limit_requests", "fast"),
            ("limit_tools", "mail.send"),
            ("open_methods", "no"),
            ("mcp_tool_prefix", "x"),
        ]
        .map(|(key, value)| settings.set(key, value).unwrap_err().to_string())
        .into();
        insta::assert_debug_snapshot!(errors);
        assert_eq!(settings, Settings::default());
    }
}
