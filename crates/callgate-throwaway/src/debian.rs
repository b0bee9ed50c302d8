//! Packages of Debian, unpacked into a directory together with what they need and the system has not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use tempfile::TempDir;

/// A program of a package, such as `aria2c` of `aria2`; the system's own, if it has one.
///
/// It may have a version behind its name, as `php` of `php-cli` has. Packages that need each other are named with
/// a space between. `tmp` is cargo's directory for tests' files, which packages are unpacked below.
pub fn debian(tmp: &Path, package: &'static str, program: &str) -> Command {
    if let Some(there) = on_path(program).or_else(|| binary(Path::new("/"), program)) {
        return Command::new(there);
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

/// By its name, or with a version behind it: `php8.2`.
fn binary(root: &Path, program: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(program);
        version.is_some_and(|it| it.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    // PostgreSQL has a directory for each version; what it has elsewhere looks for them, slowly.
    let versions = entries(&root.join("usr/lib/postgresql")).map(|version| version.join("bin"));
    let usual = ["usr/bin", "usr/sbin"].map(|directory| root.join(directory));
    versions.chain(usual).find_map(|directory| entries(&directory).filter(is_it).min())
}

/// What a directory holds; nothing, where there is none.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Where the libraries are that came along.
fn libraries(root: &Path) -> OsString {
    let all = entries(&root.join("usr/lib")).chain(entries(&root.join("lib")));
    std::env::join_paths(all.filter(|path| path.is_dir())).expect("no colons")
}

/// The directory that a package is unpacked into, once. The system must not have it.
pub fn debian_package(tmp: &Path, package: &'static str) -> PathBuf {
    static UNPACKED: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    let mut unpacked = UNPACKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = unpacked.get_or_insert_default();
    known.entry(package).or_insert_with(|| unpack(tmp, package)).clone()
}

fn unpack(tmp: &Path, package: &str) -> PathBuf {
    let home = tmp.join("debian");
    let root = home.join(package.replace(' ', "+"));
    if root.is_dir() {
        return root;
    }
    std::fs::create_dir_all(&home).expect("can be made");
    // apt locks its lists, and each test may be a process.
    let lock = File::create(home.join("lock")).expect("can be made");
    lock.lock().expect("can be locked");
    if root.is_dir() {
        return root;
    }
    let scratch = TempDir::with_prefix_in("fresh", &home).expect("can be made");
    let (fresh, downloads) = (scratch.path().join("fresh"), scratch.path().join("downloads"));
    std::fs::create_dir(&downloads).expect("can be made");
    let fetched = Apt::default().fetch(package, &downloads);
    // The system's lists may be old, or not there at all.
    let fetched = fetched.or_else(|_| Apt::with_own_lists(&home)?.fetch(package, &downloads));
    fetched.unwrap_or_else(|error| panic!("{error}"));
    for file in entries(&downloads) {
        let mut unpack = Command::new("dpkg");
        unpack.arg("-x").arg(file).arg(&fresh);
        run(&mut unpack).unwrap_or_else(|error| panic!("{error}"));
    }
    // All of it or nothing, should a test be cut off.
    std::fs::rename(fresh, &root).expect("can be moved");
    root
}

/// apt, with the system's lists of packages or with its own.
#[derive(Default)]
struct Apt {
    options: Vec<OsString>,
}

impl Apt {
    fn with_own_lists(home: &Path) -> Result<Self, String> {
        let lists = home.join("lists");
        std::fs::create_dir_all(lists.join("partial")).expect("can be made");
        let mut option = OsString::from("Dir::State::lists=");
        option.push(&lists);
        // Another user could not write there.
        let root = OsString::from("APT::Sandbox::User=root");
        let own = Self { options: vec!["-o".into(), option, "-o".into(), root] };
        run(&mut own.command(&["update"]))?;
        Ok(own)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        // The system's cache stays as it is.
        command.args(["--quiet", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
        command.args(&self.options).args(arguments);
        command
    }

    /// Gets the package, and what it needs and the system has not.
    fn fetch(&self, package: &str, into: &Path) -> Result<(), String> {
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
        format!("{command:?}: {error}; servers that are not on PATH are packages of Debian")
    })?;
    let talk = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(output) } else { Err(format!("{command:?}: {talk}")) }
}
