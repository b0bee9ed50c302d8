//! Reads the descriptions of a service's methods. Used for imports, and to list the methods that a caller may use.

pub(crate) mod query;
pub(crate) mod visibility;
pub(crate) mod method_list;
