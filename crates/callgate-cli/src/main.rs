//! The program `callgate`: parse the command line, run a command, print its error.

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

/// Disables the allocator's huge pages. They need 17 MB more for a server, and their memory is zeroed at the start.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
