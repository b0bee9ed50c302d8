//! Operations of a running server.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use callgate::Secret;

use super::load::TOKENS;
use super::{MAX_CHANGED, SqlStore, listed};
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
        let mut own = ChangeCounters::default();
        for mut row in self.database.rows("SELECT name, value FROM callgate_revisions", &[]).await?
        {
            let (name, value) = (row.text(), row.int()?);
            match name.as_str() {
                "catalog" => own.catalog = value,
                "access" => own.access = value,
                "tokens" => own.tokens = value,
                "keys" => own.keys = value,
                "sessions" => own.sessions = value,
                "messages" => own.messages = value,
                _ => {}
            }
        }
        self.festi.as_ref().map_or(Ok(own), |festi| Ok(festi.change_counters(own)?))
    }

    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let own = retry(MAX_READS, is_conflict, || self.own_catalog_rows()).await?;
        let Some(festi) = &self.festi else { return Ok(own) };
        Ok(festi.catalog_rows(own).await?)
    }

    async fn access_rows(&self) -> Result<AccessRows> {
        let own = retry(MAX_READS, is_conflict, || self.own_access_rows()).await?;
        let Some(festi) = &self.festi else { return Ok(own) };
        Ok(festi.access_rows(own).await?)
    }

    async fn tokens_by_digest(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        let mut found = match &self.festi {
            Some(festi) => festi.tokens_by_digest(digests).await?,
            None => Vec::new(),
        };
        for part in digests.chunks(self.dialect().most_listed()) {
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
                () = festi.site.watch.changed() => {}
            },
            None => self.database.driver.changed().await,
        }
    }

    fn statements(&self) -> u64 {
        self.database.statements()
            + self.festi.as_ref().map_or(0, |festi| festi.site.festi.statements())
    }

    fn age(&self) -> Duration {
        self.festi.as_ref().map(|festi| festi.site.watch.age()).unwrap_or_default()
    }

    async fn ensure_sections(&self, idents: &[String]) -> Result<()> {
        // Most starts find all sections and do not have to wait for writers.
        let known = self.database.rows("SELECT {text ident} FROM {sections}", &[]).await?;
        let known: Vec<String> = known.into_iter().map(|mut row| row.text()).collect();
        if idents.iter().all(|ident| known.contains(ident)) {
            return Ok(());
        }
        let mut work = self.database.begin(Purpose::Write).await?;
        for ident in idents {
            work.ensure_section(ident, ident, 6.into()).await?;
        }
        Ok(work.commit().await?)
    }

    async fn store_tool_names(&self, names: &[(i64, String)]) -> Result<Option<(i64, i64)>> {
        // Methods of an attached database have negative ids; their names are stored in overlays.
        let (festis, own): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|(id, _)| *id < 0);
        let mut raised = None;
        for part in own.chunks(MAX_CHANGED) {
            // Another program may lock the rows before the counters, which can cause a deadlock.
            let (before, after) = retry_deadlocks(|| self.name_tools(part)).await?;
            let (first, last) = raised.unwrap_or((before, before));
            if last != before {
                // The next catalog assigns the remaining names.
                return Ok(None);
            }
            raised = Some((first, after));
        }
        let Some(festi) = &self.festi else { return Ok(raised) };
        if !festis.is_empty() {
            self.add_missing_methods(&festi.named_tools(festis).await?).await?;
            return Ok(None);
        }
        let combined = |catalog| {
            let own = ChangeCounters { catalog, ..ChangeCounters::default() };
            festi.change_counters(own).ok().map(|both| both.catalog)
        };
        Ok(raised.and_then(|(before, after)| combined(before).zip(combined(after))))
    }

    async fn record_token_uses(&self, uses: &[(i64, i64)]) -> Result<()> {
        let mut last = BTreeMap::new();
        // Tokens of an attached database have negative ids; their uses are not recorded.
        for (id, at) in uses.iter().filter(|(id, _)| *id >= 0) {
            let last = last.entry(*id).or_insert(*at);
            *last = (*at).max(*last);
        }
        // Each use is bound five times.
        let most = MAX_CHANGED.min(self.dialect().most_listed() / 5);
        let uses: Vec<(i64, i64)> = last.into_iter().collect();
        for part in uses.chunks(most) {
            retry_deadlocks(|| self.touch_tokens(part)).await?;
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
        let mut work = self.database.begin(Purpose::Write).await?;
        let select =
            "SELECT {text secret} FROM callgate_credentials WHERE id_user = ? AND upstream = ?";
        let found = work.row(select, &keys).await?.and_then(|mut row| Secret::new(&row.text()));
        // Compared in this process, because databases compare texts differently.
        if found.as_ref() != Some(old) {
            return Ok(found.as_ref() == Some(new));
        }
        let [id_user, upstream] = keys;
        let change =
            "UPDATE callgate_credentials SET secret = ? WHERE id_user = ? AND upstream = ?";
        work.run(change, &[new.expose().into(), id_user, upstream]).await?;
        work.commit().await?;
        Ok(true)
    }

    async fn add_key(&self, key: &NewKey) -> Result<bool> {
        let mut work = self.database.begin(Purpose::Keys).await?;
        let select = "SELECT {seconds created_at} FROM callgate_keys WHERE purpose = ?
                    ORDER BY id DESC {limit 1}";
        let newest = work.row(select, &[(&key.purpose).into()]).await?;
        let newest = newest.map(|mut row| row.int()).transpose()?;
        let now = work.number("SELECT {seconds now}", &[]).await?;
        let is_old = |newest| key.min_age.is_some_and(|age| now.saturating_sub(newest) >= age);
        if newest.is_some_and(|newest| !is_old(newest)) {
            return Ok(false);
        }
        let active_from = if newest.is_none() { 0 } else { now.saturating_add(key.signs_in) };
        let template = "INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
                        VALUES (?, ?, {at}, {at})";
        let (created_at, active_from) = (Value::time(now), Value::time(active_from));
        let values = [(&key.purpose).into(), (&key.secret).into(), created_at, active_from];
        work.run(template, &values).await?;
        work.commit().await?;
        Ok(true)
    }

    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()> {
        let template = "DELETE FROM callgate_keys WHERE purpose = ? AND id < ?";
        let mut work = self.database.begin(Purpose::Keys).await?;
        work.run(template, &[purpose.into(), id.into()]).await?;
        Ok(work.commit().await?)
    }

    async fn post_message(&self, session: &str, message: &str) -> Result<()> {
        let mut work = self.database.begin(Purpose::Note).await?;
        let number = work.next_number("messages").await?;
        let template = "INSERT INTO callgate_messages (number, session, message, posted_at)
                        VALUES (?, ?, ?, {now})";
        work.run(template, &[number.into(), session.into(), message.into()]).await?;
        Ok(work.commit().await?)
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
        let mut work = self.database.begin(Purpose::Note).await?;
        // Increments the counter first, so that other writers of sessions wait.
        let number = work.next_number("sessions").await?;
        let select = format!("{SESSIONS} WHERE nonce = ?");
        let old =
            work.row(&select, &[nonce.into()]).await?.map(SessionRow::from_row).transpose()?;
        let empty = SessionRow { nonce: nonce.to_owned(), ends_at, ..SessionRow::default() };
        let mut row = old.unwrap_or(empty);
        let has_ended = row.ended;
        change(&mut row);
        row.ended |= has_ended;
        row.number = number;
        work.upsert(&Upsert {
            table: "callgate_sessions",
            keys: &[("nonce", nonce.into())],
            columns: &[
                ("number", number.into()),
                ("ended", row.ended.into()),
                ("log_level", (&row.log_level).into()),
                ("subscriptions", Value::Json(row.subscriptions.as_deref()).into()),
            ],
            once: &[("ends_at", Value::time(ends_at).into())],
        })
        .await?;
        work.commit().await?;
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

    async fn delete_sessions(&self, now: i64, most: i64) -> Result<()> {
        let template = "DELETE FROM callgate_sessions WHERE ends_at <= {at}";
        self.database.rows(template, &[Value::time(now)]).await?;
        let one = self.dialect().limit(1, most.max(0));
        let select = format!("SELECT number FROM callgate_sessions ORDER BY number DESC {one}");
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
        let mut work = self.database.begin(Purpose::Note).await?;
        let now = work.number("SELECT {seconds now}", &[]).await?;
        work.upsert(&Upsert {
            table: "callgate_servers",
            keys: &[("server", server.into())],
            columns: &[("expires_at", Value::time(now.saturating_add(seconds)).into())],
            once: &[],
        })
        .await?;
        work.commit().await?;
        Ok(now)
    }

    /// Sets the tool names of rows that have none. Returns the catalog's change counter before and after.
    async fn name_tools(&self, names: &[(i64, String)]) -> db::Result<(i64, i64)> {
        let (list, ids) = listed(names.iter().map(|(id, _)| *id));
        let cases = vec!["WHEN ? THEN ?"; names.len()].join(" ");
        let template = format!(
            "UPDATE {{rpc_methods}} SET tool_name = CASE id {cases} END
             WHERE id IN ({list}) AND tool_name IS NULL"
        );
        let pairs = names.iter().flat_map(|(id, name)| [Value::from(*id), name.into()]);
        let values: Vec<Value<'_>> = pairs.chain(ids).collect();
        let mut work = self.database.begin(Purpose::Write).await?;
        let before = work.change_counter("catalog").await?;
        work.run(&template, &values).await?;
        let after = work.change_counter("catalog").await?;
        work.commit().await?;
        Ok((before, after))
    }

    /// Records uses of tokens, unless a later use is already stored.
    async fn touch_tokens(&self, uses: &[(i64, i64)]) -> db::Result<()> {
        let time = format!("CASE id {} END", vec!["WHEN ? THEN {at}"; uses.len()].join(" "));
        let pairs = uses.iter().flat_map(|(id, at)| [Value::from(*id), Value::time(*at)]);
        let pairs: Vec<Value<'_>> = pairs.collect();
        let (list, ids) = listed(uses.iter().map(|(id, _)| *id));
        let template = format!(
            "UPDATE callgate_tokens SET last_used_at = {time}
             WHERE (last_used_at IS NULL OR last_used_at < {time}) AND id IN ({list})"
        );
        let mut work = self.database.begin(Purpose::Note).await?;
        work.lock_tokens(&list, &ids).await?;
        work.run(&template, &[&pairs[..], &pairs, &ids].concat()).await?;
        work.commit().await
    }
}
