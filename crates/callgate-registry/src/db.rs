//! SQL databases: connections, dialects, the registry's tables and migrations.

pub(crate) mod error;
pub(crate) mod dialect;
pub(crate) mod database;
pub(crate) mod column;
pub(crate) mod schema;
pub(crate) mod table_names;
pub(crate) mod url;
pub(crate) mod connect;
pub(crate) mod driver;
pub(crate) mod pool;
pub(crate) mod transaction;
pub(crate) mod migrate;
