//! The files that install a registry contain the statements of the migrations.

use std::path::PathBuf;

use callgate_registry::{Dialect, TableNames, install_script};

/// Returns the path of the file for a dialect.
pub(crate) fn path(dialect: Dialect) -> PathBuf {
    let name = match dialect {
        Dialect::Sqlite => "install.sqlite.sql",
        Dialect::Postgres => "install.pgsql.sql",
        Dialect::MySql => "install.mysql.sql",
        Dialect::SqlServer => "install.mssql.sql",
    };
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../install").join(name)
}

fn text(dialect: Dialect) -> String {
    let database = match dialect {
        Dialect::Sqlite => "SQLite",
        Dialect::Postgres => "PostgreSQL",
        Dialect::MySql => "MySQL and MariaDB",
        Dialect::SqlServer => "SQL Server",
    };
    format!(
        "-- Callgate's registry for {database}, as `callgate migrate` creates it in an empty database.\n\
         -- Generated from crates/callgate-registry/src/db/schema.rs. To change this file, change the source and run\n\
         --     INSTA_UPDATE=always cargo test -p callgate-registry install_files\n\
         -- To print this script with Festi's table names: callgate migrate --dry-run --preset festi --database URL\n\n{}",
        install_script(dialect, &TableNames::default())
    )
}

#[test]
fn install_files_contain_the_statements_of_the_migrations() {
    for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql, Dialect::SqlServer] {
        let (path, text) = (path(dialect), text(dialect));
        if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let path = path.display();
        assert!(committed == text, "{path} is old; run the test with INSTA_UPDATE=always");
    }
}
