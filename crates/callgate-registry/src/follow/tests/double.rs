//! A registry in memory that fails, hangs and comes back as a test says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use callgate::{Mask, Secret};

use crate::rows::{
    AccessRows, CatalogRows, CredentialRow, ImportRow, KeyRow, MessageRow, MethodRow, Revisions,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, UpstreamRow, UserRow,
};
use crate::store::{
    ChangeSession, DatabaseErrorKind, Edit, Holder, Import, Load, NewKey, NewToken, Result, Store,
    StoreError,
};

/// How the database does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Well,
    /// Refuses connections.
    Down,
    /// Does not answer at all.
    Silent,
    /// Answers for the counters, and nothing else.
    OnlyCounters,
    /// Answers for everything but the catalog.
    NoCatalog,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Counters,
    Catalog,
    Other,
}

/// What it has.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) mood: Mood,
    pub(super) revisions: Revisions,
    pub(super) access: AccessRows,
    pub(super) catalog: CatalogRows,
    pub(super) tokens: Vec<TokenRow>,
}

#[derive(Debug, Default)]
pub(super) struct Double {
    rows: Mutex<Rows>,
    /// How many operations there were, and the largest number of digests in one.
    pub(super) operations: AtomicUsize,
    pub(super) most_digests: AtomicUsize,
}

impl Double {
    /// Changes what it has, or how it does.
    pub(super) fn set<T>(&self, change: impl FnOnce(&mut Rows) -> T) -> T {
        change(&mut self.rows.lock().unwrap())
    }

    async fn ask<T>(&self, what: What, read: impl FnOnce(&Rows) -> T) -> Result<T> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        let mood = self.set(|rows| rows.mood);
        match (mood, what) {
            (Mood::Silent, _) | (Mood::NoCatalog, What::Catalog) => std::future::pending().await,
            (Mood::Well | Mood::NoCatalog, _) | (Mood::OnlyCounters, What::Counters) => {}
            (Mood::Down | Mood::OnlyCounters, _) => {
                return Err(StoreError::database(DatabaseErrorKind::Away, "connection refused"));
            }
        }
        Ok(self.set(|rows| read(rows)))
    }
}

/// Operations that no test here needs.
macro_rules! unused {
    ($trait:ident { $($own:item)* } $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl $trait for Double {
            $($own)*
            $(async fn $name(&self, $($argument: $type),*) -> Result<$result> {
                $(let _ = $argument;)*
                Err(StoreError::Moved)
            })*
        }
    };
}

unused! {
    Load {
        async fn revisions(&self) -> Result<Revisions> {
            self.ask(What::Counters, |rows| rows.revisions).await
        }
        async fn catalog_rows(&self) -> Result<CatalogRows> {
            let read = |rows: &Rows| CatalogRows {
                revision: rows.revisions.catalog,
                ..rows.catalog.clone()
            };
            self.ask(What::Catalog, read).await
        }
        async fn access_rows(&self) -> Result<AccessRows> {
            let read = |rows: &Rows| AccessRows {
                revision: rows.revisions.access,
                ..rows.access.clone()
            };
            self.ask(What::Other, read).await
        }
        async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
            self.most_digests.fetch_max(digests.len(), Ordering::SeqCst);
            let is_wanted = |row: &&TokenRow| digests.contains(&row.digest);
            self.ask(What::Other, |rows| rows.tokens.iter().filter(is_wanted).cloned().collect()).await
        }
        async fn sessions_after(&self, _: i64) -> Result<Vec<SessionRow>> {
            self.ask(What::Other, |_| Vec::new()).await
        }
        async fn keys(&self, _: &str) -> Result<Vec<KeyRow>> {
            let secret = "00".repeat(32);
            self.ask(What::Other, |_| vec![KeyRow { id: 1, secret, created_at: 0, active_from: 0 }]).await
        }
    }
    fn methods_with_id(id: &str) -> Vec<MethodRow>;
    fn users() -> Vec<UserRow>;
    fn user(login: &str) -> UserRow;
    fn role(caption: &str) -> RoleRow;
    fn sections() -> Vec<SectionRow>;
    fn tokens() -> Vec<TokenRow>;
    fn credentials() -> Vec<CredentialRow>;
    fn upstreams() -> Vec<UpstreamRow>;
    fn settings() -> Vec<SettingRow>;
    fn messages_after(number: i64) -> Vec<MessageRow>;
    fn imports() -> Vec<ImportRow>;
    fn meta(name: &str) -> Option<String>;
}

unused! {
    Edit {
        async fn touch_tokens(&self, _: &[(i64, i64)]) -> Result<()> {
            self.ask(What::Other, |_| ()).await
        }
        async fn change_session(
            &self,
            _: &str,
            _: i64,
            change: &ChangeSession<'_>,
        ) -> Result<SessionRow> {
            let mut row = SessionRow::default();
            change(&mut row);
            self.ask(What::Other, |_| row).await
        }
        async fn forget_messages(&self, _: i64) -> Result<()> {
            self.ask(What::Other, |_| ()).await
        }
        async fn add_key(&self, _: &NewKey) -> Result<bool> {
            self.ask(What::Other, |_| false).await
        }
        async fn post_message(&self, _: &str, _: &str) -> Result<()> {
            self.ask(What::Other, |_| ()).await
        }
        async fn forget_sessions(&self, _: i64, _: i64) -> Result<()> {
            self.ask(What::Other, |_| ()).await
        }
        async fn remember_tool_names(&self, _: &[(i64, String)]) -> Result<()> {
            self.ask(What::Other, |_| ()).await
        }
    }
    fn add_method(row: &MethodRow, needs: &[(String, Mask)]) -> ();
    fn update_method(row: &MethodRow, needs: Option<&[(String, Mask)]>) -> ();
    fn remove_method(id: &str) -> u64;
    fn import(import: &Import) -> ();
    fn add_user(login: &str, role: Option<&str>) -> i64;
    fn add_section(ident: &str, caption: &str, mask: Mask) -> ();
    fn ensure_sections(idents: &[String]) -> ();
    fn grant(holder: Holder, section: &str, mask: Mask) -> ();
    fn add_token(token: &NewToken) -> i64;
    fn revoke_token(id: i64) -> ();
    fn revoke_tokens_named(name: &str) -> u64;
    fn set_credential(id_user: i64, upstream: &str, secret: &Secret) -> ();
    fn remove_credential(id_user: i64, upstream: &str) -> bool;
    fn set_upstream(row: &UpstreamRow) -> ();
    fn remove_upstream(name: &str, keep_credentials: bool) -> u64;
    fn set_setting(name: &str, value: &str) -> ();
    fn insert_absent_settings(settings: &[(&str, &str)]) -> ();
    fn remove_keys_before(purpose: &str, id: i64) -> ();
    fn set_meta(name: &str, value: &str) -> ();
}

impl Store for Double {}
