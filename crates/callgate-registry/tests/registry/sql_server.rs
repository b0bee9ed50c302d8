//! Behaviour of SQL Server: connecting, and the errors if this fails.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use callgate_registry::{DatabaseErrorKind, DatabaseOptions, SqlStore, Store as _, StoreError};
use callgate_test_support::SqlServerEmulator;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};

use crate::databases::Kind;
use crate::tls_proxy;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

fn short_timeouts() -> DatabaseOptions {
    DatabaseOptions {
        connect_timeout: Duration::from_millis(500),
        statement_timeout: Duration::from_millis(500),
        ..DatabaseOptions::default()
    }
}

/// Returns the error of creating a registry at this URL.
async fn connect_error(url: &str, options: &DatabaseOptions) -> (DatabaseErrorKind, String) {
    let error = SqlStore::migrate(&url.parse().unwrap(), options, None).await.unwrap_err();
    let text = error.to_string();
    assert!(!format!("{error:?} {text}").contains("s3cret"), "{error:?}");
    let error = error.database().unwrap();
    assert!(error.advice().is_some(), "{error:?}");
    (error.kind, text)
}

fn url(address: SocketAddr, options: &str) -> String {
    format!("mssql://sa:s3cret%3A%2F%40%25+@{address}/master{options}")
}

#[tokio::test]
async fn the_error_for_a_wrong_password_does_not_contain_it() {
    let server = SqlServerEmulator::start(Path::new(TMP));
    let url = format!("mssql://sa:another-s3cret@{}/master?encrypt=off", server.address());
    let (kind, text) = connect_error(&url, &DatabaseOptions::default()).await;
    assert_eq!(kind, DatabaseErrorKind::Denied, "{text}");
    assert!(text.contains("Login failed"), "{text}");
}

#[tokio::test]
async fn a_server_without_encryption_is_refused_by_default() {
    let server = SqlServerEmulator::start(Path::new(TMP));
    for options in ["", "?encrypt=required", "?trust_certificate=true"] {
        let url = url(server.address(), options);
        let (kind, text) = connect_error(&url, &DatabaseOptions::default()).await;
        assert_eq!(kind, DatabaseErrorKind::Untrusted, "{options}");
        let reason = "the server does not support encryption, which the URL requires";
        assert_eq!(text, format!("failed to log in to `{}`: {reason}", server.address()));
    }
}

#[tokio::test]
async fn an_encrypted_server_is_verified_by_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = directory.path().join("certificate.pem");
    std::fs::write(&certificate, identity.cert.pem()).unwrap();
    let server = SqlServerEmulator::start(Path::new(TMP));
    let proxy = tls_proxy::start(server.address(), &identity);
    let (kind, text) = connect_error(&url(proxy, ""), &DatabaseOptions::default()).await;
    assert_eq!(kind, DatabaseErrorKind::Untrusted);
    let text = text.replace(&proxy.to_string(), "HOST");
    insta::assert_snapshot!(text);
    let ca = format!("?ca={}", certificate.display());
    for options in [ca.as_str(), "?trust_certificate=true"] {
        let url = url(proxy, options).parse().unwrap();
        let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
        store.change_counters().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_disconnects_or_does_not_respond_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let disconnecting = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read_u8().await;
        }
    });
    let (kind, text) = connect_error(&url(address, ""), &DatabaseOptions::default()).await;
    assert_eq!(kind, DatabaseErrorKind::Unavailable, "{text}");
    disconnecting.abort();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let (kind, text) = connect_error(&url(address, ""), &short_timeouts()).await;
    assert_eq!(kind, DatabaseErrorKind::Unavailable);
    assert_eq!(text, format!("failed to log in to `{address}`: no response in time"));
    // The port is reserved, so that no other process listens on it.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let (kind, text) = connect_error(&url(address, ""), &DatabaseOptions::default()).await;
    assert_eq!(kind, DatabaseErrorKind::Unavailable);
    assert!(text.starts_with(&format!("failed to connect to `{address}`: ")), "{text}");
}

#[tokio::test]
async fn operations_fail_while_the_server_is_suspended_and_succeed_afterwards() {
    let registry = Kind::SqlServer.registry().await;
    let url = &registry.database.url;
    let store = SqlStore::open(url, &short_timeouts(), None).await.unwrap();
    assert!(!format!("{store:?} {url:?}").contains("s3cret"));
    let server = registry.database.emulator();
    server.signal("STOP");
    // The server may need a moment.
    let read = loop {
        if let Err(error) = store.change_counters().await {
            break error;
        }
    };
    let written = store.add_section("s", "S", callgate::Mask::Read).await.unwrap_err();
    for error in [read, written] {
        let StoreError::Database(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind, DatabaseErrorKind::Unavailable, "{error:?}");
    }
    server.signal("CONT");
    store.add_section("t", "T", callgate::Mask::Read).await.unwrap();
    assert!(store.sections().await.unwrap().iter().any(|section| section.ident == "t"));
}
