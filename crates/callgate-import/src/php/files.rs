//! Finds the PHP files in a directory. Symbolic links are not followed.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::PhpOptions;
use crate::hinted::hinted;
use crate::source::Refusal;

/// Maximum number of files.
const MAX_FILES: usize = 50_000;
/// Maximum number of directory entries of any kind.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum nesting depth of directories.
const MAX_DEPTH: usize = 40;
/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 2 * 1024 * 1024;
/// Maximum total size of all files, in bytes.
const MAX_TOTAL: u64 = 512 * 1024 * 1024;

/// Directories with third-party code.
const THIRD_PARTY: [&str; 2] = ["vendor", "node_modules"];

#[derive(Debug, Default)]
pub(super) struct Files {
    /// Paths relative to the directory, in order.
    pub(super) paths: Vec<PathBuf>,
    pub(super) unread: Vec<Refusal>,
    /// Number of symbolic links.
    pub(super) links: usize,
    entries: usize,
    bytes: u64,
}

impl PhpOptions {
    fn skips_directory(&self, name: &OsStr, path: &Path) -> bool {
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let is_third_party = !self.vendor && THIRD_PARTY.iter().any(|directory| name == *directory);
        is_hidden || is_third_party || self.skips(name, path)
    }

    fn skips(&self, name: &OsStr, path: &Path) -> bool {
        self.skip.iter().any(|skip| skip == Path::new(name) || skip == path)
    }
}

impl Files {
    pub(super) fn find(root: &Path, options: &PhpOptions) -> anyhow::Result<Self> {
        let mut files = Self::default();
        let mut pending = vec![(PathBuf::new(), 0)];
        while let Some((directory, depth)) = pending.pop() {
            let subdirectories = match files.scan(root, &directory, options) {
                Err(error) if depth == 0 => return Err(error),
                Err(error) => Err(format!("{error:#}")),
                Ok(subdirectories) if depth == MAX_DEPTH && !subdirectories.is_empty() => {
                    Err(format!("the subdirectories are more than {MAX_DEPTH} levels deep"))
                }
                Ok(subdirectories) => Ok(subdirectories),
            };
            match subdirectories {
                Ok(subdirectories) => {
                    pending.extend(subdirectories.into_iter().map(|path| (path, depth + 1)));
                }
                Err(reason) => files.add_unread(&directory, reason),
            }
            if files.paths.len() > MAX_FILES || files.entries > MAX_ENTRIES {
                let problem = format!(
                    "the directory has more than {MAX_FILES} PHP files or {MAX_ENTRIES} entries"
                );
                return Err(hinted(
                    problem,
                    "import a subdirectory, or exclude some with `--skip`",
                ));
            }
        }
        files.paths.sort();
        Ok(files)
    }

    /// Adds the files of one directory. Returns the directories in it.
    fn scan(
        &mut self,
        root: &Path,
        directory: &Path,
        options: &PhpOptions,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let full_path = root.join(directory);
        let context = || format!("cannot read the directory `{}`", full_path.display());
        let mut subdirectories = Vec::new();
        for entry in std::fs::read_dir(&full_path).with_context(context)? {
            let entry = entry.with_context(context)?;
            let file_type = entry.file_type().with_context(context)?;
            let path = directory.join(entry.file_name());
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                break;
            }
            if file_type.is_symlink() {
                self.links += 1;
            } else if file_type.is_dir() && !options.skips_directory(&entry.file_name(), &path) {
                subdirectories.push(path);
            } else if file_type.is_file()
                && is_php(&path)
                && !options.skips(&entry.file_name(), &path)
            {
                self.paths.push(path);
            }
        }
        Ok(subdirectories)
    }

    /// Returns the text of a file, with replacement characters for invalid UTF-8.
    pub(super) fn read(&mut self, root: &Path, path: &Path) -> anyhow::Result<String> {
        let file = std::fs::File::open(root.join(path)).context("cannot open the file")?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).context("cannot read the file")?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > MAX_BYTES {
            anyhow::bail!("the file has more than {MAX_BYTES} bytes");
        }
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > MAX_TOTAL {
            anyhow::bail!("all files together have more than {MAX_TOTAL} bytes");
        }
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    pub(super) fn add_unread(&mut self, path: &Path, reason: String) {
        self.unread.push(Refusal::new(path.display().to_string(), reason));
    }
}

fn is_php(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    ["php", "inc", "module"].iter().any(|suffix| extension.eq_ignore_ascii_case(suffix))
}
