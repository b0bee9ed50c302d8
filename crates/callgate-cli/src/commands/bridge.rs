//! `callgate bridge`: standard input and output of a client, an MCP server over HTTP.

use std::path::Path;

use anyhow::Context as _;
use callgate::bridge::{self, BridgeError, Endpoint, HeaderError, Options};
use tokio::io::BufReader;

use crate::cli::{Bridge, Protocol};
use crate::config::{LogFormat, Secret};
use crate::errors::hinted;
use crate::printer::Printer;
use crate::standard_streams::{Input, Output};
use crate::{config, logging, server};

/// How often to look whether the program that started this one is there.
#[cfg(unix)]
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn run(arguments: &Bridge, printer: &mut Printer) -> anyhow::Result<()> {
    stay_small();
    logging::start(&config::log_of_environment(), LogFormat::Human)?;
    let options = options(arguments, printer)?;
    // One thread is enough, is started sooner, and takes less.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let stop = async {
            tokio::select! {
                () = server::told_to_stop() => {}
                () = parent_is_gone() => tracing::info!("the program that started this one is gone"),
            }
        };
        let (mut input, mut output) = (BufReader::new(Input::take()), Output::take());
        let ended = bridge::run(&options, &mut input, &mut output, stop).await;
        input.into_inner().give_back();
        output.give_back();
        ended
    });
    // Without waiting for a read of standard input that may never end.
    runtime.shutdown_background();
    match ended {
        // The client is gone, which is how this ends.
        Err(BridgeError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

/// The allocator asks for pages of two megabytes, which suits a server; here there is one client.
fn stay_small() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

fn options(arguments: &Bridge, printer: &mut Printer) -> anyhow::Result<Options> {
    let mut options = Options::new(endpoint(arguments)?);
    if let Some(token) = token(arguments, printer)? {
        options = options.token(token.expose()).map_err(bad_token)?;
    }
    for line in header_lines(&arguments.headers) {
        options = options.header(&line).context("`--header` is not right")?;
    }
    if let Some(path) = &arguments.ca_file {
        let pem = std::fs::read(path).with_context(|| cannot_read(path))?;
        let context = || format!("`--ca-file {}` is not right", path.display());
        options = options.ca_certificates(&pem).with_context(context)?;
    }
    Ok(options)
}

fn endpoint(arguments: &Bridge) -> anyhow::Result<Endpoint> {
    if let Some(url) = &arguments.url {
        return url.parse().context("`--url` is not right");
    }
    let scheme = match arguments.protocol {
        Protocol::Http => "http",
        Protocol::Https => "https",
    };
    let host = match arguments.host.trim() {
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        host => host.to_owned(),
    };
    let path = arguments.path.trim();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("{scheme}://{host}:{}{slash}{path}", arguments.port);
    url.parse().context("`--host` or `--path` is not right")
}

/// From a file, the command line or the environment, in this order.
fn token(arguments: &Bridge, printer: &mut Printer) -> anyhow::Result<Option<Secret>> {
    if let Some(path) = &arguments.token_file {
        let text = std::fs::read_to_string(path).with_context(|| cannot_read(path))?;
        let token = Secret::new(text.trim_start_matches('\u{feff}'));
        return match token {
            Some(token) => Ok(Some(token)),
            None => anyhow::bail!("there is no token in `{}`", path.display()),
        };
    }
    let named = arguments.token.as_deref().and_then(Secret::new);
    if named.is_some() {
        printer.talk(
            "callgate: others on this machine can see `--token`; use `CALLGATE_TOKEN` or \
             `--token-file`",
        );
    }
    Ok(named.or_else(Secret::of_environment))
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

fn cannot_read(path: &Path) -> String {
    format!("cannot read `{}`", path.display())
}

/// Headers, put together where a client has split them at their spaces: `Authorization:`, `Basic`, `x`.
fn header_lines(arguments: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for argument in arguments {
        match lines.last_mut() {
            Some(line) if line.trim_end().ends_with(':') || !begins_header(argument) => {
                line.push(' ');
                line.push_str(argument);
            }
            _ => lines.push(argument.clone()),
        }
    }
    lines
}

fn begins_header(argument: &str) -> bool {
    argument.split_once(':').is_some_and(|(name, _)| !name.trim().contains(' '))
}

/// Where standard input is shared with others, it does not end with the client.
async fn parent_is_gone() {
    #[cfg(unix)]
    {
        let parent = std::os::unix::process::parent_id();
        while std::os::unix::process::parent_id() == parent {
            tokio::time::sleep(LOOK).await;
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_19_headers_that_were_split_at_spaces_are_put_together() {
        let lines = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            header_lines(&arguments)
        };
        assert_eq!(lines(&["A: b c", "D:e"]), ["A: b c", "D:e"]);
        assert_eq!(lines(&["A:", "Bearer", "x", "D:", "e"]), ["A: Bearer x", "D: e"]);
        assert_eq!(lines(&["X-Url:", "http://a/"]), ["X-Url: http://a/"]);
    }
}
