//! What writes. Each operation is one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use callgate::{Mask, Secret};

use super::{MAX_CHANGED, SqlStore, Work, read};
use crate::dialect::{Put, Upsert};
use crate::rows::{MethodRow, SessionRow, UpstreamRow};
use crate::sql::{Purpose, Value};
use crate::store::{ChangeSession, Edit, Holder, Import, NewKey, NewToken, Result, StoreError};
use crate::turns::again;

#[async_trait]
impl Edit for SqlStore {
    async fn add_method(&self, row: &MethodRow, needs: &[(String, Mask)]) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        if work.has_method(&row.rpc_method).await? {
            return Err(StoreError::Exists { what: "method", name: row.rpc_method.clone() });
        }
        work.insert_method(row, needs).await?;
        work.commit().await
    }

    async fn add_absent_methods(&self, rows: &[MethodRow]) -> Result<()> {
        for part in rows.chunks(MAX_CHANGED) {
            let mut work = self.begin(Purpose::Write).await?;
            for row in part {
                if !work.has_method(&row.rpc_method).await? {
                    work.insert_method(row, &[]).await?;
                }
            }
            work.commit().await?;
        }
        Ok(())
    }

    async fn update_method(&self, row: &MethodRow, needs: Option<&[(String, Mask)]>) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.rewrite_method(row, needs).await?;
        work.commit().await
    }

    async fn remove_method(&self, id: &str) -> Result<u64> {
        let mut work = self.begin(Purpose::Write).await?;
        let gone = work.remove_methods(|row| row.rpc_method == id).await?;
        if gone == 0 {
            return Err(StoreError::NotFound { what: "method", name: id.to_owned() });
        }
        work.run("DELETE FROM callgate_imports WHERE rpc_method = ?", &[id.into()]).await?;
        work.commit().await?;
        Ok(gone)
    }

    async fn import(&self, import: &Import) -> Result<()> {
        self.write_import(import).await
    }

    async fn remember_tool_names(&self, names: &[(i64, String)]) -> Result<()> {
        for part in names.chunks(MAX_CHANGED) {
            // Another program that changes methods has their rows before the counters.
            again(|| self.name_some_tools(part)).await?;
        }
        Ok(())
    }

    async fn add_user(&self, login: &str, role: Option<&str>) -> Result<i64> {
        let mut work = self.begin(Purpose::Write).await?;
        let id = work.add_user(login, role).await?;
        work.commit().await?;
        Ok(id)
    }

    async fn add_section(&self, ident: &str, caption: &str, mask: Mask) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.add_section(ident, caption, mask.value().into()).await?;
        work.commit().await
    }

    async fn ensure_sections(&self, idents: &[String]) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        for ident in idents {
            work.ensure_section(ident, ident, 6.into()).await?;
        }
        work.commit().await
    }

    async fn grant(&self, holder: Holder, section: &str, mask: Mask) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.grant(holder, section, mask).await?;
        work.commit().await
    }

    async fn add_token(&self, token: &NewToken) -> Result<i64> {
        let template = "INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
                        VALUES (?, ?, ?, {now}, {at})";
        let values = [
            token.id_user.into(),
            (&token.name).into(),
            (&token.digest).into(),
            Value::time(token.expires_at),
        ];
        let mut work = self.begin(Purpose::Tokens).await?;
        work.run(template, &values).await?;
        let id = work.id("SELECT id FROM callgate_tokens WHERE digest = ?", &token.digest).await?;
        work.commit().await?;
        Ok(id)
    }

    async fn revoke_token(&self, id: i64) -> Result<()> {
        let gone = again(|| self.revoke_where("id = ?", id.into())).await?;
        if gone == 0 {
            return Err(StoreError::NotFound { what: "token", name: id.to_string() });
        }
        Ok(())
    }

    async fn revoke_tokens_named(&self, name: &str) -> Result<u64> {
        again(|| self.revoke_where("name = ?", name.into())).await
    }

    async fn touch_tokens(&self, uses: &[(i64, i64)]) -> Result<()> {
        let mut last = BTreeMap::new();
        for (id, at) in uses {
            let last = last.entry(*id).or_insert(*at);
            *last = (*at).max(*last);
        }
        // Each stands in the statement five times.
        let most = MAX_CHANGED.min(self.dialect().most_listed() / 5);
        let uses: Vec<(i64, i64)> = last.into_iter().collect();
        for part in uses.chunks(most) {
            again(|| self.touch_some_tokens(part)).await?;
        }
        Ok(())
    }

    async fn set_credential(&self, id_user: i64, upstream: &str, secret: &Secret) -> Result<()> {
        self.put(&Upsert {
            table: "callgate_credentials",
            keys: &[("id_user", id_user.into()), ("upstream", upstream.into())],
            columns: &[("secret", secret.expose().into()), ("set_at", Put::Now)],
            once: &[],
        })
        .await
    }

    async fn replace_credential(
        &self,
        id_user: i64,
        upstream: &str,
        old: &Secret,
        new: &Secret,
    ) -> Result<bool> {
        let keys = [id_user.into(), upstream.into()];
        let mut work = self.begin(Purpose::Write).await?;
        let look =
            "SELECT {text secret} FROM callgate_credentials WHERE id_user = ? AND upstream = ?";
        let found = work.row(look, &keys).await?.and_then(|mut row| Secret::new(&row.text()));
        // Compared here, since databases differ in when texts are equal.
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

    async fn remove_credential(&self, id_user: i64, upstream: &str) -> Result<bool> {
        let rows = "callgate_credentials WHERE id_user = ? AND upstream = ?";
        Ok(self.delete_counted(rows, &[id_user.into(), upstream.into()]).await? > 0)
    }

    async fn set_upstream(&self, row: &UpstreamRow) -> Result<()> {
        self.put(&Upsert {
            table: "callgate_upstreams",
            keys: &[("name", (&row.name).into())],
            columns: &[("config", Value::Json(Some(&row.config)).into())],
            once: &[],
        })
        .await
    }

    async fn remove_upstream(&self, name: &str, keep_credentials: bool) -> Result<u64> {
        let mut work = self.begin(Purpose::Write).await?;
        if work.delete_counted("callgate_upstreams WHERE name = ?", &[name.into()]).await? == 0 {
            return Err(StoreError::NotFound { what: "upstream", name: name.to_owned() });
        }
        let mut credentials = 0;
        if !keep_credentials {
            let rows = "callgate_credentials WHERE upstream = ?";
            credentials = work.delete_counted(rows, &[name.into()]).await?;
        }
        work.commit().await?;
        Ok(credentials)
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.set_setting(name, value).await?;
        work.commit().await
    }

    async fn insert_absent_settings(&self, settings: &[(&str, &str)]) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        for (name, value) in settings {
            let look = "SELECT 1 FROM {settings} WHERE name = ?";
            if work.row(look, &[(*name).into()]).await?.is_none() {
                work.set_setting(name, value).await?;
            }
        }
        work.commit().await
    }

    async fn add_key(&self, key: &NewKey) -> Result<bool> {
        let mut work = self.begin(Purpose::Keys).await?;
        let added = work.add_key(key).await?;
        work.commit().await?;
        Ok(added)
    }

    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()> {
        let template = "DELETE FROM callgate_keys WHERE purpose = ? AND id < ?";
        let mut work = self.begin(Purpose::Keys).await?;
        work.run(template, &[purpose.into(), id.into()]).await?;
        work.commit().await
    }

    async fn post_message(&self, session: &str, message: &str) -> Result<()> {
        let mut work = self.begin(Purpose::Note).await?;
        let number = work.next_number("messages").await?;
        let template = "INSERT INTO callgate_messages (number, session, message, posted_at)
                        VALUES (?, ?, ?, {now})";
        work.run(template, &[number.into(), session.into(), message.into()]).await?;
        work.commit().await
    }

    async fn forget_messages(&self, before: i64) -> Result<()> {
        let template = "DELETE FROM callgate_messages WHERE posted_at < {at}";
        self.rows(template, &[Value::time(before)]).await.map(drop)
    }

    async fn change_session(
        &self,
        nonce: &str,
        ends_at: i64,
        change: &ChangeSession<'_>,
    ) -> Result<SessionRow> {
        let mut work = self.begin(Purpose::Note).await?;
        let row = work.change_session(nonce, ends_at, change).await?;
        work.commit().await?;
        Ok(row)
    }

    async fn forget_sessions(&self, now: i64, most: i64) -> Result<()> {
        let template = "DELETE FROM callgate_sessions WHERE ends_at <= {at}";
        self.rows(template, &[Value::time(now)]).await?;
        let one = self.dialect().limit(1, most.max(0));
        let look = format!("SELECT number FROM callgate_sessions ORDER BY number DESC {one}");
        let Some(mut row) = self.rows(&look, &[]).await?.into_iter().next() else { return Ok(()) };
        let template = "DELETE FROM callgate_sessions WHERE number <= ?";
        self.rows(template, &[row.int()?.into()]).await.map(drop)
    }

    async fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        self.put(&Upsert {
            table: "callgate_meta",
            keys: &[("name", name.into())],
            columns: &[("value", value.into())],
            once: &[],
        })
        .await
    }
}

impl SqlStore {
    /// Writes a row whether it is there or not.
    async fn put(&self, row: &Upsert<'_>) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.upsert(row).await?;
        work.commit().await
    }

    async fn delete_counted(&self, rows: &str, values: &[Value<'_>]) -> Result<u64> {
        let mut work = self.begin(Purpose::Write).await?;
        let gone = work.delete_counted(rows, values).await?;
        work.commit().await?;
        Ok(gone)
    }
}

/// What is tried again as a whole where it had to give way.
impl SqlStore {
    async fn name_some_tools(&self, names: &[(i64, String)]) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        work.name_tools(names).await?;
        work.commit().await
    }

    async fn touch_some_tokens(&self, uses: &[(i64, i64)]) -> Result<()> {
        let mut work = self.begin(Purpose::Note).await?;
        work.touch_tokens(uses).await?;
        work.commit().await
    }

    /// Comes back with how many there were.
    async fn revoke_where(&self, condition: &str, value: Value<'_>) -> Result<u64> {
        let mut work = self.begin(Purpose::Tokens).await?;
        let template = format!("SELECT id FROM callgate_tokens WHERE {condition} ORDER BY id");
        let rows = work.rows(&template, &[value]).await?;
        let ids: Vec<i64> = rows.into_iter().map(|mut row| row.int()).collect::<Result<_>>()?;
        for part in ids.chunks(self.dialect().most_listed()) {
            work.delete_tokens(part).await?;
        }
        work.commit().await?;
        Ok(ids.len() as u64)
    }
}

impl Work<'_> {
    /// Notes when tokens were used, unless a later use is known; not more than a statement takes.
    async fn touch_tokens(&mut self, uses: &[(i64, i64)]) -> Result<()> {
        let time = format!("CASE id {} END", vec!["WHEN ? THEN {at}"; uses.len()].join(" "));
        let pairs = uses.iter().flat_map(|(id, at)| [Value::from(*id), Value::time(*at)]);
        let pairs: Vec<Value<'_>> = pairs.collect();
        let (list, ids) = listed(uses.iter().map(|(id, _)| *id));
        self.lock_tokens(&list, &ids).await?;
        let template = format!(
            "UPDATE callgate_tokens SET last_used_at = {time}
             WHERE (last_used_at IS NULL OR last_used_at < {time}) AND id IN ({list})"
        );
        self.run(&template, &[&pairs[..], &pairs, &ids].concat()).await
    }

    async fn delete_tokens(&mut self, ids: &[i64]) -> Result<()> {
        let (list, ids) = listed(ids.iter().copied());
        self.lock_tokens(&list, &ids).await?;
        self.run(&format!("DELETE FROM callgate_tokens WHERE id IN ({list})"), &ids).await
    }

    async fn lock_tokens(&mut self, list: &str, ids: &[Value<'_>]) -> Result<()> {
        match self.dialect().lock_in_order("callgate_tokens", list) {
            Some(template) => self.run(&template, ids).await,
            None => Ok(()),
        }
    }

    /// Removes rows, and comes back with how many there were; they are given as a table and a condition.
    /// Counted first, since not each database says how many it removed.
    async fn delete_counted(&mut self, rows: &str, values: &[Value<'_>]) -> Result<u64> {
        let count = format!("SELECT COUNT(*) FROM {rows}");
        let number = self.row(&count, values).await?.map_or(Ok(0), |mut row| row.int())?;
        if number > 0 {
            self.run(&format!("DELETE FROM {rows}"), values).await?;
        }
        Ok(u64::try_from(number).unwrap_or_default())
    }

    async fn set_setting(&mut self, name: &str, value: &str) -> Result<()> {
        self.upsert(&Upsert {
            table: "{settings}",
            keys: &[("name", name.into())],
            columns: &[("value", value.into())],
            once: &[("caption", name.into())],
        })
        .await
    }

    /// Comes back with whether the newest one was old enough.
    async fn add_key(&mut self, key: &NewKey) -> Result<bool> {
        let look = "SELECT {seconds created_at} FROM callgate_keys WHERE purpose = ?
                    ORDER BY id DESC {limit 1}";
        let newest = self.row(look, &[(&key.purpose).into()]).await?;
        let newest = newest.map(|mut row| row.int()).transpose()?;
        let now =
            self.row("SELECT {seconds now}", &[]).await?.map_or(Ok(0), |mut row| row.int())?;
        let is_old = |newest| key.min_age.is_some_and(|age| now.saturating_sub(newest) >= age);
        if newest.is_some_and(|newest| !is_old(newest)) {
            return Ok(false);
        }
        let active_from = if newest.is_none() { 0 } else { now.saturating_add(key.signs_in) };
        let template = "INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
                        VALUES (?, ?, {at}, {at})";
        let (created_at, active_from) = (Value::time(now), Value::time(active_from));
        let values = [(&key.purpose).into(), (&key.secret).into(), created_at, active_from];
        self.run(template, &values).await?;
        Ok(true)
    }

    /// What has ended stays so.
    async fn change_session(
        &mut self,
        nonce: &str,
        ends_at: i64,
        change: &ChangeSession<'_>,
    ) -> Result<SessionRow> {
        // First of all, so that others who write sessions wait.
        let number = self.next_number("sessions").await?;
        let look = "SELECT {text nonce}, number, {int ended}, {text log_level},
                    {text subscriptions}, {seconds ends_at} FROM callgate_sessions WHERE nonce = ?";
        let old = self.row(look, &[nonce.into()]).await?.map(read::session).transpose()?;
        let empty = SessionRow { nonce: nonce.to_owned(), ends_at, ..SessionRow::default() };
        let mut row = old.unwrap_or(empty);
        let has_ended = row.ended;
        change(&mut row);
        row.ended |= has_ended;
        row.number = number;
        self.upsert(&Upsert {
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
        Ok(row)
    }
}

/// Numbers as the list of a statement, and its values.
fn listed(ids: impl Iterator<Item = i64>) -> (String, Vec<Value<'static>>) {
    let ids: Vec<_> = ids.map(Value::from).collect();
    (vec!["?"; ids.len()].join(", "), ids)
}
