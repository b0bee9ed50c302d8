//! Reads the database of a Festi application.
//!
//! Tables and columns differ between applications, so the [`Layout`] is read first. Changes are found by comparing
//! [`Fingerprints`] of the tables.

use callgate::access::TokenDigest;

use crate::db::connect::{self, DatabaseOptions, OpenMode};
use crate::db::database::Purpose;
use crate::db::error::{DatabaseError, DatabaseErrorKind};
use crate::db::pool::Pool;
use crate::db::table_names::TableNames;
use crate::db::transaction::Transaction;
use crate::db::url::DatabaseUrl;
use crate::festi::error::{FestiError, Result};
use crate::rows::{ActionRow, GrantRow, MethodRow, RoleRow, SectionRow, SettingRow, UserRow};

use super::fingerprint::{self, Fingerprints};
use super::layout::{FestiTable, Layout};
use super::read::{self, TableReader};

/// Maximum number of attempts to read a consistent state.
const MAX_ATTEMPTS: usize = 5;

/// Tables that an import reads: all except tokens and settings.
const IMPORTED_TABLES: [FestiTable; 7] = [
    FestiTable::Methods,
    FestiTable::Sections,
    FestiTable::Actions,
    FestiTable::Roles,
    FestiTable::Users,
    FestiTable::RoleGrants,
    FestiTable::UserGrants,
];

/// Rows of a Festi database.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each field is the table of the same name")]
pub struct FestiRows {
    pub methods: Vec<MethodRow>,
    pub sections: Vec<SectionRow>,
    pub actions: Vec<ActionRow>,
    pub roles: Vec<RoleRow>,
    pub users: Vec<UserRow>,
    pub role_grants: Vec<GrantRow>,
    pub user_grants: Vec<GrantRow>,
    /// Settings of Callgate. Other settings are not read.
    pub settings: Vec<SettingRow>,
    /// Names of missing tables.
    pub missing: Vec<String>,
    /// Prefix of another table of actions, if there is no table with the expected prefix.
    pub other_prefix: Option<String>,
}

/// Reads a consistent state of a Festi database with these table names.
///
/// Fails if the database user may not read the tables that protect methods.
pub async fn read_festi(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: &TableNames,
) -> Result<FestiRows> {
    let festi = Festi::open(url, options, tables, OpenMode::ReadOnce).await?;
    let snapshot = festi.read(&IMPORTED_TABLES).await?;
    // Database servers hide tables that the user may not read. Methods that such a table protects would then be open.
    if url.path().is_none() && snapshot.layout.found(FestiTable::Methods).is_some() {
        snapshot.layout.check_tables(&[FestiTable::Sections, FestiTable::Actions], tables)?;
    }
    Ok(snapshot.rows)
}

/// Returns `true` for a method of MCP itself. Festi registers these methods too.
pub fn is_protocol_method(id: &str) -> bool {
    const PREFIXES: [&str; 5] = ["tools/", "resources/", "prompts/", "notifications/", "logging/"];
    id == "initialize" || id == "ping" || PREFIXES.iter().any(|prefix| id.starts_with(prefix))
}

/// A Festi database.
#[derive(Debug)]
pub(crate) struct Festi {
    database: Pool,
}

/// Rows with their layout and fingerprints.
#[derive(Debug)]
pub(crate) struct FestiSnapshot {
    pub(crate) rows: FestiRows,
    /// User ids and digests of their tokens.
    pub(crate) tokens: Vec<(i64, TokenDigest)>,
    pub(crate) layout: Layout,
    pub(crate) fingerprints: Fingerprints,
}

impl Festi {
    pub(crate) async fn open(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: &TableNames,
        mode: OpenMode,
    ) -> Result<Self> {
        if let Some(path) = url.path().filter(|path| !path.is_file()) {
            return Err(FestiError::NoFile(path.display().to_string()));
        }
        Ok(Self::new(connect::connect(url, options, mode).await?, tables))
    }

    pub(crate) fn new(mut database: Pool, tables: &TableNames) -> Self {
        database.tables = tables.clone();
        Self { database }
    }

    pub(crate) fn tables(&self) -> &TableNames {
        &self.database.tables
    }

    pub(crate) fn statements(&self) -> u64 {
        self.database.statements()
    }

    pub(crate) async fn layout(&self) -> Result<Layout> {
        let dialect = self.database.dialect();
        let rows = self.database.rows(&Layout::statement(dialect, self.tables()), &[]).await?;
        Ok(Layout::of(rows, dialect, self.tables()))
    }

    /// Reads the fingerprints of tables in one statement.
    pub(crate) async fn fingerprints(
        &self,
        tables: &[FestiTable],
        layout: &Layout,
    ) -> Result<Fingerprints> {
        self.database.driver.check()?;
        let rows = match fingerprint::statement(tables, layout, self.database.dialect()) {
            Some(sql) => self.database.rows(&sql, &[]).await?,
            None => Vec::new(),
        };
        Ok(fingerprint::sum(tables, rows))
    }

    /// Reads a consistent state of tables. If the database has no snapshots, compares the fingerprints before and after
    /// the reads.
    pub(crate) async fn read(&self, tables: &[FestiTable]) -> Result<FestiSnapshot> {
        for _ in 0..MAX_ATTEMPTS {
            let mut transaction = self.database.begin(Purpose::Read).await?;
            let snapshot = self.read_in_transaction(&mut transaction, tables).await?;
            let is_consistent = self.database.dialect().has_snapshot_reads()
                || self
                    .fingerprints_in_transaction(&mut transaction, tables, &snapshot.layout)
                    .await?
                    == snapshot.fingerprints;
            transaction.commit().await?;
            if is_consistent {
                return Ok(snapshot);
            }
        }
        Err(DatabaseError::new(
            DatabaseErrorKind::Busy,
            "the tables changed during every attempt to read them",
        )
        .into())
    }

    async fn read_in_transaction(
        &self,
        transaction: &mut Transaction<'_>,
        tables: &[FestiTable],
    ) -> Result<FestiSnapshot> {
        let dialect = self.database.dialect();
        let columns = transaction.rows(&Layout::statement(dialect, self.tables()), &[]).await?;
        let layout = Layout::of(columns, dialect, self.tables());
        let fingerprints = self.fingerprints_in_transaction(transaction, tables, &layout).await?;
        let mut reader = TableReader { transaction, dialect, layout: &layout };
        let mut rows = FestiRows {
            missing: layout.missing(tables, self.tables()),
            other_prefix: layout.other_prefix.clone(),
            ..FestiRows::default()
        };
        let mut tokens = Vec::new();
        for table in tables {
            match table {
                FestiTable::Methods => {
                    rows.methods = reader.read_rows(*table, read::method).await?;
                }
                FestiTable::Sections => {
                    rows.sections = reader.read_rows_with_ids(*table, read::section).await?;
                }
                FestiTable::Actions => {
                    rows.actions = reader.read_rows(*table, read::action).await?;
                }
                FestiTable::Roles => rows.roles = reader.read_rows(*table, read::role).await?,
                FestiTable::Users => {
                    rows.users = reader.read_rows_with_ids(*table, read::user).await?;
                }
                FestiTable::Tokens => tokens = reader.tokens().await?,
                FestiTable::RoleGrants => {
                    rows.role_grants =
                        reader.read_rows_with_ids(*table, read::grant("id_user_type")).await?;
                }
                FestiTable::UserGrants => {
                    rows.user_grants =
                        reader.read_rows_with_ids(*table, read::grant("id_user")).await?;
                }
                FestiTable::Settings => {
                    rows.settings = reader.read_rows(*table, read::setting).await?;
                }
            }
        }
        Ok(FestiSnapshot { rows, tokens, layout, fingerprints })
    }

    async fn fingerprints_in_transaction(
        &self,
        transaction: &mut Transaction<'_>,
        tables: &[FestiTable],
        layout: &Layout,
    ) -> Result<Fingerprints> {
        let statement = fingerprint::statement(tables, layout, self.database.dialect());
        let rows = match statement {
            Some(sql) => transaction.rows(&sql, &[]).await?,
            None => Vec::new(),
        };
        Ok(fingerprint::sum(tables, rows))
    }
}
