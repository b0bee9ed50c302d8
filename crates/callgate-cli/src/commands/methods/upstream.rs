//! `callgate upstream set|list|show|remove`

use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use callgate::forward::Target;
use callgate_import::UpstreamKeys;
use callgate_import::counted;
use callgate_registry::{Entity, SqlStore, Store as _, UpstreamRow};
use serde_json::{Map, Value, json};

use crate::cli::{ListArgs, UpstreamCommand};
use crate::commands::check_name;
use crate::config::{Config, Upstreams, has_secret, keys_of_row, redacted_row};
use crate::error_hints::hinted;
use crate::{printer, registry};

/// Maximum total length of the keys of an upstream, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

pub(crate) async fn run(config: &Config, command: UpstreamCommand) -> Result<()> {
    let store = registry::open_without_festi(config).await?;
    match command {
        UpstreamCommand::Set { name, values, basic, json } => {
            check_name("upstream", &name)?;
            let all_keys = if json || values == ["-"] { Some(read_json()?) } else { None };
            let before = find(&store, &name).await?;
            let mut keys = match all_keys {
                Some(keys) => keys,
                None => with_values(&name, before.as_ref(), &values)?,
            };
            for (key, value) in basic.keys().into_iter().flatten() {
                keys.insert(key.to_owned(), value);
            }
            set(config, &store, (&name, before), keys).await?;
            let mut command_line_keys = Map::new();
            if values.iter().all(|pair| apply_value(&mut command_line_keys, pair).is_ok())
                && has_secret(&mut command_line_keys)
            {
                printer::message(
                    "note: other users of this machine can see the command line; a secret is better \
                     written as `KEY={\"env\":\"NAME\"}`, or passed on standard input: `callgate upstream set NAME -`",
                );
            }
            Ok(())
        }
        UpstreamCommand::List(ListArgs { json }) => {
            list(config, &store.upstreams().await?, json);
            Ok(())
        }
        UpstreamCommand::Show { name, json } => {
            let row = find_existing(config, &store, &name).await?;
            let keys = keys_of_row(&row).with_context(|| format!("upstream `{name}`"))?;
            let redacted = redacted_row(keys);
            let text =
                if json { redacted.to_string() } else { serde_json::to_string_pretty(&redacted)? };
            printer::json(text);
            Ok(())
        }
        UpstreamCommand::Remove { name } => {
            find_existing(config, &store, &name).await?;
            remove(config, &store, &name).await
        }
    }
}

/// Replaces the keys of an upstream. Fails if the row is no longer `before`, because another
/// program has changed the row.
async fn set(
    config: &Config,
    store: &Arc<SqlStore>,
    (name, before): (&str, Option<UpstreamRow>),
    keys: Map<String, Value>,
) -> Result<()> {
    let old_keys = before.as_ref().and_then(|row| keys_of_row(row).ok());
    let old_url = old_keys.as_ref().and_then(|keys| keys.get("url"));
    let is_moved = is_other_server(old_url, keys.get("url"));
    let row = UpstreamRow { name: name.to_owned(), config: Value::Object(keys).to_string() };
    config.upstreams.check_row(&row).with_context(|| format!("upstream `{name}`"))?;
    store.set_upstream(before.as_ref(), &row).await?;
    printer::message(format_args!("set upstream `{name}`"));
    if config.upstreams.is_in_file(name) {
        printer::message(format_args!(
            "note: the configuration file also has an upstream `{name}`, which takes precedence"
        ));
    } else if is_moved {
        let credentials = store.credentials().await?;
        let count = credentials.iter().filter(|row| row.upstream == name).count();
        if count > 0 {
            printer::message(format_args!(
                "note: the server of the new URL now receives {} of users (see `callgate credential list`)",
                counted(count, "credential")
            ));
        }
    }
    Ok(())
}

/// Adds the keys that an import suggests and that the upstream's row does not have.
pub(super) async fn add_keys(
    (upstreams, store): (&Upstreams, &Arc<SqlStore>),
    name: &str,
    keys: &UpstreamKeys,
    dry_run: bool,
) -> Result<()> {
    let Some(before) = find(store, name).await? else { return Ok(()) };
    let mut all_keys = keys_of_row(&before).with_context(|| format!("upstream `{name}`"))?;
    let new: Vec<_> =
        keys.iter().filter(|(key, _)| !all_keys.contains_key(*key)).cloned().collect();
    if new.is_empty() {
        return Ok(());
    }
    let pairs: Vec<String> = new.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    all_keys.extend(new.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let row = UpstreamRow { name: name.to_owned(), config: Value::Object(all_keys).to_string() };
    if let Err(problem) = upstreams.check_row(&row) {
        printer::message(format_args!(
            "note: upstream `{name}` cannot have {}: {problem:#}",
            pairs.join(", ")
        ));
    } else if dry_run {
        printer::message(format_args!("upstream `{name}` would be set: {}", pairs.join(", ")));
    } else {
        store.set_upstream(Some(&before), &row).await?;
        printer::message(format_args!("set upstream `{name}`: {}", pairs.join(", ")));
    }
    Ok(())
}

/// Returns `true` if requests go to another server than before. For a URL in a variable or a file, compares the name of
/// the variable or the file.
fn is_other_server(before: Option<&Value>, now: Option<&Value>) -> bool {
    let server = |url: Option<&Value>| url?.as_str()?.parse::<Target>().ok()?.with_path("/").ok();
    let old = server(before);
    before != now && (old.is_none() || old != server(now))
}

async fn remove(config: &Config, store: &Arc<SqlStore>, name: &str) -> Result<()> {
    // If the configuration file also defines the upstream, calls still need the users' credentials.
    let is_in_file = config.upstreams.is_in_file(name);
    let credentials = store.remove_upstream(name, is_in_file).await?;
    printer::message(format_args!("removed upstream `{name}`"));
    if credentials > 0 {
        let credentials = counted(usize::try_from(credentials).unwrap_or(usize::MAX), "credential");
        printer::message(format_args!("removed {credentials} of users for `{name}`"));
    }
    match count_methods(config, store, name).await {
        Ok(count) if count > 0 && !is_in_file => {
            printer::message(format_args!(
                "note: `{name}` is still the upstream of {}, so calls fail",
                counted(count, "method")
            ));
        }
        Ok(_) => {}
        Err(error) => {
            printer::message(format_args!(
                "note: failed to count the methods that use `{name}`: {error:#}"
            ));
        }
    }
    Ok(())
}

/// Counts the methods of an upstream, including those of an attached database.
async fn count_methods(config: &Config, store: &Arc<SqlStore>, name: &str) -> Result<usize> {
    let store = registry::attach_festi(config, Arc::clone(store)).await?;
    let methods = store.catalog_rows().await?.methods;
    Ok(methods.iter().filter(|row| row.upstream_name() == name).count())
}

async fn find(store: &Arc<SqlStore>, name: &str) -> Result<Option<UpstreamRow>> {
    Ok(store.upstreams().await?.into_iter().find(|row| row.name == name))
}

async fn find_existing(config: &Config, store: &Arc<SqlStore>, name: &str) -> Result<UpstreamRow> {
    match find(store, name).await? {
        Some(row) => Ok(row),
        None if config.upstreams.is_in_file(name) => Err(hinted(
            format!("upstream `{name}` is in the configuration file, not in the registry"),
            "edit `callgate.toml`, or the file of `--config`",
        )),
        None => Err(Entity::Upstream.not_found(name).into()),
    }
}

fn read_json() -> Result<Map<String, Value>> {
    let mut text = String::new();
    let input = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text);
    input.context("cannot read standard input")?;
    serde_json::from_str(&text).context("standard input is not a JSON object")
}

/// Returns the keys of the row with `values` applied.
fn with_values(
    name: &str,
    row: Option<&UpstreamRow>,
    values: &[String],
) -> Result<Map<String, Value>> {
    let mut keys = match row {
        Some(row) => keys_of_row(row).map_err(|error| {
            hinted(
                format!("upstream `{name}`: {error}"),
                "replace all keys: `callgate upstream set NAME -` reads them as a JSON object from standard input",
            )
        })?,
        None => Map::new(),
    };
    for pair in values {
        apply_value(&mut keys, pair)?;
    }
    Ok(keys)
}

/// Applies a `KEY=VALUE`. The value is parsed as JSON, or used as text if it is not JSON. An empty value removes the
/// key.
fn apply_value(keys: &mut Map<String, Value>, pair: &str) -> Result<()> {
    let (key, value) = pair.split_once('=').with_context(|| {
        format!("expected `KEY=VALUE`, such as `url=http://localhost:9000/rpc`, found `{pair}`")
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
    let members = keys.entry(table).or_insert_with(|| Map::new().into()).as_object_mut();
    let members = members.with_context(|| format!("`{table}` is not a table"))?;
    set(members, key);
    if members.is_empty() {
        keys.shift_remove(table);
    }
    Ok(())
}

fn list(config: &Config, rows: &[UpstreamRow], as_json: bool) {
    let columns = [
        ("name", "NAME"),
        ("url", "URL"),
        ("source", "SOURCE"),
        ("sends_credentials", ""),
        ("", "CREDENTIALS"),
        ("problem", ""),
        ("", "STATE"),
    ];
    let rows = config.upstreams.summaries(rows).into_iter().map(|summary| {
        let credentials = summary.sends_credentials.then_some("each user's");
        let state = match &summary.problem {
            Some(problem) => format!("quarantined: {problem}"),
            None => "ok".to_owned(),
        };
        [
            json!(summary.name),
            json!(summary.url),
            json!(summary.source),
            json!(summary.sends_credentials),
            json!(credentials),
            json!(summary.problem),
            json!(state),
        ]
    });
    printer::list(as_json, columns, rows);
}
