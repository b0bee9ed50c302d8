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
struct Papers {
    directory: tempfile::TempDir,
    made: CertifiedKey<KeyPair>,
}

impl Papers {
    fn make() -> Self {
        let fresh = || rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (made, other) = (fresh(), fresh());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("own.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("other.pem"), other.cert.pem()).unwrap();
        Self { directory, made }
    }

    /// Starts a server with the certificate `own.pem`.
    fn server(&self, engine: Engine) -> DatabaseServer {
        let (certificate, key) = (self.made.cert.pem(), self.made.signing_key.serialize_pem());
        engine.start_with_tls(Path::new(TMP), TlsIdentity { certificate: &certificate, key: &key })
    }

    /// Returns a URL with these parameters, in which `OWN` and `OTHER` are replaced by the paths of the files.
    fn url(&self, url: &str, parameters: &str) -> DatabaseUrl {
        let file = |name| self.directory.path().join(name).display().to_string();
        let parameters = parameters.replace("OWN", &file("own.pem"));
        format!("{url}?{}", parameters.replace("OTHER", &file("other.pem"))).parse().unwrap()
    }
}

async fn connects(url: &DatabaseUrl) -> SqlStore {
    let (store, _) = SqlStore::migrate(url, &DatabaseOptions::default(), None).await.unwrap();
    store.change_counters().await.unwrap();
    store
}

async fn refused(url: &DatabaseUrl) -> DatabaseErrorKind {
    match SqlStore::open(url, &DatabaseOptions::default(), None).await.unwrap_err() {
        OpenError::Database(error) => error.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn postgres_is_trusted_by_its_certificate_and_everything_is_encrypted() {
    let papers = Papers::make();
    let server = papers.server(Engine::Postgres);
    let database = server.database();
    let by_name = database.url.replace("127.0.0.1", "localhost");
    for parameters in ["sslmode=verify-full", "sslmode=verify-full&sslrootcert=OTHER"] {
        let url = papers.url(&database.url, parameters);
        assert_eq!(refused(&url).await, DatabaseErrorKind::Untrusted, "{parameters}");
    }
    let elsewhere = papers.url(&by_name, "sslmode=verify-full&sslrootcert=OWN");
    assert_eq!(refused(&elsewhere).await, DatabaseErrorKind::Untrusted);
    connects(&papers.url(&by_name, "sslmode=verify-ca&sslrootcert=OWN")).await;
    for parameters in ["", "sslmode=prefer", "sslmode=require"] {
        connects(&papers.url(&database.url, parameters)).await;
    }
    let store = connects(&papers.url(&database.url, "sslmode=verify-full&sslrootcert=OWN")).await;
    store.changed().await;
    store.add_section("s", "S", Mask::Read).await.unwrap();
    let encrypted = "SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                     WHERE a.application_name = 'callgate'";
    assert_eq!(server.sql(&database.name, encrypted).trim(), "t");
}

#[tokio::test]
async fn mariadb_is_trusted_by_its_certificate_and_everything_is_encrypted() {
    let papers = Papers::make();
    let server = papers.server(Engine::MariaDb);
    let database = server.database();
    let name = &database.name;
    let safe = format!(
        "CREATE USER 'safe'@'127.0.0.1' IDENTIFIED BY 'pw' REQUIRE SSL; \
         GRANT ALL ON {name}.* TO 'safe'@'127.0.0.1'"
    );
    server.sql(name, &safe);
    let (by_number, by_name) = (
        format!("mysql://safe:pw@{}/{name}", server.address()),
        format!("mysql://safe:pw@localhost:{}/{name}", server.address().port()),
    );
    for parameters in ["ssl-mode=VERIFY_IDENTITY", "ssl-mode=VERIFY_IDENTITY&ssl-ca=OTHER"] {
        let url = papers.url(&by_number, parameters);
        assert_eq!(refused(&url).await, DatabaseErrorKind::Untrusted, "{parameters}");
    }
    let elsewhere = papers.url(&by_name, "ssl-mode=VERIFY_IDENTITY&ssl-ca=OWN");
    assert_eq!(refused(&elsewhere).await, DatabaseErrorKind::Untrusted);
    let plain = papers.url(&by_number, "ssl-mode=DISABLED");
    assert_eq!(refused(&plain).await, DatabaseErrorKind::Denied);
    connects(&papers.url(&by_name, "ssl-mode=VERIFY_CA&ssl-ca=OWN")).await;
    for parameters in
        ["", "ssl-mode=PREFERRED", "ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY&ssl-ca=OWN"]
    {
        let store = connects(&papers.url(&by_number, parameters)).await;
        store.ensure_sections(&["s".to_owned()]).await.unwrap();
    }
}

/// Connects to this machine, but is not a loopback address.
const NOT_LOOPBACK: &str = "0.0.0.0";

#[tokio::test]
async fn servers_beyond_loopback_are_verified_unless_the_url_says_otherwise() {
    let papers = Papers::make();
    for (engine, own, unverified) in [
        (Engine::Postgres, "sslrootcert=OWN", "sslmode=require"),
        (Engine::MariaDb, "ssl-ca=OWN", "ssl-mode=REQUIRED"),
    ] {
        let server = papers.server(engine);
        let url = server.database().url.replace("127.0.0.1", NOT_LOOPBACK);
        for parameters in ["", own] {
            let url = papers.url(&url, parameters);
            assert_eq!(refused(&url).await, DatabaseErrorKind::Untrusted, "{url} {parameters}");
        }
        connects(&papers.url(&url, unverified)).await;
    }
}

#[tokio::test]
async fn an_unencrypted_server_beyond_loopback_is_refused_with_a_remedy() {
    let server = Engine::Postgres.start(Path::new(TMP));
    let url = server.database().url.replace("127.0.0.1", NOT_LOOPBACK);
    let opened = SqlStore::migrate(&url.parse().unwrap(), &DatabaseOptions::default(), None).await;
    let Err(OpenError::Database(error)) = opened else { panic!("{opened:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Untrusted);
    assert!(error.advice().unwrap().contains("`sslmode=require`"), "{:?}", error.advice());
    connects(&format!("{url}?sslmode=disable").parse().unwrap()).await;
}
