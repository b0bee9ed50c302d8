//! The token that the bridge sends to the server.

use callgate::Secret;
use callgate::bridge::{HeaderError, Options};

use crate::cli::BridgeArgs;
use crate::config::{TOKEN_VARIABLE, environment, secret_in_file};
use crate::error_hints::hinted;
use crate::printer;

/// Adds the token from the file, the command line or the environment, in this order of precedence.
pub(super) fn with_token(options: Options, args: &BridgeArgs) -> anyhow::Result<Options> {
    let from_file = match &args.token_file {
        Some(path) => Some(secret_in_file("--token-file", path)?),
        None => None,
    };
    let (text, source) = match (from_file, &args.token, environment(TOKEN_VARIABLE)) {
        (Some(text), ..) => (text, "--token-file"),
        (None, Some(text), _) if Secret::new(text).is_some() => {
            warn_about_process_list("--token");
            (text.clone(), "--token")
        }
        (None, _, Some(text)) => (text, TOKEN_VARIABLE),
        (None, Some(text), None) => (text.clone(), "--token"),
        (None, None, None) => return Ok(options),
    };
    let Some(token) = Secret::new(&text) else {
        tracing::warn!("`{source}` is empty: requests are sent without a token");
        return Ok(options);
    };
    options.token_from(source, token.expose()).map_err(|error| match error {
        HeaderError::Placeholder(_, placeholder) => hinted(
            format!("the token is `{placeholder}`, a placeholder that the client did not replace"),
            "set the token as `CALLGATE_TOKEN` in the environment of the program",
        ),
        _ => anyhow::anyhow!("the token contains characters that are not allowed in a header"),
    })
}

pub(super) fn warn_about_process_list(option: &str) {
    printer::message(format!(
        "callgate: other users of this machine can see `{option}`; use `{TOKEN_VARIABLE}` or `--token-file`"
    ));
}
