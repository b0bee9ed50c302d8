//! Imports that are repeated, by `callgate import … --watch` and by a server for each `[imports.NAME]`.
//!
//! If a source cannot be read, or contains no methods any more, nothing is changed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use callgate_registry::SqlStore;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::hinted::hinted;
use crate::plan::{Detail, Importer, Report};
use crate::text::one_line;

/// Maximum length of the text of a change that people can approve, in bytes.
const MAX_TEXT: usize = 4 << 20;
/// Maximum length of the text of a change that is logged, in bytes.
const MAX_LOGGED: usize = 64 << 10;

/// Error of a source that had methods before.
const NO_METHODS: &str = "the source has no methods any more";

/// An import that is repeated.
#[derive(Debug)]
pub struct RepeatedImport<'a, R> {
    /// Name of the import.
    pub name: &'a str,
    /// Reads the source and calls [`Importer::run`]. The implementation decides in which process this happens, because
    /// a source is untrusted input.
    pub run: R,
    /// Interval between two runs.
    pub interval: Duration,
    /// What to do with a change.
    pub policy: Policy,
}

/// What to do with a change of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Writes the change.
    #[default]
    Apply,
    /// Stores the change until a person approves it.
    Hold,
    /// Only reports the change.
    Show,
}

/// A change that a source would make, or has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Identifies the change.
    pub digest: String,
    /// The report of the change.
    pub text: String,
    /// Time at which the change was first seen, in seconds since 1970.
    pub since: i64,
}

impl Change {
    /// Returns the change that a preview reports. With [`Detail::Full`], fails if the text of the change is too
    /// long to be shown for approval.
    fn of(report: &Report, detail: Detail) -> anyhow::Result<Option<Self>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let text = report.data_text().trim_end().to_owned();
        if detail == Detail::Full && text.len() > MAX_TEXT {
            return Err(hinted(
                format!(
                    "the change has {} bytes of text, more than the {MAX_TEXT} that can be approved",
                    text.len()
                ),
                "shorten the descriptions of the source, or import it in parts with `--select`",
            ));
        }
        Ok(report.digest.clone().map(|digest| Self { digest, text, since }))
    }

    /// Returns the command that approves exactly this change.
    pub fn approval_command(&self, import: &str) -> String {
        format!("callgate import approve {import} {}", self.digest)
    }
}

/// An event of a watched source.
#[derive(Debug)]
pub enum Event<'a> {
    /// There is a change.
    Changed(&'a Change),
    /// The source could not be read.
    Failed(&'a anyhow::Error),
    /// The source can be read again.
    Recovered,
}

impl Importer<'_> {
    /// Returns the change that the source would make. Fails if its text is too long to be shown for approval.
    pub async fn change(self) -> anyhow::Result<Option<Change>> {
        ensure!(!self.source.methods.is_empty(), NO_METHODS);
        Change::of(&self.preview(Detail::Full).await?, Detail::Full)
    }

    /// Imports the source once. Depending on the policy, writes the change, stores it for approval, or only returns it.
    /// Notes need no approval: they record which sources have a method, and other imports read them.
    pub async fn run(self, name: &str, policy: Policy) -> anyhow::Result<Option<Change>> {
        let detail = if policy == Policy::Hold { Detail::Full } else { Detail::Brief };
        ensure!(!self.source.methods.is_empty(), NO_METHODS);
        let report = self.preview(detail).await?;
        let change = Change::of(&report, detail)?;
        if report.has_only_notes && policy != Policy::Show {
            self.write_notes().await?;
        }
        match (policy, &change) {
            // Writes the whole difference, not only this change, because imports that run at the same time may have
            // written a part of it.
            (Policy::Apply, Some(_)) => {
                self.write(None).await?;
            }
            (Policy::Hold, change) => Pending(self.store).set(name, change.as_ref()).await?,
            (Policy::Apply | Policy::Show, _) => {}
        }
        Ok(change)
    }
}

/// Repeats imports and logs their events, until the future is dropped.
pub async fn serve<F: Future<Output = anyhow::Result<Option<Change>>>>(
    imports: Vec<RepeatedImport<'_, impl Fn() -> F>>,
) {
    let tasks = imports.into_iter().map(|RepeatedImport { name, run, interval, policy }| {
        repeat(run, interval, Ok(None), move |event| log(name, policy, &event))
    });
    // Runs the imports concurrently, so that one that hangs does not delay the others.
    join_all(tasks).await;
}

/// Repeats an import that has just been run, until the future is dropped. Does not report the change with the digest
/// `last` again.
pub async fn watch<F: Future<Output = anyhow::Result<Option<Change>>>>(
    run: impl Fn() -> F,
    interval: Duration,
    last: Option<String>,
    on_event: impl FnMut(Event<'_>),
) {
    tokio::time::sleep(interval).await;
    repeat(run, interval, Ok(last), on_event).await;
}

/// Runs an import at once and after each interval, and reports what is new. `last` is the digest of the last change,
/// or the last error.
async fn repeat<F: Future<Output = anyhow::Result<Option<Change>>>>(
    run: impl Fn() -> F,
    interval: Duration,
    mut last: Result<Option<String>, String>,
    mut on_event: impl FnMut(Event<'_>),
) {
    loop {
        let result = run().await;
        let outcome = match &result {
            Ok(change) => Ok(change.as_ref().map(|change| change.digest.clone())),
            Err(error) => Err(format!("{error:#}")),
        };
        if outcome.is_ok() && last.is_err() {
            on_event(Event::Recovered);
        }
        match &result {
            Ok(Some(change)) if outcome != last => on_event(Event::Changed(change)),
            Err(error) if outcome != last => on_event(Event::Failed(error)),
            _ => {}
        }
        last = outcome;
        tokio::time::sleep(interval).await;
    }
}

fn log(name: &str, policy: Policy, event: &Event<'_>) {
    let change = match event {
        Event::Recovered => {
            return tracing::info!("the source of import `{name}` can be read again");
        }
        Event::Failed(error) => {
            let error = one_line(&format!("{error:#}"));
            return tracing::warn!(error, "import `{name}` failed, methods are unchanged");
        }
        Event::Changed(change) => change,
    };
    let text = truncated(&change.text);
    match policy {
        Policy::Apply => tracing::info!("import `{name}` wrote these changes:\n{text}"),
        Policy::Hold => {
            // A change that is not shown completely must not be approved from the log.
            let command = if text == change.text {
                format!("approve with `{}`", change.approval_command(name))
            } else {
                "`callgate import pending` shows all changes".to_owned()
            };
            tracing::warn!("import `{name}` would change methods ({command}):\n{text}");
        }
        Policy::Show => tracing::warn!("import `{name}` would change methods:\n{text}"),
    }
}

/// Returns the beginning of a change, and the number of bytes that are left out.
fn truncated(text: &str) -> String {
    let (beginning, rest) = text.split_at(text.floor_char_boundary(MAX_LOGGED));
    match rest.len() {
        0 => beginning.to_owned(),
        omitted => format!("{beginning}\n… and {omitted} more bytes"),
    }
}

/// The changes that wait for approval. They are stored in the registry's metadata.
#[derive(Debug)]
pub struct Pending<'a>(pub &'a Arc<SqlStore>);

impl Pending<'_> {
    fn key(name: &str) -> String {
        format!("import_pending {name}")
    }

    /// Returns the change of an import that waits for approval.
    pub async fn get(&self, name: &str) -> anyhow::Result<Option<Change>> {
        let text = self.0.meta(&Self::key(name)).await?.filter(|text| !text.is_empty());
        // An invalid value is ignored, because the next reading of the source replaces it.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Stores a change, unless the same change is already stored. `None` removes the stored change.
    pub async fn set(&self, name: &str, change: Option<&Change>) -> anyhow::Result<()> {
        let stored = self.get(name).await?;
        if stored.as_ref().map(|stored| &stored.digest) == change.map(|change| &change.digest) {
            return Ok(());
        }
        let text = change.map(serde_json::to_string).transpose()?.unwrap_or_default();
        Ok(self.0.set_meta(&Self::key(name), &text).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use callgate_registry::{MethodRow, Store as _};
    use futures_util::FutureExt as _;
    use futures_util::future::try_join_all;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::plan::tests::new_registry;
    use crate::source::{ImportOptions, Proposal, RequiredMask, Source};

    #[tokio::test]
    async fn a_hanging_import_does_not_delay_other_imports() {
        let (sender, mut runs) = mpsc::unbounded_channel();
        let import = |name, run: Box<dyn Fn() -> _>| RepeatedImport {
            name,
            run,
            interval: Duration::from_millis(1),
            policy: Policy::Apply,
        };
        let run = move || {
            sender.send(()).unwrap();
            ready(Ok(None)).boxed()
        };
        let imports =
            vec![import("hangs", Box::new(|| pending().boxed())), import("works", Box::new(run))];
        let two_runs = async {
            for _ in 0..2 {
                runs.recv().await.unwrap();
            }
        };
        let either = async {
            tokio::select! { () = serve(imports) => {}, () = two_runs => {} }
        };
        timeout(Duration::from_mins(1), either).await.unwrap();
    }

    /// If two imports need the same new section and one import has written it, the other import no longer makes the
    /// same change.
    #[tokio::test]
    async fn concurrent_imports_are_all_written() {
        let (store, _directory) = new_registry().await;
        let names: Vec<String> = (0..12).map(|n| format!("source{n}")).collect();
        let sources: Vec<Source> = names.iter().map(|name| source(name)).collect();
        let options = ImportOptions::default();
        let run =
            |source| Importer { source, store: &store, options: &options }.run("", Policy::Apply);
        try_join_all(sources.iter().map(run)).await.unwrap();
        assert_eq!(store.catalog_rows().await.unwrap().methods.len(), names.len());
    }

    /// Two documents lose the method that both have, one after the other, and otherwise stay the same.
    #[tokio::test]
    async fn a_method_that_two_documents_dropped_is_removed() {
        for policy in [Policy::Apply, Policy::Hold] {
            let (store, _directory) = &new_registry().await;
            let run = async |title: &'static str, ids: &'static [&'static str], policy| {
                let (source, options) = (&document(title, ids), &ImportOptions::default());
                Importer { source, store, options }.run(title, policy).await.unwrap()
            };
            run("Cats", &["ping", "cat"], Policy::Apply).await;
            run("Dogs", &["ping", "dog"], Policy::Apply).await;
            assert_eq!(run("Dogs", &["dog"], Policy::Show).await, None);
            assert_eq!(run("Dogs", &["dog"], policy).await, None);
            let change = run("Cats", &["cat"], policy).await.unwrap();
            assert!(change.text.starts_with("- ping  (hidden)"), "{}", change.text);
            // The document that owns the method loses it first.
            run("Cats", &["ping", "cat"], Policy::Apply).await;
            run("Dogs", &["ping", "dog"], policy).await;
            assert_eq!(run("Cats", &["cat"], policy).await, None);
            let change = run("Dogs", &["dog"], policy).await.unwrap();
            assert!(change.text.starts_with("- ping  (hidden)"), "{}", change.text);
        }
    }

    /// Two documents with the same methods do not replace each other's methods, not even hidden ones.
    #[tokio::test]
    async fn documents_with_the_same_methods_do_not_overwrite_each_other() {
        let (store, _directory) = new_registry().await;
        let sources = ["Cats", "Dogs"].map(|title| {
            let mut source = document(title, &["ping", "old"]);
            source.methods[1].row.exposed = Some("0".to_owned());
            source.methods[1].hidden = Some("deprecated");
            source
        });
        let options = &ImportOptions::default();
        let run = async |source| {
            Importer { source, store: &store, options }.run("", Policy::Apply).await.unwrap()
        };
        assert!(run(&sources[0]).await.is_some());
        assert_eq!(run(&sources[1]).await, None);
        let notes = store.imports().await.unwrap();
        for source in &sources {
            assert_eq!(run(source).await, None);
            assert_eq!(store.imports().await.unwrap(), notes);
        }
    }

    /// Returns an OpenRPC document. The descriptions of its methods are its title.
    fn document(title: &str, ids: &[&str]) -> Source {
        let mut source = Source::new(format!("OpenRPC document `{title}`"), "default");
        for id in ids {
            let description = Some(title.to_owned());
            let row =
                MethodRow { rpc_method: (*id).to_owned(), description, ..MethodRow::default() };
            source.add(Ok(Proposal { row, ..Proposal::default() })).unwrap();
        }
        source
    }

    fn source(name: &str) -> Source {
        let row = MethodRow { rpc_method: name.to_owned(), ..MethodRow::default() };
        let needs = Some(vec![("shop".to_owned(), RequiredMask::BySafety)]);
        let methods = vec![Proposal { row, needs, ..Proposal::default() }];
        Source { name: name.to_owned(), methods, ..Source::default() }
    }
}
