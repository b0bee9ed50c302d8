//! A Festi application's database with a registry of our own beside it, as one.
//!
//! Festi's tables are only read: they say which methods there are, who the callers are and what they may
//! do. The registry beside has what Festi has no place for: tokens of ours, keys, sessions, upstreams,
//! classes, and what is said of methods more than Festi says ([`merge`]). Nothing tells when Festi's
//! tables change; they are looked at ([`site`]), and what that finds is compared ([`watch`]).

mod authenticate;
mod edit;
mod merge;
mod site;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::AbortHandle;

use crate::connect::{DatabaseOptions, DatabaseUrl, Wanted};
use crate::festi::{Festi, Table};
use crate::rows::{
    AccessRows, CatalogRows, CredentialRow, ImportRow, KeyRow, MessageRow, MethodRow, Revisions,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, UpstreamRow, UserRow,
};
use crate::store::{Load, Result, Store, StoreError};
use crate::tables::TableNames;
use crate::token::digest_from_hex;

pub use authenticate::FestiAuthenticator;
pub use merge::{AttachOptions, Overlay};
use site::Site;
pub use watch::LookEvery;
use watch::{ACCESS, CATALOG, Watch, combined};

/// What a user's token in Festi is called.
const TOKEN_NAME: &str = "access_token";

/// A fact about a registry: it is beside a Festi database, so users of its own have no place in it.
pub const BESIDE: &str = "beside";

/// A Festi database, and our own registry beside it.
#[derive(Debug)]
pub struct AttachedStore {
    own: Arc<dyn Store>,
    site: Arc<Site>,
    options: AttachOptions,
    /// The task that looks at Festi's tables, once somebody follows.
    looking: OnceLock<AbortHandle>,
}

impl Store for AttachedStore {}

impl Drop for AttachedStore {
    fn drop(&mut self) {
        if let Some(task) = self.looking.get() {
            task.abort();
        }
    }
}

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
        let layout = festi.layout().await?;
        layout.check(tables)?;
        if !layout.has_tokens() {
            tracing::warn!(
                "Festi's users have no column `access_token`; only tokens of ours count"
            );
        }
        if own.meta(BESIDE).await?.is_none() {
            own.set_meta(BESIDE, "festi").await?;
        }
        let watch = Watch::new(every);
        watch.set_layout(layout);
        let site = Arc::new(Site::new(festi, watch));
        Ok(Self { own, site, options, looking: OnceLock::new() })
    }

    /// Looks at all of Festi's tables now, and not when it is time.
    pub async fn look(&self) -> Result<()> {
        self.site.look(&Table::ALL).await.map_err(attached)
    }

    /// The registry beside.
    pub fn own(&self) -> &Arc<dyn Store> {
        &self.own
    }

    /// What is said of methods that Festi does not have.
    pub async fn unused_overlays(&self) -> Result<Vec<String>> {
        if self.options.overlay.methods.is_empty() {
            return Ok(Vec::new());
        }
        let festi = self.site.rows(&[Table::Methods]).await?;
        let said = self.options.overlay.methods.iter().map(|row| &row.rpc_method);
        let is_there = |id: &&String| festi.methods.iter().any(|row| row.rpc_method == **id);
        Ok(said.filter(|id| !is_there(id)).cloned().collect())
    }

    /// Users by number.
    async fn logins(&self) -> Result<HashMap<i64, String>> {
        let users = self.site.rows(&[Table::Users]).await?.users;
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
        self.looking.get_or_init(|| tokio::spawn(Arc::clone(&self.site).run()).abort_handle());
        let numbers = self.site.watch.numbers().map_err(attached)?;
        Ok(Revisions {
            catalog: combined(own.catalog, numbers.catalog),
            access: combined(own.access, numbers.access),
            tokens: combined(own.tokens, numbers.tokens),
            ..own
        })
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let own = self.own.catalog_rows().await?;
        let (festi, numbers) = self.site.read(&CATALOG).await?;
        let revision = combined(own.revision, numbers.catalog);
        Ok(CatalogRows { revision, ..merge::catalog(festi, own, &self.options) })
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        let own = self.own.access_rows().await?;
        let (festi, numbers) = self.site.read(&ACCESS).await?;
        let revision = combined(own.revision, numbers.access);
        Ok(AccessRows { revision, ..merge::access(festi, own) })
    }

    async fn methods_with_id(&self, id: &str) -> Result<Vec<MethodRow>> {
        let own = self.own.methods_with_id(id).await?;
        let mut festi = self.site.rows(&[Table::Methods]).await?.methods;
        festi.retain(|row| row.rpc_method == id);
        Ok(merge::methods(festi, own, &self.options))
    }

    async fn users(&self) -> Result<Vec<UserRow>> {
        let festi = self.site.rows(&[Table::Users, Table::Roles]).await?;
        Ok(merge::users(festi.users, &festi.roles))
    }

    async fn user(&self, login: &str) -> Result<UserRow> {
        let missing = || StoreError::NotFound { what: "user", name: login.to_owned() };
        let users = self.users().await?;
        users.into_iter().find(|row| row.login == login).ok_or_else(missing)
    }

    async fn role(&self, caption: &str) -> Result<RoleRow> {
        let missing = || StoreError::NotFound { what: "role", name: caption.to_owned() };
        let roles = self.site.rows(&[Table::Roles]).await?.roles;
        roles.into_iter().find(|row| row.caption == caption).ok_or_else(missing)
    }

    async fn sections(&self) -> Result<Vec<SectionRow>> {
        let festi = self.site.rows(&[Table::Sections]).await?.sections;
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
        let festi = self.site.rows(&[Table::Settings]).await?.settings;
        Ok(merge::settings(festi, self.own.settings().await?))
    }

    /// Of ours, and of Festi's: those are known from when their table was last looked at, so that whoever
    /// tries tokens makes nobody read it again.
    async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        if !self.site.watch.knows_tokens() {
            self.site.read(&[Table::Tokens]).await?;
        }
        let mut rows = self.own.tokens_with(digests).await?;
        rows.extend(digests.iter().filter_map(|hex| {
            let id_user = self.site.watch.owner(&digest_from_hex(hex)?)?;
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
        tokio::select! {
            () = self.own.changed() => {}
            () = self.site.watch.changed() => {}
        }
    }

    fn statements(&self) -> u64 {
        self.own.statements() + self.site.festi.statements()
    }

    fn age(&self) -> Duration {
        self.site.watch.age()
    }
}
