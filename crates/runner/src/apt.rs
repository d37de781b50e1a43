//! Packages of another architecture, without touching this machine's package database.
//!
//! The guest is made of Debian's own packages for `armhf`. To get them, apt runs on a private state under `build/apt`:
//! its own list of sources, its own index files, no installed packages, `armhf` as its only architecture. The sources
//! are this machine's own Debian archives, so mirrors, proxies and keys are those that its owner chose, and our files
//! name no server. apt verifies signatures and checksums as always: options that would switch that off are not taken
//! over. Hooks are not, either: they belong to this machine's package database.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::error::{Context, Error, Result};
use crate::process;
use crate::progress::{self, Step};
use crate::project::{create_dir, read_text, remove_dir, write};

/// The architecture of guests' packages: ARMv7-A with VFP.
pub const ARMHF: &str = "armhf";

/// How many seconds to wait before fetching the lists once more, while a mirror is being updated: its files fit its
/// signed index again after seconds or minutes. `./spica` waits as long for the lists of this machine.
const PAUSES: [u64; 3] = [5, 15, 30];
/// Lists that are here are not good enough.
const NEW: Duration = Duration::ZERO;
/// How old lists may be that are as good as new ones, for who asks for packages that need not be the newest.
const RECENT: Duration = Duration::from_secs(3600);
/// What apt says of files that do not fit the signed index.
const UPDATED: [&str; 3] = ["Hash Sum mismatch", "File has unexpected size", "Mirror sync in progress"];

/// Unpacks a package into a directory, which need not be there, over what is in it. Nothing is installed: no maintainer
/// script runs.
///
/// # Errors
/// If it is no package, or there is no room.
pub fn unpack(package: &Path, into: &Path) -> Result<()> {
    let mut command = Command::new("dpkg-deb");
    let what = || format!("cannot unpack {}", package.display());
    process::output(command.arg("--extract").arg(package).arg(into), &what()).map(drop)
}

/// apt with a private state.
#[derive(Debug)]
pub struct Apt {
    config: PathBuf,
}

impl Apt {
    /// Makes a private state for packages of `architecture` in `dir` and fetches the index files.
    ///
    /// # Errors
    /// If this machine has no Debian archive among its sources, or if no index can be fetched.
    pub fn update(dir: &Path, architecture: &str) -> Result<Self> {
        Self::update_with(dir, architecture, &[])
    }

    /// As [`Apt::update`], but with the lists that are in `dir` if they were fetched a short while ago, from the same
    /// archives: what a server did not give then, it hardly gives now.
    ///
    /// # Errors
    /// As [`Apt::update`].
    pub fn recent(dir: &Path, architecture: &str) -> Result<Self> {
        let choose = |sources: &[Source], codename: &str| debian_archives(sources, codename, &[]);
        Self::update_from(dir, architecture, choose, RECENT)
    }

    /// As [`Apt::update`], with more components of the same archives than `main`: `non-free` for one. An archive that
    /// has no such component is no error: then its packages are missing.
    ///
    /// # Errors
    /// As [`Apt::update`].
    pub fn update_with(dir: &Path, architecture: &str, components: &[&str]) -> Result<Self> {
        Self::update_from(dir, architecture, |sources, codename| debian_archives(sources, codename, components), NEW)
    }

    /// As [`Apt::update`], with the backports of the same archives, and nothing else.
    ///
    /// # Errors
    /// As [`Apt::update`].
    pub fn update_backports(dir: &Path, architecture: &str) -> Result<Self> {
        Self::update_from(dir, architecture, backports, NEW)
    }

    /// As [`Apt::update`], with the source packages of the same archives, and nothing else.
    ///
    /// # Errors
    /// As [`Apt::update`].
    pub fn update_sources(dir: &Path, architecture: &str) -> Result<Self> {
        Self::update_from(dir, architecture, source_packages, NEW)
    }

    fn update_from(
        dir: &Path,
        architecture: &str,
        choose: impl FnOnce(&[Source], &str) -> Vec<Source>,
        age: Duration,
    ) -> Result<Self> {
        let os_release = read_text(Path::new("/etc/os-release"))?;
        let codename = os_release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME=")).unwrap_or("stable");
        let sources = choose(&machine_sources()?, codename.trim_matches('"'));
        if sources.is_empty() {
            return Err(Error::failed(format!(
                "no archive of Debian's {codename}/main among the sources in /etc/apt/sources.list and \
                 /etc/apt/sources.list.d; the guest's packages come from there"
            )));
        }
        let mut text = String::new();
        for source in &sources {
            let _ = writeln!(text, "{source}");
        }
        let configuration = configuration(dir, architecture, &machine_options());
        let (list, config, fetched) = (dir.join("sources/spica.sources"), dir.join("apt.conf"), dir.join("fetched"));
        let has = |file: &Path, text: &str| fs::read_to_string(file).is_ok_and(|there| there == text);
        if younger(&fetched, age) && has(&list, &text) && has(&config, &configuration) {
            return Ok(Self { config });
        }

        let _step = Step::begin(format!("fetching Debian's package lists for {architecture}"));
        let _ = fs::remove_file(&fetched);
        // Old index files would outlive a change of the sources.
        remove_dir(&dir.join("state"))?;
        for sub in ["state/lists/partial", "cache/archives/partial", "sources"] {
            create_dir(&dir.join(sub))?;
        }
        write(&list, text.as_bytes())?;
        write(&dir.join("status"), b"")?;
        write(&config, configuration.as_bytes())?;

        let apt = Self { config };
        apt.fetch_lists(|message, pause| {
            progress::say(message);
            std::thread::sleep(pause);
        });
        write(&fetched, b"")?;
        Ok(apt)
    }

    /// Fetches the index files, again and again while a mirror is being updated. If some are missing in the end, the
    /// others are still good; whether they suffice will show. `say` gets each message, and how long it is to wait then.
    fn fetch_lists(&self, mut say: impl FnMut(&str, Duration)) {
        let mut pauses = PAUSES.into_iter();
        while let Err(error) = self.run("apt-get", &["--quiet", "update"], "cannot fetch Debian's package lists") {
            let details = error.details.unwrap_or_default();
            let failed = |line: &&str| line.starts_with("E: Failed") || line.starts_with("W: Failed");
            let reason = details.lines().rfind(failed).unwrap_or(&error.message);
            let updated = UPDATED.iter().any(|text| details.contains(text));
            let Some(seconds) = pauses.next().filter(|_| updated) else {
                say(&format!("warning: some of Debian's package lists are missing: {reason}"), Duration::ZERO);
                return;
            };
            let message =
                format!("the mirror seems to be in the middle of an update; trying again in {seconds} s: {reason}");
            say(&message, Duration::from_secs(seconds));
        }
    }

    /// The fields of a package, as `apt-cache show` prints them: its newest version.
    ///
    /// # Errors
    /// If no list has the package.
    pub fn show(&self, package: &str) -> Result<Fields> {
        let purpose = format!("Debian's package lists have no {package}");
        let text = self.run("apt-cache", &["--no-all-versions", "show", package], &purpose)?;
        Ok(Fields(text))
    }

    /// The fields of those of `packages` that the lists have: their newest versions.
    ///
    /// # Errors
    /// If apt fails for another reason than that there are none.
    pub fn show_known(&self, packages: &[String]) -> Result<Vec<Fields>> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = vec!["--no-all-versions", "show"];
        args.extend(packages.iter().map(String::as_str));
        match self.run("apt-cache", &args, "cannot read Debian's package lists") {
            Ok(text) => Ok(stanzas(&text)),
            Err(error) if error.details.as_deref().is_some_and(|d| d.contains("No packages found")) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Packages with the shared libraries that they need, see [`library_closure`]. Those of `packages` that no list has
    /// are left out.
    ///
    /// # Errors
    /// As [`Apt::show_known`].
    pub fn closure(&self, packages: &[String]) -> Result<Vec<Fields>> {
        library_closure(packages, |names| self.show_known(names))
    }

    /// Downloads packages into `dir`, verified; gives the files in the order of the packages.
    ///
    /// # Errors
    /// If one cannot be fetched, or is not what the signed lists say.
    pub fn download(&self, packages: &[&str], dir: &Path) -> Result<Vec<PathBuf>> {
        let what = if packages.len() > 4 { format!("{} packages", packages.len()) } else { packages.join(", ") };
        let _step = Step::begin(format!("fetching {what}"));
        remove_dir(dir)?;
        create_dir(dir)?;
        let mut command = self.command("apt-get");
        command.current_dir(dir).args(["--quiet", "download"]).args(packages);
        process::output(&mut command, "cannot fetch the guest's packages")?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(dir).context(|| format!("cannot list {}", dir.display()))? {
            files.push(entry.context(|| format!("cannot list {}", dir.display()))?.path());
        }
        let file_of = |package: &&str| {
            let prefix = format!("{package}_");
            let file = files.iter().find(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)));
            file.cloned().ok_or_else(|| Error::failed(format!("apt-get did not download {package}")))
        };
        packages.iter().map(file_of).collect()
    }

    /// Downloads the source of a package into a new directory `dir`: the archive of its authors.
    ///
    /// # Errors
    /// If it cannot be fetched, or is not what the signed lists say.
    pub fn download_source(&self, package: &str, dir: &Path) -> Result<PathBuf> {
        let _step = Step::begin(format!("fetching the source of {package}"));
        remove_dir(dir)?;
        create_dir(dir)?;
        let mut command = self.command("apt-get");
        command.current_dir(dir).args(["--quiet", "--download-only", "source", package]);
        process::output(&mut command, "cannot fetch the source")?;
        let files = fs::read_dir(dir).context(|| format!("cannot list {}", dir.display()))?;
        let is_archive =
            |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().contains(".orig.tar."));
        let found = files.filter_map(|entry| Some(entry.ok()?.path())).find(is_archive);
        found.ok_or_else(|| Error::failed(format!("apt-get did not download the source of {package}")))
    }

    /// The packages that an installation of `packages` on an empty system would bring, dependencies included, as apt
    /// solves them. Patterns such as `?essential` are packages, too (apt-patterns(7)).
    ///
    /// # Errors
    /// If they cannot be installed together.
    pub fn resolve(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut command = self.command("apt-get");
        command.args(["--simulate", "--no-install-recommends", "install"]).args(packages);
        let text = process::output(&mut command, "cannot find out which packages the guest needs")?;
        let name = |line: &str| Some(line.strip_prefix("Inst ")?.split_whitespace().next()?.to_string());
        Ok(text.lines().filter_map(name).collect())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, program: &str, args: &[&str], purpose: &str) -> Result<String> {
        process::output(self.command(program).args(args), purpose)
    }
}

/// The fields of one package.
#[derive(Debug)]
pub struct Fields(String);

impl Fields {
    /// The value of a field that fits on one line.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = |l: &'_ str| l.strip_prefix(name)?.strip_prefix(':').map(str::len);
        self.0.lines().find_map(|l| value(l).map(|n| l[l.len() - n..].trim()))
    }

    /// The first package in `Depends` whose name begins with `prefix`.
    #[must_use]
    pub fn dependency(&self, prefix: &str) -> Option<&str> {
        let names = self.get("Depends")?.split([',', '|']).filter_map(|d| d.split_whitespace().next());
        names.into_iter().find(|n| n.starts_with(prefix))
    }

    /// The packages that must be there for this one to work: of alternatives, the first.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let lists = ["Pre-Depends", "Depends"].into_iter().filter_map(|f| self.get(f));
        lists.flat_map(|l| l.split(',')).filter_map(|d| d.split(['|', '(', ':']).next().map(str::trim))
    }

    /// Whether the package is in the archive's section for shared libraries.
    fn is_library(&self) -> bool {
        self.get("Section").is_some_and(|s| s.rsplit('/').next() == Some("libs"))
    }
}

/// The packages of a list as `apt-cache` prints it: stanzas with empty lines between them.
fn stanzas(text: &str) -> Vec<Fields> {
    let stanzas = text.split("\n\n").filter(|s| !s.trim().is_empty());
    stanzas.map(|s| Fields(s.trim_start_matches('\n').to_string())).collect()
}

/// Packages and, again and again, what they depend on in the archive's section for shared libraries.
///
/// This is what programs need that are unpacked and not installed. Other dependencies are there for the scripts of
/// packages and for other uses (a compiler, Perl, `adduser`); they would be ten times as much.
///
/// `show` gives the fields of those packages that exist. Each is asked for once; the result is in the order of
/// discovery.
///
/// # Errors
/// Those of `show`.
pub fn library_closure(
    packages: &[String],
    mut show: impl FnMut(&[String]) -> Result<Vec<Fields>>,
) -> Result<Vec<Fields>> {
    let mut asked: BTreeSet<String> = packages.iter().cloned().collect();
    let mut round: Vec<String> = packages.to_vec();
    let mut closure = Vec::new();
    let mut first = true;
    while !round.is_empty() {
        let mut next = Vec::new();
        for fields in show(&round)? {
            if !first && !fields.is_library() {
                continue;
            }
            for name in fields.needs() {
                if asked.insert(name.to_string()) {
                    next.push(name.to_string());
                }
            }
            closure.push(fields);
        }
        (round, first) = (next, false);
    }
    Ok(closure)
}

/// One archive: a stanza of a deb822 file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Source {
    types: Vec<String>,
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// Options that may be taken over, as whole lines: which keys sign the archive, and how old it may be.
    options: Vec<String>,
    disabled: bool,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "Types: {}", self.types.join(" "))?;
        writeln!(f, "URIs: {}", self.uris.join(" "))?;
        writeln!(f, "Suites: {}", self.suites.join(" "))?;
        writeln!(f, "Components: {}", self.components.join(" "))?;
        for option in &self.options {
            writeln!(f, "{option}")?;
        }
        Ok(())
    }
}

/// Options of a source that are taken over, by their names in deb822 and in one-line files.
const OPTIONS: &[(&str, &str)] = &[
    ("Signed-By", "signed-by"),
    ("Check-Valid-Until", "check-valid-until"),
    ("Check-Date", "check-date"),
    ("By-Hash", "by-hash"),
];

/// All sources of this machine.
fn machine_sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    if let Ok(text) = fs::read_to_string("/etc/apt/sources.list") {
        sources.extend(parse_one_line(&text));
    }
    let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") else { return Ok(sources) };
    let mut files: Vec<_> = dir.flatten().map(|e| e.path()).collect();
    files.sort();
    for file in files {
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => sources.extend(parse_one_line(&read_text(&file)?)),
            Some("sources") => sources.extend(parse_deb822(&read_text(&file)?)),
            _ => {}
        }
    }
    Ok(sources)
}

/// Sources in the form `deb [option=value …] uri suite component …`.
fn parse_one_line(text: &str) -> Vec<Source> {
    let parse = |line: &str| {
        let line = line.split('#').next()?.trim();
        let (kind, rest) = line.split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(str::to_string);
        let option = |option: &str| {
            let (key, value) = option.split_once('=')?;
            let (name, _) = OPTIONS.iter().find(|(_, one_line)| *one_line == key)?;
            Some(format!("{name}: {}", value.replace(',', " ")))
        };
        Some(Source {
            types: vec![kind.to_string()],
            uris: vec![words.next()?],
            suites: vec![words.next()?],
            components: words.collect(),
            options: options.split_whitespace().filter_map(option).collect(),
            disabled: false,
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Sources in the form of deb822: stanzas of fields, with empty lines between them.
fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            let words = |name: &str| -> Vec<String> {
                let value = fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
                value.map(|(_, v)| v.split_whitespace().map(str::to_string).collect()).unwrap_or_default()
            };
            let options = fields.iter().filter_map(|(n, v)| {
                let (name, _) = OPTIONS.iter().find(|(name, _)| n.eq_ignore_ascii_case(name))?;
                Some(format!("{name}: {v}"))
            });
            if !fields.is_empty() {
                sources.push(Source {
                    types: words("Types"),
                    uris: words("URIs"),
                    suites: words("Suites"),
                    components: words("Components"),
                    options: options.collect(),
                    disabled: words("Enabled").first().is_some_and(|v| v.eq_ignore_ascii_case("no")),
                });
            }
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_string(), value.trim().to_string()));
        }
    }
    sources
}

/// Those of `sources` that are Debian's archive of `codename` with its updates: suites by that name or by the name of
/// its role. The component is `main`, with those in `more`: an archive's owner chose the archive, not what we need of
/// it.
fn debian_archives(sources: &[Source], codename: &str, more: &[&str]) -> Vec<Source> {
    let base = |suite: &str| [codename, "stable", "oldstable", "testing", "unstable", "sid"].contains(&suite);
    let ours = |suite: &String| {
        let name = ["-updates", "-security", "/updates"].iter().find_map(|s| suite.strip_suffix(s));
        base(name.unwrap_or(suite))
    };
    let mut kept = Vec::new();
    for source in sources {
        let suites: Vec<_> = source.suites.iter().filter(|s| ours(s)).cloned().collect();
        // A disc in a drive has no packages of another architecture.
        let uris: Vec<_> = source.uris.iter().filter(|u| !u.starts_with("cdrom:")).cloned().collect();
        let binary = source.types.iter().any(|t| t == "deb");
        let main = source.components.iter().any(|c| c == "main");
        if !source.disabled && binary && main && !suites.is_empty() && !uris.is_empty() {
            let types = vec!["deb".to_string()];
            let components = ["main"].iter().chain(more).map(ToString::to_string).collect();
            kept.push(Source { types, uris, suites, components, options: source.options.clone(), disabled: false });
        }
    }
    kept
}

/// The backports of those of `sources` that have Debian's `codename` itself: they are beside it.
fn backports(sources: &[Source], codename: &str) -> Vec<Source> {
    let mut kept = debian_archives(sources, codename, &[]);
    kept.retain(|source| source.suites.iter().any(|suite| suite == codename));
    kept.iter_mut().for_each(|source| source.suites = vec![format!("{codename}-backports")]);
    kept
}

/// The source packages of those of `sources` that are Debian's archive of `codename`.
fn source_packages(sources: &[Source], codename: &str) -> Vec<Source> {
    let mut kept = debian_archives(sources, codename, &[]);
    kept.iter_mut().for_each(|source| source.types = vec!["deb-src".to_string()]);
    kept
}

/// This machine's options on how to reach archives (proxies, retries, time limits), one per line in apt's form; those
/// that weaken apt's checks, and those that ask for more index files, are left out.
fn machine_options() -> String {
    let mut command = Command::new("apt-config");
    command.args(["dump", "--no-empty", "--format", "%F \"%v\";%n"]);
    let Ok(dump) = process::output(&mut command, "cannot read apt's configuration") else { return String::new() };
    let refused = ["Acquire::Allow", "Acquire::IndexTargets", "Acquire::Languages", "Acquire::Changelogs"];
    let keep = |l: &&str| l.starts_with("Acquire::") && !refused.iter().any(|r| l.starts_with(r)) && l.len() < 4096;
    let quoted = |l: &&str| l.matches('"').count() == 2 && !l.to_ascii_lowercase().contains("allow-insecure");
    dump.lines().filter(keep).filter(quoted).map(|l| format!("{l}\n")).collect()
}

/// Whether a file was written less than `age` ago. What the clock puts into the future is not.
fn younger(file: &Path, age: Duration) -> bool {
    let written = fs::metadata(file).and_then(|data| data.modified());
    written.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|past| past < age))
}

/// The private configuration: it replaces the machine's own, since `APT_CONFIG` is read first and switches off the
/// rest.
fn configuration(dir: &Path, architecture: &str, options: &str) -> String {
    let dir = dir.display();
    format!(
        "// Written by spica. Options of this machine on how to reach archives:\n\
         {options}\
         // A private state, so that this machine's own stays as it is:\n\
         Dir::State \"{dir}/state\";\n\
         Dir::State::status \"{dir}/status\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         Dir::Log \"{dir}/log\";\n\
         Dir::Etc::main \"/dev/null\";\n\
         Dir::Etc::parts \"/dev/null\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\n\
         Dir::Etc::sourceparts \"{dir}/sources\";\n\
         APT::Architecture \"{architecture}\";\n\
         APT::Architectures {{ \"{architecture}\"; }};\n\
         // The user _apt need not be able to reach this directory:\n\
         APT::Sandbox::User \"root\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::AllowWeakRepositories \"false\";\n\
         Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n\
         // A server that cannot be reached is a failure, too:\n\
         APT::Update::Error-Mode \"any\";\n"
    )
}

#[cfg(test)]
mod lists;

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<String> {
        let mut sources = parse_deb822(text);
        sources.extend(parse_one_line(text));
        debian_archives(&sources, "bookworm", &[]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn deb822_keeps_suites_of_debian_and_its_keys() {
        let text = "# Mirror\nTypes: deb deb-src\nURIs: http://mirror/debian\n# inside\n\
                    Suites: bookworm bookworm-updates bookworm-backports\nComponents: main contrib\n\
                    Architectures: amd64\nSigned-By:\n -----BEGIN\n .\n x\nTrusted: yes\n\n\
                    Types: deb\nURIs: http://tool/\nSuites: nodistro\nComponents: main\n";
        assert_eq!(
            source(text),
            ["Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\
              Signed-By: \n -----BEGIN\n .\n x\n"]
        );
    }

    #[test]
    fn one_line_sources() {
        let text = "deb [arch=amd64 signed-by=/a.gpg,/b.gpg trusted=yes] http://m/debian bookworm main # comment\n\
                    deb-src http://m/debian bookworm main\n#deb http://m/debian bookworm main\n\
                    deb http://m/security stable/updates main non-free\ndeb cdrom:[disc]/ bookworm main\n";
        assert_eq!(
            source(text),
            [
                "Types: deb\nURIs: http://m/debian\nSuites: bookworm\nComponents: main\nSigned-By: /a.gpg /b.gpg\n",
                "Types: deb\nURIs: http://m/security\nSuites: stable/updates\nComponents: main\n"
            ]
        );
    }

    #[test]
    fn other_archives_are_left_out() {
        assert!(source("Types: deb\nURIs: http://m/\nSuites: bookworm\nComponents: stable\n").is_empty());
        assert!(source("Types: deb\nURIs: http://m/\nSuites: bookworm-pgdg\nComponents: main\n").is_empty());
        assert!(source("Types: deb\nEnabled: no\nURIs: http://m/\nSuites: bookworm\nComponents: main\n").is_empty());
    }

    #[test]
    fn backports_are_beside_the_release() {
        let sources = parse_one_line("deb http://m/debian-security bookworm-security main\n");
        assert!(backports(&sources, "bookworm").is_empty());
        let sources = parse_one_line("deb [signed-by=/a.gpg] http://m/debian bookworm main\n");
        assert_eq!(
            backports(&sources, "bookworm").iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["Types: deb\nURIs: http://m/debian\nSuites: bookworm-backports\nComponents: main\nSigned-By: /a.gpg\n"]
        );
    }

    #[test]
    fn source_packages_are_where_the_others_are() {
        let found = source_packages(
            &parse_deb822("Types: deb\nURIs: http://m/debian\nSuites: bookworm\nComponents: main\n"),
            "bookworm",
        );
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["Types: deb-src\nURIs: http://m/debian\nSuites: bookworm\nComponents: main\n"]);
    }

    #[test]
    fn lists_are_recent_for_a_while() {
        let dir = crate::scratch::Scratch::new(&std::env::temp_dir().join("spica-apt")).unwrap();
        let file = dir.path().join("fetched");
        assert!(!younger(&file, RECENT), "there are none");
        let write = |time| fs::File::create(&file).unwrap().set_modified(time).unwrap();
        let now = SystemTime::now();
        write(now - Duration::from_secs(60));
        assert!(younger(&file, RECENT));
        assert!(!younger(&file, NEW), "who wants new ones gets them");
        write(now - RECENT);
        assert!(!younger(&file, RECENT));
        write(now + Duration::from_secs(60));
        assert!(!younger(&file, RECENT), "nobody knows how old that is");
    }

    #[test]
    fn fields_of_a_package() {
        let fields = Fields("Package: meta\nDepends: a (= 1), linux-image-6.1.0-1-armmp (= 6.1) | b\nSize: 7\n".into());
        assert_eq!(fields.get("Size"), Some("7"));
        assert_eq!(fields.get("Siz"), None);
        assert_eq!(fields.dependency("linux-image-"), Some("linux-image-6.1.0-1-armmp"));
        assert_eq!(fields.dependency("c"), None);
    }
    #[test]
    fn more_components_are_asked_for() {
        let sources = parse_one_line("deb http://m/debian bookworm main contrib\ndeb http://n/ bookworm contrib\n");
        let archives = debian_archives(&sources, "bookworm", &["non-free"]);
        assert_eq!(archives.len(), 1);
        assert_eq!(archives[0].components, ["main", "non-free"]);
    }

    /// A small archive: lmbench's dependencies as Debian has them.
    const ARCHIVE: &str = "Package: lmbench\nSection: non-free/admin\nDepends: gcc, libc6-dev | libc-dev, \
        libc6 (>= 2.28), libtirpc3 (>= 1.0.2), perl:any\n\nPackage: gcc\nSection: devel\nDepends: libgmp10\n\n\
        Package: libc6\nSection: libs\nDepends: libgcc-s1\n\nPackage: libc6-dev\nSection: libdevel\n\n\
        Package: libgmp10\nSection: libs\n\nPackage: libtirpc3\nSection: libs\nPre-Depends: libc6 (>= 2)\n\
        Depends: libc6 (>= 2.34), absent\n\nPackage: libgcc-s1\nSection: libs\nDepends: libc6\n";

    #[test]
    fn a_closure_has_libraries_only() {
        let mut asked = Vec::new();
        let closure = library_closure(&["lmbench".into(), "nowhere".into()], |names| {
            asked.extend(names.iter().cloned());
            let known = stanzas(ARCHIVE).into_iter();
            Ok(known.filter(|f| names.iter().any(|n| Some(n.as_str()) == f.get("Package"))).collect())
        });
        let names: Vec<_> = closure.unwrap().iter().map(|f| f.get("Package").unwrap().to_string()).collect();
        assert_eq!(names, ["lmbench", "libc6", "libtirpc3", "libgcc-s1"]);
        let distinct: BTreeSet<_> = asked.iter().collect();
        assert_eq!(distinct.len(), asked.len(), "{asked:?}");
        assert!(!asked.contains(&"libgmp10".to_string()), "gcc's libraries are not wanted");
    }
}
