//! `callgate keys list|rotate`

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use callgate_registry::{KeyRow, NewKey, SESSION_KEYS, SqlStore, Store as _, signing_key};
use serde_json::json;

use super::{json_line, timestamp};
use crate::cli::Keys;
use crate::config::Config;
use crate::errors::hinted;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(config: &Config, keys: Keys, printer: &mut Printer) -> anyhow::Result<()> {
    let store = registry::open_own(config).await?;
    match keys {
        Keys::List { json } => list(&store.keys(SESSION_KEYS).await?, json, printer),
        Keys::Rotate { now } => rotate(&store, now, printer).await,
    }
}

fn list(keys: &[KeyRow], json: bool, printer: &mut Printer) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let signing = signing_key(keys, now).map(|key| key.id);
    let signs_from = |key: &KeyRow| timestamp(key.active_from.max(key.created_at));
    let state = |key: &KeyRow| match signing {
        Some(id) if id == key.id => "signs",
        Some(id) if id < key.id => "announced",
        _ => "recognised",
    };
    if json {
        for key in keys {
            let line = json!({
                "id": key.id,
                "state": state(key),
                "created_at": timestamp(key.created_at),
                "signs_from": signs_from(key),
            });
            printer.data(json_line(&line)?);
        }
        return Ok(());
    }
    let row = |key: &KeyRow| {
        let (created, signs) = (timestamp(key.created_at), signs_from(key));
        vec![key.id.to_string(), state(key).to_owned(), created, signs]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    printer.table(&["ID", "STATE", "CREATED", "SIGNS FROM"], &rows);
    Ok(())
}

async fn rotate(store: &SqlStore, now: bool, printer: &mut Printer) -> anyhow::Result<()> {
    let key = if now { NewKey::at_once() } else { NewKey::announced(Duration::ZERO) };
    let key = key.context("the system has no random numbers")?;
    let is_added = store.add_key(&key).await?;
    let keys = store.keys(SESSION_KEYS).await?;
    let newest = keys.first().context("the new key is not there")?;
    if !is_added {
        let made_at = timestamp(newest.created_at);
        return Err(hinted(
            format!("no key was made: key {} is of {made_at}, which is still to come", newest.id),
            "look at the clock of the database, or make one at once with `--now`",
        ));
    }
    if !now {
        printer.talk(format_args!(
            "key {} signs from {} on; sessions that are open stay good",
            newest.id,
            timestamp(newest.active_from.max(newest.created_at))
        ));
        return Ok(());
    }
    store.remove_keys_before(SESSION_KEYS, newest.id).await?;
    printer.talk(format_args!(
        "key {} signs, and what older keys signed is no longer good: clients of sessions have to \
         initialize again, and requests that were asked something begin anew",
        newest.id
    ));
    Ok(())
}
