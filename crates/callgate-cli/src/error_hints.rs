//! Hints for errors, chosen by type.

use std::borrow::Cow;

use callgate::forward::{EndpointError, ForwardError, OptionError, TargetError};
use callgate_import::Hinted;
use callgate_registry::{
    AttachError, CopyError, Entity, FestiError, OpenError, StoreError, UrlError,
};

pub(crate) use callgate_import::hinted;

#[cfg(any(test, not(feature = "php")))]
pub(crate) fn not_built(capability: &str, feature: &str) -> anyhow::Error {
    let message =
        format!("this program was built without {capability} (cargo feature `{feature}`)");
    hinted(message, with_feature(feature))
}

fn with_feature(feature: &str) -> String {
    format!(
        "install it with that feature: \
         `cargo install --locked --path crates/callgate-cli --features {feature}`"
    )
}

/// Minimum similarity at which a name is suggested.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns the known name that is most similar to `name`, if it is similar enough.
pub(crate) fn nearest<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    let candidates = known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(candidate.as_ref(), name), candidate));
    let best = candidates.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).map(|(_, candidate)| candidate)
}

/// Returns the hint of an error, or else of its first cause that has a hint.
pub(crate) fn hint(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return Some(hinted.hint.clone().into());
        }
        if let Some(ForwardError::Options(OptionError::NoWebSocket)) = cause.downcast_ref() {
            return Some(with_feature("websocket").into());
        }
        if let Some(TargetError::Url(EndpointError::UserInfo)) = cause.downcast_ref() {
            let hint = "remove both from the URL, and give `--basic USER` with `--password-env VARIABLE` or \
                        `--password-file FILE`; in the configuration, set `basic_user` and `basic_password`";
            return Some(hint.into());
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
        StoreError::Conflict => "try again when the other program has finished",
        StoreError::NotFound { entity, .. } => match entity {
            Entity::User => "`callgate user list` shows the users, `callgate user add` adds one",
            Entity::Role => "`callgate user add NAME --role ROLE` creates a role",
            Entity::Section => {
                "`callgate section list` shows the sections, `callgate section add` adds one"
            }
            Entity::Method => "`callgate method list` shows the methods",
            Entity::Token => "`callgate token list` shows the tokens",
            Entity::Upstream => "`callgate upstream list` shows the upstreams",
        },
        StoreError::AlreadyExists { entity: Entity::Method, .. } => {
            "change it with `callgate method set`"
        }
        StoreError::SharedActions { .. } => {
            "remove one of the methods, or give one of the rows in `rpc_methods` another `plugin` or `method`"
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
            "use another database, or other table names: `tables.prefix`, `tables.users`, \
             `tables.users_types`, `tables.rpc_methods` in the configuration"
        }
        OpenError::Missing(_) => {
            "create one with `callgate migrate`, or use another with `--database URL`"
        }
        OpenError::Newer { .. } => "use the newer version of callgate that migrated the registry",
        OpenError::Older { .. } => "upgrade the registry with `callgate migrate`",
        OpenError::Unreleased => {
            "create a new registry: run `callgate export > methods.json` with the build that created the old one; \
             then, with another file or an empty database, run `callgate migrate` and `callgate import manifest \
             methods.json`, and add users, grants and tokens again"
        }
        OpenError::OtherTables => {
            "remove `preset` and `tables.*` from the configuration, because the registry stores its table names; or use another database"
        }
    };
    Some(hint.into())
}

fn attach_hint(error: &AttachError) -> Option<Cow<'static, str>> {
    match error {
        AttachError::Festi(error) => festi_hint(error),
        AttachError::Store(error) => store_hint(error),
        AttachError::HasUsers => Some("use `--database` to name a registry without users".into()),
    }
}

fn festi_hint(error: &FestiError) -> Option<Cow<'static, str>> {
    let hint = match error {
        FestiError::Open(error) => return open_hint(error),
        FestiError::Database(error) => error.advice()?,
        FestiError::Missing { prefix: Some(prefix), .. } => {
            let hint = format!(
                "the database has a table `{prefix}section_actions`: set `tables.prefix` to `{prefix}`"
            );
            return Some(hint.into());
        }
        FestiError::Missing { prefix: None, .. } => {
            "use the database that Festi's Rpc plugin writes to; let the database user read the tables that \
             docs/guide/festi.md lists; if the tables have other names, set `tables.*`"
        }
        FestiError::NotANumber { .. } => {
            "a site can be attached only if the keys of its users, roles and sections are numbers"
        }
        FestiError::NoFile(_) | FestiError::TooManyRows { .. } => return None,
    };
    Some(hint.into())
}

fn copy_hint(error: &CopyError) -> Option<&'static str> {
    match error {
        CopyError::OpenSource(_, OpenError::Missing(_)) => {
            Some("the first URL must be that of an existing registry")
        }
        // The cause has a hint.
        CopyError::OpenSource(..)
        | CopyError::Read(..)
        | CopyError::OpenTarget(..)
        | CopyError::Write(..) => None,
        CopyError::Incompatible { .. } => {
            Some("nothing was written; change the row in the source and copy again")
        }
        CopyError::NotEmpty { .. } => Some("use an empty database as the target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_missing_features_name_the_feature() {
        let without_websocket = ForwardError::Options(OptionError::NoWebSocket);
        let without_driver =
            OpenError::Url(UrlError::NotBuilt { database: "SQL Server", feature: "mssql" });
        let errors = [
            anyhow::Error::new(without_driver),
            anyhow::Error::new(without_websocket).context("upstream `shop`"),
            not_built("support for PHP", "php"),
        ];
        let messages = errors.map(|error| format!("{error:#}\nhint: {}", hint(&error).unwrap()));
        insta::assert_snapshot!(messages.join("\n\n"));
    }
}
