//! Checks results against the output schemas of their methods.

use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;
use serde_json::Value;

use crate::model::schema::validator::compile;

/// Maximum number of cached validators.
const MAX_VALIDATORS: u64 = 10_000;

/// Validators by output schema, compiled on first use.
#[derive(Debug, Clone)]
pub(crate) struct OutputChecks {
    cache: Cache<Bytes, Arc<jsonschema::Validator>>,
}

impl Default for OutputChecks {
    fn default() -> Self {
        Self { cache: Cache::new(MAX_VALIDATORS) }
    }
}

impl OutputChecks {
    /// Checks a result. Fails with the reason if the result does not match the schema.
    pub(crate) fn check(&self, schema: &Bytes, result: &str) -> Result<(), String> {
        let validator = match self.cache.get(schema) {
            Some(validator) => validator,
            None => {
                let value: Value = serde_json::from_slice(schema).map_err(|e| e.to_string())?;
                let validator = Arc::new(compile(&value).map_err(|error| error.to_string())?);
                // The schema is a slice of the whole catalog, which the cache must not keep in memory.
                self.cache.insert(Bytes::copy_from_slice(schema), Arc::clone(&validator));
                validator
            }
        };
        let result: Value = serde_json::from_str(result).map_err(|error| error.to_string())?;
        if validator.is_valid(&result) {
            return Ok(());
        }
        let schema: String = String::from_utf8_lossy(schema).chars().take(200).collect();
        Err(format!("expected {schema}"))
    }
}
