//! `callgate upstream set|list|show|remove`

use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use callgate::forward::Target;
use callgate_import::UpstreamKeys;
use callgate_registry::{Entity, SqlStore, Store as _, UpstreamRow};
use serde_json::{Map, Value, json};

use super::plain_name;
use crate::cli::{List, Upstream};
use crate::config::{Config, check_row, has_secret, keys_of_row, row_shown};
use crate::errors::hinted;
use crate::printer::Printer;
use crate::registry;

/// Longer than any description of a service.
const MAX_BYTES: u64 = 1024 * 1024;

pub(super) async fn run(config: &Config, upstream: Upstream, printer: &mut Printer) -> Result<()> {
    let store = registry::open_own(config).await?;
    match upstream {
        Upstream::Set { name, values, json } => {
            plain_name("upstream", &name)?;
            let keys = if json { read_json()? } else { changed(&store, &name, &values).await? };
            set(config, &store, &name, keys, printer).await?;
            let mut given = Map::new();
            if values.iter().all(|pair| change(&mut given, pair).is_ok()) && has_secret(&mut given)
            {
                printer.talk(
                    "note: others on this machine can see what stands on a command line; a secret is better \
                     written as `KEY={\"env\":\"NAME\"}`, or with `--json`",
                );
            }
            Ok(())
        }
        Upstream::List(List { json }) => {
            list(config, &store.upstreams().await?, json, printer);
            Ok(())
        }
        Upstream::Show { name } => {
            let row = existing(config, &store, &name).await?;
            let keys = keys_of_row(&row).with_context(|| format!("upstream `{name}`"))?;
            printer.data(serde_json::to_string_pretty(&row_shown(keys))?);
            Ok(())
        }
        Upstream::Remove { name } => {
            existing(config, &store, &name).await?;
            remove(config, &store, &name, printer).await
        }
    }
}

fn is_in_file(config: &Config, name: &str) -> bool {
    config.upstreams.names().any(|known| known == name)
}

async fn set(
    config: &Config,
    store: &Arc<SqlStore>,
    name: &str,
    keys: Map<String, Value>,
    printer: &mut Printer,
) -> Result<()> {
    let before = find(store, name).await?.and_then(|row| keys_of_row(&row).ok());
    let before = before.as_ref().and_then(|keys| keys.get("url"));
    let is_moved = is_elsewhere(before, keys.get("url"));
    let row = UpstreamRow { name: name.to_owned(), config: Value::Object(keys).to_string() };
    check_row(&row).with_context(|| format!("upstream `{name}`"))?;
    store.set_upstream(&row).await?;
    printer.talk(format_args!("set upstream `{name}`"));
    if is_in_file(config, name) {
        printer.talk(format_args!("note: the file has an upstream `{name}` too, which counts"));
    } else if is_moved {
        let credentials = store.credentials().await?;
        let count = credentials.iter().filter(|row| row.upstream == name).count();
        if count > 0 {
            printer.talk(format_args!(
                "note: {count} credentials of users for `{name}` are for this server now; \
                 `callgate credential list` shows whose"
            ));
        }
    }
    Ok(())
}

/// Sets keys of an upstream that an import found out, where its row does not have them.
pub(super) async fn add_keys(
    store: &Arc<SqlStore>,
    name: &str,
    keys: &UpstreamKeys,
    dry_run: bool,
    printer: &mut Printer,
) -> Result<()> {
    let Some(row) = find(store, name).await? else { return Ok(()) };
    let mut all = keys_of_row(&row).with_context(|| format!("upstream `{name}`"))?;
    let new: Vec<_> = keys.iter().filter(|(key, _)| !all.contains_key(*key)).cloned().collect();
    if new.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = new.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    all.extend(new.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let row = UpstreamRow { name: name.to_owned(), config: Value::Object(all).to_string() };
    if let Err(problem) = check_row(&row) {
        printer.talk(format_args!(
            "note: upstream `{name}` cannot have {}: {problem:#}",
            shown.join(", ")
        ));
    } else if dry_run {
        printer.talk(format_args!("upstream `{name}` would be set: {}", shown.join(", ")));
    } else {
        store.set_upstream(&row).await?;
        printer.talk(format_args!("set upstream `{name}`: {}", shown.join(", ")));
    }
    Ok(())
}

/// Whether requests go to another server; where that is not said here, whether it is said otherwise.
fn is_elsewhere(before: Option<&Value>, now: Option<&Value>) -> bool {
    let server = |url: Option<&Value>| url?.as_str()?.parse::<Target>().ok()?.with_path("/").ok();
    let old = server(before);
    before != now && (old.is_none() || old != server(now))
}

async fn remove(
    config: &Config,
    store: &Arc<SqlStore>,
    name: &str,
    printer: &mut Printer,
) -> Result<()> {
    // What users are known by is the file's then.
    let is_in_file = is_in_file(config, name);
    let credentials = store.remove_upstream(name, is_in_file).await?;
    printer.talk(format_args!("removed upstream `{name}`"));
    if credentials > 0 {
        printer.talk(format_args!("removed {credentials} credentials of users for it"));
    }
    match methods_of(config, store, name).await {
        Ok(left) if left > 0 && !is_in_file => {
            printer.talk(format_args!("note: {left} of the methods name it, and fail now"));
        }
        Ok(_) => {}
        // It is removed all the same.
        Err(error) => {
            printer.talk(format_args!("note: which methods name it is not known: {error:#}"));
        }
    }
    Ok(())
}

/// How many methods an upstream runs, those of an attached database too.
async fn methods_of(config: &Config, store: &Arc<SqlStore>, name: &str) -> Result<usize> {
    let store = registry::attached(config, Arc::clone(store)).await?;
    let methods = store.catalog_rows().await?.methods;
    Ok(methods.iter().filter(|row| row.upstream_name() == name).count())
}

async fn find(store: &Arc<SqlStore>, name: &str) -> Result<Option<UpstreamRow>> {
    Ok(store.upstreams().await?.into_iter().find(|row| row.name == name))
}

/// The row, which must be there.
async fn existing(config: &Config, store: &Arc<SqlStore>, name: &str) -> Result<UpstreamRow> {
    match find(store, name).await? {
        Some(row) => Ok(row),
        None if is_in_file(config, name) => Err(hinted(
            format!("upstream `{name}` is in the file, and not in the registry"),
            "look at `callgate.toml`, or the file that `--config` names",
        )),
        None => Err(Entity::Upstream.not_found(name).into()),
    }
}

/// All keys at once.
fn read_json() -> Result<Map<String, Value>> {
    let mut text = String::new();
    let input = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text);
    input.context("cannot read standard input")?;
    serde_json::from_str(&text).context("standard input is no JSON object")
}

/// What there is, with these keys changed.
async fn changed(
    store: &Arc<SqlStore>,
    name: &str,
    values: &[String],
) -> Result<Map<String, Value>> {
    let mut keys = match find(store, name).await? {
        Some(row) => keys_of_row(&row).map_err(|error| {
            hinted(format!("upstream `{name}`: {error}"), "write all of it anew with `--json`")
        })?,
        None => Map::new(),
    };
    for pair in values {
        change(&mut keys, pair)?;
    }
    Ok(keys)
}

/// Applies a `KEY=VALUE`, whose value is JSON where it is that, and a text otherwise. Nothing takes the key
/// away.
fn change(keys: &mut Map<String, Value>, pair: &str) -> Result<()> {
    let (key, value) = pair.split_once('=').with_context(|| {
        format!("`{pair}` is no `KEY=VALUE`, such as `url=http://localhost:9000/rpc`")
    })?;
    let parsed = || serde_json::from_str(value).unwrap_or_else(|_| value.into());
    let set = |keys: &mut Map<String, Value>, key: &str| match value {
        "" => keys.shift_remove(key),
        _ => keys.insert(key.to_owned(), parsed()),
    };
    let Some((table, key)) = key.split_once('.') else {
        set(keys, key);
        return Ok(());
    };
    let inner = keys.entry(table).or_insert_with(|| Map::new().into()).as_object_mut();
    let inner = inner.with_context(|| format!("`{table}` is no table"))?;
    set(inner, key);
    if inner.is_empty() {
        keys.shift_remove(table);
    }
    Ok(())
}

fn list(config: &Config, rows: &[UpstreamRow], as_json: bool, printer: &mut Printer) {
    let columns = [
        ("name", "NAME"),
        ("url", "URL"),
        ("source", "SOURCE"),
        ("sends_credentials", ""),
        ("", "CREDENTIALS"),
        ("problem", ""),
        ("", "STATE"),
    ];
    let rows = config.upstreams.listed(rows).into_iter().map(|one| {
        let whose = one.sends_credentials.then_some("each user's");
        let state = match &one.problem {
            Some(why) => format!("quarantined: {why}"),
            None => "ok".to_owned(),
        };
        [
            json!(one.name),
            json!(one.place),
            json!(one.source),
            json!(one.sends_credentials),
            json!(whose),
            json!(one.problem),
            json!(state),
        ]
    });
    printer.list(as_json, columns, rows);
}
