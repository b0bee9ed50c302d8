//! Sources that are read again: the registry follows what they have, or somebody is asked.
//!
//! A source that cannot be read, or that has no methods any more, changes nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use callgate_registry::Store;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{read_source, settled};
use crate::cli::Import;
use crate::config::{Config, Policy, Repeated};
use crate::import::{Options, Source, import};
use crate::printer::Printer;

/// So much of a change is kept for people to read.
const MAX_TEXT: usize = 4 << 20;
/// And so much of it is in the log.
const MAX_LOGGED: usize = 64 << 10;

/// What a source would change, or has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Stands for all of it.
    pub(crate) digest: String,
    /// What it is, for people.
    pub(crate) text: String,
    /// When it was seen, in seconds since 1970.
    pub(crate) since: i64,
}

/// A source that was read, and where it goes.
pub(crate) struct Look<'a> {
    source: Source,
    options: Options<'a>,
    store: &'a Arc<dyn Store>,
}

impl<'a> Look<'a> {
    /// Reads a source again.
    pub(crate) async fn again(
        config: &Config,
        store: &'a Arc<dyn Store>,
        import: &'a Import,
    ) -> anyhow::Result<Self> {
        let source = read_source(config, import).await?;
        if source.methods.is_empty() {
            bail!("the source has no methods any more");
        }
        Ok(Self { source, options: settled(import.options()), store })
    }

    /// What would change; every word of it for those who are to approve.
    pub(crate) async fn change(&mut self, in_full: bool) -> anyhow::Result<Option<Change>> {
        let options = Options { dry_run: true, in_full, ..self.options };
        let mut printer = Printer::memory();
        let digest = import(self.store, &mut self.source, &options, &mut printer).await?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        Ok(digest.map(|digest| Change {
            digest,
            text: shortened(printer.collected(), MAX_TEXT),
            since,
        }))
    }

    /// Writes a change, and no other.
    pub(crate) async fn apply(&mut self, change: &Change) -> anyhow::Result<()> {
        let expected = Some(change.digest.as_str());
        let options = Options { dry_run: false, expected, ..self.options };
        let mut printer = Printer::memory();
        import(self.store, &mut self.source, &options, &mut printer).await?;
        Ok(())
    }
}

fn shortened(text: &str, most: usize) -> String {
    let text = text.trim_end();
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n…", text.get(..end).unwrap_or_default())
}

/// Repeats the imports that the configuration names, for as long as this is polled.
pub(crate) async fn follow(config: Arc<Config>, store: Arc<dyn Store>) {
    let now = Instant::now();
    let mut all: Vec<Followed<'_>> = config
        .imports
        .iter()
        .map(|(name, repeated)| Followed { name, repeated, due: now, told: Told::Nothing })
        .collect();
    // One after the other: they write to one registry.
    while let Some(next) = all.iter_mut().min_by_key(|one| one.due) {
        tokio::time::sleep_until(next.due).await;
        next.look(&config, &store).await;
        next.due = Instant::now() + next.repeated.every;
    }
}

struct Followed<'a> {
    name: &'a str,
    repeated: &'a Repeated,
    due: Instant,
    told: Told,
}

/// What the log was told last, so that it is told once.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Change(String),
    Failure(String),
}

impl Followed<'_> {
    async fn look(&mut self, config: &Config, store: &Arc<dyn Store>) {
        let name = self.name;
        let seen = self.act(config, store).await;
        if seen.is_ok() && matches!(self.told, Told::Failure(_)) {
            tracing::info!("import `{name}` works again");
        }
        let now = match &seen {
            Ok(None) => Told::Nothing,
            Ok(Some(change)) => Told::Change(change.digest.clone()),
            Err(error) => Told::Failure(format!("{error:#}")),
        };
        if now != self.told {
            self.tell(&seen);
        }
        self.told = now;
    }

    fn tell(&self, seen: &anyhow::Result<Option<Change>>) {
        let name = self.name;
        let text = match seen {
            Ok(None) => return,
            Ok(Some(change)) => shortened(&change.text, MAX_LOGGED),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "import `{name}` failed, and methods stay as they are");
                return;
            }
        };
        match self.repeated.policy {
            Policy::Apply => tracing::info!("import `{name}` has changed methods:\n{text}"),
            Policy::Hold => tracing::warn!(
                "import `{name}` would change methods, `callgate import approve {name}` does it:\n\
                 {text}"
            ),
            Policy::Show => tracing::warn!("import `{name}` would change methods:\n{text}"),
        }
    }

    async fn act(&self, config: &Config, store: &Arc<dyn Store>) -> anyhow::Result<Option<Change>> {
        let mut look = Look::again(config, store, &self.repeated.import).await?;
        let change = look.change(self.repeated.policy == Policy::Hold).await?;
        match (self.repeated.policy, &change) {
            (Policy::Apply, Some(change)) => look.apply(change).await?,
            (Policy::Hold, change) => Pending(store).set(self.name, change.as_ref()).await?,
            (Policy::Apply | Policy::Show, _) => {}
        }
        Ok(change)
    }
}

/// Changes that wait, as facts about the registry.
pub(crate) struct Pending<'a>(pub(crate) &'a Arc<dyn Store>);

impl Pending<'_> {
    fn key(name: &str) -> String {
        format!("import_pending {name}")
    }

    pub(crate) async fn get(&self, name: &str) -> anyhow::Result<Option<Change>> {
        let text = self.0.meta(&Self::key(name)).await?.filter(|text| !text.is_empty());
        // What is not ours is as good as nothing: the next look writes it anew.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Keeps a change, with the time of when it was first seen; `None` forgets it.
    pub(crate) async fn set(&self, name: &str, change: Option<&Change>) -> anyhow::Result<()> {
        let known = self.get(name).await?;
        let digest = |change: &Change| change.digest.clone();
        if known.as_ref().map(digest) == change.map(digest) {
            return Ok(());
        }
        let text = change.map(serde_json::to_string).transpose()?.unwrap_or_default();
        Ok(self.0.set_meta(&Self::key(name), &text).await?)
    }
}
