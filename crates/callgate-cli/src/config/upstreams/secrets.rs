//! Values in environment variables and files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use callgate::Secret;
use serde::Deserialize;

use super::limits::Reference;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    Read,
    /// Uses a placeholder for each secret, so that the rest can be checked.
    Placeholder,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, `{ env = \"NAME\" }` or `{ file = \"PATH\" }`")]
pub(super) enum Sourced<T> {
    External(ExternalValue),
    Inline(T),
}

pub(super) type Text = Sourced<String>;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum ExternalValue {
    Variable {
        env: String,
        #[serde(default)]
        prefix: String,
    },
    File {
        file: PathBuf,
        #[serde(default)]
        prefix: String,
    },
}

/// Reads the secret in an environment variable. Errors mention `key`.
pub(crate) fn secret_in_variable(key: &str, name: &str) -> anyhow::Result<String> {
    let (env, prefix) = (name.to_owned(), String::new());
    ExternalValue::Variable { env, prefix }.read(key, Secrets::Read)
}

/// Reads the secret in a file. Errors mention `key`.
pub(crate) fn secret_in_file(key: &str, file: &Path) -> anyhow::Result<String> {
    let (file, prefix) = (file.to_owned(), String::new());
    ExternalValue::File { file, prefix }.read(key, Secrets::Read)
}

impl<T: Clone + From<String>> Sourced<T> {
    pub(super) fn read(&self, key: &str, secrets: Secrets) -> anyhow::Result<T> {
        match self {
            Self::Inline(value) => Ok(value.clone()),
            Self::External(external) => external.read(key, secrets).map(Into::into),
        }
    }

    pub(super) fn external(&self) -> Option<&ExternalValue> {
        match self {
            Self::External(external) => Some(external),
            Self::Inline(_) => None,
        }
    }

    pub(super) fn inline(&self) -> Option<&T> {
        match self {
            Self::External(_) => None,
            Self::Inline(value) => Some(value),
        }
    }
}

impl ExternalValue {
    pub(super) fn variable(&self) -> Option<&str> {
        match self {
            Self::Variable { env, .. } => Some(env),
            Self::File { .. } => None,
        }
    }

    pub(super) fn reference(&self) -> Reference<'_> {
        match self {
            Self::Variable { env, .. } => Reference::Variable(env),
            Self::File { file, .. } => Reference::File(file),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        let (Self::Variable { prefix, .. } | Self::File { prefix, .. }) = self;
        prefix
    }

    /// Returns the file, if its content is the whole value, without a prefix.
    pub(super) fn file_without_prefix(&self) -> Option<&Path> {
        match self {
            Self::File { file, prefix } if prefix.is_empty() => Some(file),
            _ => None,
        }
    }

    /// Returns the name of the variable or the file, for messages.
    pub(super) fn source(&self) -> String {
        match self {
            Self::Variable { env, .. } => format!("`{env}`"),
            Self::File { file, .. } => format!("`{}`", file.display()),
        }
    }

    fn read(&self, key: &str, secrets: Secrets) -> anyhow::Result<String> {
        let source = self.source();
        let text = match self {
            _ if secrets == Secrets::Placeholder => "secret".to_owned(),
            Self::Variable { env, .. } => {
                let text = std::env::var_os(env).map(|text| text.to_string_lossy().into_owned());
                text.with_context(|| format!("`{key}`: {source} is not set"))?
            }
            Self::File { file, .. } => std::fs::read_to_string(file)
                .with_context(|| format!("`{key}`: cannot read {source}"))?,
        };
        let secret = Secret::new(text.trim_start_matches('\u{feff}'));
        let secret = secret.with_context(|| format!("`{key}`: {source} is empty"))?;
        Ok(format!("{}{}", self.prefix(), secret.expose()))
    }
}
