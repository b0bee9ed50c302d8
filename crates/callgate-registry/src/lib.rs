//! The SQL database behind Callgate: methods, users, roles, grants, tokens and settings.
//!
//! A [`SqlStore`] is a registry at a [`DatabaseUrl`]. A server that follows a [`Registry`] serves the methods in the
//! registry's rows together with the methods that are defined in code. [`assemble`] builds a catalog from both,
//! [`access`] builds the access snapshot, and [`TokenAuthenticator`] identifies callers by their tokens.
//!
//! The modules are layers. Each uses only the modules above it in this list:
//!
//! - `db`: connections, SQL dialects, tables and migrations
//! - `rows`: the registry's rows as Rust types
//! - `catalog`: builds a catalog from rows
//! - `festi`: reads the database of a Festi application
//! - `store`: operations on a registry
//! - `auth`: tokens, access and session keys
//! - `follow`: keeps a server up to date with its registry

#[doc(hidden)]
pub mod hex;

mod db;
mod rows;

mod catalog;
mod festi;

mod store;

mod auth;
mod follow;

pub use auth::authenticator::{TokenAuthenticator, TokenOptions};
pub use auth::build_access::access;
pub use auth::signing_keys::{SESSION_KEYS, signing_key};
pub use auth::token::{Token, TokenError};
pub use catalog::assemble::{
    Assembled, Assembly, Exposure, Inspection, assemble, check, inspect, open_entries,
    open_methods, settings,
};
pub use db::connect::DatabaseOptions;
pub use db::dialect::Dialect;
pub use db::driver::sqlite::wait_for_closed_files;
pub use db::error::{DatabaseError, DatabaseErrorKind, OpenError, UrlError};
pub use db::migrate::{PendingMigration, install_script};
pub use db::table_names::{TableNameError, TableNames};
pub use db::url::DatabaseUrl;
pub use festi::attached::ATTACHED;
pub use festi::database::{FestiRows, is_protocol_method, read_festi};
pub use festi::error::FestiError;
pub use festi::merge::{AttachOptions, Overlay};
pub use festi::poll_state::PollIntervals;
pub use follow::credentials::UserCredentials;
pub use follow::registry::{Following, Registry};
pub use follow::upstreams::UpstreamFactory;
pub use rows::{
    AccessRows, ActionRow, CHECK_ARGUMENTS, CatalogRows, ChangeCounters, CredentialRow,
    DEFAULT_UPSTREAM, GUESSED, GrantHolder, GrantRow, ImportRow, KeyRow, MessageRow, MethodColumn,
    MethodRow, RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, TypeRow, UpstreamRow,
    UserRow, action_key,
};
pub use store::copy::{CopiedTable, Copy, CopyError, CopyReport, copy};
pub use store::sql_store::SqlStore;
pub use store::{
    AttachError, Entity, Import, ImportAccess, ImportChange, ImportGrant, NewKey, NewToken, Result,
    Store, StoreError, UpdateSession,
};
