//! `spica prove`: a program of its own, because it needs optimisations, and libraries that nothing else does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use spica_runner::error::{Error, Result};
use spica_runner::needed;
use spica_runner::project::Project;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct ProveArgs {
    /// See `spica prove --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds the program, and becomes it.
pub fn run(project: &Project, args: ProveArgs) -> Result<()> {
    project.needs_sources("spica prove")?;
    needed::check(&["cargo", "rustc", "cc"])?;
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--locked", "--quiet", "--profile", "prove", "--package", "spica-prove", "--"]);
    let error = cargo.current_dir(project.root()).env("SPICA_HOME", project.root()).args(args.arguments).exec();
    Err(Error::failed(format!("cannot start cargo: {error}")))
}
