//! Methods from elsewhere.
//!
//! A source (`openrpc.rs`, `introspect.rs`, …) proposes methods and says which it refuses; a running service
//! is asked for it (`service.rs`). `plan.rs` compares that with the registry, `report.rs` tells it, and
//! the registry writes it in one transaction. What an import wrote is remembered (`written.rs`), so that
//! the next one keeps what people changed since.

mod access;
mod attempts;
pub(crate) mod drupal;
pub(crate) mod festi;
pub(crate) mod field;
pub(crate) mod introspect;
pub(crate) mod manifest;
mod needs;
pub(crate) mod openrpc;
#[cfg(feature = "php")]
pub(crate) mod php;
mod plan;
mod report;
mod safety;
mod select;
mod service;
mod written;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use callgate::Mask;
use callgate_registry::{CatalogRows, ImportRow, MethodRow, Store, StoreError, TypeRow, check};

use crate::errors::hinted;
use crate::printer::Printer;
use access::AccessProposal;
use plan::Plan;

pub(crate) use attempts::Attempts;
pub(crate) use plan::{Added, needs_by_rows};
pub(crate) use select::Selection;
pub(crate) use service::{Configured, Service, ServiceOptions, UpstreamKeys};
pub(crate) use written::Needs;

/// Larger files are refused.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// How often to begin again when others write at the same time.
const TRIES: usize = 5;

/// What a source has.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// What tells it from others: methods that it had before, and has no more, are removed.
    pub(crate) name: String,
    /// The upstreams that its methods are on.
    pub(crate) upstreams: BTreeSet<String>,
    pub(crate) methods: Vec<Proposal>,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) types: Vec<TypeRow>,
    /// Parts of it that could not be read. What they had before may still be there, so nothing is
    /// removed.
    pub(crate) unread: Vec<Refusal>,
    pub(crate) access: AccessProposal,
    /// Whether the source says what the service itself asks of callers, beside which `--section` counts.
    pub(crate) does_service_ask: bool,
    /// Names of sources that this one replaces: what only they have is removed.
    pub(crate) supersedes: &'static [&'static str],
    /// Prefixes of names of sources whose methods this one leaves as they are, since those say more.
    pub(crate) weaker_than: &'static [&'static str],
    /// Keys that the row of the upstream should have.
    pub(crate) upstream_keys: Option<UpstreamKeys>,
    /// What else is worth telling.
    pub(crate) notes: Vec<String>,
}

impl Source {
    /// Returns `true` if a method that came from `other` is not to be replaced by one of this source.
    pub(crate) fn is_weaker_than(&self, other: &str) -> bool {
        self.weaker_than.iter().any(|stronger| other.starts_with(stronger))
    }

    /// Leaves out what is said about results: all of it unless `keep` is set, and otherwise where it makes
    /// no output schema, since the method is good without it.
    pub(crate) fn settle_outputs(&mut self, keep: bool) {
        for Proposal { row, .. } in &mut self.methods {
            if row.output_schema.is_none() && row.return_type.is_none() {
                continue;
            }
            let without = MethodRow { output_schema: None, return_type: None, ..row.clone() };
            if !keep {
                *row = without;
            } else if let Err(problem) = check(row)
                && check(&without).is_ok()
            {
                let id = &row.rpc_method;
                self.notes.push(format!("note: `{id}` has no output schema: {problem}"));
                *row = without;
            }
        }
    }
}

/// A method as a source has it.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    pub(crate) row: MethodRow,
    /// What callers need; `None` where the source says nothing of it.
    pub(crate) needs: Option<Vec<(String, Needed)>>,
    /// Whether they are those of the source and of the command line together.
    pub(crate) is_joined: bool,
    pub(crate) safety_is_guess: bool,
    /// Why it is not to be a tool.
    pub(crate) hidden: Option<&'static str>,
}

impl Proposal {
    /// Adds what callers need on sections that the command line names. They replace nothing that the
    /// service asks of callers, and no later import takes them back.
    fn add_sections(&mut self, sections: &[(String, Needed)], does_service_ask: bool) {
        if does_service_ask {
            self.is_joined = true;
            self.needs.get_or_insert_default().extend_from_slice(sections);
        } else {
            self.needs.get_or_insert_with(|| sections.to_vec());
        }
    }
}

/// What is needed on a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    Mask(Mask),
    /// Read for what only reads, write for the rest.
    BySafety,
    /// Nobody has enough.
    Closed,
}

/// A method that is not imported.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Its id, or where it stands.
    pub(crate) id: String,
    pub(crate) reason: String,
    /// Whether it is hidden if it was imported before, since it may be restricted now.
    pub(crate) hides: bool,
}

impl Refusal {
    /// A method that stays as it is if it was imported before.
    pub(crate) fn new(id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { id: id.into(), reason: reason.into(), hides: false }
    }
}

/// How to import.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    pub(crate) selection: &'a Selection,
    /// What callers need of methods of which the source does not say it.
    pub(crate) sections: &'a [(String, Needed)],
    /// Whether what a source no longer has is deleted, and not only hidden.
    pub(crate) prune: bool,
    pub(crate) dry_run: bool,
    /// Whether a dry run shows every word, for somebody who is to approve of them.
    pub(crate) in_full: bool,
    /// What somebody saw, as its digest: only that is written.
    pub(crate) expected: Option<&'a str>,
}

/// Compares, tells and, unless it is a dry run, writes. Where something changes, what comes back stands
/// for all of it.
pub(crate) async fn import(
    store: &Arc<dyn Store>,
    source: &mut Source,
    options: &Options<'_>,
    printer: &mut Printer,
) -> anyhow::Result<Option<String>> {
    if !options.sections.is_empty() {
        for method in &mut source.methods {
            method.add_sections(options.sections, source.does_service_ask);
        }
    }
    for attempt in 0..TRIES {
        let plan = plan(store, source, options).await?;
        if options.dry_run {
            report::diff(source, &plan, options.in_full, printer);
            return Ok(plan.digest());
        }
        let digest = plan.digest();
        if options.expected.is_some_and(|expected| digest.as_deref() != Some(expected)) {
            return Err(hinted(
                "the source or the registry has changed since, and nothing was written",
                "ask again: what it would do now is another thing",
            ));
        }
        if attempt == 0 {
            report::preface(source, &plan, printer);
        }
        match store.import(&plan.import).await {
            Err(StoreError::Moved) => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {
                report::summary(source, &plan, printer);
                return Ok(digest);
            }
        }
    }
    Err(StoreError::Moved.into())
}

async fn plan(
    store: &Arc<dyn Store>,
    source: &Source,
    options: &Options<'_>,
) -> anyhow::Result<Plan> {
    let written = store.imports().await?;
    let rows = store.catalog_rows().await?;
    let mut plan = Plan::new(source, &rows, &written, options);
    if !source.access.is_empty() {
        plan.add_access(source, &store.access_rows().await?, &store.tokens().await?);
    }
    Ok(plan)
}

/// What a source would bring into an empty registry.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) added: Vec<Added>,
    /// Not tools, and why.
    pub(crate) hidden: Vec<(String, &'static str)>,
    pub(crate) refused: Vec<Refusal>,
}

impl Alone {
    pub(crate) fn new(source: &Source) -> Self {
        let options = Options {
            selection: &Selection::default(),
            sections: &[],
            prune: false,
            dry_run: true,
            in_full: false,
            expected: None,
        };
        let plan = Plan::new(source, &CatalogRows::default(), &[], &options);
        Self { added: plan.added, hidden: plan.hidden, refused: plan.refused }
    }
}

/// The rows whose safety is an import's guess.
pub(crate) async fn guessed<'a>(
    store: &Arc<dyn Store>,
    rows: impl IntoIterator<Item = &'a MethodRow>,
) -> anyhow::Result<Vec<&'a MethodRow>> {
    let notes = store.imports().await?;
    let key = |note: &'_ ImportRow| (note.upstream.clone(), note.rpc_method.clone());
    let notes: HashMap<_, _> = notes.iter().map(|note| (key(note), note)).collect();
    let is_guess = |row: &&MethodRow| {
        let note = notes.get(&(row.upstream_name().to_owned(), row.rpc_method.clone()));
        let written = note.map(|note| written::Written::read(note));
        let safety = field::Field::Safety;
        written.is_some_and(|written| {
            written.safety_is_guess && written.get(safety) == safety.value(row).as_deref()
        })
    };
    Ok(rows.into_iter().filter(is_guess).collect())
}

/// A file as text.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let size = std::fs::metadata(file).with_context(|| format!("cannot read `{shown}`"))?.len();
    if size > MAX_FILE {
        return Err(hinted(
            format!("`{shown}` has {size} bytes, more than {MAX_FILE}"),
            "import it in parts",
        ));
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{shown}`"))?;
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use callgate_registry::{DatabaseOptions, DatabaseUrl, SqlStore};

    use super::*;

    #[tokio::test]
    async fn what_was_not_seen_is_not_written() {
        let place = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(place.path().join("a.db"));
        let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let mut source = Source { name: "manifest".to_owned(), ..Source::default() };
        let row = MethodRow { rpc_method: "pet.get".to_owned(), ..MethodRow::default() };
        source.methods.push(Proposal { row, ..Proposal::default() });
        let selection = Selection::default();
        let shown = Options {
            selection: &selection,
            sections: &[],
            prune: false,
            dry_run: true,
            in_full: false,
            expected: None,
        };
        let mut printer = Printer::memory();
        let seen = import(&store, &mut source, &shown, &mut printer).await.unwrap().unwrap();
        let options = Options { dry_run: false, expected: Some(&seen), ..shown };
        // Between the look and the writing, the source has become another.
        source.methods[0].row.title = Some("Other".to_owned());
        let error = import(&store, &mut source, &options, &mut printer).await.unwrap_err();
        assert!(error.to_string().contains("nothing was written"), "{error}");
        assert!(store.catalog_rows().await.unwrap().methods.is_empty());
        source.methods[0].row.title = None;
        import(&store, &mut source, &options, &mut printer).await.unwrap();
        assert_eq!(store.catalog_rows().await.unwrap().methods.len(), 1);
    }
}
