//! The program `callgate`: parse the command line, run a command, print its error.

mod cli;
mod commands;
mod config;
mod demo;
mod errors;
mod logging;
mod printer;
mod registry;
mod standard_streams;

use std::process::ExitCode;

use crate::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(Cli::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error);
            ExitCode::FAILURE
        }
    }
}
