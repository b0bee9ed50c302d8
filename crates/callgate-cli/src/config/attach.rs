//! The attached Festi database: `--attach`, or `[attach]` in the file.

use std::path::PathBuf;

use anyhow::Context as _;
use callgate::model::LOCAL;
use callgate_import::{manifest, read_file};
use callgate_registry::{AttachOptions, DatabaseUrl, Overlay, PollIntervals, TableNames};

use super::ATTACH_PASSWORD_VARIABLE;
use super::database::with_password;
use super::sources::Values;
use crate::error_hints::hinted;

#[derive(Debug)]
pub(crate) struct Attach {
    pub(crate) database: DatabaseUrl,
    pub(crate) tables: TableNames,
    pub(crate) intervals: PollIntervals,
    overlay: Option<PathBuf>,
    upstream: String,
    output_schemas: bool,
}

impl Attach {
    pub(super) fn resolve(
        values: &Values,
        is_festi: bool,
        tables: Option<&TableNames>,
    ) -> anyhow::Result<Option<Self>> {
        let database = values.get("attach.database");
        if database.text.is_empty() {
            return match values.get("attach.overlay").text {
                "" => Ok(None),
                _ => Err(hinted(
                    "an overlay needs an attached database",
                    "attach one with `--attach URL`, or store the manifest with `callgate import manifest`",
                )),
            };
        }
        let Some(tables) = tables.filter(|_| is_festi) else {
            return Err(hinted(
                "only the database of a Festi application can be attached",
                "add `--preset festi`",
            ));
        };
        let upstream = values.get("attach.upstream");
        if upstream.text.is_empty() || upstream.text == LOCAL {
            return Err(upstream.invalid("the name of an upstream, such as `default`"));
        }
        let overlay = values.get("attach.overlay").text;
        // The URL is not shown, because it may contain a password.
        let url = database.text.parse().with_context(|| database.place())?;
        Ok(Some(Self {
            database: with_password(
                url,
                values.secret(ATTACH_PASSWORD_VARIABLE),
                values.get("attach.password_file"),
            )?,
            tables: tables.clone(),
            intervals: PollIntervals {
                access: values.get("attach.access_seconds").seconds(1..=3600)?,
                methods: values.get("attach.methods_seconds").seconds(1..=3600)?,
            },
            overlay: (!overlay.is_empty()).then(|| PathBuf::from(overlay)),
            upstream: upstream.text.to_owned(),
            output_schemas: values.get("attach.output_schemas").flag()?,
        }))
    }

    /// Returns the options of the store. Reads the current content of the overlay.
    pub(crate) fn options(&self) -> anyhow::Result<AttachOptions> {
        let overlay = match &self.overlay {
            None => Overlay::default(),
            Some(file) => manifest::overlay(&read_file(file)?)
                .with_context(|| format!("`{}`", file.display()))?,
        };
        Ok(AttachOptions {
            upstream: self.upstream.clone(),
            output_schemas: self.output_schemas,
            overlay,
        })
    }
}

/// Returns the names of the registry's own tables, which may be in the same database as Festi's
/// tables.
pub(super) fn registry_tables() -> anyhow::Result<TableNames> {
    Ok(TableNames::with_prefix("callgate_")?
        .rpc_methods("callgate_rpc_methods")?
        .users("callgate_users")?
        .users_types("callgate_users_types")?)
}
