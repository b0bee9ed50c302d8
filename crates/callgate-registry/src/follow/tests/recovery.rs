//! After the database was unavailable, all rows are read again, even if the counters have not changed.

use std::time::Duration;

use callgate::http::AuthenticateError;
use tokio::time::sleep;

use super::fake_store::{Mode, NAMES};
use super::unavailable::{Followed, POLL, followed};
use super::*;

pub(super) fn method(id: &str) -> MethodRow {
    MethodRow {
        rpc_method: id.to_owned(),
        upstream: Some("shop".to_owned()),
        ..MethodRow::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_state_that_was_restored_is_read_again() {
    let followed = followed(Duration::from_mins(1)).await;
    let tools = |it: &Followed| it.gateway.gateway().catalog().len();
    followed.set(|rows| {
        rows.catalog.methods = vec![method("a"), method("b")];
        rows.change_counters =
            ChangeCounters { catalog: 9, access: 9, tokens: 9, ..ChangeCounters::default() };
    });
    followed.until(async |it| tools(it) == 2).await;
    followed.set(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.access.users.clear();
        rows.change_counters =
            ChangeCounters { catalog: 3, access: 3, tokens: 3, ..ChangeCounters::default() };
    });
    followed.until(async |it| tools(it) == 1).await;
    assert_eq!(followed.ask("one").await, Err(AuthenticateError::InvalidToken), "no such user");
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_hangs_is_begun_anew_when_the_database_is_back() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.set(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.change_counters.catalog += 1;
    });
    followed.until(async |it| it.gateway.gateway().catalog().len() == 1).await;
    followed.set(|rows| {
        rows.mode = Mode::NoCatalog;
        rows.catalog.methods.push(method("b"));
        rows.change_counters.catalog += 1;
    });
    sleep(POLL * 4).await;
    assert_eq!(followed.gateway.gateway().catalog().len(), 1, "the build waits for rows");
    followed.set(|rows| rows.mode = Mode::Down);
    followed.until(async |it| it.is_unavailable()).await;
    followed.set(|rows| rows.mode = Mode::Well);
    let took = followed.until(async |it| it.gateway.gateway().catalog().len() == 2).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Makes the database unavailable, and then available with a different state.
async fn replaced(followed: &Followed, ids: &[&str]) {
    followed.set(|rows| rows.mode = Mode::Down);
    followed.until(async |it| it.is_unavailable()).await;
    followed.set(|rows| {
        rows.mode = Mode::Well;
        rows.catalog.methods = ids.iter().map(|id| method(id)).collect();
    });
}

#[tokio::test(start_paused = true)]
async fn another_catalog_under_the_same_number_is_read() {
    let followed = followed(Duration::from_mins(1)).await;
    let tools = |it: &Followed| it.gateway.gateway().catalog().len();
    followed.set(|rows| {
        rows.catalog.methods = vec![method("a"), method("b")];
        rows.change_counters.catalog = 12;
    });
    followed.until(async |it| tools(it) == 2).await;
    // This state is recorded as the current one.
    sleep(POLL * 4).await;
    replaced(&followed, &["a"]).await;
    followed.until(async |it| tools(it) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_was_being_made_meanwhile_is_made_again() {
    let followed = followed(Duration::from_mins(1)).await;
    let tools = |it: &Followed| it.gateway.gateway().catalog().len();
    followed.set(|rows| {
        rows.mode = Mode::SlowNames;
        rows.catalog.methods = vec![method("a.b")];
        rows.change_counters.catalog = 12;
    });
    followed.until(async |it| tools(it) == 1).await;
    // The tool name is still being written.
    replaced(&followed, &["a.b", "c"]).await;
    let took = followed.until(async |it| tools(it) == 2).await;
    assert!(took < NAMES * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_changes_of_sessions_are_read_again() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.set(|rows| rows.change_counters.sessions = 50_000);
    followed.until(async |it| it.set(|rows| !rows.asked_after.is_empty())).await;
    replaced(&followed, &[]).await;
    followed.until(async |it| it.set(|rows| rows.asked_after.len() > 1)).await;
    sleep(POLL * 4).await;
    assert_eq!(followed.set(|rows| rows.asked_after.clone()), [0, 40_000], "once each");
}

#[tokio::test(start_paused = true)]
async fn a_login_that_takes_longer_than_a_look_succeeds() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    followed.set(|rows| rows.mode = Mode::Down);
    followed.until(async |it| it.is_unavailable()).await;
    followed.set(|rows| rows.mode = Mode::SlowLogin);
    let took = followed.until(async |it| !it.is_unavailable()).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(followed.ask("two").await.unwrap(), "ada");
}
