//! The program `callgate`: parses the command line, runs a command, and prints an error.

mod cli;
mod commands;
mod config;
mod demo;
mod error_hints;
mod logging;
mod printer;
mod registry;
mod standard_streams;

use std::process::ExitCode;

use crate::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    disable_huge_pages();
    match commands::run(Cli::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Disables transparent huge pages. With huge pages, a server uses 17 MB more memory, and starts
/// more slowly, because the kernel fills this memory with zeros.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
