//! Packages of Debian, unpacked into a directory together with what they need and the system has not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// A program of a package, such as `aria2c` of `aria2`, or `php` of `php-cli`; the system's own, if it
/// has one.
pub(crate) fn debian(package: &'static str, program: &str) -> Command {
    if let Some(there) = on_path(program) {
        return Command::new(there);
    }
    let root = unpacked(package);
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
    let all = std::fs::read_dir(root.join("usr/bin")).ok()?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(program);
        version.is_some_and(|it| it.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    all.map(|entry| entry.unwrap().path()).filter(is_it).min()
}

/// Where the libraries are that came along.
fn libraries(root: &Path) -> OsString {
    let of = |directory: &str| std::fs::read_dir(root.join(directory)).into_iter().flatten();
    let all = of("usr/lib").chain(of("lib")).map(|entry| entry.unwrap().path());
    std::env::join_paths(all.filter(|path| path.is_dir())).unwrap()
}

/// The directory that a package is unpacked into, once.
fn unpacked(package: &'static str) -> PathBuf {
    static UNPACKED: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    let mut unpacked = UNPACKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = unpacked.get_or_insert_default();
    known.entry(package).or_insert_with(|| unpack(package)).clone()
}

fn unpack(package: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian");
    let root = home.join(package);
    if root.is_dir() {
        return root;
    }
    let (fresh, downloads) = (home.join("fresh"), home.join("downloads"));
    for directory in [&fresh, &downloads] {
        let _ = std::fs::remove_dir_all(directory);
        std::fs::create_dir_all(directory).unwrap();
    }
    let fetched = Apt::default().fetch(package, &downloads);
    // The system's lists may be old, or not there at all.
    let fetched = fetched.or_else(|_| Apt::with_own_lists(&home)?.fetch(package, &downloads));
    fetched.unwrap_or_else(|error| panic!("{error}"));
    for file in std::fs::read_dir(&downloads).unwrap() {
        let mut unpack = Command::new("dpkg");
        unpack.arg("-x").arg(file.unwrap().path()).arg(&fresh);
        run(&mut unpack).unwrap_or_else(|error| panic!("{error}"));
    }
    // All of it or nothing, should a test be cut off.
    std::fs::rename(fresh, &root).unwrap();
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
        std::fs::create_dir_all(lists.join("partial")).unwrap();
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
        let simulate = ["install", "--simulate", "--no-install-recommends", package];
        let output = run(&mut self.command(&simulate))?;
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
