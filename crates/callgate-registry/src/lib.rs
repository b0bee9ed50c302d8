//! The SQL database behind Callgate: methods, users, roles, grants, tokens and settings.
//!
//! A [`Store`] is a database; [`SqliteStore`] is one in a file. A gateway that follows a [`Registry`]
//! serves what its rows say, together with methods that are code: [`assemble`] makes a catalog from both,
//! [`access`] makes the snapshot of who may do what, and [`TokenAuthenticator`] knows callers by it.
//! Nothing here keeps a copy of the truth: [`Load::revisions`] tells when to make new snapshots.

mod assemble;
mod authenticate;
mod credentials;
mod definition;
mod follow;
mod hex;
mod migrate;
mod rows;
mod sessions;
mod sql;
mod sqlite;
mod store;
mod tables;
mod token;
mod upstreams;

pub use assemble::{Assembled, Assembly, Exposure, Inspection, assemble, check, inspect, settings};
pub use authenticate::{TokenAuthenticator, access};
pub use credentials::UserCredentials;
pub use follow::{Following, Registry};
pub use rows::{
    AccessRows, ActionRow, CatalogRows, CredentialRow, DEFAULT_UPSTREAM, GrantRow, ImportRow,
    KeyRow, MessageRow, MethodRow, Revisions, RoleRow, SectionRow, SessionRow, SettingRow,
    TokenRow, TypeRow, UpstreamRow, UserRow, action_key,
};
pub use sessions::{SessionFollower, StoredSessions, session_keys};
pub use sqlite::{FestiPrefix, FestiRows, SqliteStore, read_festi};
pub use store::{
    DatabaseError, DatabaseErrorKind, Edit, Holder, Import, ImportAccess, ImportChange,
    ImportGrant, Load, NewToken, Result, Store, StoreError,
};
pub use tables::{TableNameError, TableNames};
pub use token::{Token, TokenError};
pub use upstreams::MakeUpstream;
