//! Plain SQL on the SQL Server emulator, and workarounds for its limitations.

use callgate_registry::{Dialect, TableNames, install_script};
use callgate_test_support::SqlServerEmulator;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

async fn connect(server: &SqlServerEmulator) -> Client<Compat<TcpStream>> {
    let mut config = Config::new();
    config.authentication(AuthMethod::sql_server(
        SqlServerEmulator::USER,
        SqlServerEmulator::PASSWORD,
    ));
    config.encryption(EncryptionLevel::NotSupported);
    let stream = TcpStream::connect(server.address()).await.unwrap();
    Box::pin(Client::connect(config, stream.compat_write())).await.unwrap()
}

/// Runs SQL on a new connection. Lines with `GO` separate batches.
pub(crate) async fn try_sql(server: &SqlServerEmulator, sql: &str) -> Result<(), String> {
    let mut client = connect(server).await;
    for batch in sql.split("\nGO\n") {
        let result = match client.simple_query(batch).await {
            Ok(results) => results.into_results().await.map(drop),
            Err(error) => Err(error),
        };
        result.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the rows of a query as text.
pub(crate) async fn query(server: &SqlServerEmulator, sql: &str) -> String {
    let mut client = connect(server).await;
    let rows = client.simple_query(sql).await.unwrap().into_first_result().await.unwrap();
    rows.iter().flat_map(|row| [format!("{row:?}"), "\n".to_owned()]).collect()
}

/// Returns statements that replace the triggers of a registry. If a statement changes no row, the emulator's triggers
/// fail for lack of `inserted` and `deleted`; the new triggers catch this error. They omit `SET`, which the emulator
/// does not support in triggers.
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
