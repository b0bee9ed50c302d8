//! Stores of refresh tokens: memory, a file, and the credentials of users.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;
use crate::upstream::credentials::{CredentialError, Credentials, ReplaceStatus};

/// Stores a refresh token.
///
/// An authorization server may rotate refresh tokens: a token response can then contain a new refresh token, which
/// replaces the old one. Argument of [`OAuthClient::refresh_token`].
///
/// ```
/// use std::sync::Mutex;
/// use callgate::Secret;
/// use callgate::forward::RefreshTokenStore;
/// use callgate::upstream::{BoxFuture, CredentialError, ReplaceStatus};
///
/// /// A real implementation would read and write a database.
/// #[derive(Debug)]
/// struct Vault(Mutex<Secret>);
///
/// impl RefreshTokenStore for Vault {
///     fn load(&self) -> BoxFuture<'_, Result<Option<Secret>, CredentialError>> {
///         Box::pin(async { Ok(Some(self.0.lock().unwrap().clone())) })
///     }
///
///     fn replace<'a>(
///         &'a self,
///         old: &'a Secret,
///         new: &'a Secret,
///     ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
///         Box::pin(async move {
///             let mut stored = self.0.lock().unwrap();
///             if *stored != *old {
///                 return Ok(ReplaceStatus::Conflict);
///             }
///             *stored = new.clone();
///             Ok(ReplaceStatus::Stored)
///         })
///     }
/// }
/// ```
///
/// [`OAuthClient::refresh_token`]: crate::upstream::forward::OAuthClient::refresh_token
pub trait RefreshTokenStore: Send + Sync + fmt::Debug {
    /// Returns the current token.
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret>, CredentialError>>;

    /// Replaces the token if it is still `old`.
    fn replace<'a>(
        &'a self,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>>;

    /// Returns `true` if other processes may also replace the token.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns `true` if access tokens are stored together with the refresh token, so that other servers can use them.
    fn keeps_access_tokens(&self) -> bool {
        false
    }
}

/// A refresh token in memory.
///
/// If it is rotated, the new token is lost when the process ends. Argument of
/// [`OAuthClient::refresh_token`](crate::upstream::forward::OAuthClient::refresh_token). [`RefreshTokenFile`] keeps the
/// new token.
#[derive(Debug)]
pub struct InMemoryRefreshToken(Mutex<Secret>);

impl InMemoryRefreshToken {
    /// Creates a store that contains `token`.
    pub fn new(token: Secret) -> Self {
        Self(Mutex::new(token))
    }
}

impl RefreshTokenStore for InMemoryRefreshToken {
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret>, CredentialError>> {
        let token = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(Some(token))))
    }

    fn replace<'a>(
        &'a self,
        _: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new.clone();
        Box::pin(std::future::ready(Ok(ReplaceStatus::NotDurable)))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// A refresh token in a file.
///
/// Argument of [`OAuthClient::refresh_token`](crate::upstream::forward::OAuthClient::refresh_token).
/// [`OAuthClient`](crate::upstream::forward::OAuthClient) has an example.
#[derive(Debug)]
pub struct RefreshTokenFile {
    path: Arc<Path>,
}

impl RefreshTokenFile {
    /// Creates a store for a file. The file must contain nothing but the token.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into().into() }
    }
}

impl RefreshTokenStore for RefreshTokenFile {
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret>, CredentialError>> {
        let path = Arc::clone(&self.path);
        Box::pin(async move { Ok(tokio::task::spawn_blocking(move || read(&path)).await??) })
    }

    fn replace<'a>(
        &'a self,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        let (path, old, new) = (Arc::clone(&self.path), old.clone(), new.clone());
        let replace = move || {
            if read(&path)?.as_ref() != Some(&old) {
                return Ok(ReplaceStatus::Conflict);
            }
            write(&path, &new).map(|()| ReplaceStatus::Stored)
        };
        Box::pin(async move { Ok(tokio::task::spawn_blocking(replace).await??) })
    }
}

fn read(path: &Path) -> io::Result<Option<Secret>> {
    let text = std::fs::read_to_string(path).map_err(|error| with_path(path, &error))?;
    Ok(Secret::new(text.trim_start_matches('\u{feff}')))
}

/// Writes a new file, which only its owner can read, and renames it to replace the old one.
fn write(path: &Path, token: &Secret) -> io::Result<()> {
    // Resolves a symbolic link, so that the link itself is kept.
    let path = &std::fs::canonicalize(path).map_err(|error| with_path(path, &error))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.new", getrandom::u64().unwrap_or_default()));
    let temporary = path.with_file_name(name);
    let written = write_new(&temporary, token).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(|error| with_path(path, &error))
}

fn write_new(path: &Path, token: &Secret) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{}", token.expose())?;
    file.sync_all()
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

#[derive(Debug)]
pub(crate) struct UserRefreshToken {
    pub(crate) caller: Caller,
    pub(crate) credentials: Arc<dyn Credentials>,
}

impl RefreshTokenStore for UserRefreshToken {
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret>, CredentialError>> {
        self.credentials.of(&self.caller)
    }

    fn replace<'a>(
        &'a self,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        self.credentials.replace(&self.caller, old, new)
    }

    fn keeps_access_tokens(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    #[tokio::test]
    async fn replacing_a_token_file_leaves_one_file_that_only_its_owner_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("refresh");
        std::fs::write(&path, "\u{feff}one\n").unwrap();
        let file = RefreshTokenFile::new(&path);
        assert_eq!(file.load().await.unwrap(), Some(secret("one")));
        assert_eq!(
            file.replace(&secret("one"), &secret("two")).await.unwrap(),
            ReplaceStatus::Stored
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn a_file_with_another_token_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("refresh");
        std::fs::write(&path, "other").unwrap();
        let file = RefreshTokenFile::new(&path);
        assert_eq!(
            file.replace(&secret("one"), &secret("two")).await.unwrap(),
            ReplaceStatus::Conflict
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        std::fs::remove_file(&path).unwrap();
        let error = file.replace(&secret("one"), &secret("two")).await.unwrap_err().to_string();
        assert!(error.contains("refresh") && !error.contains("two"), "{error}");
    }
}
