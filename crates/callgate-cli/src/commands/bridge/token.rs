//! Who the client is, out of the options and the environment.

use anyhow::Context as _;
use callgate::Secret;
use callgate::bridge::{HeaderError, Options};

use super::cannot_read;
use crate::cli::Bridge;
use crate::config::{TOKEN_VARIABLE, has_token_variable, token_of_environment};
use crate::errors::hinted;
use crate::printer::Printer;

/// With the token, if there is one.
pub(super) fn with_token(
    options: Options,
    arguments: &Bridge,
    printer: &mut Printer,
) -> anyhow::Result<Options> {
    match token(arguments, printer)? {
        Some((token, source)) => options.token_from(source, token.expose()).map_err(bad_token),
        None => Ok(options),
    }
}

/// From a file, the command line or the environment, in this order; and which of them.
fn token(
    arguments: &Bridge,
    printer: &mut Printer,
) -> anyhow::Result<Option<(Secret, &'static str)>> {
    if let Some(path) = &arguments.token_file {
        let text = std::fs::read_to_string(path).with_context(|| cannot_read(path))?;
        let token = Secret::new(text.trim_start_matches('\u{feff}'));
        return match token {
            Some(token) => Ok(Some((token, "--token-file"))),
            None => anyhow::bail!("there is no token in `{}`", path.display()),
        };
    }
    if let Some(token) = arguments.token.as_deref().and_then(Secret::new) {
        warn_of_process_list("--token", printer);
        return Ok(Some((token, "--token")));
    }
    if let Some(token) = token_of_environment() {
        return Ok(Some((token, TOKEN_VARIABLE)));
    }
    let empty = match &arguments.token {
        Some(_) => Some("--token"),
        None => has_token_variable().then_some(TOKEN_VARIABLE),
    };
    if let Some(empty) = empty {
        tracing::warn!("`{empty}` is empty: the bridge goes without a token");
    }
    Ok(None)
}

/// For what should not be on a command line.
pub(super) fn warn_of_process_list(option: &str, printer: &mut Printer) {
    printer.talk(format!(
        "callgate: others on this machine can see `{option}`; use `{TOKEN_VARIABLE}` or `--token-file`"
    ));
}

fn bad_token(error: HeaderError) -> anyhow::Error {
    match error {
        HeaderError::Placeholder(_, placeholder) => hinted(
            format!("the token is `{placeholder}`, which your client did not fill in"),
            "give the token in the environment of the program, as `CALLGATE_TOKEN`",
        ),
        _ => anyhow::anyhow!("the token has characters that no token can have"),
    }
}
