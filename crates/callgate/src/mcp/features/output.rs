//! Checks results against the output schemas of their methods.

use jsonschema::Validator;
use serde_json::Value;

use crate::model::method::DefinitionError;
use crate::model::schema::validator::compile;

/// Compiles an output schema.
pub(crate) fn compile_output(schema: &[u8]) -> Result<Validator, DefinitionError> {
    let schema: Value = serde_json::from_slice(schema)
        .map_err(|error| DefinitionError::InvalidSchema(error.to_string()))?;
    compile(&schema)
}

/// Fails with the reason if a result does not match its schema.
pub(crate) fn check_output(
    validator: Result<impl AsRef<Validator>, DefinitionError>,
    schema: &[u8],
    result: &str,
) -> Result<(), String> {
    let validator = validator.map_err(|error| error.to_string())?;
    let result: Value = serde_json::from_str(result).map_err(|error| error.to_string())?;
    if validator.as_ref().is_valid(&result) {
        return Ok(());
    }
    let schema: String = String::from_utf8_lossy(schema).chars().take(200).collect();
    Err(format!("expected {schema}"))
}
