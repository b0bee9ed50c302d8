//! Time limits while the database is unavailable. The test controls the clock.

use std::time::Duration;

use callgate::http::{AuthenticateError, ReadinessCheck as _};
use tokio::time::{Instant, sleep};

use super::fake_store::{FakeStore, Mode, Rows};
use super::*;
use crate::auth::authenticator::TokenOptions;
use crate::auth::tracked_store::TrackedStore;
use crate::rows::{TokenRow, UserRow};
use crate::store::Store;

/// Interval at which the counters are read.
pub(super) const POLL: Duration = Duration::from_millis(250);

pub(super) struct FollowingServer {
    pub(super) store: Arc<FakeStore>,
    pub(super) registry: Registry,
    pub(super) gateway: Callgate,
    _following: Following,
}

fn token_row(id: i64, secret: &str) -> TokenRow {
    TokenRow {
        id,
        id_user: 1,
        login: None,
        name: "t".to_owned(),
        digest: crate::hex::to_hex(callgate::access::TokenDigest::of(secret).as_bytes()),
        created_at: 0,
        expires_at: None,
        last_used_at: None,
    }
}

/// Follows a store in which ada has the tokens `one` and `two`.
pub(super) async fn following_server(grace: Duration) -> FollowingServer {
    let store = Arc::new(FakeStore::default());
    store.with_rows(|rows| {
        let ada = UserRow { id: 1, login: "ada".to_owned(), id_type: None, role: None };
        rows.access.users = vec![ada];
        rows.tokens = vec![token_row(1, "one"), token_row(2, "two")];
    });
    let options = TokenOptions { grace, ..TokenOptions::default() };
    let registry = Registry::new(Arc::clone(&store) as _).tokens(options);
    let gateway = Callgate::builder()
        .authenticate(registry.authenticator())
        .sessions(registry.sessions().await.unwrap())
        .build()
        .unwrap();
    let following = registry.follow(&gateway).await.unwrap();
    FollowingServer { store, registry, gateway, _following: following }
}

impl FollowingServer {
    pub(super) fn with_rows<T>(&self, change: impl FnOnce(&mut Rows) -> T) -> T {
        self.store.with_rows(change)
    }

    pub(super) async fn authenticate(&self, token: &str) -> Result<String, AuthenticateError> {
        let caller = self.registry.authenticator().caller_of(Some(token)).await?;
        Ok(caller.name().to_owned())
    }

    pub(super) async fn authentication_is_unavailable(&self, token: &str) -> bool {
        matches!(self.authenticate(token).await, Err(AuthenticateError::Unavailable(_)))
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.registry.authenticator().store().is_unavailable()
    }

    /// Waits until the condition holds, and returns the elapsed time. The clock advances automatically while all tasks
    /// wait.
    pub(super) async fn wait_until(
        &self,
        mut condition: impl AsyncFnMut(&Self) -> bool,
    ) -> Duration {
        let started = Instant::now();
        while !condition(self).await {
            assert!(started.elapsed() < Duration::from_mins(10), "the condition never holds");
            sleep(Duration::from_millis(5)).await;
        }
        started.elapsed()
    }

    fn operations(&self) -> usize {
        self.store.operations.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_token_needs_no_query_and_a_poll_is_one_query() {
    let server = following_server(Duration::from_mins(1)).await;
    assert_eq!(server.authenticate("one").await.unwrap(), "ada");
    // No other task may poll meanwhile.
    let before = server.operations();
    for _ in 0..10_000 {
        server.authenticate("one").await.unwrap();
    }
    assert_eq!(server.operations(), before);
    sleep(POLL * 8).await;
    let polls = server.operations() - before;
    assert!((7..=9).contains(&polls), "{polls} operations in 8 polls");
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_begins_at_the_time_of_the_counters() {
    let server = following_server(Duration::from_mins(1)).await;
    assert_eq!(server.authenticate("one").await.unwrap(), "ada");
    // Requests are answered with a state that becomes older.
    server.with_rows(|rows| rows.counters_read_at = Some(Instant::now()));
    let elapsed =
        server.wait_until(async |server| server.authentication_is_unavailable("one").await).await;
    let grace = Duration::from_mins(1);
    assert!(elapsed < grace + POLL && elapsed + POLL * 2 > grace, "{elapsed:?}");
    server.with_rows(|rows| rows.counters_read_at = None);
    server.wait_until(async |server| server.authenticate("one").await.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_token_is_refused_and_not_cached() {
    let server = following_server(Duration::from_mins(1)).await;
    assert_eq!(server.authenticate("three").await, Err(AuthenticateError::InvalidToken));
    server.with_rows(|rows| rows.tokens.push(token_row(3, "three")));
    assert_eq!(server.authenticate("three").await.unwrap(), "ada", "at once, before any poll");
}

#[tokio::test(start_paused = true)]
async fn revoked_and_expired_tokens_are_refused_after_the_next_poll() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    server.authenticate("two").await.unwrap();
    server.with_rows(|rows| {
        rows.tokens.remove(0);
        rows.tokens[0].expires_at = Some(5);
        rows.change_counters.tokens += 1;
    });
    let refused = async |token: &str, server: &FollowingServer| {
        server.authenticate(token).await == Err(AuthenticateError::InvalidToken)
    };
    let elapsed = server
        .wait_until(async |server| refused("one", server).await && refused("two", server).await)
        .await;
    assert!(elapsed <= POLL * 2, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lookup_is_repeated_if_a_revocation_overtakes_it() {
    let server = Arc::new(following_server(Duration::from_mins(1)).await);
    server.with_rows(|rows| rows.token_delay = Duration::from_millis(400));
    let lookup = Arc::clone(&server);
    let lookup = tokio::spawn(async move { lookup.authenticate("one").await });
    // The store has read the token, and the reply is on its way.
    sleep(Duration::from_millis(50)).await;
    server.with_rows(|rows| {
        rows.tokens.clear();
        rows.change_counters.tokens += 1;
    });
    assert_eq!(lookup.await.unwrap(), Err(AuthenticateError::InvalidToken));
    assert_eq!(server.authenticate("one").await, Err(AuthenticateError::InvalidToken));
}

#[tokio::test(start_paused = true)]
async fn waiting_lookups_are_combined_and_limited() {
    let server = Arc::new(following_server(Duration::from_mins(1)).await);
    let before = server.operations();
    let look_up = |number: usize| {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.authenticate(&format!("unknown {number}")).await })
    };
    let lookups: Vec<_> = (0..6_000).map(look_up).collect();
    let (mut refused, mut unavailable) = (0, 0);
    for lookup in lookups {
        match lookup.await.unwrap().unwrap_err() {
            AuthenticateError::InvalidToken => refused += 1,
            _ => unavailable += 1,
        }
    }
    // The maximum number of waiting callers, and those of the first query.
    assert!((4_096..=4_097).contains(&refused), "{refused}");
    assert_eq!(refused + unavailable, 6_000);
    let queries = server.operations() - before;
    assert!(queries <= 12, "{queries} for 9 look-ups and the polls between");
    assert_eq!(server.store.max_digests.load(std::sync::atomic::Ordering::SeqCst), 500);
}

#[tokio::test(start_paused = true)]
async fn while_the_database_fails_confirmed_tokens_are_accepted_only_for_the_grace_period() {
    for mode in [Mode::Down, Mode::Silent] {
        let server = following_server(Duration::from_mins(1)).await;
        server.authenticate("one").await.unwrap();
        server.with_rows(|rows| rows.mode = mode);
        server.wait_until(async |server| server.is_unavailable()).await;
        assert_eq!(server.authenticate("one").await.unwrap(), "ada");
        assert!(server.authentication_is_unavailable("two").await, "an unseen token may be valid");
        let store = Arc::clone(server.registry.authenticator().store());
        assert!(store.is_unavailable() && store.failures() > 0);
        server.wait_until(async |server| server.authentication_is_unavailable("one").await).await;
        let age = store.age().unwrap();
        assert!(age >= Duration::from_mins(1) && age < Duration::from_secs(61), "{age:?}");
        let anonymous = server.registry.authenticator().caller_of(None).await;
        assert_eq!(anonymous.unwrap().name(), "anonymous");
        server.with_rows(|rows| rows.mode = Mode::Available);
        let elapsed =
            server.wait_until(async |server| server.authenticate("one").await.is_ok()).await;
        assert!(elapsed < Duration::from_secs(2), "{mode:?}: {elapsed:?}");
        assert!(!server.is_unavailable());
    }
}

#[tokio::test(start_paused = true)]
async fn without_grace_a_token_is_accepted_for_at_most_a_second_during_an_outage() {
    for mode in [Mode::Down, Mode::Silent, Mode::OnlyCounters] {
        let server = following_server(Duration::ZERO).await;
        server.authenticate("one").await.unwrap();
        for _ in 0..400 {
            sleep(Duration::from_millis(10)).await;
            assert!(server.authenticate("one").await.is_ok(), "while all is well");
        }
        server.with_rows(|rows| {
            rows.mode = mode;
            rows.change_counters.tokens += 1;
        });
        let elapsed = server
            .wait_until(async |server| server.authentication_is_unavailable("one").await)
            .await;
        assert!(elapsed <= Duration::from_secs(1), "{mode:?}: {elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_during_an_outage_is_refused_after_the_recovery() {
    let server = following_server(Duration::from_mins(1)).await;
    server.authenticate("one").await.unwrap();
    server.with_rows(|rows| rows.mode = Mode::Silent);
    server.wait_until(async |server| server.is_unavailable()).await;
    // A restored backup may even have the same numbers.
    server.with_rows(|rows| {
        rows.mode = Mode::Available;
        rows.tokens.clear();
    });
    let invalid = AuthenticateError::InvalidToken;
    let elapsed = server
        .wait_until(async |server| server.authenticate("one").await == Err(invalid.clone()))
        .await;
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn tokens_cannot_be_checked_before_the_registry_is_followed() {
    let registry = Registry::new(Arc::new(FakeStore::default()));
    let refused = registry.authenticator().caller_of(Some("one")).await.unwrap_err();
    insta::assert_snapshot!(refused, @"the registry has not been read yet, so tokens cannot be checked; try again");
}

#[tokio::test(start_paused = true)]
async fn readiness_reports_the_age_of_the_data_and_how_long_tokens_are_accepted() {
    let source = TrackedStore::new(Arc::new(FakeStore::default()), Duration::from_mins(1));
    sleep(POLL).await;
    source.record_success(Instant::now());
    assert!(source.degraded().is_none());
    sleep(Duration::from_millis(12_900)).await;
    source.record_failure();
    let degraded = source.degraded().unwrap();
    assert_eq!(
        degraded.reason,
        "the registry was last read 12 s ago; the server still uses that data; see the log"
    );
    assert_eq!(degraded.details, [("registry_age_seconds", 12)]);
    assert_eq!(degraded.credentials_accepted_for, Some(Duration::from_millis(47_100)));
}

/// A write that hangs counts as failed, like a refused one. A renewal of the lease shows that writes succeed again.
#[tokio::test(start_paused = true)]
async fn readiness_is_degraded_while_writes_fail() {
    for shares_rate_limits in [true, false] {
        let store = Arc::new(FakeStore::default());
        let registry = Registry::new(Arc::clone(&store) as _);
        let registry = if shares_rate_limits { registry.share_rate_limits() } else { registry };
        let gateway = Callgate::builder().build().unwrap();
        let _following = registry.follow(&gateway).await.unwrap();
        let source = Arc::clone(registry.authenticator().store());
        assert!(source.degraded().is_none());
        store.with_rows(|rows| rows.mode = Mode::NoWrites);
        if !shares_rate_limits {
            let names = [(1, "a".to_owned())];
            source.write(POLL, store.store_tool_names(&names)).await.unwrap_err();
        }
        sleep(Duration::from_secs(20)).await;
        let degraded = source.degraded().unwrap();
        assert_eq!(
            degraded.reason,
            "the registry cannot be written: check that the database is running and can be reached from this machine"
        );
        assert_eq!(degraded.credentials_accepted_for, None, "it can be read");
        store.with_rows(|rows| rows.mode = Mode::Available);
        sleep(Duration::from_secs(10)).await;
        assert!(source.degraded().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_known_share_of_rate_limits_is_used_while_the_registry_fails() {
    let store = Arc::new(FakeStore::default());
    store.with_rows(|rows| rows.servers = 3);
    let registry = Registry::new(Arc::clone(&store) as _).share_rate_limits();
    let gateway = Callgate::builder().build().unwrap();
    let _following = registry.follow(&gateway).await.unwrap();
    let servers = || gateway.gateway().rate_limit_servers();
    assert_eq!(servers(), 3, "before it serves");
    for mode in [Mode::Down, Mode::Silent, Mode::NoWrites] {
        store.with_rows(|rows| (rows.mode, rows.servers) = (mode, 1));
        sleep(Duration::from_mins(2)).await;
        assert_eq!(servers(), 3, "{mode:?}");
    }
    store.with_rows(|rows| (rows.mode, rows.servers) = (Mode::Available, 2));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(servers(), 2);
}

#[tokio::test(start_paused = true)]
async fn failing_catalog_builds_are_retried_with_backoff() {
    let server = following_server(Duration::from_mins(5)).await;
    let builds = || {
        let authenticator = server.registry.authenticator();
        authenticator.store().reads().find(|(name, _)| *name == "catalog").unwrap().1
    };
    let before = builds();
    server.with_rows(|rows| {
        rows.mode = Mode::OnlyCounters;
        rows.change_counters.catalog += 1;
    });
    sleep(Duration::from_mins(1)).await;
    let failed = builds() - before;
    assert!((5..25).contains(&failed), "{failed} builds in a minute");
    // The change may have removed the cause of the failure, so the catalog is built at once.
    server.with_rows(|rows| rows.change_counters.catalog += 1);
    sleep(POLL * 2).await;
    assert_eq!(builds() - before, failed + 1);
    server.with_rows(|rows| rows.mode = Mode::Available);
    sleep(Duration::from_secs(11)).await;
    let built = builds();
    assert_eq!(built - before, failed + 2);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(builds(), built, "no build after a success");
}
