//! After the database was unavailable, all rows are read again, even if the counters have not changed.

use std::time::Duration;

use callgate::http::AuthenticateError;
use tokio::time::sleep;

use super::fake_store::{Mode, NAMES_DELAY};
use super::unavailable::{FollowingServer, POLL, following_server};
use super::*;

pub(super) fn method(id: &str) -> MethodRow {
    MethodRow {
        rpc_method: id.to_owned(),
        upstream: Some("shop".to_owned()),
        ..MethodRow::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_older_state_is_read() {
    let server = following_server(Duration::from_mins(1)).await;
    let tools = |server: &FollowingServer| server.gateway.gateway().catalog().len();
    server.with_rows(|rows| {
        rows.catalog.methods = vec![method("a"), method("b")];
        rows.change_counters =
            ChangeCounters { catalog: 9, access: 9, tokens: 9, ..ChangeCounters::default() };
    });
    server.wait_until(async |server| tools(server) == 2).await;
    server.with_rows(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.access.users.clear();
        rows.change_counters =
            ChangeCounters { catalog: 3, access: 3, tokens: 3, ..ChangeCounters::default() };
    });
    server.wait_until(async |server| tools(server) == 1).await;
    assert_eq!(
        server.authenticate("one").await,
        Err(AuthenticateError::InvalidToken),
        "no such user"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_catalog_build_is_restarted_when_the_database_recovers() {
    let server = following_server(Duration::from_mins(1)).await;
    server.with_rows(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.change_counters.catalog += 1;
    });
    server.wait_until(async |server| server.gateway.gateway().catalog().len() == 1).await;
    server.with_rows(|rows| {
        rows.mode = Mode::NoCatalog;
        rows.catalog.methods.push(method("b"));
        rows.change_counters.catalog += 1;
    });
    sleep(POLL * 4).await;
    assert_eq!(server.gateway.gateway().catalog().len(), 1, "the build waits for rows");
    server.with_rows(|rows| rows.mode = Mode::Down);
    server.wait_until(async |server| server.is_unavailable()).await;
    server.with_rows(|rows| rows.mode = Mode::Available);
    let elapsed =
        server.wait_until(async |server| server.gateway.gateway().catalog().len() == 2).await;
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
}

/// Makes the database unavailable, and then available with a different state.
async fn replace_database(server: &FollowingServer, ids: &[&str]) {
    server.with_rows(|rows| rows.mode = Mode::Down);
    server.wait_until(async |server| server.is_unavailable()).await;
    server.with_rows(|rows| {
        rows.mode = Mode::Available;
        rows.catalog.methods = ids.iter().map(|id| method(id)).collect();
    });
}

#[tokio::test(start_paused = true)]
async fn a_different_catalog_with_the_same_counter_is_read_after_an_outage() {
    let server = following_server(Duration::from_mins(1)).await;
    let tools = |server: &FollowingServer| server.gateway.gateway().catalog().len();
    server.with_rows(|rows| {
        rows.catalog.methods = vec![method("a"), method("b")];
        rows.change_counters.catalog = 12;
    });
    server.wait_until(async |server| tools(server) == 2).await;
    // This state is recorded as the current one.
    sleep(POLL * 4).await;
    replace_database(&server, &["a"]).await;
    server.wait_until(async |server| tools(server) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_catalog_is_rebuilt_if_an_outage_interrupts_the_storing_of_tool_names() {
    let server = following_server(Duration::from_mins(1)).await;
    let tools = |server: &FollowingServer| server.gateway.gateway().catalog().len();
    server.with_rows(|rows| {
        rows.mode = Mode::SlowNames;
        rows.catalog.methods = vec![method("a.b")];
        rows.change_counters.catalog = 12;
    });
    server.wait_until(async |server| tools(server) == 1).await;
    // The tool name is still being written.
    replace_database(&server, &["a.b", "c"]).await;
    let elapsed = server.wait_until(async |server| tools(server) == 2).await;
    assert!(elapsed < NAMES_DELAY * 2, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_session_changes_are_read_again_after_an_outage() {
    let server = following_server(Duration::from_mins(1)).await;
    server.with_rows(|rows| rows.change_counters.sessions = 50_000);
    server.wait_until(async |server| server.with_rows(|rows| !rows.session_reads.is_empty())).await;
    replace_database(&server, &[]).await;
    server.wait_until(async |server| server.with_rows(|rows| rows.session_reads.len() > 1)).await;
    sleep(POLL * 4).await;
    assert_eq!(server.with_rows(|rows| rows.session_reads.clone()), [0, 40_000], "once each");
}

#[tokio::test(start_paused = true)]
async fn a_login_that_takes_longer_than_a_poll_succeeds() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    server.with_rows(|rows| rows.mode = Mode::Down);
    server.wait_until(async |server| server.is_unavailable()).await;
    server.with_rows(|rows| rows.mode = Mode::SlowLogin);
    let elapsed = server.wait_until(async |server| !server.is_unavailable()).await;
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    assert_eq!(server.authenticate("two").await.unwrap(), "ada");
}
