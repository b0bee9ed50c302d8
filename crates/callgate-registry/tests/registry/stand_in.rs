//! SQL Server's stand-in: plain SQL, and what it needs that SQL Server does not.

use callgate_registry::{Dialect, TableNames, install_script};
use callgate_test_support::SqlServerEmulator;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::TokioAsyncWriteCompatExt as _;

/// Runs plain SQL on a connection of its own; lines with `GO` divide it.
pub(crate) async fn try_sql(server: &SqlServerEmulator, sql: &str) -> Result<(), String> {
    let mut config = Config::new();
    config.authentication(AuthMethod::sql_server(
        SqlServerEmulator::USER,
        SqlServerEmulator::PASSWORD,
    ));
    config.encryption(EncryptionLevel::NotSupported);
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut client = Box::pin(Client::connect(config, stream.compat_write())).await.unwrap();
    for batch in sql.split("\nGO\n") {
        let done = match client.simple_query(batch).await {
            Ok(results) => results.into_results().await.map(drop),
            Err(error) => Err(error),
        };
        done.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What it answers to a question, row by row.
pub(crate) async fn told(server: &SqlServerEmulator, sql: &str) -> String {
    let mut config = Config::new();
    config.authentication(AuthMethod::sql_server(
        SqlServerEmulator::USER,
        SqlServerEmulator::PASSWORD,
    ));
    config.encryption(EncryptionLevel::NotSupported);
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut client = Box::pin(Client::connect(config, stream.compat_write())).await.unwrap();
    let rows = client.simple_query(sql).await.unwrap().into_first_result().await.unwrap();
    rows.iter().flat_map(|row| [format!("{row:?}"), "\n".to_owned()]).collect()
}

/// The triggers of a registry, made anew: to a statement that changed no row the stand-in gives no
/// `inserted` and no `deleted`, and says so as an error. That is caught, and settings are left out, which it
/// does not take in a trigger; nothing else is different.
pub(crate) fn triggers(tables: &TableNames) -> String {
    let script = install_script(Dialect::SqlServer, tables);
    let batches = script.split("\nGO\n").filter_map(|batch| {
        let trigger = &batch[batch.find("CREATE TRIGGER ")?..];
        let (head, body) = trigger.split_once(" AS\n")?;
        let name = head.split(' ').nth(2)?;
        let body = body.replace("SET NOCOUNT ON;", "");
        Some(format!(
            "DROP TRIGGER {name}\nGO\n\
             {head} AS BEGIN BEGIN TRY {body} END TRY BEGIN CATCH END CATCH END"
        ))
    });
    let batches: Vec<String> = batches.collect();
    assert!(batches.len() > 20, "{script}");
    batches.join("\nGO\n")
}
