//! A Festi database that is attached to a registry.
//!
//! Festi's tables define methods, callers and permissions. They are never written. The registry contains tokens, keys,
//! sessions, upstreams, classes, and overlays of Festi's methods ([`merge`]). Changes are found by polling
//! ([`super::poller`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use tokio::task::AbortHandle;

use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::festi::database::Festi;
use crate::festi::error::Result;
use crate::festi::layout::FestiTable;
use crate::hex::digest_from_hex;
use crate::rows::{
    AccessRows, CatalogRows, ChangeCounters, MethodRow, RoleRow, SectionRow, SettingRow, TokenRow,
    UserRow,
};

use super::merge::{self, AttachOptions};
use super::poll_state::{ACCESS, CATALOG, PollIntervals, PollState, combine};
use super::poller::Poller;

/// Name that is shown for the tokens of Festi's users.
const TOKEN_NAME: &str = "access_token";

/// Name of the row in `callgate_meta` that shows that the registry was attached to a Festi database. Such a registry
/// has no users.
pub const ATTACHED: &str = "attached";

/// A Festi database that is attached to a registry.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) poller: Arc<Poller>,
    pub(super) options: AttachOptions,
    /// Polling task. The first read of the change counters starts it.
    polling: OnceLock<AbortHandle>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(task) = self.polling.get() {
            task.abort();
        }
    }
}

impl Attached {
    pub(crate) async fn open(
        (url, database): (&DatabaseUrl, &DatabaseOptions),
        tables: &TableNames,
        options: AttachOptions,
        intervals: PollIntervals,
    ) -> Result<Self> {
        let festi = Festi::open(url, database, tables, OpenMode::ReadOnly).await?;
        let layout = festi.layout().await?;
        layout.check(tables)?;
        if !layout.has_tokens() {
            tracing::warn!(
                "Festi's table of users has no column `access_token`; only tokens of the registry \
                 are accepted"
            );
        }
        let state = PollState::new(intervals);
        state.set_layout(layout);
        let poller = Arc::new(Poller::new(festi, state));
        Ok(Self { poller, options, polling: OnceLock::new() })
    }

    /// Returns the ids of methods that the overlay changes but that do not exist in the database.
    pub(crate) async fn unused_overlays(&self) -> Result<Vec<String>> {
        let Self { poller, options, .. } = self;
        if options.overlay.methods.is_empty() {
            return Ok(Vec::new());
        }
        let festi = poller.rows(&[FestiTable::Methods]).await?;
        let ids = options.overlay.methods.iter().map(|row| &row.rpc_method);
        let exists = |id: &&String| festi.methods.iter().any(|row| row.rpc_method == **id);
        Ok(ids.filter(|id| !exists(id)).cloned().collect())
    }
}

/// Reads Festi's rows and merges them with the rows of the registry.
impl Attached {
    pub(crate) fn change_counters(&self, registry: ChangeCounters) -> Result<ChangeCounters> {
        self.polling.get_or_init(|| tokio::spawn(Arc::clone(&self.poller).run()).abort_handle());
        let counters = self.poller.state.counters()?;
        Ok(ChangeCounters {
            catalog: combine(registry.catalog, counters.catalog),
            access: combine(registry.access, counters.access),
            tokens: combine(registry.tokens, counters.tokens),
            ..registry
        })
    }

    pub(crate) async fn catalog_rows(&self, registry: CatalogRows) -> Result<CatalogRows> {
        let (festi, counters) = self.poller.read(&CATALOG).await?;
        let change_counter = combine(registry.change_counter, counters.catalog);
        Ok(CatalogRows { change_counter, ..merge::catalog(festi, registry, &self.options) })
    }

    pub(crate) async fn access_rows(&self, registry: AccessRows) -> Result<AccessRows> {
        let (festi, counters) = self.poller.read(&ACCESS).await?;
        let change_counter = combine(registry.change_counter, counters.access);
        Ok(AccessRows { change_counter, ..merge::access(festi, registry) })
    }

    pub(crate) async fn methods_with_id(
        &self,
        id: &str,
        registry: Vec<MethodRow>,
    ) -> Result<Vec<MethodRow>> {
        let mut festi = self.poller.rows(&[FestiTable::Methods]).await?.methods;
        festi.retain(|row| row.rpc_method == id);
        Ok(merge::methods(festi, registry, &self.options))
    }

    pub(crate) async fn users(&self) -> Result<Vec<UserRow>> {
        let festi = self.poller.rows(&[FestiTable::Users, FestiTable::Roles]).await?;
        Ok(merge::users(festi.users, &festi.roles))
    }

    /// Returns the login names by user id.
    pub(crate) async fn logins(&self) -> Result<HashMap<i64, String>> {
        let users = self.poller.rows(&[FestiTable::Users]).await?.users;
        Ok(users.into_iter().map(|row| (row.id, row.login)).collect())
    }

    pub(crate) async fn roles(&self) -> Result<Vec<RoleRow>> {
        Ok(self.poller.rows(&[FestiTable::Roles]).await?.roles)
    }

    pub(crate) async fn sections(&self, registry: Vec<SectionRow>) -> Result<Vec<SectionRow>> {
        Ok(merge::sections(self.poller.rows(&[FestiTable::Sections]).await?.sections, registry))
    }

    pub(crate) async fn settings(&self, registry: Vec<SettingRow>) -> Result<Vec<SettingRow>> {
        Ok(merge::settings(self.poller.rows(&[FestiTable::Settings]).await?.settings, registry))
    }

    /// Returns tokens of Festi's users. Uses the result of the last poll, so that guessing tokens causes no queries.
    pub(crate) async fn tokens_by_digest(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        if !self.poller.state.has_read_tokens() {
            self.poller.read(&[FestiTable::Tokens]).await?;
        }
        let rows = digests.iter().filter_map(|hex| {
            let id_user = self.poller.state.owner(&digest_from_hex(hex)?)?;
            Some(TokenRow {
                id: merge::negative_id(id_user),
                id_user,
                login: None,
                name: TOKEN_NAME.to_owned(),
                digest: hex.clone(),
                created_at: 0,
                expires_at: None,
                last_used_at: None,
            })
        });
        Ok(rows.collect())
    }
}

/// Lookups for operations that change the registry.
impl Attached {
    pub(crate) fn table_name(&self, table: FestiTable) -> String {
        self.poller.state.layout().name(table, self.poller.festi.tables())
    }

    /// Returns Festi's row of a method, changed by the overlay of the file.
    pub(crate) async fn method(&self, id: &str) -> Result<Option<MethodRow>> {
        let festi = self.poller.rows(&[FestiTable::Methods]).await?.methods;
        let row = festi.into_iter().find(|row| row.rpc_method == id);
        let file = self.options.overlay.methods.iter().find(|row| row.rpc_method == id);
        Ok(row.map(|row| merge::base(row, file, &self.options)))
    }

    pub(crate) async fn section_idents(&self) -> Result<HashSet<String>> {
        let sections = self.poller.rows(&[FestiTable::Sections]).await?.sections;
        Ok(sections.into_iter().map(|row| row.ident).collect())
    }

    pub(crate) async fn has_setting(&self, name: &str) -> Result<bool> {
        let settings = self.poller.rows(&[FestiTable::Settings]).await?.settings;
        Ok(settings.iter().any(|row| row.name == name))
    }

    /// Returns overlays that set the tool names of Festi's methods.
    pub(crate) async fn tool_name_overlays(
        &self,
        names: Vec<(i64, String)>,
    ) -> Result<Vec<MethodRow>> {
        let methods = self.poller.rows(&[FestiTable::Methods]).await?.methods;
        let ids: HashMap<i64, String> =
            methods.into_iter().map(|row| (merge::negative_id(row.id), row.rpc_method)).collect();
        let overlay = |(id, name): (i64, String)| {
            let rpc_method = ids.get(&id)?.clone();
            Some(MethodRow { rpc_method, tool_name: Some(name), ..MethodRow::default() })
        };
        Ok(names.into_iter().filter_map(overlay).collect())
    }
}
