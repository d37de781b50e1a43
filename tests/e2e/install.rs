//! What a user installs: the command elsewhere, without the sources, called from a directory of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use spica_runner::image::Image;
use spica_runner::prepare;
use spica_runner::process;
use spica_runner::project::{HOME_VARIABLE, PREBUILT, Project, create_dir};

/// A directory to install to and to work in, removed at the end. What an installed command fetches and makes is the
/// suite's.
struct Place(PathBuf);

impl Place {
    fn new(project: &Project, name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("spica-install-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for part in ["prefix", "cache", "work"] {
            create_dir(&dir.join(part)).expect("a directory");
        }
        symlink(project.build(""), dir.join("cache/spica")).expect("a link");
        Self(dir)
    }

    /// The installed command, in a directory that has nothing to do with the sources.
    fn spica(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.0.join("prefix/bin/spica"));
        command.args(arguments).current_dir(self.0.join("work"));
        command.env_remove(HOME_VARIABLE).env("XDG_CACHE_HOME", self.0.join("cache"));
        command.output().expect("the command")
    }

    /// What the command says on standard output, having ended well.
    #[track_caller]
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.spica(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What every installed command can do without an emulated board.
    fn serves(&self) {
        assert_eq!(self.said(&["--version"]), concat!("spica ", env!("CARGO_PKG_VERSION"), "\n"));
        assert!(self.said(&["list", "--help"]).contains("Usage: spica list"));
        let files = self.said(&["pack", "--count", "1", "--output", "card"]);
        assert_eq!(files.lines().count(), 5, "{files}");
        for file in ["spica.zImage", "guests.cpio", "boot.cmd", "boot.scr", "README"] {
            assert!(self.0.join("work/card").join(file).is_file(), "{file}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The `spica` command of this build, which cargo puts two directories above this test.
pub fn command(project: &Project) -> PathBuf {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.root()).args(["build", "--locked", "--quiet", "-p", "spica-cli"]);
    process::output(&mut cargo, "cannot build the command").expect("the command");
    let test = std::env::current_exe().expect("this test");
    test.ancestors().nth(2).expect("a target directory").join("spica")
}

#[test]
fn what_is_installed_needs_no_sources() {
    let project = Project::find(None).expect("the project");
    let image = prepare::board_image(&project, Image::Shipped).expect("the board image");
    prepare::fetch(&project, false).expect("the guest");
    let place = Place::new(&project, "data");
    let prefix = place.0.join("prefix");
    let mut install = Command::new(command(&project));
    install.arg("install").arg("--prefix").arg(&prefix).env(HOME_VARIABLE, project.root());
    let written = process::output(&mut install, "cannot install").expect("an installation");
    let expected = ["bin/spica", "share/man/man1", "share/spica"].map(|p| prefix.join(p).display().to_string() + "\n");
    assert_eq!(written, expected.concat());
    place.serves();

    // The image is the one that was installed, and not built again.
    let packed = fs::read(place.0.join("work/card/spica.zImage")).expect("the packed image");
    assert_eq!(packed, fs::read(image).expect("the board image"));
    fs::write(prefix.join("share/spica").join(PREBUILT), b"another image").expect("an image");
    place.said(&["pack", "--count", "1", "--output", "card"]);
    assert_eq!(fs::read(place.0.join("work/card/spica.zImage")).expect("the packed image"), b"another image");

    pages(&prefix.join("share/man/man1"));
    let output = place.spica(&["test"]);
    assert_eq!(output.status.code(), Some(125));
    let home = prefix.join("share/spica").canonicalize().expect("the data");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "spica: spica test needs Spica's sources, and {} has none; call it in a directory with the sources, or name \
             that with --home\n",
            home.display()
        )
    );
    // It can install itself again, also onto itself.
    let again = place.said(&["install", "--prefix", prefix.to_str().expect("a name")]);
    assert_eq!(again, written);
    place.serves();
}

/// There is a page for the command and for each subcommand, and roff finds nothing wrong with them, if it is here.
fn pages(directory: &Path) {
    for name in ["spica", "spica-run", "spica-pack", "spica-list", "spica-install"] {
        let file = directory.join(format!("{name}.1"));
        let text = fs::read_to_string(&file).expect("a page");
        assert!(text.contains(&format!("\n.TH {name} 1 ")) && text.contains("\n.SH OPTIONS\n"), "{text}");
        let Ok(roff) = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&file).output() else { continue };
        assert!(roff.status.success() && roff.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&roff.stderr));
    }
    let run = fs::read_to_string(directory.join("spica-run.1")).expect("a page");
    assert!(run.contains("\n.SH EXAMPLES\n.nf\nspica run \\-\\-board vexpress\\-a9 "), "{run}");
}

#[test]
#[ignore = "compiles the command and all that it is made of once more, with optimisations: minutes"]
fn what_cargo_installs_uses_the_sources() {
    let project = Project::find(None).expect("the project");
    let place = Place::new(&project, "cargo");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.root()).args(["install", "--locked", "--quiet", "--path", "crates/cli"]);
    cargo.arg("--root").arg(place.0.join("prefix")).arg("--target-dir").arg(project.build("install"));
    process::output(&mut cargo, "cannot install with cargo").expect("an installation");
    place.serves();
}
