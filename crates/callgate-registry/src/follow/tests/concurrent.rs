//! Tasks that run concurrently with polls of the registry and must not delay them.

use std::time::Duration;

use callgate::http::AuthenticateError;
use callgate::mcp::{Identify, IdentifyError, NotificationStream};
use callgate::upstream::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use super::super::registry::flush_uses;
use super::fake_store::Mode;
use super::recovery::method;
use super::unavailable::{FollowingServer, POLL, following_server};
use super::*;
use crate::auth::authenticator::TokenAuthenticator;

#[tokio::test(start_paused = true)]
async fn revocations_apply_while_writes_hang_and_token_uses_are_written_later() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    server.authenticate("two").await.unwrap();
    server.with_rows(|rows| rows.mode = Mode::NoWrites);
    // Writing the uses of tokens waits for the database.
    sleep(Duration::from_secs(61)).await;
    server.with_rows(|rows| {
        rows.tokens.remove(0);
        rows.change_counters.tokens += 1;
    });
    let invalid = AuthenticateError::InvalidToken;
    let elapsed = server
        .wait_until(async |server| server.authenticate("one").await == Err(invalid.clone()))
        .await;
    assert!(elapsed <= POLL * 2, "{elapsed:?}");
    assert!(!server.is_unavailable());
    // Maintenance waits for the database, too.
    sleep(Duration::from_secs(15)).await;
    server.authenticate("two").await.unwrap();
    assert!(!server.is_unavailable());
    server.with_rows(|rows| rows.mode = Mode::Available);
    sleep(Duration::from_mins(3)).await;
    let mut token_uses = server.with_rows(|rows| rows.token_uses.clone());
    token_uses.sort_unstable();
    assert_eq!(token_uses.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2], "once each");
}

#[tokio::test(start_paused = true)]
async fn a_token_use_that_could_not_be_written_is_kept() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    let authenticator = server.registry.authenticator();
    let written = authenticator.uses();
    assert_eq!(written.len(), 1);
    server.with_rows(|rows| rows.mode = Mode::Down);
    flush_uses(&authenticator).await;
    assert_eq!(authenticator.uses(), written);
    // If a token was used again, the newer use is kept.
    let older: Vec<_> = written.iter().map(|(id, at)| (*id, at - 1)).collect();
    authenticator.remove_uses(&older);
    assert_eq!(authenticator.uses(), written);
    server.with_rows(|rows| rows.mode = Mode::Available);
    flush_uses(&authenticator).await;
    assert!(authenticator.uses().is_empty());
    assert_eq!(server.with_rows(|rows| rows.token_uses.clone()), written);
}

#[tokio::test(start_paused = true)]
async fn notifications_of_the_database_trigger_a_read_before_the_next_poll() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    for round in 0..20 {
        let token = if round % 2 == 0 { Err(AuthenticateError::InvalidToken) } else { Ok("ada") };
        server.with_rows(|rows| {
            rows.tokens.iter_mut().for_each(|row| row.expires_at = (round % 2 == 0).then_some(5));
            rows.change_counters.tokens += 1;
        });
        server.store.changes.notify_one();
        let condition = async |server: &FollowingServer| {
            server.authenticate("one").await.as_deref().map_err(Clone::clone) == token
        };
        let elapsed = server.wait_until(condition).await;
        assert!(elapsed <= POLL / 5, "round {round}: {elapsed:?}");
        sleep(POLL / 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_and_the_catalog_stay_up_to_date_while_messages_cannot_be_read() {
    let server = following_server(Duration::ZERO).await;
    server.authenticate("one").await.unwrap();
    // The fake store has no such message, so reading it fails.
    server.with_rows(|rows| rows.change_counters.messages += 1);
    server.wait_until(async |server| server.is_unavailable()).await;
    for _ in 0..100 {
        sleep(Duration::from_millis(50)).await;
        server.authenticate("one").await.unwrap();
    }
    server.with_rows(|rows| {
        rows.tokens.clear();
        rows.change_counters.tokens += 1;
    });
    let elapsed = server.wait_until(async |server| server.authenticate("one").await.is_err()).await;
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    // The catalog does not wait for the messages either, because it contains the requirements of methods.
    server.with_rows(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.change_counters.catalog += 1;
    });
    server.wait_until(async |server| server.gateway.gateway().catalog().len() == 1).await;
}

/// Identifies the caller with this token.
struct Bearer(Arc<TokenAuthenticator>, &'static str);

impl Identify for Bearer {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        Box::pin(async {
            self.0.caller_of(Some(self.1)).await.map_err(|_| IdentifyError::Unavailable)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn notification_streams_end_with_the_grace_period_of_tokens() {
    let server = following_server(Duration::from_secs(20)).await;
    let bearer = Bearer(server.registry.authenticator(), "one");
    let caller = bearer.identify().await.unwrap();
    let mut listener = NotificationStream::legacy(server.gateway.mcp(), &caller, Arc::new(bearer));
    server.with_rows(|rows| rows.mode = Mode::Down);
    let ended = tokio::spawn(async move {
        while listener.next().await.is_some() {}
        Instant::now()
    });
    server.wait_until(async |server| server.authentication_is_unavailable("one").await).await;
    let grace_ended = Instant::now();
    let ended = timeout(Duration::from_secs(1), ended).await.unwrap().unwrap();
    assert!(ended < grace_ended + POLL, "{:?}", ended - grace_ended);
}

#[tokio::test(start_paused = true)]
async fn a_caller_expires_with_their_token() {
    let server = following_server(Duration::from_mins(1)).await;
    let expiry = async || {
        let caller = server.registry.authenticator().caller_of(Some("one")).await;
        caller.unwrap().expires_at()
    };
    assert_eq!(expiry().await, None);
    let end: i64 = 4_000_000_000;
    server.with_rows(|rows| {
        rows.tokens.iter_mut().for_each(|row| row.expires_at = Some(end));
        rows.change_counters.tokens += 1;
    });
    let end = std::time::UNIX_EPOCH + Duration::from_secs(end.unsigned_abs());
    server.wait_until(async |_| expiry().await == Some(end)).await;
}
