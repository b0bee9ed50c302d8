//! What reads.

use async_trait::async_trait;

use super::read;
use super::{SqlStore, Work};
use crate::rows::{
    AccessRows, CatalogRows, CredentialRow, ImportRow, KeyRow, MessageRow, MethodRow, Revisions,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, UpstreamRow, UserRow,
};
use crate::sql::{Dialect, Purpose, Row, Value};
use crate::store::{Load, Result, StoreError};

/// So often is everything read anew, where others write meanwhile and the database shows half of it.
const MAX_READS: usize = 10;

const REVISIONS: &str = "SELECT name, value FROM callgate_revisions";

const SECTIONS: &str = "SELECT id, {text caption}, {text ident}, {text mask}
    FROM {sections} ORDER BY ident";

const ACTIONS: &str = "SELECT {int id_section}, {text plugin}, {text method}, {text mask}
    FROM {section_actions} ORDER BY id";

const TYPES: &str = "SELECT {text name}, {text fields}, {name schema}
    FROM callgate_types ORDER BY name";

const USERS: &str = "SELECT u.id, {text u.login}, {int u.id_type}, {text t.caption}
    FROM {users} u LEFT JOIN {users_types} t ON t.id = u.id_type";

const ROLES: &str = "SELECT id, {text caption} FROM {users_types}";

const TOKENS: &str = "SELECT t.id, {int t.id_user}, {text u.login}, {text t.name}, {text t.digest},
    {seconds t.created_at}, {seconds t.expires_at}, {seconds t.last_used_at}
    FROM callgate_tokens t LEFT JOIN {users} u ON u.id = t.id_user";

const CREDENTIALS: &str = "SELECT {int c.id_user}, {text u.login}, {text c.upstream},
    {text c.secret}, {seconds c.set_at}
    FROM callgate_credentials c LEFT JOIN {users} u ON u.id = c.id_user
    ORDER BY c.upstream, u.login, c.id_user";

const UPSTREAMS: &str = "SELECT {text name}, {text config} FROM callgate_upstreams ORDER BY name";

const SETTINGS: &str = "SELECT {text name}, {text value} FROM {settings} ORDER BY name";

const USER_GRANTS: &str =
    "SELECT {int id_section}, {int id_user}, {text value} FROM {sections_user_permission}";

const ROLE_GRANTS: &str = "SELECT {int id_section}, {int id_user_type}, {text value}
    FROM {sections_user_types_permission}";

/// The template that reads methods; a condition and an order may follow.
pub(super) fn methods(dialect: Dialect) -> String {
    let columns: Vec<_> = MethodRow::column_names().collect();
    format!("SELECT id, {} FROM {{rpc_methods}}", dialect.columns(&columns))
}

impl SqlStore {
    async fn read<T>(
        &self,
        template: &str,
        values: &[Value<'_>],
        read: impl Fn(Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.rows(template, values).await?.into_iter().map(read).collect()
    }

    /// The one row of that name.
    async fn named<T>(
        &self,
        template: &str,
        (what, name): (&'static str, &str),
        read: impl Fn(Row) -> Result<T>,
    ) -> Result<T> {
        let found = self.read(template, &[name.into()], read).await?.into_iter().next();
        found.ok_or_else(|| StoreError::NotFound { what, name: name.to_owned() })
    }

    /// Tokens in a list that is not too long for a statement.
    async fn some_tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let list = vec!["?"; digests.len()].join(", ");
        let values: Vec<Value<'_>> = digests.iter().map(Value::from).collect();
        self.read(&format!("{TOKENS} WHERE t.digest IN ({list})"), &values, read::token).await
    }
}

impl Work<'_> {
    pub(super) async fn read<T>(
        &mut self,
        template: &str,
        read: impl Fn(Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.rows(template, &[]).await?.into_iter().map(read).collect()
    }

    pub(super) async fn all_methods(&mut self) -> Result<Vec<MethodRow>> {
        let dialect = self.dialect();
        let template = format!("{} ORDER BY id", methods(dialect));
        self.read(&template, |row| read::method(dialect, row)).await
    }

    async fn catalog_rows(&mut self) -> Result<CatalogRows> {
        Ok(CatalogRows {
            revision: self.revision("catalog").await?,
            methods: self.all_methods().await?,
            sections: self.read(SECTIONS, read::section).await?,
            actions: self.read(ACTIONS, read::action).await?,
            types: self.read(TYPES, read::class).await?,
            upstreams: self.read(UPSTREAMS, read::upstream).await?,
            settings: self.read(SETTINGS, read::setting).await?,
        })
    }

    async fn access_rows(&mut self) -> Result<AccessRows> {
        Ok(AccessRows {
            revision: self.revision("access").await?,
            users: self.read(USERS, read::user).await?,
            roles: self.read(&format!("{ROLES} ORDER BY id"), read::role).await?,
            sections: self.read(SECTIONS, read::section).await?,
            user_grants: self.read(USER_GRANTS, read::grant).await?,
            role_grants: self.read(ROLE_GRANTS, read::grant).await?,
            credentials: self.read(CREDENTIALS, read::credential).await?,
            settings: self.read(SETTINGS, read::setting).await?,
        })
    }

    /// Whether what was read is of one moment, as the counter shows.
    async fn is_one_moment(&mut self, counter: &str, revision: i64) -> Result<bool> {
        Ok(self.dialect().reads_one_moment() || self.revision(counter).await? == revision)
    }
}

#[async_trait]
impl Load for SqlStore {
    async fn revisions(&self) -> Result<Revisions> {
        self.database.check()?;
        read::revisions(self.rows(REVISIONS, &[]).await?)
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        for _ in 0..MAX_READS {
            let mut moment = self.begin(Purpose::Read).await?;
            let rows = moment.catalog_rows().await?;
            if moment.is_one_moment("catalog", rows.revision).await? {
                return Ok(rows);
            }
        }
        Err(StoreError::Moved)
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        for _ in 0..MAX_READS {
            let mut moment = self.begin(Purpose::Read).await?;
            let rows = moment.access_rows().await?;
            if moment.is_one_moment("access", rows.revision).await? {
                return Ok(rows);
            }
        }
        Err(StoreError::Moved)
    }

    async fn methods_with_id(&self, id: &str) -> Result<Vec<MethodRow>> {
        let dialect = self.dialect();
        let template = format!("{} WHERE rpc_method = ? ORDER BY id", methods(dialect));
        self.read(&template, &[id.into()], |row| read::method(dialect, row)).await
    }

    async fn users(&self) -> Result<Vec<UserRow>> {
        self.read(&format!("{USERS} ORDER BY u.login"), &[], read::user).await
    }

    async fn user(&self, login: &str) -> Result<UserRow> {
        self.named(&format!("{USERS} WHERE u.login = ?"), ("user", login), read::user).await
    }

    async fn role(&self, caption: &str) -> Result<RoleRow> {
        self.named(&format!("{ROLES} WHERE caption = ?"), ("role", caption), read::role).await
    }

    async fn sections(&self) -> Result<Vec<SectionRow>> {
        self.read(SECTIONS, &[], read::section).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.read(&format!("{TOKENS} ORDER BY t.id"), &[], read::token).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>> {
        self.read(CREDENTIALS, &[], read::credential).await
    }

    async fn upstreams(&self) -> Result<Vec<UpstreamRow>> {
        self.read(UPSTREAMS, &[], read::upstream).await
    }

    async fn settings(&self) -> Result<Vec<SettingRow>> {
        self.read(SETTINGS, &[], read::setting).await
    }

    async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let mut found = Vec::new();
        for part in digests.chunks(self.dialect().most_listed()) {
            found.extend(self.some_tokens_with(part).await?);
        }
        Ok(found)
    }

    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>> {
        let template = "SELECT id, {text secret}, {seconds created_at}, {seconds active_from}
                        FROM callgate_keys WHERE purpose = ? ORDER BY id DESC";
        self.read(template, &[purpose.into()], read::key).await
    }

    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>> {
        let template = "SELECT number, {text session}, {text message} FROM callgate_messages
                        WHERE number > ? ORDER BY number {limit 100}";
        self.read(template, &[number.into()], read::message).await
    }

    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>> {
        let template = "SELECT {text nonce}, number, {int ended}, {text log_level},
                        {text subscriptions}, {seconds ends_at} FROM callgate_sessions
                        WHERE number > ? ORDER BY number {limit 10000}";
        self.read(template, &[number.into()], read::session).await
    }

    async fn imports(&self) -> Result<Vec<ImportRow>> {
        let template = "SELECT {text upstream}, {text rpc_method}, {text source}, {text written}
                        FROM callgate_imports ORDER BY upstream, rpc_method";
        self.read(template, &[], read::import).await
    }

    async fn meta(&self, name: &str) -> Result<Option<String>> {
        let template = "SELECT value FROM callgate_meta WHERE name = ?";
        let rows = self.rows(template, &[name.into()]).await?;
        Ok(rows.into_iter().next().and_then(|mut row| row.optional_text()))
    }

    async fn changed(&self) {
        self.database.changed().await;
    }

    fn statements(&self) -> u64 {
        self.database.statements()
    }
}
