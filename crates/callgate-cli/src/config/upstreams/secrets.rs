//! Values that are elsewhere: in a variable of the environment, or in a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use callgate::Secret;
use serde::Deserialize;

/// Whether what is elsewhere is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is, for serving.
    Real,
    /// It is not: something else stands for it, so that the rest can be checked.
    Assumed,
}

/// A value, here or elsewhere.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, `{ env = \"NAME\" }` or `{ file = \"PATH\" }`")]
pub(super) enum Sourced<T> {
    Elsewhere(Elsewhere),
    Here(T),
}

/// A text, here or elsewhere.
pub(super) type Text = Sourced<String>;

/// Where a secret is that is not in the configuration.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Elsewhere {
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

/// What a variable of the environment has, for `key`.
pub(crate) fn secret_in_variable(key: &str, name: &str) -> anyhow::Result<String> {
    let (env, prefix) = (name.to_owned(), String::new());
    Elsewhere::Variable { env, prefix }.read(key, Reading::Real)
}

/// What a file has, for `key`.
pub(crate) fn secret_in_file(key: &str, file: &Path) -> anyhow::Result<String> {
    let (file, prefix) = (file.to_owned(), String::new());
    Elsewhere::File { file, prefix }.read(key, Reading::Real)
}

impl<T: Clone + From<String>> Sourced<T> {
    pub(super) fn read(&self, key: &str, reading: Reading) -> anyhow::Result<T> {
        match self {
            Self::Here(value) => Ok(value.clone()),
            Self::Elsewhere(elsewhere) => elsewhere.read(key, reading).map(Into::into),
        }
    }

    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        match self {
            Self::Elsewhere(elsewhere) => Some(elsewhere),
            Self::Here(_) => None,
        }
    }
}

impl Elsewhere {
    /// The variable, if it is in one.
    pub(super) fn variable(&self) -> Option<&str> {
        match self {
            Self::Variable { env, .. } => Some(env),
            Self::File { .. } => None,
        }
    }

    /// The file, if it is in one as it is.
    pub(super) fn whole_file(&self) -> Option<&Path> {
        match self {
            Self::File { file, prefix } if prefix.is_empty() => Some(file),
            _ => None,
        }
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Variable { env, .. } => format!("`{env}`"),
            Self::File { file, .. } => format!("`{}`", file.display()),
        }
    }

    fn read(&self, key: &str, reading: Reading) -> anyhow::Result<String> {
        let place = self.place();
        let (Self::Variable { prefix, .. } | Self::File { prefix, .. }) = self;
        let text = match self {
            _ if reading == Reading::Assumed => "secret".to_owned(),
            Self::Variable { env, .. } => {
                let text = std::env::var_os(env).map(|text| text.to_string_lossy().into_owned());
                text.with_context(|| format!("`{key}`: {place} is not set"))?
            }
            Self::File { file, .. } => std::fs::read_to_string(file)
                .with_context(|| format!("`{key}`: cannot read {place}"))?,
        };
        let secret = Secret::new(text.trim_start_matches('\u{feff}'));
        let secret = secret.with_context(|| format!("`{key}`: {place} is empty"))?;
        Ok(format!("{prefix}{}", secret.expose()))
    }
}
