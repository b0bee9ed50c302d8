//! What reads.

use async_trait::async_trait;
use callgate::Secret;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection, Transaction};

use super::SqliteStore;
use crate::rows::{
    AccessRows, ActionRow, CatalogRows, CredentialRow, GrantRow, ImportRow, KeyRow, MessageRow,
    MethodRow, Revisions, RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, TypeRow,
    UpstreamRow, UserRow,
};
use crate::store::{Load, Result, StoreError};

/// The columns of a [`MethodRow`] behind its number, in the order of [`METHODS`].
const METHOD_COLUMNS: [&str; 18] = [
    "rpc_method",
    "plugin",
    "method",
    "params",
    "params_types",
    "description",
    "sections",
    "return_type",
    "title",
    "safety",
    "annotations",
    "exposed",
    "upstream",
    "tool_name",
    "input_schema",
    "output_schema",
    "defaults",
    "params_by",
];

/// Cast, since SQLite lets any column hold anything; and as one value, since the driver's cost is
/// by the value: with 100,000 rows this takes a third of the time.
pub(super) const METHODS: &str =
    "SELECT id, json_array(CAST(rpc_method AS TEXT), CAST(plugin AS TEXT),
    CAST(method AS TEXT), CAST(params AS TEXT), CAST(params_types AS TEXT),
    CAST(description AS TEXT), CAST(sections AS TEXT), CAST(return_type AS TEXT),
    CAST(title AS TEXT), CAST(safety AS TEXT), CAST(annotations AS TEXT), CAST(exposed AS TEXT),
    CAST(upstream AS TEXT), CAST(tool_name AS TEXT), CAST(input_schema AS TEXT),
    CAST(output_schema AS TEXT), CAST(defaults AS TEXT),
    CAST(params_by AS TEXT)) FROM {rpc_methods}";

const SECTIONS: &str = "SELECT id, CAST(caption AS TEXT), CAST(ident AS TEXT), CAST(mask AS TEXT)
    FROM {sections} ORDER BY ident";

const USERS: &str = "SELECT u.id, CAST(u.login AS TEXT), u.id_type, CAST(t.caption AS TEXT)
    FROM {users} u LEFT JOIN {users_types} t ON t.id = u.id_type";

const TOKENS: &str = "SELECT t.id, t.id_user, CAST(u.login AS TEXT), CAST(t.name AS TEXT),
    CAST(t.digest AS TEXT), CAST(t.created_at AS INTEGER), CAST(t.expires_at AS INTEGER),
    CAST(t.last_used_at AS INTEGER)
    FROM callgate_tokens t LEFT JOIN {users} u ON u.id = t.id_user ORDER BY t.id";

const CREDENTIALS: &str = "SELECT c.id_user, CAST(u.login AS TEXT), CAST(c.upstream AS TEXT),
    CAST(c.secret AS TEXT), CAST(c.set_at AS INTEGER)
    FROM callgate_credentials c LEFT JOIN {users} u ON u.id = c.id_user
    ORDER BY c.upstream, u.login, c.id_user";

const UPSTREAMS: &str =
    "SELECT CAST(name AS TEXT), CAST(config AS TEXT) FROM callgate_upstreams ORDER BY name";

const SETTINGS: &str =
    "SELECT CAST(name AS TEXT), CAST(COALESCE(value, '') AS TEXT) FROM {settings} ORDER BY name";

const USER_GRANTS: &str =
    "SELECT id_section, id_user, CAST(value AS TEXT) FROM {sections_user_permission}";

const ROLE_GRANTS: &str =
    "SELECT id_section, id_user_type, CAST(value AS TEXT) FROM {sections_user_types_permission}";

impl SqliteStore {
    /// A transaction in which all reads see the same moment.
    async fn moment(&self) -> Result<Transaction<'static, Sqlite>> {
        Ok(self.pool.begin().await?)
    }

    pub(super) async fn rows<T>(
        &self,
        connection: &mut SqliteConnection,
        sql: &str,
        read: impl Fn(&SqliteRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        let rows = sqlx::query(self.sql(sql)).fetch_all(connection).await?;
        rows.iter().map(read).collect()
    }
}

#[async_trait]
impl Load for SqliteStore {
    async fn revisions(&self) -> Result<Revisions> {
        self.check_file()?;
        revisions(&mut *self.pool.acquire().await?).await
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let mut moment = self.moment().await?;
        Ok(CatalogRows {
            revision: revisions(&mut moment).await?.catalog,
            methods: self.rows(&mut moment, &format!("{METHODS} ORDER BY id"), method).await?,
            sections: self.rows(&mut moment, SECTIONS, section).await?,
            actions: self
                .rows(
                    &mut moment,
                    "SELECT id_section, CAST(plugin AS TEXT), CAST(method AS TEXT),
                     CAST(mask AS TEXT) FROM {section_actions} ORDER BY id",
                    |row| {
                        Ok(ActionRow {
                            id_section: integer(row, 0)?,
                            plugin: text(row, 1)?,
                            method: text(row, 2)?,
                            mask: text(row, 3)?,
                        })
                    },
                )
                .await?,
            types: self
                .rows(
                    &mut moment,
                    "SELECT CAST(name AS TEXT), CAST(fields AS TEXT), CAST(schema AS TEXT)
                     FROM callgate_types ORDER BY name",
                    |row| {
                        Ok(TypeRow {
                            name: text(row, 0)?,
                            fields: optional_text(row, 1)?,
                            schema: optional_text(row, 2)?,
                        })
                    },
                )
                .await?,
            upstreams: self.rows(&mut moment, UPSTREAMS, upstream).await?,
            settings: self.rows(&mut moment, SETTINGS, setting).await?,
        })
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        let mut moment = self.moment().await?;
        Ok(AccessRows {
            revision: revisions(&mut moment).await?.access,
            users: self.rows(&mut moment, USERS, user).await?,
            roles: self
                .rows(
                    &mut moment,
                    "SELECT id, CAST(caption AS TEXT) FROM {users_types} ORDER BY id",
                    role,
                )
                .await?,
            sections: self.rows(&mut moment, SECTIONS, section).await?,
            user_grants: self.rows(&mut moment, USER_GRANTS, grant).await?,
            role_grants: self.rows(&mut moment, ROLE_GRANTS, grant).await?,
            tokens: self.rows(&mut moment, TOKENS, token).await?,
            credentials: self.rows(&mut moment, CREDENTIALS, credential).await?,
            settings: self.rows(&mut moment, SETTINGS, setting).await?,
        })
    }

    async fn methods_with_id(&self, id: &str) -> Result<Vec<MethodRow>> {
        let sql = format!("{METHODS} WHERE rpc_method = ? ORDER BY id");
        let rows = sqlx::query(self.sql(&sql)).bind(id).fetch_all(&self.pool).await?;
        rows.iter().map(method).collect()
    }

    async fn users(&self) -> Result<Vec<UserRow>> {
        let sql = format!("{USERS} ORDER BY u.login");
        self.rows(&mut *self.pool.acquire().await?, &sql, user).await
    }

    async fn user(&self, login: &str) -> Result<UserRow> {
        let sql = format!("{USERS} WHERE u.login = ?");
        let row = sqlx::query(self.sql(&sql)).bind(login).fetch_optional(&self.pool).await?;
        row.as_ref()
            .map(user)
            .transpose()?
            .ok_or_else(|| StoreError::NotFound { what: "user", name: login.to_owned() })
    }

    async fn role(&self, caption: &str) -> Result<RoleRow> {
        let row = sqlx::query(
            self.sql("SELECT id, CAST(caption AS TEXT) FROM {users_types} WHERE caption = ?"),
        )
        .bind(caption)
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref()
            .map(role)
            .transpose()?
            .ok_or_else(|| StoreError::NotFound { what: "role", name: caption.to_owned() })
    }

    async fn sections(&self) -> Result<Vec<SectionRow>> {
        self.rows(&mut *self.pool.acquire().await?, SECTIONS, section).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.rows(&mut *self.pool.acquire().await?, TOKENS, token).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>> {
        self.rows(&mut *self.pool.acquire().await?, CREDENTIALS, credential).await
    }

    async fn upstreams(&self) -> Result<Vec<UpstreamRow>> {
        self.rows(&mut *self.pool.acquire().await?, UPSTREAMS, upstream).await
    }

    async fn settings(&self) -> Result<Vec<SettingRow>> {
        self.rows(&mut *self.pool.acquire().await?, SETTINGS, setting).await
    }

    async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let sql = "SELECT t.id, t.id_user, CAST(u.login AS TEXT), CAST(t.name AS TEXT),
            CAST(t.digest AS TEXT), CAST(t.created_at AS INTEGER), CAST(t.expires_at AS INTEGER),
            CAST(t.last_used_at AS INTEGER)
            FROM json_each(?) AS given JOIN callgate_tokens t ON t.digest = given.value
            LEFT JOIN {users} u ON u.id = t.id_user";
        let digests = serde_json::to_string(digests).unwrap_or_default();
        let rows = sqlx::query(self.sql(sql)).bind(digests).fetch_all(&self.pool).await?;
        rows.iter().map(token).collect()
    }

    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>> {
        let sql = "SELECT id, CAST(secret AS TEXT), created_at, active_from FROM callgate_keys
                   WHERE purpose = ? ORDER BY id DESC";
        let rows = sqlx::query(sql).bind(purpose).fetch_all(&self.pool).await?;
        let read = |row: &SqliteRow| {
            Ok(KeyRow {
                id: row.try_get(0)?,
                secret: row.try_get(1)?,
                created_at: row.try_get(2)?,
                active_from: row.try_get(3)?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>> {
        let sql = "SELECT number, CAST(session AS TEXT), CAST(message AS TEXT)
                   FROM callgate_messages WHERE number > ? ORDER BY number LIMIT 100";
        let rows = sqlx::query(sql).bind(number).fetch_all(&self.pool).await?;
        let read = |row: &SqliteRow| {
            Ok(MessageRow {
                number: row.try_get(0)?,
                session: row.try_get(1)?,
                message: row.try_get(2)?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>> {
        let sql = "SELECT CAST(nonce AS TEXT), number, ended, CAST(log_level AS TEXT),
                   CAST(subscriptions AS TEXT), ends_at FROM callgate_sessions
                   WHERE number > ? ORDER BY number LIMIT 10000";
        let rows = sqlx::query(sql).bind(number).fetch_all(&self.pool).await?;
        let read = |row: &SqliteRow| {
            Ok(SessionRow {
                nonce: row.try_get(0)?,
                number: row.try_get(1)?,
                ended: row.try_get(2)?,
                log_level: row.try_get(3)?,
                subscriptions: row.try_get(4)?,
                ends_at: row.try_get(5)?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn imports(&self) -> Result<Vec<ImportRow>> {
        let sql = "SELECT CAST(upstream AS TEXT), CAST(rpc_method AS TEXT), CAST(source AS TEXT),
                   CAST(written AS TEXT) FROM callgate_imports ORDER BY upstream, rpc_method";
        let read = |row: &SqliteRow| {
            Ok(ImportRow {
                upstream: text(row, 0)?,
                rpc_method: text(row, 1)?,
                source: text(row, 2)?,
                written: text(row, 3)?,
            })
        };
        self.rows(&mut *self.pool.acquire().await?, sql, read).await
    }

    async fn meta(&self, name: &str) -> Result<Option<String>> {
        let row = sqlx::query("SELECT value FROM callgate_meta WHERE name = ?")
            .bind(name)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}

async fn revisions(connection: &mut SqliteConnection) -> Result<Revisions> {
    let rows =
        sqlx::query("SELECT name, value FROM callgate_revisions").fetch_all(connection).await?;
    let mut revisions = Revisions::default();
    for row in rows {
        match row.try_get::<&str, _>(0)? {
            "catalog" => revisions.catalog = row.try_get(1)?,
            "access" => revisions.access = row.try_get(1)?,
            "tokens" => revisions.tokens = row.try_get(1)?,
            "keys" => revisions.keys = row.try_get(1)?,
            "sessions" => revisions.sessions = row.try_get(1)?,
            "messages" => revisions.messages = row.try_get(1)?,
            _ => {}
        }
    }
    Ok(revisions)
}

pub(super) fn method(row: &SqliteRow) -> Result<MethodRow> {
    let bytes: &[u8] = row.try_get_unchecked(1)?;
    let mut unreadable = None;
    let columns = match std::str::from_utf8(bytes) {
        Ok(text) => columns(text)?,
        Err(_) => {
            let columns = columns(&String::from_utf8_lossy(bytes))?;
            let is_broken = |text: &Option<String>| {
                text.as_ref().is_some_and(|text| text.contains(char::REPLACEMENT_CHARACTER))
            };
            let mut named = METHOD_COLUMNS.iter().zip(&columns);
            unreadable = named.find(|(_, text)| is_broken(text)).map(|(name, _)| name.to_string());
            columns
        }
    };
    let [
        rpc_method,
        plugin,
        method,
        params,
        params_types,
        description,
        sections,
        return_type,
        title,
        safety,
        annotations,
        exposed,
        upstream,
        tool_name,
        input_schema,
        output_schema,
        defaults,
        params_by,
    ] = columns;
    Ok(MethodRow {
        id: integer(row, 0)?,
        rpc_method: rpc_method.unwrap_or_default(),
        plugin,
        method,
        params,
        params_types,
        description,
        sections,
        return_type,
        title,
        safety,
        annotations,
        exposed,
        upstream,
        tool_name,
        input_schema,
        output_schema,
        defaults,
        params_by,
        unreadable,
    })
}

fn columns(json: &str) -> Result<[Option<String>; METHOD_COLUMNS.len()]> {
    serde_json::from_str(json).map_err(|error| sqlx::Error::Decode(error.into()).into())
}

fn section(row: &SqliteRow) -> Result<SectionRow> {
    Ok(SectionRow {
        id: integer(row, 0)?,
        caption: text(row, 1)?,
        ident: text(row, 2)?,
        mask: text(row, 3)?,
    })
}

fn user(row: &SqliteRow) -> Result<UserRow> {
    Ok(UserRow {
        id: integer(row, 0)?,
        login: text(row, 1)?,
        id_type: row.try_get_unchecked(2)?,
        role: optional_text(row, 3)?,
    })
}

fn role(row: &SqliteRow) -> Result<RoleRow> {
    Ok(RoleRow { id: integer(row, 0)?, caption: text(row, 1)? })
}

fn grant(row: &SqliteRow) -> Result<GrantRow> {
    Ok(GrantRow { id_section: integer(row, 0)?, id_holder: integer(row, 1)?, value: text(row, 2)? })
}

fn token(row: &SqliteRow) -> Result<TokenRow> {
    Ok(TokenRow {
        id: integer(row, 0)?,
        id_user: integer(row, 1)?,
        login: optional_text(row, 2)?,
        name: text(row, 3)?,
        digest: text(row, 4)?,
        created_at: row.try_get_unchecked(5)?,
        expires_at: row.try_get_unchecked(6)?,
        last_used_at: row.try_get_unchecked(7)?,
    })
}

fn credential(row: &SqliteRow) -> Result<CredentialRow> {
    Ok(CredentialRow {
        id_user: integer(row, 0)?,
        login: optional_text(row, 1)?,
        upstream: text(row, 2)?,
        secret: Secret::new(&text(row, 3)?),
        set_at: integer(row, 4)?,
    })
}

fn upstream(row: &SqliteRow) -> Result<UpstreamRow> {
    Ok(UpstreamRow { name: text(row, 0)?, config: text(row, 1)? })
}

fn setting(row: &SqliteRow) -> Result<SettingRow> {
    Ok(SettingRow { name: text(row, 0)?, value: text(row, 1)? })
}

/// SQLite converts what is not an integer rather than failing.
fn integer(row: &SqliteRow, index: usize) -> Result<i64> {
    Ok(row.try_get_unchecked(index)?)
}

/// Bytes that are not text are shown as such, not an error of the whole.
pub(super) fn optional_text(row: &SqliteRow, index: usize) -> Result<Option<String>> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(index)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

fn text(row: &SqliteRow, index: usize) -> Result<String> {
    Ok(optional_text(row, index)?.unwrap_or_default())
}
