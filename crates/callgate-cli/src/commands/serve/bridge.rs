//! `callgate bridge`: MCP over standard input and output, forwarded to a server over HTTP.

mod endpoint;
mod token;

use std::io::ErrorKind;

use anyhow::{Context as _, Result};
use callgate::bridge::{self, BridgeError, Options};
use tokio::io::BufReader;

use crate::cli::BridgeArgs;
use crate::config::LogFormat;
use crate::{config, logging, standard_streams};

/// Interval between checks that the parent process is alive.
#[cfg(unix)]
const PARENT_CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn run(args: &BridgeArgs) -> Result<()> {
    logging::start(&config::log_filter_from_environment()?, LogFormat::Human)?;
    let options = options(args)?;
    // A runtime with one thread starts faster and uses less memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let shutdown_signal = callgate::http::shutdown_signal();
        let stop = async {
            tokio::select! {
                () = shutdown_signal => {}
                () = parent_exits() => tracing::info!("the parent process has exited"),
            }
        };
        let input = BufReader::new(standard_streams::input());
        bridge::run(&options, input, standard_streams::output(), stop).await
    });
    // Does not wait for a pending read of standard input, which may never end.
    runtime.shutdown_background();
    match result {
        // The client closed the connection. This is the normal end of a session.
        Err(BridgeError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn options(args: &BridgeArgs) -> Result<Options> {
    let options = Options::new(endpoint::endpoint(args)?);
    let mut options = token::with_token(options, args)?;
    for line in header_lines(&args.headers) {
        if line.trim_start().to_ascii_lowercase().starts_with("authorization") {
            token::warn_about_process_list("--header Authorization");
        }
        options = options.header(&line).context("`--header` is not valid")?;
    }
    if let Some(path) = &args.ca_file {
        let context = || format!("`--ca-file {}`", path.display());
        let pem = std::fs::read(path).with_context(context)?;
        options = options.ca_certificates(&pem).with_context(context)?;
    }
    Ok(options)
}

/// Joins headers that a client has split at spaces, such as `Authorization:`, `Basic`, `x`.
fn header_lines(arguments: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for argument in arguments {
        match lines.last_mut() {
            Some(line) if line.trim_end().ends_with(':') || !starts_header(argument) => {
                line.push(' ');
                line.push_str(argument);
            }
            _ => lines.push(argument.clone()),
        }
    }
    lines
}

fn starts_header(argument: &str) -> bool {
    argument.split_once(':').is_some_and(|(name, _)| !name.trim().contains(' '))
}

/// Completes when the parent process exits. The end of standard input is not a sufficient sign,
/// because another process may keep standard input open.
async fn parent_exits() {
    #[cfg(unix)]
    {
        let parent = std::os::unix::process::parent_id();
        while std::os::unix::process::parent_id() == parent {
            tokio::time::sleep(PARENT_CHECK_INTERVAL).await;
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_were_split_at_spaces_are_joined() {
        let lines = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            header_lines(&arguments)
        };
        assert_eq!(lines(&["A: b c", "D:e"]), ["A: b c", "D:e"]);
        assert_eq!(lines(&["A:", "Bearer", "x", "D:", "e"]), ["A: Bearer x", "D: e"]);
        assert_eq!(lines(&["X-Url:", "http://a/"]), ["X-Url: http://a/"]);
    }
}
