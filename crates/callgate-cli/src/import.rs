//! Methods from elsewhere.
//!
//! A source (`openrpc.rs`, `introspect.rs`, …) proposes methods and says which it refuses; a running service
//! is asked for it (`service.rs`). `plan.rs` compares that with the registry, `report.rs` tells it, and
//! the registry writes it in one transaction. What an import wrote is remembered (`written.rs`), so that
//! the next one keeps what people changed since.

mod access;
mod attempts;
mod description;
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
use callgate::model::Safety;
use callgate_registry::{ImportRow, MethodRow, SqlStore, StoreError, TypeRow, check};

use crate::cli::ImportOptions;
use crate::errors::hinted;
use crate::printer::Printer;
use access::AccessProposal;
use field::Field;
use written::Written;

pub(crate) use attempts::Attempts;
pub(crate) use description::Description;
pub(crate) use plan::{Added, Plan, needs_by_rows};
pub(crate) use select::Selection;
pub(crate) use service::{Configured, Service, ServiceOptions, UpstreamKeys};
pub(crate) use written::Needs;

/// Maximum size of a file in bytes.
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
    /// Creates a source whose methods are on one upstream.
    pub(crate) fn new(name: impl Into<String>, upstream: &str) -> Self {
        let upstreams = BTreeSet::from([upstream.to_owned()]);
        Self { name: name.into(), upstreams, ..Self::default() }
    }

    /// Adds a method, on the upstream of the source unless it names its own, or why it is none.
    pub(crate) fn add(&mut self, method: Result<Proposal, Refusal>) {
        match method {
            Ok(mut proposal) => {
                let upstream = proposal.row.upstream.take();
                proposal.row.upstream = upstream.or_else(|| self.upstreams.first().cloned());
                self.methods.push(proposal);
            }
            Err(refusal) => self.refused.push(refusal),
        }
    }

    /// Applies what the command line says of all methods: what callers need, and whether results are
    /// described. An output schema that is wrong is left out, since the method is good without it.
    pub(crate) fn settle(&mut self, options: &ImportOptions) {
        for method in &mut self.methods {
            method.add_sections(&options.sections, self.does_service_ask);
            let row = &mut method.row;
            if row.output_schema.is_none() && row.return_type.is_none() {
                continue;
            }
            let without = MethodRow { output_schema: None, return_type: None, ..row.clone() };
            if options.no_output_schemas {
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

    /// Shows what an import would change, every word of it if `in_full`. Returns a digest of the change;
    /// `None` where nothing changes.
    pub(crate) async fn preview(
        &self,
        store: &Arc<SqlStore>,
        options: &ImportOptions,
        in_full: bool,
        printer: &mut Printer,
    ) -> anyhow::Result<Option<String>> {
        let plan = Plan::read(store, self, options).await?;
        report::diff(self, &plan, in_full, printer);
        Ok(plan.digest())
    }

    /// Writes what an import changes, and only the change with the `expected` digest where there is one.
    /// Returns the digest.
    pub(crate) async fn write(
        &self,
        store: &Arc<SqlStore>,
        options: &ImportOptions,
        expected: Option<&str>,
        printer: &mut Printer,
    ) -> anyhow::Result<Option<String>> {
        for attempt in 0..TRIES {
            let plan = Plan::read(store, self, options).await?;
            let digest = plan.digest();
            if expected.is_some_and(|expected| digest.as_deref() != Some(expected)) {
                return Err(hinted(
                    "the source or the registry has changed since, and nothing was written",
                    "ask again: what it would do now is another thing",
                ));
            }
            if attempt == 0 {
                report::preface(self, &plan, printer);
            }
            match store.import(&plan.import).await {
                Err(StoreError::Moved) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    report::summary(self, &plan, printer);
                    return Ok(digest);
                }
            }
        }
        Err(StoreError::Moved.into())
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
    /// Creates a proposal. The safety is guessed from the id and the description unless the source says it.
    pub(crate) fn new(mut row: MethodRow, safety: Option<Safety>) -> Self {
        let description = row.description.as_deref().unwrap_or_default();
        let guess =
            if safety.is_none() { safety::guess(&row.rpc_method, description) } else { None };
        row.safety = safety.or(guess).map(|safety| safety.as_str().to_owned());
        Self { row, safety_is_guess: guess.is_some(), ..Self::default() }
    }

    /// Makes it no tool, where there is a reason.
    pub(crate) fn hide(mut self, reason: Option<&'static str>) -> Self {
        if reason.is_some() {
            self.row.exposed = Some("0".to_owned());
        }
        Self { hidden: reason, ..self }
    }

    /// Adds what callers need on sections that the command line names. They replace nothing that the
    /// service asks of callers, and no later import takes them back.
    fn add_sections(&mut self, sections: &[(String, Needed)], does_service_ask: bool) {
        if sections.is_empty() {
            return;
        }
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

/// Something of a source that is not taken, or not as it is there.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The method's id, or where it stands.
    pub(crate) id: String,
    pub(crate) reason: String,
    /// Whether the method is hidden if it was imported before, since it may be restricted now.
    pub(crate) hides: bool,
}

impl Refusal {
    /// A method that stays as it is if it was imported before.
    pub(crate) fn new(id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { id: id.into(), reason: reason.into(), hides: false }
    }
}

/// The rows whose safety is an import's guess.
pub(crate) async fn guessed<'a>(
    store: &Arc<SqlStore>,
    rows: impl IntoIterator<Item = &'a MethodRow>,
) -> anyhow::Result<Vec<&'a MethodRow>> {
    let notes = store.imports().await?;
    let key = |note: &'_ ImportRow| (note.upstream.clone(), note.rpc_method.clone());
    let notes: HashMap<_, _> = notes.iter().map(|note| (key(note), note)).collect();
    let is_guess = |row: &&MethodRow| {
        let note = notes.get(&(row.upstream_name().to_owned(), row.rpc_method.clone()));
        note.map(|note| Written::read(note)).is_some_and(|written| {
            written.safety_is_guess
                && written.get(Field::Safety) == Field::Safety.value(row).as_deref()
        })
    };
    Ok(rows.into_iter().filter(is_guess).collect())
}

/// Returns a file's text, without a byte order mark.
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
    use callgate_registry::{DatabaseOptions, DatabaseUrl, Store as _};

    use super::*;

    #[tokio::test]
    async fn what_was_not_seen_is_not_written() {
        let place = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(place.path().join("a.db"));
        let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
        let store = Arc::new(store);
        let mut source = Source { name: "manifest".to_owned(), ..Source::default() };
        let row = MethodRow { rpc_method: "pet.get".to_owned(), ..MethodRow::default() };
        source.methods.push(Proposal { row, ..Proposal::default() });
        let (options, mut printer) = (ImportOptions::default(), Printer::memory());
        let seen = source.preview(&store, &options, false, &mut printer).await.unwrap().unwrap();
        // Between the look and the writing, the source has become another.
        source.methods[0].row.title = Some("Other".to_owned());
        let written = source.write(&store, &options, Some(&seen), &mut printer).await;
        let error = written.unwrap_err();
        assert!(error.to_string().contains("nothing was written"), "{error}");
        assert!(store.catalog_rows().await.unwrap().methods.is_empty());
        source.methods[0].row.title = None;
        source.write(&store, &options, Some(&seen), &mut printer).await.unwrap();
        assert_eq!(store.catalog_rows().await.unwrap().methods.len(), 1);
    }
}
