//! `callgate method`, `import`, `export`, `call`, `lint` and `upstream`.

pub(super) mod method;
mod service;
pub(super) mod import;
pub(super) mod export;
pub(super) mod call;
pub(super) mod lint;
pub(super) mod upstream;

pub(crate) use service::{BasicOptions, ServiceOptions, parse_url};
