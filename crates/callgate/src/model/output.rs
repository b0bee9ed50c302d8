//! Checks results against the output schemas of their methods.

use jsonschema::Validator;
use serde_json::Value;

use crate::model::method::DefinitionError;
use crate::model::schema::text_check::TextCheck;
use crate::model::schema::validator::compile;

/// Maximum number of characters of a schema that an error shows.
const MAX_EXCERPT: usize = 200;

/// A method's compiled output schema.
#[derive(Debug)]
pub(crate) struct CompiledOutput {
    /// Accepts most valid results faster than the validator. `None` if [`TextCheck`] does not support the schema.
    text_check: Option<TextCheck>,
    validator: Validator,
    /// Beginning of the schema.
    excerpt: String,
}

impl CompiledOutput {
    pub(crate) fn compile(schema: &[u8]) -> Result<Self, DefinitionError> {
        let excerpt = String::from_utf8_lossy(schema).chars().take(MAX_EXCERPT).collect();
        let schema: Value = serde_json::from_slice(schema)
            .map_err(|error| DefinitionError::InvalidSchema(error.to_string()))?;
        let text_check = TextCheck::compile(&schema);
        Ok(Self { text_check, validator: compile(&schema)?, excerpt })
    }

    /// Fails with the reason if a result does not match the schema.
    pub(crate) fn check(&self, result: &str) -> Result<(), String> {
        if self.text_check.as_ref().is_some_and(|check| check.accepts(result)) {
            return Ok(());
        }
        let result: Value = serde_json::from_str(result).map_err(|error| error.to_string())?;
        if self.validator.is_valid(&result) {
            return Ok(());
        }
        Err(format!("expected {}", self.excerpt))
    }
}
