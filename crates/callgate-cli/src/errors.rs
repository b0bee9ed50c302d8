//! What to do about errors that have a remedy.

use std::borrow::Cow;

use callgate::forward::{ForwardError, OptionError};
use callgate_import::Hinted;
use callgate_registry::{
    AttachError, CopyError, Entity, FestiError, OpenError, StoreError, UrlError,
};

pub(crate) use callgate_import::hinted;

/// The error for what this program was built without.
#[cfg(any(test, not(feature = "php")))]
pub(crate) fn not_built(what: &str, feature: &str) -> anyhow::Error {
    let message = format!("this program was built without {what} (cargo feature `{feature}`)");
    hinted(message, with_feature(feature))
}

/// How a program with a feature is made.
fn with_feature(feature: &str) -> String {
    format!(
        "install it with that feature: \
         `cargo install --locked --path crates/callgate-cli --features {feature}`"
    )
}

/// What to do about an error, where that is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return Some(hinted.hint.clone().into());
        }
        if let Some(ForwardError::Options(OptionError::NoWebSocket)) = cause.downcast_ref() {
            return Some(with_feature("websocket").into());
        }
        if let Some(error) = cause.downcast_ref::<CopyError>() {
            return copy_hint(error).map(Into::into);
        }
        if let Some(error) = cause.downcast_ref::<OpenError>() {
            return open_hint(error);
        }
        if let Some(error) = cause.downcast_ref::<AttachError>() {
            return attach_hint(error);
        }
        store_hint(cause.downcast_ref()?)
    })
}

fn store_hint(error: &StoreError) -> Option<Cow<'static, str>> {
    let hint = match error {
        StoreError::Database(error) => error.advice()?,
        StoreError::Festi(error) => return festi_hint(error),
        StoreError::FestiReadOnly { remedy, .. } => return Some(remedy.clone().into()),
        StoreError::Conflict => "try again when the others are done",
        StoreError::NotFound { entity, .. } => match entity {
            Entity::User => "`callgate user list` shows them, `callgate user add` adds one",
            Entity::Role => "`callgate user add NAME --role ROLE` makes a role",
            Entity::Section => {
                "`callgate section list` shows them, `callgate section add` adds one"
            }
            Entity::Method => "`callgate method list` shows them",
            Entity::Token => "`callgate token list` shows them",
            Entity::Upstream => "`callgate upstream list` shows them",
        },
        StoreError::AlreadyExists { entity: Entity::Method, .. } => {
            "change it with `callgate method edit`"
        }
        StoreError::AlreadyExists { .. } => return None,
    };
    Some(hint.into())
}

fn open_hint(error: &OpenError) -> Option<Cow<'static, str>> {
    let hint = match error {
        OpenError::Database(error) => error.advice()?,
        OpenError::Url(UrlError::NotBuilt { feature, .. }) => {
            return Some(with_feature(feature).into());
        }
        OpenError::Url(_) => return None,
        OpenError::TableExists(_) => {
            "name another database, or ours otherwise: `tables.prefix`, `tables.users`, \
                 `tables.users_types`, `tables.rpc_methods` in the configuration"
        }
        OpenError::Missing(_) => {
            "make one with `callgate migrate`, or name another with `--database URL`"
        }
        OpenError::Newer { .. } => "use the newer program that changed it",
        OpenError::Older { .. } => "bring it up to date with `callgate migrate`",
        OpenError::Unreleased => {
            "with the build that made it, copy it into a database of another kind (`callgate registry copy`), \
             and with this one from there into a new file; an export has methods only"
        }
        OpenError::OtherTables => {
            "leave `preset` and `tables.*` out, the registry knows its names; or name another \
                 database"
        }
    };
    Some(hint.into())
}

fn attach_hint(error: &AttachError) -> Option<Cow<'static, str>> {
    match error {
        AttachError::Festi(error) => festi_hint(error),
        AttachError::Store(error) => store_hint(error),
        AttachError::OwnUsers => {
            Some("name another registry with `--database`, one without users".into())
        }
    }
}

fn festi_hint(error: &FestiError) -> Option<Cow<'static, str>> {
    let hint = match error {
        FestiError::Open(error) => return open_hint(error),
        FestiError::Database(error) => error.advice()?,
        FestiError::Missing { prefix: Some(prefix), .. } => {
            let hint =
                format!("it has `{prefix}section_actions`: set `tables.prefix` to `{prefix}`");
            return Some(hint.into());
        }
        FestiError::Missing { prefix: None, .. } => {
            "name the database that Festi's Rpc plugin writes to, let this user read all of its \
             tables that docs/guide/festi.md names, and set `tables.*` where they are called otherwise"
        }
        FestiError::NotANumber { .. } => {
            "a site whose users, roles or sections have other keys than numbers cannot be attached"
        }
        FestiError::NoFile(_) | FestiError::TooManyRows { .. } => return None,
    };
    Some(hint.into())
}

fn copy_hint(error: &CopyError) -> Option<&'static str> {
    match error {
        CopyError::OpenSource(_, OpenError::Missing(_)) => {
            Some("name a registry that is there as the source, the first of the two")
        }
        // The cause has a hint.
        CopyError::OpenSource(..)
        | CopyError::Read(..)
        | CopyError::OpenTarget(..)
        | CopyError::Write(..) => None,
        CopyError::Incompatible { .. } => {
            Some("nothing was written; change the row in the source, and copy again")
        }
        CopyError::NotEmpty { .. } => Some("name an empty database as the target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_is_built_without_is_told_with_the_feature_that_brings_it() {
        let without_websocket = ForwardError::Options(OptionError::NoWebSocket);
        let without_driver =
            OpenError::Url(UrlError::NotBuilt { database: "SQL Server", feature: "mssql" });
        let errors = [
            anyhow::Error::new(without_driver),
            anyhow::Error::new(without_websocket).context("upstream `shop`"),
            not_built("a reader of PHP", "php"),
        ];
        let told = errors.map(|error| format!("{error:#}\nhint: {}", hint(&error).unwrap()));
        insta::assert_snapshot!(told.join("\n\n"));
    }
}
