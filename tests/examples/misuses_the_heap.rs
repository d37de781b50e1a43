//! Writes a kernel module that misuses its kernel's heap, for who wants to see how that is found
//! (`docs/debugging.md`, "A bug in a module"). It is made of a module of Debian's kernel, which is fetched.

use std::path::PathBuf;

use spica_runner::error::{Context, Error, Result};
use spica_runner::project::Project;
use spica_tests::{kernel_module, module};

fn main() -> std::process::ExitCode {
    match make() {
        Ok(path) => {
            println!("{}", path.display());
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("misuses_the_heap: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn make() -> Result<PathBuf> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.ok_or_else(|| Error::failed("the file to write is missing: misuses_the_heap FILE"))?;
    let original = kernel_module(&Project::find(None)?, "net/rfkill/rfkill.ko")?;
    let original = std::fs::read(&original).context(|| format!("cannot read {}", original.display()))?;
    let made = module::misuses_the_heap(&original)?;
    std::fs::write(&path, made).context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
