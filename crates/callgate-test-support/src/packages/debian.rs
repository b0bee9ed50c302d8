//! Debian packages, unpacked with their missing dependencies into a directory.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use tempfile::TempDir;

/// Returns the command of a program, such as `aria2c` of the package `aria2`.
///
/// Uses the system's program if it is installed, otherwise unpacks the package below `tmp`, which is
/// `CARGO_TARGET_TMPDIR`. The program's file name may end with a version, such as `php8.2`. `package` may be several
/// names with spaces between them.
pub fn debian(tmp: &Path, package: &'static str, program: &str) -> Command {
    if let Some(installed) = on_path(program).or_else(|| binary(Path::new("/"), program)) {
        return Command::new(installed);
    }
    let root = debian_package(tmp, package);
    let binary = binary(&root, program);
    let mut command =
        Command::new(binary.unwrap_or_else(|| panic!("`{package}` has no program `{program}`")));
    command.env("LD_LIBRARY_PATH", libraries(&root));
    command
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|it| it.is_file())
}

/// Finds a program below `root`, with or without a version at the end of its name.
fn binary(root: &Path, program: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(program);
        version.is_some_and(|it| it.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    // PostgreSQL has a directory for each version. Its programs in /usr/bin are slow wrapper scripts.
    let versions = entries(&root.join("usr/lib/postgresql")).map(|version| version.join("bin"));
    let common = ["usr/bin", "usr/sbin"].map(|directory| root.join(directory));
    versions.chain(common).find_map(|directory| entries(&directory).filter(is_program).min())
}

/// Returns the paths in a directory. If the directory does not exist, returns no paths.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the value of `LD_LIBRARY_PATH` for an unpacked package.
fn libraries(root: &Path) -> OsString {
    let directories = entries(&root.join("usr/lib")).chain(entries(&root.join("lib")));
    std::env::join_paths(directories.filter(|path| path.is_dir())).expect("paths have no colons")
}

/// Unpacks a package that the system does not have, once. Returns its directory.
pub fn debian_package(tmp: &Path, package: &'static str) -> PathBuf {
    static UNPACKED: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    let mut unpacked = UNPACKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let directories = unpacked.get_or_insert_default();
    directories.entry(package).or_insert_with(|| unpack(tmp, package)).clone()
}

fn unpack(tmp: &Path, package: &str) -> PathBuf {
    let base = tmp.join("debian");
    let root = base.join(package.replace(' ', "+"));
    if root.is_dir() {
        return root;
    }
    std::fs::create_dir_all(&base).expect("directory is writable");
    // Several test processes may unpack the package at the same time, and apt locks its lists.
    let lock = File::create(base.join("lock")).expect("directory is writable");
    lock.lock().expect("file can be locked");
    if root.is_dir() {
        return root;
    }
    let temporary = TempDir::with_prefix_in("fresh", &base).expect("directory is writable");
    let (extracted, downloads) =
        (temporary.path().join("fresh"), temporary.path().join("downloads"));
    std::fs::create_dir(&downloads).expect("directory is writable");
    let downloaded = Apt::default().download(package, &downloads);
    // The system's package lists may be old or missing.
    let downloaded =
        downloaded.or_else(|_| Apt::with_private_lists(&base)?.download(package, &downloads));
    downloaded.unwrap_or_else(|error| panic!("{error}"));
    for file in entries(&downloads) {
        let mut unpack = Command::new("dpkg");
        unpack.arg("-x").arg(file).arg(&extracted);
        run(&mut unpack).unwrap_or_else(|error| panic!("{error}"));
    }
    // Renaming is atomic, so that an interrupted test leaves nothing.
    std::fs::rename(extracted, &root).expect("directory is writable");
    root
}

/// `apt-get` with the system's package lists, or with separate lists for tests.
#[derive(Default)]
struct Apt {
    options: Vec<OsString>,
}

impl Apt {
    fn with_private_lists(base: &Path) -> Result<Self, String> {
        let lists = base.join("lists");
        std::fs::create_dir_all(lists.join("partial")).expect("directory is writable");
        let mut option = OsString::from("Dir::State::lists=");
        option.push(&lists);
        // apt's sandbox user cannot write to this directory.
        let root = OsString::from("APT::Sandbox::User=root");
        let apt = Self { options: vec!["-o".into(), option, "-o".into(), root] };
        run(&mut apt.command(&["update"]))?;
        Ok(apt)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        // Does not change the system's cache.
        command.args(["--quiet", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
        command.args(&self.options).args(arguments);
        command
    }

    /// Downloads a package and the dependencies that the system lacks.
    fn download(&self, package: &str, into: &Path) -> Result<(), String> {
        let simulate = ["install", "--simulate", "--no-install-recommends"];
        let output = run(self.command(&simulate).args(package.split(' ')))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
        run(self.command(&["download"]).args(names).current_dir(into)).map(drop)
    }
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.env("LC_ALL", "C").output();
    let output = output.map_err(|error| {
        format!("{command:?}: {error}; install the programs that tests start, or run on Debian")
    })?;
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(output) } else { Err(format!("{command:?}: {error}")) }
}
