//! The database of a Festi application, which is only read.
//!
//! Applications differ in what their tables have, and in what they are called. So each table is looked
//! at first, and what is not there is left out.

use std::io::Read as _;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use super::BUSY_TIMEOUT;

use crate::rows::{ActionRow, GrantRow, MethodRow, RoleRow, SectionRow, UserRow};
use crate::store::{Result, StoreError};
use crate::tables::{TableNameError, checked};

/// More rows of a table are refused.
const MAX_ROWS: usize = 200_000;

/// What a Festi database has.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each is the table of that name")]
pub struct FestiRows {
    pub methods: Vec<MethodRow>,
    pub sections: Vec<SectionRow>,
    pub actions: Vec<ActionRow>,
    pub roles: Vec<RoleRow>,
    pub users: Vec<UserRow>,
    pub role_grants: Vec<GrantRow>,
    pub user_grants: Vec<GrantRow>,
    /// Tables that are not there.
    pub missing: Vec<String>,
    /// Where the actions are not there, what a table of actions has before its name.
    pub other_prefix: Option<String>,
}

/// What the tables of permissions have before their names.
#[derive(Debug, Clone)]
pub struct FestiPrefix(String);

impl std::str::FromStr for FestiPrefix {
    type Err = TableNameError;

    fn from_str(text: &str) -> Result<Self, TableNameError> {
        if text.is_empty() { Ok(Self(String::new())) } else { checked(text).map(Self) }
    }
}

/// Reads a Festi database in a file, all of it as of one moment. Nothing is written, and nothing is made.
pub async fn read_festi(path: &Path, prefix: &FestiPrefix) -> Result<FestiRows> {
    if !path.is_file() {
        return Err(StoreError::NotFound { what: "file", name: path.display().to_string() });
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(rests_with_a_log(path))
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging();
    let mut connection = SqliteConnection::connect_with(&options).await?;
    let mut moment = connection.begin().await?;
    let mut reading = Reading { connection: &mut moment, prefix: &prefix.0, missing: Vec::new() };
    let mut rows = FestiRows {
        methods: reading.methods().await?,
        sections: reading.sections().await?,
        actions: reading.actions().await?,
        roles: reading.roles().await?,
        users: reading.users().await?,
        role_grants: reading.grants("sections_user_types_permission", "id_user_type").await?,
        user_grants: reading.grants("sections_user_permission", "id_user").await?,
        ..FestiRows::default()
    };
    if reading.missing.iter().any(|table| table.ends_with("section_actions")) {
        rows.other_prefix = reading.other_prefix().await?;
    }
    rows.missing = reading.missing;
    moment.rollback().await?;
    connection.close().await?;
    Ok(rows)
}

/// Whether a database has a write-ahead log and nobody has it open. SQLite would then make the log's files
/// anew, and leave them there; without them nothing can be written meanwhile that it would have to see.
fn rests_with_a_log(path: &Path) -> bool {
    let mut header = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    read.is_ok() && header.ends_with(&[2, 2]) && !Path::new(&log).exists()
}

struct Reading<'c> {
    connection: &'c mut SqliteConnection,
    prefix: &'c str,
    missing: Vec<String>,
}

/// A row's columns in the order that they were asked for.
struct Columns(std::vec::IntoIter<Option<String>>);

impl Columns {
    fn next(&mut self) -> Option<String> {
        self.0.next().flatten()
    }

    fn text(&mut self) -> String {
        self.next().unwrap_or_default()
    }

    /// What is no number is 0, which no row has.
    fn number(&mut self) -> i64 {
        self.next().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }
}

impl Reading<'_> {
    async fn methods(&mut self) -> Result<Vec<MethodRow>> {
        let columns: [&[&str]; 14] = [
            &["id"],
            &["rpc_method", "method"],
            &["plugin"],
            &["method"],
            &["params"],
            &["params_types"],
            &["description"],
            &["sections"],
            &["return_type"],
            &["title"],
            &["safety"],
            &["annotations"],
            &["exposed"],
            &["defaults"],
        ];
        let names = ["rpc_methods".to_owned(), format!("{}rpc_methods", self.prefix)];
        self.rows(&names, &columns, |row| MethodRow {
            id: row.number(),
            rpc_method: row.text(),
            plugin: row.next(),
            method: row.next(),
            params: row.next(),
            params_types: row.next(),
            description: row.next(),
            sections: row.next(),
            return_type: row.next(),
            title: row.next(),
            safety: row.next(),
            annotations: row.next(),
            exposed: row.next(),
            defaults: row.next(),
            ..MethodRow::default()
        })
        .await
    }

    async fn sections(&mut self) -> Result<Vec<SectionRow>> {
        let columns: [&[&str]; 4] = [&["id"], &["caption"], &["ident"], &["mask"]];
        let names = [format!("{}sections", self.prefix)];
        self.rows(&names, &columns, |row| SectionRow {
            id: row.number(),
            caption: row.text(),
            ident: row.text(),
            mask: row.text(),
        })
        .await
    }

    async fn actions(&mut self) -> Result<Vec<ActionRow>> {
        let columns: [&[&str]; 4] = [&["id_section"], &["plugin"], &["method"], &["mask"]];
        let names = [format!("{}section_actions", self.prefix)];
        self.rows(&names, &columns, |row| ActionRow {
            id_section: row.number(),
            plugin: row.text(),
            method: row.text(),
            mask: row.text(),
        })
        .await
    }

    async fn roles(&mut self) -> Result<Vec<RoleRow>> {
        let columns: [&[&str]; 2] = [&["id"], &["caption", "name", "ident"]];
        // SQL Server's scripts have the second name.
        let names = ["users_types", "user_types"].map(|name| self.both(name)).concat();
        self.rows(&names, &columns, |row| RoleRow { id: row.number(), caption: row.text() }).await
    }

    async fn users(&mut self) -> Result<Vec<UserRow>> {
        let columns: [&[&str]; 3] =
            [&["id"], &["login", "email", "username", "name"], &["id_type"]];
        let names = self.both("users");
        self.rows(&names, &columns, |row| UserRow {
            id: row.number(),
            login: row.text(),
            id_type: row.next().and_then(|text| text.parse().ok()),
            role: None,
        })
        .await
    }

    async fn grants(&mut self, table: &str, holder: &'static str) -> Result<Vec<GrantRow>> {
        let columns: [&[&str]; 3] = [&["id_section"], &[holder], &["value"]];
        let names = [format!("{}{table}", self.prefix)];
        self.rows(&names, &columns, |row| GrantRow {
            id_section: row.number(),
            id_holder: row.number(),
            value: row.text(),
        })
        .await
    }

    /// What stands before the name of another table of actions, should the prefix be wrong.
    async fn other_prefix(&mut self) -> Result<Option<String>> {
        let sql =
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%section_actions'
                   ORDER BY name LIMIT 1";
        let found = sqlx::query(sql).fetch_optional(&mut *self.connection).await?;
        let name: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
        let prefix = name.as_deref().and_then(|name| name.strip_suffix("section_actions"));
        Ok(prefix.filter(|prefix| *prefix != self.prefix).map(ToOwned::to_owned))
    }

    fn both(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), format!("{}{name}", self.prefix)]
    }

    /// The rows of the first of these tables that is there; of each column, the first that it has.
    async fn rows<T>(
        &mut self,
        names: &[String],
        columns: &[&[&'static str]],
        read: impl Fn(&mut Columns) -> T,
    ) -> Result<Vec<T>> {
        let Some((table, known)) = self.table(names).await? else {
            self.missing.extend(names.first().cloned());
            return Ok(Vec::new());
        };
        let column = |choices: &&[&'static str]| {
            let is_there = |name: &&&str| known.iter().any(|one| one.eq_ignore_ascii_case(name));
            let name = choices.iter().find(is_there);
            name.map_or("NULL".to_owned(), |name| format!("CAST(\"{name}\" AS TEXT)"))
        };
        let selected = columns.iter().map(column).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {selected} FROM \"{table}\" LIMIT {}", MAX_ROWS + 1);
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *self.connection).await?;
        if rows.len() > MAX_ROWS {
            return Err(StoreError::TooMany { table, most: MAX_ROWS });
        }
        rows.iter().map(|row| Ok(read(&mut columns_of(row)?))).collect()
    }

    /// The first of these that is there, with the names of its columns.
    async fn table(&mut self, names: &[String]) -> Result<Option<(String, Vec<String>)>> {
        for name in names {
            let columns = sqlx::query("SELECT name FROM pragma_table_info(?)")
                .bind(name)
                .fetch_all(&mut *self.connection)
                .await?;
            let columns: Result<Vec<String>, _> =
                columns.iter().map(|row| row.try_get(0)).collect();
            let columns = columns?;
            if !columns.is_empty() {
                return Ok(Some((name.clone(), columns)));
            }
        }
        Ok(None)
    }
}

fn columns_of(row: &SqliteRow) -> Result<Columns> {
    let texts: Result<Vec<_>> = (0..row.len()).map(|index| optional_text(row, index)).collect();
    Ok(Columns(texts?.into_iter()))
}

/// Bytes that are not text are shown as such, not an error of the whole.
fn optional_text(row: &SqliteRow, index: usize) -> Result<Option<String>> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(index)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
