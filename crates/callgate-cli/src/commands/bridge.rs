//! `callgate bridge`: standard input and output of a client, an MCP server over HTTP.

mod place;
mod token;

use std::path::Path;

use anyhow::{Context as _, Result};
use callgate::bridge::{self, BridgeError, Options};
use tokio::io::BufReader;

use crate::cli::Bridge;
use crate::config::LogFormat;
use crate::printer::Printer;
use crate::{config, logging, standard_streams};

/// How often to look whether the program that started this one is there.
#[cfg(unix)]
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn run(arguments: &Bridge, printer: &mut Printer) -> Result<()> {
    stay_small();
    logging::start(&config::log_of_environment(), LogFormat::Human)?;
    let options = options(arguments, printer)?;
    // One thread is enough, is started sooner, and takes less.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let told = callgate::http::shutdown_signal();
        let stop = async {
            tokio::select! {
                () = told => {}
                () = parent_is_gone() => tracing::info!("the program that started this one is gone"),
            }
        };
        let input = BufReader::new(standard_streams::input());
        bridge::run(&options, input, standard_streams::output(), stop).await
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

fn options(arguments: &Bridge, printer: &mut Printer) -> Result<Options> {
    let options = Options::new(place::endpoint(arguments)?);
    let mut options = token::with_token(options, arguments, printer)?;
    for line in header_lines(&arguments.headers) {
        if line.trim_start().to_ascii_lowercase().starts_with("authorization") {
            token::warn_of_process_list("--header Authorization", printer);
        }
        options = options.header(&line).context("`--header` is not right")?;
    }
    if let Some(path) = &arguments.ca_file {
        let pem = std::fs::read(path).with_context(|| cannot_read(path))?;
        let context = || format!("`--ca-file {}` is not right", path.display());
        options = options.ca_certificates(&pem).with_context(context)?;
    }
    Ok(options)
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
    fn headers_that_were_split_at_spaces_are_put_together() {
        let lines = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            header_lines(&arguments)
        };
        assert_eq!(lines(&["A: b c", "D:e"]), ["A: b c", "D:e"]);
        assert_eq!(lines(&["A:", "Bearer", "x", "D:", "e"]), ["A: Bearer x", "D: e"]);
        assert_eq!(lines(&["X-Url:", "http://a/"]), ["X-Url: http://a/"]);
    }
}
