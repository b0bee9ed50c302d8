//! PostgreSQL and MariaDB with TLS: which servers are trusted, and that no data is sent unencrypted.

use std::path::Path;

use callgate::Mask;
use callgate_registry::{
    DatabaseErrorKind, DatabaseOptions, DatabaseUrl, OpenError, SqlStore, Store as _,
};
use callgate_test_support::{DatabaseServer, Engine, TlsIdentity};
use rcgen::{CertifiedKey, KeyPair};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Files with a server's certificate and with the certificate of another server.
struct Certificates {
    directory: tempfile::TempDir,
    identity: CertifiedKey<KeyPair>,
}

impl Certificates {
    fn generate() -> Self {
        let generate = || rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (identity, other) = (generate(), generate());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("own.pem"), identity.cert.pem()).unwrap();
        std::fs::write(directory.path().join("other.pem"), other.cert.pem()).unwrap();
        Self { directory, identity }
    }

    /// Starts a server with the certificate `own.pem`.
    fn server(&self, engine: Engine) -> DatabaseServer {
        let (certificate, key) =
            (self.identity.cert.pem(), self.identity.signing_key.serialize_pem());
        engine.start_with_tls(Path::new(TMP), TlsIdentity { certificate: &certificate, key: &key })
    }

    /// Returns a URL with these parameters, in which `OWN` and `OTHER` are replaced by the paths of the files.
    fn url(&self, url: &str, parameters: &str) -> DatabaseUrl {
        let file = |name| self.directory.path().join(name).display().to_string();
        let parameters = parameters.replace("OWN", &file("own.pem"));
        format!("{url}?{}", parameters.replace("OTHER", &file("other.pem"))).parse().unwrap()
    }
}

async fn connect(url: &DatabaseUrl) -> SqlStore {
    let (store, _) = SqlStore::migrate(url, &DatabaseOptions::default(), None).await.unwrap();
    store.change_counters().await.unwrap();
    store
}

async fn connect_error_kind(url: &DatabaseUrl) -> DatabaseErrorKind {
    match SqlStore::open(url, &DatabaseOptions::default(), None).await.unwrap_err() {
        OpenError::Database(error) => error.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn postgres_is_verified_by_its_certificate_and_all_connections_are_encrypted() {
    let certificates = Certificates::generate();
    let server = certificates.server(Engine::Postgres);
    let database = server.database();
    let by_name = database.url.replace("127.0.0.1", "localhost");
    for parameters in ["sslmode=verify-full", "sslmode=verify-full&sslrootcert=OTHER"] {
        let url = certificates.url(&database.url, parameters);
        assert_eq!(connect_error_kind(&url).await, DatabaseErrorKind::Untrusted, "{parameters}");
    }
    let other_name = certificates.url(&by_name, "sslmode=verify-full&sslrootcert=OWN");
    assert_eq!(connect_error_kind(&other_name).await, DatabaseErrorKind::Untrusted);
    connect(&certificates.url(&by_name, "sslmode=verify-ca&sslrootcert=OWN")).await;
    for parameters in ["", "sslmode=prefer", "sslmode=require"] {
        connect(&certificates.url(&database.url, parameters)).await;
    }
    let store =
        connect(&certificates.url(&database.url, "sslmode=verify-full&sslrootcert=OWN")).await;
    store.changed().await;
    store.add_section("s", "S", Mask::Read).await.unwrap();
    let encrypted = "SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                     WHERE a.application_name = 'callgate'";
    assert_eq!(server.sql(&database.name, encrypted).trim(), "t");
}

#[tokio::test]
async fn mariadb_is_verified_by_its_certificate_and_unencrypted_logins_are_refused() {
    let certificates = Certificates::generate();
    let server = certificates.server(Engine::MariaDb);
    let database = server.database();
    let name = &database.name;
    let create_user = format!(
        "CREATE USER 'safe'@'127.0.0.1' IDENTIFIED BY 'pw' REQUIRE SSL; \
         GRANT ALL ON {name}.* TO 'safe'@'127.0.0.1'"
    );
    server.sql(name, &create_user);
    let (by_address, by_name) = (
        format!("mysql://safe:pw@{}/{name}", server.address()),
        format!("mysql://safe:pw@localhost:{}/{name}", server.address().port()),
    );
    for parameters in ["ssl-mode=VERIFY_IDENTITY", "ssl-mode=VERIFY_IDENTITY&ssl-ca=OTHER"] {
        let url = certificates.url(&by_address, parameters);
        assert_eq!(connect_error_kind(&url).await, DatabaseErrorKind::Untrusted, "{parameters}");
    }
    let other_name = certificates.url(&by_name, "ssl-mode=VERIFY_IDENTITY&ssl-ca=OWN");
    assert_eq!(connect_error_kind(&other_name).await, DatabaseErrorKind::Untrusted);
    let plain = certificates.url(&by_address, "ssl-mode=DISABLED");
    assert_eq!(connect_error_kind(&plain).await, DatabaseErrorKind::Denied);
    connect(&certificates.url(&by_name, "ssl-mode=VERIFY_CA&ssl-ca=OWN")).await;
    for parameters in
        ["", "ssl-mode=PREFERRED", "ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY&ssl-ca=OWN"]
    {
        let store = connect(&certificates.url(&by_address, parameters)).await;
        store.ensure_sections(&["s".to_owned()]).await.unwrap();
    }
}

/// Connects to this machine, but is not a loopback address.
const NOT_LOOPBACK: &str = "0.0.0.0";

#[tokio::test]
async fn remote_servers_are_verified_unless_the_url_disables_verification() {
    let certificates = Certificates::generate();
    for (engine, trusted, unverified) in [
        (Engine::Postgres, "sslrootcert=OWN", "sslmode=require"),
        (Engine::MariaDb, "ssl-ca=OWN", "ssl-mode=REQUIRED"),
    ] {
        let server = certificates.server(engine);
        let url = server.database().url.replace("127.0.0.1", NOT_LOOPBACK);
        for parameters in ["", trusted] {
            let url = certificates.url(&url, parameters);
            assert_eq!(
                connect_error_kind(&url).await,
                DatabaseErrorKind::Untrusted,
                "{url} {parameters}"
            );
        }
        connect(&certificates.url(&url, unverified)).await;
    }
}

#[tokio::test]
async fn an_unencrypted_remote_server_is_refused_with_a_remedy() {
    let server = Engine::Postgres.start(Path::new(TMP));
    let url = server.database().url.replace("127.0.0.1", NOT_LOOPBACK);
    let result = SqlStore::migrate(&url.parse().unwrap(), &DatabaseOptions::default(), None).await;
    let Err(OpenError::Database(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Untrusted);
    assert!(error.advice().unwrap().contains("`sslmode=require`"), "{:?}", error.advice());
    connect(&format!("{url}?sslmode=disable").parse().unwrap()).await;
}
