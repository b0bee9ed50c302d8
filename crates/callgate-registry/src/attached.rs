//! A Festi application's database with a registry of our own beside it, as one.
//!
//! Festi's tables are only read: they say which methods there are, who the callers are and what they may
//! do. The registry beside has what Festi has no place for: tokens of ours, keys, sessions, upstreams,
//! classes, and what is said of methods more than Festi says ([`merge`]). Nothing tells when Festi's
//! tables change; they are looked at ([`watch`]).

mod authenticate;
mod edit;
mod merge;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::connect::{DatabaseOptions, DatabaseUrl, Wanted};
use crate::festi::{Festi, FestiRows, Read, Table};
use crate::rows::{
    AccessRows, CatalogRows, CredentialRow, ImportRow, KeyRow, MessageRow, MethodRow, Revisions,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, UpstreamRow, UserRow,
};
use crate::store::{Load, Result, Store, StoreError};
use crate::tables::TableNames;
use crate::token::digest_from_hex;

pub use authenticate::FestiAuthenticator;
pub use merge::{AttachOptions, Overlay};
pub use watch::LookEvery;
use watch::{ACCESS, CATALOG, Watch, combined};

/// What a user's token in Festi is called.
const TOKEN_NAME: &str = "access_token";

/// A Festi database, and our own registry beside it.
#[derive(Debug)]
pub struct AttachedStore {
    own: Arc<dyn Store>,
    festi: Festi,
    options: AttachOptions,
    watch: Watch,
}

impl Store for AttachedStore {}

impl AttachedStore {
    /// Attaches to a Festi database whose tables are called so. The registry beside must have no users of
    /// its own: their tokens and grants would pass to Festi's users of the same numbers.
    pub async fn attach(
        own: Arc<dyn Store>,
        (url, database): (&DatabaseUrl, &DatabaseOptions),
        tables: &TableNames,
        options: AttachOptions,
        every: LookEvery,
    ) -> Result<Self> {
        if !own.users().await?.is_empty() {
            return Err(StoreError::OwnUsers);
        }
        let festi = Festi::open(url, database, tables, Wanted::OnlyRead).await?;
        let store = Self { own, festi, options, watch: Watch::new(every) };
        let begun = Instant::now();
        let read = store.festi.read(&[Table::Tokens]).await?;
        read.layout.check(tables)?;
        if !read.layout.has_tokens() {
            tracing::warn!(
                "Festi's users have no column `access_token`; only tokens of ours count"
            );
        }
        store.take(begun, read);
        Ok(store)
    }

    /// The registry beside.
    pub fn own(&self) -> &Arc<dyn Store> {
        &self.own
    }

    /// What is said of methods that Festi does not have.
    pub async fn unused_overlays(&self) -> Result<Vec<String>> {
        let festi = self.festi_rows(&[Table::Methods]).await?;
        let said = self.options.overlay.methods.iter().map(|row| &row.rpc_method);
        let is_there = |id: &&String| festi.methods.iter().any(|row| row.rpc_method == **id);
        Ok(said.filter(|id| !is_there(id)).cloned().collect())
    }

    /// Notes what was read, tokens first: they are looked up once their number is another.
    fn take(&self, begun: Instant, read: Read) -> (FestiRows, watch::Numbers) {
        if self.watch.has_other_tokens(&read.fingerprints) {
            let shared = self.watch.set_tokens(read.tokens);
            if shared > 0 {
                tracing::warn!(
                    tokens = shared,
                    "several of Festi's users have the same `access_token`, which is nobody's then"
                );
            }
        }
        let numbers = self.watch.note(begun, read.layout, &read.fingerprints);
        (read.rows, numbers)
    }

    /// Reads tables, and what they say is known from then on.
    async fn read(&self, tables: &[Table]) -> Result<(FestiRows, watch::Numbers)> {
        let begun = Instant::now();
        let read = self.festi.read(tables).await.map_err(attached)?;
        read.layout.check(self.festi.tables()).map_err(attached)?;
        Ok(self.take(begun, read))
    }

    async fn festi_rows(&self, tables: &[Table]) -> Result<FestiRows> {
        Ok(self.festi.read(tables).await.map_err(attached)?.rows)
    }

    /// Looks at what is due.
    async fn look(&self, due: &[Table]) -> Result<()> {
        let begun = Instant::now();
        // A column more or less is noticed as rarely as methods are.
        let layout = if due.contains(&Table::Methods) {
            let layout = self.festi.layout().await?;
            layout.check(self.festi.tables())?;
            layout
        } else {
            self.watch.layout()
        };
        let mut fingerprints = self.festi.fingerprints(due, &layout).await?;
        if self.watch.has_other_tokens(&fingerprints) {
            let read = self.festi.read(&[Table::Tokens]).await?;
            self.take(begun, read);
            fingerprints.remove(&Table::Tokens);
        }
        self.watch.note(begun, layout, &fingerprints);
        Ok(())
    }

    /// Users by number.
    async fn logins(&self) -> Result<HashMap<i64, String>> {
        let users = self.festi_rows(&[Table::Users]).await?.users;
        Ok(users.into_iter().map(|row| (row.id, row.login)).collect())
    }
}

/// An error of the attached database, not of the registry.
fn attached(error: StoreError) -> StoreError {
    StoreError::Attached(Box::new(error))
}

#[async_trait]
impl Load for AttachedStore {
    async fn revisions(&self) -> Result<Revisions> {
        let own = self.own.revisions().await?;
        let due = self.watch.due(Instant::now());
        if !due.is_empty() {
            self.look(&due).await.map_err(attached)?;
        }
        let numbers = self.watch.numbers();
        Ok(Revisions {
            catalog: combined(own.catalog, numbers.catalog),
            access: combined(own.access, numbers.access),
            tokens: combined(own.tokens, numbers.tokens),
            ..own
        })
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let own = self.own.catalog_rows().await?;
        let (festi, numbers) = self.read(&CATALOG).await?;
        let revision = combined(own.revision, numbers.catalog);
        Ok(CatalogRows { revision, ..merge::catalog(festi, own, &self.options) })
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        let own = self.own.access_rows().await?;
        let (festi, numbers) = self.read(&ACCESS).await?;
        let revision = combined(own.revision, numbers.access);
        Ok(AccessRows { revision, ..merge::access(festi, own) })
    }

    async fn methods_with_id(&self, id: &str) -> Result<Vec<MethodRow>> {
        let own = self.own.methods_with_id(id).await?;
        let mut festi = self.festi_rows(&[Table::Methods]).await?.methods;
        festi.retain(|row| row.rpc_method == id);
        Ok(merge::methods(festi, own, &self.options))
    }

    async fn users(&self) -> Result<Vec<UserRow>> {
        let festi = self.festi_rows(&[Table::Users, Table::Roles]).await?;
        Ok(merge::users(festi.users, &festi.roles))
    }

    async fn user(&self, login: &str) -> Result<UserRow> {
        let missing = || StoreError::NotFound { what: "user", name: login.to_owned() };
        let users = self.users().await?;
        users.into_iter().find(|row| row.login == login).ok_or_else(missing)
    }

    async fn role(&self, caption: &str) -> Result<RoleRow> {
        let missing = || StoreError::NotFound { what: "role", name: caption.to_owned() };
        let roles = self.festi_rows(&[Table::Roles]).await?.roles;
        roles.into_iter().find(|row| row.caption == caption).ok_or_else(missing)
    }

    async fn sections(&self) -> Result<Vec<SectionRow>> {
        let festi = self.festi_rows(&[Table::Sections]).await?.sections;
        Ok(merge::sections(festi, self.own.sections().await?))
    }

    /// Those of ours; what Festi's users have there is not listed.
    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        let logins = self.logins().await?;
        let named = |row: TokenRow| TokenRow { login: logins.get(&row.id_user).cloned(), ..row };
        Ok(self.own.tokens().await?.into_iter().map(named).collect())
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>> {
        let logins = self.logins().await?;
        let rows = self.own.credentials().await?.into_iter();
        let named = |row: CredentialRow| {
            let login = logins.get(&row.id_user).cloned();
            CredentialRow { login, ..row }
        };
        Ok(rows.map(named).collect())
    }

    async fn upstreams(&self) -> Result<Vec<UpstreamRow>> {
        self.own.upstreams().await
    }

    async fn settings(&self) -> Result<Vec<SettingRow>> {
        let festi = self.festi_rows(&[Table::Settings]).await?.settings;
        Ok(merge::settings(festi, self.own.settings().await?))
    }

    /// Of ours, and of Festi's: those are known from when their table was last looked at, so that whoever
    /// tries tokens makes nobody read it.
    async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let mut rows = self.own.tokens_with(digests).await?;
        rows.extend(digests.iter().filter_map(|hex| {
            let id_user = self.watch.owner(&digest_from_hex(hex)?)?;
            Some(TokenRow {
                id: merge::foreign(id_user),
                id_user,
                login: None,
                name: TOKEN_NAME.to_owned(),
                digest: hex.clone(),
                created_at: 0,
                expires_at: None,
                last_used_at: None,
            })
        }));
        Ok(rows)
    }

    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>> {
        self.own.keys(purpose).await
    }

    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>> {
        self.own.messages_after(number).await
    }

    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>> {
        self.own.sessions_after(number).await
    }

    async fn imports(&self) -> Result<Vec<ImportRow>> {
        self.own.imports().await
    }

    async fn meta(&self, name: &str) -> Result<Option<String>> {
        self.own.meta(name).await
    }

    async fn changed(&self) {
        self.own.changed().await;
    }
}
