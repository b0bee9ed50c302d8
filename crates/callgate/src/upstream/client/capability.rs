//! Capabilities that clients declare.

use std::fmt;

use serde_json::value::RawValue;

use crate::wire::strict_json;

/// A capability of a client.
///
/// Argument of [`Context::supports`](crate::Context::supports). [`Sample`](crate::ask::Sample) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// The client's model writes completions for the server.
    Sampling,
    /// The client shows forms to the user.
    Elicitation,
    /// The client lists the directories it works in.
    Roots,
    /// The client asks the user to visit a page.
    ElicitationUrl,
    /// Calls may continue as tasks.
    Tasks,
}

impl Capability {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the JSON with which a client declares the capability.
    pub(crate) fn declaration(self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Self::Sampling => json!({"sampling": {}}),
            Self::Elicitation => json!({"elicitation": {}}),
            Self::Roots => json!({"roots": {}}),
            Self::ElicitationUrl => json!({"elicitation": {"url": {}}}),
            Self::Tasks => json!({"extensions": {TASKS_EXTENSION: {}}}),
        }
    }
}

/// Name of the extension that clients with support for tasks declare.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
            Self::ElicitationUrl => "elicitation by URL",
            Self::Tasks => "tasks",
        })
    }
}

/// The capabilities of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Capabilities(u8);

impl Capabilities {
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Parses a client's declaration.
    pub(crate) fn declared(declaration: &RawValue) -> Result<Self, serde_json::Error> {
        use serde::de::IgnoredAny;
        #[derive(serde::Deserialize)]
        struct Declared {
            sampling: Option<IgnoredAny>,
            elicitation: Option<Elicitation>,
            roots: Option<IgnoredAny>,
            extensions: Option<Extensions>,
        }
        #[derive(serde::Deserialize)]
        struct Elicitation {
            form: Option<IgnoredAny>,
            url: Option<IgnoredAny>,
        }
        #[derive(serde::Deserialize)]
        struct Extensions {
            #[serde(rename = "io.modelcontextprotocol/tasks")]
            tasks: Option<IgnoredAny>,
        }
        if declaration.get() == "{}" {
            return Ok(Self::default());
        }
        let declared: Declared = strict_json::deserialize_short(declaration)?;
        let elicitation = declared.elicitation.as_ref();
        let supported = [
            (Capability::Sampling, declared.sampling.is_some()),
            // A declaration of `elicitation` without a mode means forms.
            (
                Capability::Elicitation,
                elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
            ),
            (Capability::Roots, declared.roots.is_some()),
            (Capability::ElicitationUrl, elicitation.is_some_and(|modes| modes.url.is_some())),
            (
                Capability::Tasks,
                declared.extensions.is_some_and(|extensions| extensions.tasks.is_some()),
            ),
        ];
        let bits = supported.into_iter().filter(|(_, is_declared)| *is_declared);
        Ok(Self(bits.fold(0, |bits, (capability, _)| bits | capability.bit())))
    }
}
