//! The SQL database behind Callgate: methods, users, roles, grants, tokens and settings.
//!
//! A registry is a [`SqlStore`], at a [`DatabaseUrl`]. A gateway that follows a [`Registry`]
//! serves what its rows say, together with methods that are code: [`assemble`] makes a catalog from both,
//! [`access`] makes the snapshot of who may do what, and [`TokenAuthenticator`] knows callers by it and their tokens.
//! Nothing here keeps a copy of the truth: [`Store::revisions`] tells when to make new snapshots.

mod access;
mod assemble;
mod attached;
mod authenticate;
mod connect;
mod contact;
mod credentials;
mod definition;
mod dialect;
mod durable;
mod festi;
mod follow;
#[doc(hidden)]
pub mod hex;
mod keys;
mod migrate;
#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
mod pool;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod pooled;
#[cfg(feature = "postgres")]
mod postgres;
mod relay;
mod replicas;
mod rows;
mod schema;
mod sessions;
mod sql;
mod sql_store;
mod sqlite;
mod sqlx_error;
mod store;
mod tables;
mod token;
mod tokens;
mod upstreams;

pub use access::access;
pub use assemble::{Assembled, Assembly, Exposure, Inspection, assemble, check, inspect, settings};
pub use attached::{AttachOptions, BESIDE, FestiAuthenticator, LookEvery, Overlay};
pub use authenticate::{TokenAuthenticator, TokenOptions};
pub use connect::{DatabaseOptions, DatabaseUrl};
pub use credentials::UserCredentials;
pub use festi::{FestiRows, is_of_mcp, read_festi};
pub use follow::{Following, Registry};
pub use keys::{SESSION_KEYS, session_keys, signing_key};
pub use migrate::{PendingMigration, install_script};
pub use rows::{
    AccessRows, ActionRow, CatalogRows, CredentialRow, DEFAULT_UPSTREAM, GrantRow, ImportRow,
    KeyRow, MessageRow, MethodColumn, MethodRow, Revisions, RoleRow, SectionRow, SessionRow,
    SettingRow, TokenRow, TypeRow, UpstreamRow, UserRow, action_key,
};
pub use sql::Dialect;
pub use sql_store::{Copied, CopiedTable, Copy, CopyError, SqlStore, copy};
pub use store::{
    ChangeSession, DatabaseError, DatabaseErrorKind, Holder, Import, ImportAccess, ImportChange,
    ImportGrant, NewKey, NewToken, Result, Store, StoreError,
};
pub use tables::{TableNameError, TableNames};
pub use token::{Token, TokenError};
pub use upstreams::MakeUpstream;
