//! Operations of a running server.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use callgate::Secret;

use super::load::TOKENS;
use super::{MAX_CHANGED, SqlStore, in_list};
use crate::db::database::{FromRow as _, Purpose, Value};
use crate::db::dialect::Upsert;
use crate::db::error as db;
use crate::db::pool::{retry, retry_deadlocks};
use crate::rows::{
    AccessRows, CatalogRows, ChangeCounters, KeyRow, MessageRow, SessionRow, TokenRow,
};
use crate::store::{NewKey, Store, UpdateSession};
use crate::store::{Result, StoreError};

/// Maximum number of attempts to read consistent rows from a database without snapshots.
const MAX_READS: usize = 10;

const SESSIONS: &str = "SELECT {text nonce}, number, {int ended}, {text log_level},
    {text subscriptions}, {seconds ends_at} FROM callgate_sessions";

#[async_trait]
impl Store for SqlStore {
    async fn change_counters(&self) -> Result<ChangeCounters> {
        self.database.driver.check()?;
        let mut counters = ChangeCounters::default();
        for mut row in self.database.rows("SELECT name, value FROM callgate_revisions", &[]).await?
        {
            let (name, value) = (row.text(), row.int()?);
            match name.as_str() {
                "catalog" => counters.catalog = value,
                "access" => counters.access = value,
                "tokens" => counters.tokens = value,
                "keys" => counters.keys = value,
                "sessions" => counters.sessions = value,
                "messages" => counters.messages = value,
                _ => {}
            }
        }
        self.festi.as_ref().map_or(Ok(counters), |festi| Ok(festi.change_counters(counters)?))
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let rows = retry(MAX_READS, is_conflict, || self.registry_catalog_rows()).await?;
        let Some(festi) = &self.festi else { return Ok(rows) };
        Ok(festi.catalog_rows(rows).await?)
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        let rows = retry(MAX_READS, is_conflict, || self.registry_access_rows()).await?;
        let Some(festi) = &self.festi else { return Ok(rows) };
        Ok(festi.access_rows(rows).await?)
    }

    async fn tokens_by_digest(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let mut found = match &self.festi {
            Some(festi) => festi.tokens_by_digest(digests).await?,
            None => Vec::new(),
        };
        for part in digests.chunks(self.dialect().max_list_len()) {
            let list = vec!["?"; part.len()].join(", ");
            let template = format!("{TOKENS} WHERE t.digest IN ({list})");
            let values: Vec<Value<'_>> = part.iter().map(Value::from).collect();
            found.extend(self.read::<TokenRow>(&template, &values).await?);
        }
        Ok(found)
    }

    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>> {
        let template = "SELECT id, {text secret}, {seconds created_at}, {seconds active_from}
                        FROM callgate_keys WHERE purpose = ? ORDER BY id DESC";
        self.read(template, &[purpose.into()]).await
    }

    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>> {
        let template = "SELECT number, {text session}, {text message} FROM callgate_messages
                        WHERE number > ? ORDER BY number {limit 100}";
        self.read(template, &[number.into()]).await
    }

    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>> {
        let template = format!("{SESSIONS} WHERE number > ? ORDER BY number {{limit 10000}}");
        self.read(&template, &[number.into()]).await
    }

    async fn changed(&self) {
        match &self.festi {
            Some(festi) => tokio::select! {
                () = self.database.driver.changed() => {}
                () = festi.poller.state.changed() => {}
            },
            None => self.database.driver.changed().await,
        }
    }

    fn statements(&self) -> u64 {
        self.database.statements()
            + self.festi.as_ref().map_or(0, |festi| festi.poller.festi.statements())
    }

    fn age(&self) -> Duration {
        self.festi.as_ref().map(|festi| festi.poller.state.age()).unwrap_or_default()
    }

    async fn ensure_sections(&self, idents: &[String]) -> Result<()> {
        // Most starts find all sections and do not have to wait for writers.
        let existing = self.database.rows("SELECT {text ident} FROM {sections}", &[]).await?;
        let existing: Vec<String> = existing.into_iter().map(|mut row| row.text()).collect();
        if idents.iter().all(|ident| existing.contains(ident)) {
            return Ok(());
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        for ident in idents {
            transaction.ensure_section(ident, ident, 6.into()).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn store_tool_names(&self, names: &[(i64, String)]) -> Result<Option<(i64, i64)>> {
        // Methods of an attached database have negative ids; their names are stored in overlays.
        let (festi_names, registry_names): (Vec<_>, Vec<_>) =
            names.iter().cloned().partition(|(id, _)| *id < 0);
        let mut change_counters = None;
        for part in registry_names.chunks(MAX_CHANGED) {
            // Another program may lock the rows before the counters, which can cause a deadlock.
            let (before, after) = retry_deadlocks(|| self.write_tool_names(part)).await?;
            let (first, last) = change_counters.unwrap_or((before, before));
            if last != before {
                // The next catalog assigns the remaining names.
                return Ok(None);
            }
            change_counters = Some((first, after));
        }
        let Some(festi) = &self.festi else { return Ok(change_counters) };
        if !festi_names.is_empty() {
            self.add_missing_methods(&festi.tool_name_overlays(festi_names).await?).await?;
            return Ok(None);
        }
        let combined = |catalog| {
            let counters = ChangeCounters { catalog, ..ChangeCounters::default() };
            festi.change_counters(counters).ok().map(|counters| counters.catalog)
        };
        Ok(change_counters.and_then(|(before, after)| combined(before).zip(combined(after))))
    }

    async fn record_token_uses(&self, uses: &[(i64, i64)]) -> Result<()> {
        let mut last = BTreeMap::new();
        // Tokens of an attached database have negative ids; their uses are not recorded.
        for (id, at) in uses.iter().filter(|(id, _)| *id >= 0) {
            let last = last.entry(*id).or_insert(*at);
            *last = (*at).max(*last);
        }
        // Each use is bound five times.
        let max = MAX_CHANGED.min(self.dialect().max_list_len() / 5);
        let uses: Vec<(i64, i64)> = last.into_iter().collect();
        for part in uses.chunks(max) {
            retry_deadlocks(|| self.write_token_uses(part)).await?;
        }
        Ok(())
    }

    async fn replace_credential(
        &self,
        id_user: i64,
        upstream: &str,
        old: &Secret,
        new: &Secret,
    ) -> Result<bool> {
        let keys = [id_user.into(), upstream.into()];
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let select =
            "SELECT {text secret} FROM callgate_credentials WHERE id_user = ? AND upstream = ?";
        let found =
            transaction.row(select, &keys).await?.and_then(|mut row| Secret::new(&row.text()));
        // Compared in this process, because databases compare texts differently.
        if found.as_ref() != Some(old) {
            return Ok(found.as_ref() == Some(new));
        }
        let [id_user, upstream] = keys;
        let change =
            "UPDATE callgate_credentials SET secret = ? WHERE id_user = ? AND upstream = ?";
        transaction.run(change, &[new.expose().into(), id_user, upstream]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn add_key(&self, key: &NewKey) -> Result<bool> {
        let mut transaction = self.database.begin(Purpose::Keys).await?;
        let select = "SELECT {seconds created_at} FROM callgate_keys WHERE purpose = ?
                    ORDER BY id DESC {limit 1}";
        let newest = transaction.row(select, &[(&key.purpose).into()]).await?;
        let newest = newest.map(|mut row| row.int()).transpose()?;
        let now = transaction.number("SELECT {seconds now}", &[]).await?;
        let is_old = |newest| key.min_age.is_some_and(|age| now.saturating_sub(newest) >= age);
        if newest.is_some_and(|newest| !is_old(newest)) {
            return Ok(false);
        }
        let active_from = if newest.is_none() { 0 } else { now.saturating_add(key.active_in) };
        let template = "INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
                        VALUES (?, ?, {at}, {at})";
        let (created_at, active_from) = (Value::time(now), Value::time(active_from));
        let values = [(&key.purpose).into(), (&key.secret).into(), created_at, active_from];
        transaction.run(template, &values).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()> {
        let template = "DELETE FROM callgate_keys WHERE purpose = ? AND id < ?";
        let mut transaction = self.database.begin(Purpose::Keys).await?;
        transaction.run(template, &[purpose.into(), id.into()]).await?;
        Ok(transaction.commit().await?)
    }

    async fn post_message(&self, session: &str, message: &str) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::WriteUnlocked).await?;
        let number = transaction.next_number("messages").await?;
        let template = "INSERT INTO callgate_messages (number, session, message, posted_at)
                        VALUES (?, ?, ?, {now})";
        transaction.run(template, &[number.into(), session.into(), message.into()]).await?;
        Ok(transaction.commit().await?)
    }

    async fn delete_messages(&self, age: i64) -> Result<()> {
        let row = self.database.rows("SELECT {seconds now}", &[]).await?.into_iter().next();
        let Some(now) = row.map(|mut row| row.int()).transpose()? else { return Ok(()) };
        let template = "DELETE FROM callgate_messages WHERE posted_at < {at}";
        self.database.rows(template, &[Value::time(now.saturating_sub(age))]).await?;
        Ok(())
    }

    async fn update_session(
        &self,
        nonce: &str,
        ends_at: i64,
        change: &UpdateSession<'_>,
    ) -> Result<SessionRow> {
        let mut transaction = self.database.begin(Purpose::WriteUnlocked).await?;
        // Increments the counter first, so that other writers of sessions wait.
        let number = transaction.next_number("sessions").await?;
        let select = format!("{SESSIONS} WHERE nonce = ?");
        let old = transaction
            .row(&select, &[nonce.into()])
            .await?
            .map(SessionRow::from_row)
            .transpose()?;
        let empty = SessionRow { nonce: nonce.to_owned(), ends_at, ..SessionRow::default() };
        let mut row = old.unwrap_or(empty);
        let has_ended = row.ended;
        change(&mut row);
        row.ended |= has_ended;
        row.number = number;
        transaction
            .upsert(&Upsert {
                table: "callgate_sessions",
                keys: &[("nonce", nonce.into())],
                columns: &[
                    ("number", number.into()),
                    ("ended", row.ended.into()),
                    ("log_level", (&row.log_level).into()),
                    ("subscriptions", Value::Json(row.subscriptions.as_deref()).into()),
                ],
                insert_only: &[("ends_at", Value::time(ends_at).into())],
            })
            .await?;
        transaction.commit().await?;
        Ok(row)
    }

    async fn renew_lease(&self, server: &str, seconds: i64) -> Result<u32> {
        let now = retry_deadlocks(|| self.write_lease(server, seconds)).await?;
        // The leases are counted after the transaction. Inside it, SQL Server would wait for rows that other servers
        // are writing.
        let count = "SELECT COUNT(*) FROM callgate_servers WHERE expires_at > {at}";
        let row = self.database.rows(count, &[Value::time(now)]).await?.into_iter().next();
        let servers = row.map(|mut row| row.int()).transpose()?.unwrap_or_default();
        Ok(u32::try_from(servers).unwrap_or(u32::MAX))
    }

    async fn delete_leases(&self) -> Result<()> {
        let template = "DELETE FROM callgate_servers WHERE expires_at < {now}";
        self.database.rows(template, &[]).await?;
        Ok(())
    }

    async fn delete_sessions(&self, now: i64, max: i64) -> Result<()> {
        let template = "DELETE FROM callgate_sessions WHERE ends_at <= {at}";
        self.database.rows(template, &[Value::time(now)]).await?;
        let limit = self.dialect().limit(1, max.max(0));
        let select = format!("SELECT number FROM callgate_sessions ORDER BY number DESC {limit}");
        let Some(mut row) = self.database.rows(&select, &[]).await?.into_iter().next() else {
            return Ok(());
        };
        let template = "DELETE FROM callgate_sessions WHERE number <= ?";
        self.database.rows(template, &[row.int()?.into()]).await?;
        Ok(())
    }
}

/// Returns `true` if another program changed the rows while they were read.
fn is_conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict)
}

impl SqlStore {
    /// Writes the lease. Returns the current time of the database.
    async fn write_lease(&self, server: &str, seconds: i64) -> db::Result<i64> {
        let mut transaction = self.database.begin(Purpose::WriteUnlocked).await?;
        let now = transaction.number("SELECT {seconds now}", &[]).await?;
        transaction
            .upsert(&Upsert {
                table: "callgate_servers",
                keys: &[("server", server.into())],
                columns: &[("expires_at", Value::time(now.saturating_add(seconds)).into())],
                insert_only: &[],
            })
            .await?;
        transaction.commit().await?;
        Ok(now)
    }

    /// Sets the tool names of rows that have none. Returns the catalog's change counter before and after.
    async fn write_tool_names(&self, names: &[(i64, String)]) -> db::Result<(i64, i64)> {
        let (list, ids) = in_list(names.iter().map(|(id, _)| *id));
        let cases = vec!["WHEN ? THEN ?"; names.len()].join(" ");
        let template = format!(
            "UPDATE {{rpc_methods}} SET tool_name = CASE id {cases} END
             WHERE id IN ({list}) AND tool_name IS NULL"
        );
        let pairs = names.iter().flat_map(|(id, name)| [Value::from(*id), name.into()]);
        let values: Vec<Value<'_>> = pairs.chain(ids).collect();
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let before = transaction.change_counter("catalog").await?;
        transaction.run(&template, &values).await?;
        let after = transaction.change_counter("catalog").await?;
        transaction.commit().await?;
        Ok((before, after))
    }

    /// Records uses of tokens, unless a later use is already stored.
    async fn write_token_uses(&self, uses: &[(i64, i64)]) -> db::Result<()> {
        let time = format!("CASE id {} END", vec!["WHEN ? THEN {at}"; uses.len()].join(" "));
        let pairs = uses.iter().flat_map(|(id, at)| [Value::from(*id), Value::time(*at)]);
        let pairs: Vec<Value<'_>> = pairs.collect();
        let (list, ids) = in_list(uses.iter().map(|(id, _)| *id));
        let template = format!(
            "UPDATE callgate_tokens SET last_used_at = {time}
             WHERE (last_used_at IS NULL OR last_used_at < {time}) AND id IN ({list})"
        );
        let mut transaction = self.database.begin(Purpose::WriteUnlocked).await?;
        transaction.lock_tokens(&list, &ids).await?;
        transaction.run(&template, &[&pairs[..], &pairs, &ids].concat()).await?;
        transaction.commit().await
    }
}
