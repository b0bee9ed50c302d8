//! Tasks that run concurrently with polls of the registry and must not delay them.

use std::time::Duration;

use callgate::http::AuthenticateError;
use callgate::mcp::{Identify, IdentifyError, NotificationStream};
use callgate::upstream::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use super::super::registry::flush_uses;
use super::fake_store::Mode;
use super::recovery::method;
use super::unavailable::{Followed, POLL, followed};
use super::*;
use crate::auth::authenticator::TokenAuthenticator;

#[tokio::test(start_paused = true)]
async fn revocations_are_heard_while_nothing_can_be_written_and_uses_are_written_later() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    followed.ask("two").await.unwrap();
    followed.set(|rows| rows.mode = Mode::NoWrites);
    // Writing the uses of tokens waits for the database.
    sleep(Duration::from_secs(61)).await;
    followed.set(|rows| {
        rows.tokens.remove(0);
        rows.change_counters.tokens += 1;
    });
    let gone = AuthenticateError::InvalidToken;
    let took = followed.until(async |it| it.ask("one").await == Err(gone.clone())).await;
    assert!(took <= POLL * 2, "{took:?}");
    assert!(!followed.is_unavailable());
    // Maintenance waits for the database, too.
    sleep(Duration::from_secs(15)).await;
    followed.ask("two").await.unwrap();
    assert!(!followed.is_unavailable());
    followed.set(|rows| rows.mode = Mode::Well);
    sleep(Duration::from_mins(3)).await;
    let mut touched = followed.set(|rows| rows.touched.clone());
    touched.sort_unstable();
    assert_eq!(touched.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2], "once each");
}

#[tokio::test(start_paused = true)]
async fn a_use_that_was_not_written_is_noted_still() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    let authenticator = followed.registry.authenticator();
    let written = authenticator.uses();
    assert_eq!(written.len(), 1);
    followed.set(|rows| rows.mode = Mode::Down);
    flush_uses(&authenticator).await;
    assert_eq!(authenticator.uses(), written);
    // If a token was used again, the newer use is kept.
    let older: Vec<_> = written.iter().map(|(id, at)| (*id, at - 1)).collect();
    authenticator.forget_uses(&older);
    assert_eq!(authenticator.uses(), written);
    followed.set(|rows| rows.mode = Mode::Well);
    flush_uses(&authenticator).await;
    assert!(authenticator.uses().is_empty());
    assert_eq!(followed.set(|rows| rows.touched.clone()), written);
}

#[tokio::test(start_paused = true)]
async fn what_the_database_tells_is_heard_before_the_next_poll() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    for round in 0..20 {
        let token = if round % 2 == 0 { Err(AuthenticateError::InvalidToken) } else { Ok("ada") };
        followed.set(|rows| {
            rows.tokens.iter_mut().for_each(|row| row.expires_at = (round % 2 == 0).then_some(5));
            rows.change_counters.tokens += 1;
        });
        followed.store.told.notify_one();
        let is_so =
            async |it: &Followed| it.ask("one").await.as_deref().map_err(Clone::clone) == token;
        let took = followed.until(is_so).await;
        assert!(took <= POLL / 5, "round {round}: {took:?}");
        sleep(POLL / 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_known_also_where_messages_cannot_be_read() {
    let followed = followed(Duration::ZERO).await;
    followed.ask("one").await.unwrap();
    // The fake store has no such message, so reading it fails.
    followed.set(|rows| rows.change_counters.messages += 1);
    followed.until(async |it| it.is_unavailable()).await;
    for _ in 0..100 {
        sleep(Duration::from_millis(50)).await;
        followed.ask("one").await.unwrap();
    }
    followed.set(|rows| {
        rows.tokens.clear();
        rows.change_counters.tokens += 1;
    });
    let took = followed.until(async |it| it.ask("one").await.is_err()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    // The catalog does not wait for the messages either, because it contains the requirements of methods.
    followed.set(|rows| {
        rows.catalog.methods = vec![method("a")];
        rows.change_counters.catalog += 1;
    });
    followed.until(async |it| it.gateway.gateway().catalog().len() == 1).await;
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
async fn clients_that_listen_are_let_go_when_their_tokens_are_no_longer_honoured() {
    let followed = followed(Duration::from_secs(20)).await;
    let bearer = Bearer(followed.registry.authenticator(), "one");
    let caller = bearer.identify().await.unwrap();
    let mut listener =
        NotificationStream::legacy(followed.gateway.mcp(), &caller, Arc::new(bearer));
    followed.set(|rows| rows.mode = Mode::Down);
    let ended = tokio::spawn(async move {
        while listener.next().await.is_some() {}
        Instant::now()
    });
    followed.until(async |it| it.cannot_check("one").await).await;
    let over = Instant::now();
    let ended = timeout(Duration::from_secs(1), ended).await.unwrap().unwrap();
    assert!(ended < over + POLL, "{:?}", ended - over);
}

#[tokio::test(start_paused = true)]
async fn a_caller_expires_with_their_token() {
    let followed = followed(Duration::from_mins(1)).await;
    let expiry = async || {
        let caller = followed.registry.authenticator().caller_of(Some("one")).await;
        caller.unwrap().expires_at()
    };
    assert_eq!(expiry().await, None);
    let end: i64 = 4_000_000_000;
    followed.set(|rows| {
        rows.tokens.iter_mut().for_each(|row| row.expires_at = Some(end));
        rows.change_counters.tokens += 1;
    });
    let end = std::time::UNIX_EPOCH + Duration::from_secs(end.unsigned_abs());
    followed.until(async |_| expiry().await == Some(end)).await;
}
