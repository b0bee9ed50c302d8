//! Settings that are stored in the database.

use thiserror::Error;

use crate::model::tool_name::Prefix;
use crate::wire::revision::Revision;

/// Settings of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `mcp_protocol_version`: newest supported revision of MCP.
    pub protocol_version: Revision,
    /// `mcp_server_name`
    pub server_name: String,
    /// `mcp_server_version`
    pub server_version: String,
    /// `mcp_tools_prefix`
    pub tools_prefix: Prefix,
    /// `mcp_page_size`: maximum number of tools per page over MCP.
    pub page_size: u32,
    /// `mcp_list_ttl_ms`: how long clients may cache lists, in milliseconds.
    pub list_ttl_ms: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol_version: Revision::NEWEST,
            server_name: "callgate".to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            tools_prefix: Prefix::default(),
            page_size: 1_000,
            list_ttl_ms: 0,
        }
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// The key is unknown.
    #[error("there is no setting `{0}`; expected one of {keys}", keys = KEYS.join(", "))]
    Unknown(String),
    /// The value is invalid.
    #[error("`{value}` is not a value for `{key}`; expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Expected value.
        expected: String,
    },
}

/// All keys.
pub const KEYS: [&str; 6] = [
    "mcp_protocol_version",
    "mcp_server_name",
    "mcp_server_version",
    "mcp_tools_prefix",
    "mcp_page_size",
    "mcp_list_ttl_ms",
];

impl Settings {
    /// Sets a value by key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let refused = |expected: &str| SettingError::Value {
            key: key.to_owned(),
            value: value.chars().take(80).collect(),
            expected: expected.to_owned(),
        };
        let text = || {
            let fits =
                (1..=128).contains(&value.chars().count()) && !value.chars().any(char::is_control);
            if fits { Ok(value.to_owned()) } else { Err(refused("1 to 128 printable characters")) }
        };
        match key {
            "mcp_protocol_version" => {
                let known = || format!("one of {}", Revision::ALL.map(Revision::as_str).join(", "));
                self.protocol_version = value.parse().map_err(|_| refused(&known()))?;
            }
            "mcp_server_name" => self.server_name = text()?,
            "mcp_server_version" => self.server_version = text()?,
            "mcp_tools_prefix" => {
                self.tools_prefix =
                    value.parse().map_err(|_| refused("up to 40 letters, digits, `_` and `-`"))?;
            }
            "mcp_page_size" => {
                let size = value.parse().ok().filter(|size| (1..=10_000).contains(size));
                self.page_size = size.ok_or_else(|| refused("a number from 1 to 10000"))?;
            }
            "mcp_list_ttl_ms" => {
                self.list_ttl_ms =
                    value.parse().map_err(|_| refused("a number of milliseconds, 0 or more"))?;
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
            "mcp_tools_prefix" => self.tools_prefix.as_str().to_owned(),
            "mcp_page_size" => self.page_size.to_string(),
            "mcp_list_ttl_ms" => self.list_ttl_ms.to_string(),
            _ => return Err(SettingError::Unknown(key.to_owned())),
        })
    }
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
            ("mcp_tools_prefix", "FESTI_MCP"),
            ("mcp_page_size", "10"),
            ("mcp_list_ttl_ms", "500"),
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
            ("mcp_tools_prefix", "a::b"),
            ("mcp_tools_prefix", "a b"),
            ("mcp_tools_prefix", "a.b"),
            ("mcp_page_size", "0"),
            ("mcp_list_ttl_ms", "-1"),
            ("mcp_tool_prefix", "x"),
        ]
        .map(|(key, value)| settings.set(key, value).unwrap_err().to_string())
        .into();
        insta::assert_debug_snapshot!(errors);
        assert_eq!(settings, Settings::default());
    }
}
