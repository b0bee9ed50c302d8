//! Imports that are repeated: by `callgate import … --watch`, and by `callgate serve` for each
//! `[imports.NAME]`.
//!
//! A source that cannot be read, or that has no methods any more, changes nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use callgate::http;
use callgate_registry::SqlStore;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::read_source;
use crate::cli::Import;
use crate::config::{Config, Policy};
use crate::import::Source;
use crate::printer::Printer;

/// Maximum length of a change that is kept for people to read, in bytes.
const MAX_TEXT: usize = 4 << 20;
/// Maximum length of a change in the log, in bytes.
const MAX_LOGGED: usize = 64 << 10;

/// What a source would change, or has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// Stands for all of it.
    pub(super) digest: String,
    /// What it is, for people.
    pub(super) text: String,
    /// When it was seen, in seconds since 1970.
    pub(super) since: i64,
}

/// Reads a source again. Returns what it would change, every word of it if `in_full`.
pub(super) async fn read_again(
    config: &Config,
    store: &Arc<SqlStore>,
    import: &Import,
    in_full: bool,
) -> anyhow::Result<(Source, Option<Change>)> {
    let source = read_source(config, import).await?;
    if source.methods.is_empty() {
        bail!("the source has no methods any more");
    }
    let mut printer = Printer::memory();
    let digest = source.preview(store, import.options(), in_full, &mut printer).await?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = i64::try_from(since).unwrap_or(i64::MAX);
    let text = || shortened(printer.collected(), MAX_TEXT);
    let change = digest.map(|digest| Change { digest, text: text(), since });
    Ok((source, change))
}

/// Writes a change of a source, and no other.
pub(super) async fn apply(
    store: &Arc<SqlStore>,
    import: &Import,
    source: &Source,
    change: &Change,
) -> anyhow::Result<()> {
    let expected = Some(change.digest.as_str());
    source.write(store, import.options(), expected, &mut Printer::memory()).await?;
    Ok(())
}

fn shortened(text: &str, most: usize) -> String {
    let text = text.trim_end();
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}\n…", text.get(..text.floor_char_boundary(most)).unwrap_or_default())
}

/// Repeats the imports that the configuration names, for as long as this is polled.
pub(crate) async fn follow(config: Arc<Config>, store: Arc<SqlStore>) {
    let tasks = config.imports.iter().map(|(name, repeated)| Task {
        name,
        import: &repeated.import,
        every: repeated.every,
        policy: repeated.policy,
        due: Instant::now(),
        seen: Seen::Nothing,
    });
    let tasks = tasks.collect();
    repeat(&config, &store, tasks, |task, event| log(task.name, task.policy, &event)).await;
}

/// Repeats an import until the program is told to stop. The change that was `seen` is not told again.
pub(super) async fn watch(
    config: &Config,
    store: &Arc<SqlStore>,
    import: &Import,
    seconds: u32,
    seen: Option<String>,
    printer: &mut Printer,
) {
    let every = Duration::from_secs(seconds.into());
    let task = Task {
        name: "",
        import,
        every,
        policy: if import.options().dry_run { Policy::Show } else { Policy::Apply },
        due: Instant::now() + every,
        seen: seen.map_or(Seen::Nothing, Seen::Change),
    };
    printer.talk(format_args!("looking again every {seconds} s; Ctrl-C ends it"));
    let tell = |_: &Task<'_>, event: Event<'_>| match event {
        Event::Changed(text) => printer.data(text),
        Event::Failed(error) => {
            printer.error(error);
            printer.talk("methods stay as they are");
        }
        Event::Recovered => printer.talk("the source can be read again"),
    };
    tokio::select! {
        () = repeat(config, store, vec![task], tell) => {}
        () = http::told_to_stop() => {}
    }
}

/// An import that is repeated.
struct Task<'a> {
    name: &'a str,
    import: &'a Import,
    every: Duration,
    policy: Policy,
    due: Instant,
    seen: Seen,
}

/// The outcome of the last reading, so that each is told once.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Change(String),
    Failure(String),
}

/// What is told about an import.
enum Event<'a> {
    Changed(&'a str),
    Failed(&'a anyhow::Error),
    Recovered,
}

/// Reads each source when it is due, does with a change what the policy says, and tells what is new. One
/// after the other: they write to one registry.
async fn repeat(
    config: &Config,
    store: &Arc<SqlStore>,
    mut tasks: Vec<Task<'_>>,
    mut tell: impl FnMut(&Task<'_>, Event<'_>),
) {
    while let Some(task) = tasks.iter_mut().min_by_key(|task| task.due) {
        tokio::time::sleep_until(task.due).await;
        let result = task.run(config, store).await;
        if result.is_ok() && matches!(task.seen, Seen::Failure(_)) {
            tell(task, Event::Recovered);
        }
        let seen = match &result {
            Ok(None) => Seen::Nothing,
            Ok(Some(change)) => Seen::Change(change.digest.clone()),
            Err(error) => Seen::Failure(format!("{error:#}")),
        };
        if seen != task.seen {
            match &result {
                Ok(None) => {}
                Ok(Some(change)) => tell(task, Event::Changed(&change.text)),
                Err(error) => tell(task, Event::Failed(error)),
            }
        }
        task.seen = seen;
        task.due = Instant::now() + task.every;
    }
}

impl Task<'_> {
    async fn run(&self, config: &Config, store: &Arc<SqlStore>) -> anyhow::Result<Option<Change>> {
        let in_full = self.policy == Policy::Hold;
        let (source, change) = read_again(config, store, self.import, in_full).await?;
        match (self.policy, &change) {
            (Policy::Apply, Some(change)) => apply(store, self.import, &source, change).await?,
            (Policy::Hold, change) => Pending(store).set(self.name, change.as_ref()).await?,
            (Policy::Apply | Policy::Show, _) => {}
        }
        Ok(change)
    }
}

fn log(name: &str, policy: Policy, event: &Event<'_>) {
    let text = match event {
        Event::Recovered => return tracing::info!("import `{name}` works again"),
        Event::Failed(error) => {
            let error = format!("{error:#}");
            return tracing::warn!(error, "import `{name}` failed, and methods stay as they are");
        }
        Event::Changed(text) => shortened(text, MAX_LOGGED),
    };
    match policy {
        Policy::Apply => tracing::info!("import `{name}` has changed methods:\n{text}"),
        Policy::Hold => tracing::warn!(
            "import `{name}` would change methods, `callgate import approve {name}` does it:\n{text}"
        ),
        Policy::Show => tracing::warn!("import `{name}` would change methods:\n{text}"),
    }
}

/// Changes that wait, as facts about the registry.
pub(super) struct Pending<'a>(pub(super) &'a Arc<SqlStore>);

impl Pending<'_> {
    fn key(name: &str) -> String {
        format!("import_pending {name}")
    }

    pub(super) async fn get(&self, name: &str) -> anyhow::Result<Option<Change>> {
        let text = self.0.meta(&Self::key(name)).await?.filter(|text| !text.is_empty());
        // What is not ours is as good as nothing: the next look writes it anew.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Keeps a change, with the time of when it was first seen; `None` forgets it.
    pub(super) async fn set(&self, name: &str, change: Option<&Change>) -> anyhow::Result<()> {
        let known = self.get(name).await?;
        if known.as_ref().map(|known| &known.digest) == change.map(|change| &change.digest) {
            return Ok(());
        }
        let text = change.map(serde_json::to_string).transpose()?.unwrap_or_default();
        Ok(self.0.set_meta(&Self::key(name), &text).await?)
    }
}
