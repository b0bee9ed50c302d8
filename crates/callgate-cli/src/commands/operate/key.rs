//! `callgate key list|rotate`

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use callgate_registry::{KeyRow, NewKey, SESSION_KEYS, SqlStore, Store as _, signing_key};
use serde_json::json;

use crate::cli::{KeyCommand, ListArgs};
use crate::commands::timestamp;
use crate::config::Config;
use crate::error_hints::hinted;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, command: KeyCommand) -> Result<()> {
    let store = registry::open_without_festi(config).await?;
    match command {
        KeyCommand::List(ListArgs { json }) => {
            list(&store.keys(SESSION_KEYS).await?, json);
            Ok(())
        }
        KeyCommand::Rotate { now } => rotate(&store, now).await,
    }
}

fn list(keys: &[KeyRow], as_json: bool) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let signing = signing_key(keys, i64::try_from(now).unwrap_or(i64::MAX)).map(|key| key.id);
    let columns =
        [("id", "ID"), ("state", "STATE"), ("created_at", "CREATED"), ("signs_from", "SIGNS FROM")];
    let rows = keys.iter().map(|key| {
        let state = match signing {
            Some(id) if id == key.id => "signs",
            Some(id) if id < key.id => "announced",
            _ => "recognised",
        };
        let created = json!(timestamp(key.created_at));
        [json!(key.id), json!(state), created, json!(signs_from(key))]
    });
    printer::list(as_json, columns, rows);
}

fn signs_from(key: &KeyRow) -> String {
    timestamp(key.active_from.max(key.created_at))
}

async fn rotate(store: &SqlStore, now: bool) -> Result<()> {
    let key = if now { NewKey::immediate() } else { NewKey::announced(Duration::ZERO) };
    let key = key.context("cannot generate random numbers")?;
    let is_added = store.add_key(&key).await?;
    let keys = store.keys(SESSION_KEYS).await?;
    let newest = keys
        .first()
        .context("the keys were deleted from the registry while this command ran; run it again")?;
    if !is_added {
        let created_at = timestamp(newest.created_at);
        return Err(hinted(
            format!(
                "no key was created: key {} has a creation time in the future, {created_at}",
                newest.id
            ),
            "check the clock of the database, or replace the key with `--now`",
        ));
    }
    if !now {
        printer::message(format_args!(
            "key {} signs from {} on; open sessions stay valid",
            newest.id,
            signs_from(newest)
        ));
        return Ok(());
    }
    store.remove_keys_before(SESSION_KEYS, newest.id).await?;
    printer::message(format_args!(
        "key {} signs now, and older signatures are invalid: clients have to initialize again, and \
         calls that wait for a client's answer start over",
        newest.id
    ));
    Ok(())
}
