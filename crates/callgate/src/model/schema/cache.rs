//! Compiled schemas, by their text. Methods with equal schemas share a compiled schema.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapWeak;
use bytes::Bytes;

use crate::lru_cache::LruCache;
use crate::model::method::DefinitionError;

/// Maximum number of compiled schemas in a cache. Each takes about 4 KiB.
const MAX_COMPILED: usize = 10_000;

/// Compiled schemas, each compiled on its first use.
pub(crate) struct SchemaCache<T> {
    cache: Arc<LruCache<Bytes, Arc<T>>>,
    compile: fn(&[u8]) -> Result<T, DefinitionError>,
}

/// Weak reference from a tool to its compiled schema, which saves a lookup by the whole text.
#[derive(Debug)]
pub(crate) struct CachedSchema<T>(ArcSwapWeak<T>);

impl<T: Send + Sync + 'static> SchemaCache<T> {
    pub(crate) fn new(compile: fn(&[u8]) -> Result<T, DefinitionError>) -> Self {
        Self { cache: Arc::new(LruCache::new(MAX_COMPILED)), compile }
    }

    /// Returns the compiled schema. `cached` is the weak reference that the tool keeps.
    pub(crate) fn get(
        &self,
        cached: &CachedSchema<T>,
        schema: impl FnOnce() -> Bytes,
    ) -> Result<Arc<T>, DefinitionError> {
        if let Some(compiled) = cached.0.load().upgrade() {
            return Ok(compiled);
        }
        let compiled = self.compiled(&schema())?;
        cached.0.store(Arc::downgrade(&compiled));
        Ok(compiled)
    }

    pub(crate) fn compiled(&self, schema: &Bytes) -> Result<Arc<T>, DefinitionError> {
        if let Some(compiled) = self.cache.get(schema) {
            return Ok(compiled);
        }
        let compiled = Arc::new((self.compile)(schema)?);
        // A copy, since a slice would keep the whole catalog alive.
        self.cache.insert(Bytes::copy_from_slice(schema), Arc::clone(&compiled));
        Ok(compiled)
    }
}

impl<T> Clone for SchemaCache<T> {
    fn clone(&self) -> Self {
        Self { cache: Arc::clone(&self.cache), compile: self.compile }
    }
}

impl<T> fmt::Debug for SchemaCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaCache").finish_non_exhaustive()
    }
}

impl<T> Default for CachedSchema<T> {
    fn default() -> Self {
        Self(ArcSwapWeak::default())
    }
}

impl<T> Clone for CachedSchema<T> {
    fn clone(&self) -> Self {
        Self(ArcSwapWeak::new(self.0.load_full()))
    }
}
