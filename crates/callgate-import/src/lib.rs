//! Imports methods into Callgate's registry from descriptions of other systems, and exports them.
//!
//! A source ([`openrpc`], introspection, [`drupal`], [`php`], [`festi`], [`manifest`]) reads a description into a
//! [`Source`], which contains proposed methods and refused methods. A [`Plan`] compares the source with the registry
//! and is written in one transaction. Each import stores the values that it wrote, so that the next import keeps values
//! that people changed since then. [`watch`] repeats imports, and [`export`] writes the registry's methods.

mod hinted;
mod limits;
mod text;
mod yaml;

mod required_sections;
mod schema;

mod service;
mod source;

pub mod drupal;
pub mod festi;
mod introspect;
pub mod manifest;
pub mod openrpc;
#[cfg(feature = "php")]
pub mod php;

mod description;
mod plan;

pub mod export;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod watch;

pub use description::Description;
pub use hinted::{Hinted, hinted};
pub use plan::{Added, Detail, Guess, ImportedMethod, Importer, Line, Override, Plan, Report};
pub use required_sections::{RequiredSections, RequiredSectionsByKey, named_masks};
pub use service::{Attempts, Service};
pub use source::{
    ImportOptions, Proposal, Refusal, RequiredMask, Selection, Source, SourceParams, UpstreamKeys,
};
pub use text::{counted, one_line, read_file, shortened};
