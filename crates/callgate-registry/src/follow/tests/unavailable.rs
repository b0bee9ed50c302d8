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

pub(super) struct Followed {
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
pub(super) async fn followed(grace: Duration) -> Followed {
    let store = Arc::new(FakeStore::default());
    store.set(|rows| {
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
    Followed { store, registry, gateway, _following: following }
}

impl Followed {
    pub(super) fn set<T>(&self, change: impl FnOnce(&mut Rows) -> T) -> T {
        self.store.set(change)
    }

    pub(super) async fn ask(&self, token: &str) -> Result<String, AuthenticateError> {
        let caller = self.registry.authenticator().caller_of(Some(token)).await?;
        Ok(caller.name().to_owned())
    }

    pub(super) async fn cannot_check(&self, token: &str) -> bool {
        matches!(self.ask(token).await, Err(AuthenticateError::Unavailable(_)))
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.registry.authenticator().store().is_unavailable()
    }

    /// Waits until the condition holds, and returns the elapsed time. The clock advances automatically while all tasks
    /// wait.
    pub(super) async fn until(&self, mut is_so: impl AsyncFnMut(&Self) -> bool) -> Duration {
        let began = Instant::now();
        while !is_so(self).await {
            assert!(began.elapsed() < Duration::from_mins(10), "the condition never holds");
            sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }

    fn operations(&self) -> usize {
        self.store.operations.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_token_needs_no_query_and_one_poll_is_one() {
    let followed = followed(Duration::from_mins(1)).await;
    assert_eq!(followed.ask("one").await.unwrap(), "ada");
    // No other task may poll meanwhile.
    let before = followed.operations();
    for _ in 0..10_000 {
        followed.ask("one").await.unwrap();
    }
    assert_eq!(followed.operations(), before);
    sleep(POLL * 8).await;
    let polls = followed.operations() - before;
    assert!((7..=9).contains(&polls), "{polls} operations in 8 polls");
}

#[tokio::test(start_paused = true)]
async fn the_grace_counts_from_when_the_counters_are_from() {
    let followed = followed(Duration::from_mins(1)).await;
    assert_eq!(followed.ask("one").await.unwrap(), "ada");
    // Requests are answered with a state that becomes older.
    followed.set(|rows| rows.counters_of = Some(Instant::now()));
    let took = followed.until(async |it| it.cannot_check("one").await).await;
    let bound = Duration::from_mins(1);
    assert!(took < bound + POLL && took + POLL * 2 > bound, "{took:?}");
    followed.set(|rows| rows.counters_of = None);
    followed.until(async |it| it.ask("one").await.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_there_is_refused_and_never_kept() {
    let followed = followed(Duration::from_mins(1)).await;
    assert_eq!(followed.ask("three").await, Err(AuthenticateError::InvalidToken));
    followed.set(|rows| rows.tokens.push(token_row(3, "three")));
    assert_eq!(followed.ask("three").await.unwrap(), "ada", "at once, before any poll");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_dead_with_the_next_poll_and_a_changed_one_is_replaced() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    followed.ask("two").await.unwrap();
    followed.set(|rows| {
        rows.tokens.remove(0);
        rows.tokens[0].expires_at = Some(5);
        rows.change_counters.tokens += 1;
    });
    let refused = async |token: &str, it: &Followed| {
        it.ask(token).await == Err(AuthenticateError::InvalidToken)
    };
    let took =
        followed.until(async |it| refused("one", it).await && refused("two", it).await).await;
    assert!(took <= POLL * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_a_revocation_overtakes_is_repeated() {
    let followed = Arc::new(followed(Duration::from_mins(1)).await);
    followed.set(|rows| rows.tokens_take = Duration::from_millis(400));
    let asking = Arc::clone(&followed);
    let asking = tokio::spawn(async move { asking.ask("one").await });
    // The store has read the token, and the reply is on its way.
    sleep(Duration::from_millis(50)).await;
    followed.set(|rows| {
        rows.tokens.clear();
        rows.change_counters.tokens += 1;
    });
    assert_eq!(asking.await.unwrap(), Err(AuthenticateError::InvalidToken));
    assert_eq!(followed.ask("one").await, Err(AuthenticateError::InvalidToken));
}

#[tokio::test(start_paused = true)]
async fn look_ups_that_wait_are_gathered_and_have_bounds() {
    let followed = Arc::new(followed(Duration::from_mins(1)).await);
    let before = followed.operations();
    let ask = |number: usize| {
        let followed = Arc::clone(&followed);
        tokio::spawn(async move { followed.ask(&format!("unknown {number}")).await })
    };
    let asked: Vec<_> = (0..6_000).map(ask).collect();
    let (mut refused, mut put_off) = (0, 0);
    for one in asked {
        match one.await.unwrap().unwrap_err() {
            AuthenticateError::InvalidToken => refused += 1,
            _ => put_off += 1,
        }
    }
    // The maximum number of waiting callers, and those of the first query.
    assert!((4_096..=4_097).contains(&refused), "{refused}");
    assert_eq!(refused + put_off, 6_000);
    let queries = followed.operations() - before;
    assert!(queries <= 12, "{queries} for 9 look-ups and the polls between");
    assert_eq!(followed.store.most_digests.load(std::sync::atomic::Ordering::SeqCst), 500);
}

#[tokio::test(start_paused = true)]
async fn a_failing_database_leaves_confirmed_tokens_good_for_the_grace_and_no_longer() {
    for mode in [Mode::Down, Mode::Silent] {
        let followed = followed(Duration::from_mins(1)).await;
        followed.ask("one").await.unwrap();
        followed.set(|rows| rows.mode = mode);
        followed.until(async |it| it.is_unavailable()).await;
        assert_eq!(followed.ask("one").await.unwrap(), "ada");
        assert!(followed.cannot_check("two").await, "an unseen token may be valid");
        let store = Arc::clone(followed.registry.authenticator().store());
        assert!(store.is_unavailable() && store.failures() > 0);
        followed.until(async |it| it.cannot_check("one").await).await;
        let age = store.age().unwrap();
        assert!(age >= Duration::from_mins(1) && age < Duration::from_secs(61), "{age:?}");
        let anonymous = followed.registry.authenticator().caller_of(None).await;
        assert_eq!(anonymous.unwrap().name(), "anonymous");
        followed.set(|rows| rows.mode = Mode::Well);
        let took = followed.until(async |it| it.ask("one").await.is_ok()).await;
        assert!(took < Duration::from_secs(2), "{mode:?}: {took:?}");
        assert!(!followed.is_unavailable());
    }
}

#[tokio::test(start_paused = true)]
async fn without_grace_a_token_is_honoured_for_about_a_second() {
    for mode in [Mode::Down, Mode::Silent, Mode::OnlyCounters] {
        let followed = followed(Duration::ZERO).await;
        followed.ask("one").await.unwrap();
        for _ in 0..400 {
            sleep(Duration::from_millis(10)).await;
            assert!(followed.ask("one").await.is_ok(), "while all is well");
        }
        followed.set(|rows| {
            rows.mode = mode;
            rows.change_counters.tokens += 1;
        });
        let took = followed.until(async |it| it.cannot_check("one").await).await;
        assert!(took <= Duration::from_secs(1), "{mode:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_revoked_while_the_database_was_away_is_dead_when_it_is_back() {
    let followed = followed(Duration::from_mins(1)).await;
    followed.ask("one").await.unwrap();
    followed.set(|rows| rows.mode = Mode::Silent);
    followed.until(async |it| it.is_unavailable()).await;
    // A restored backup may even have the same numbers.
    followed.set(|rows| {
        rows.mode = Mode::Well;
        rows.tokens.clear();
    });
    let gone = AuthenticateError::InvalidToken;
    let took = followed.until(async |it| it.ask("one").await == Err(gone.clone())).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
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
    source.lost();
    let degraded = source.degraded().unwrap();
    assert_eq!(
        degraded.reason,
        "the registry was last read 12 s ago; the server still uses that data; see the log"
    );
    assert_eq!(degraded.details, [("registry_age_seconds", 12)]);
    assert_eq!(degraded.credentials_accepted_for, Some(Duration::from_millis(47_100)));
}

/// A hanging write counts as much as a refused one, and a renewed lease shows that writes succeed again.
#[tokio::test(start_paused = true)]
async fn readiness_tells_while_writes_fail() {
    for is_shared in [true, false] {
        let store = Arc::new(FakeStore::default());
        let registry = Registry::new(Arc::clone(&store) as _);
        let registry = if is_shared { registry.share_rate_limits() } else { registry };
        let gateway = Callgate::builder().build().unwrap();
        let _following = registry.follow(&gateway).await.unwrap();
        let source = Arc::clone(registry.authenticator().store());
        assert!(source.degraded().is_none());
        store.set(|rows| rows.mode = Mode::NoWrites);
        if !is_shared {
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
        store.set(|rows| rows.mode = Mode::Well);
        sleep(Duration::from_secs(10)).await;
        assert!(source.degraded().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_of_rate_limits_stays_as_it_was_last_known() {
    let store = Arc::new(FakeStore::default());
    store.set(|rows| rows.servers = 3);
    let registry = Registry::new(Arc::clone(&store) as _).share_rate_limits();
    let gateway = Callgate::builder().build().unwrap();
    let _following = registry.follow(&gateway).await.unwrap();
    let servers = || gateway.gateway().rate_limit_servers();
    assert_eq!(servers(), 3, "before it serves");
    for mode in [Mode::Down, Mode::Silent, Mode::NoWrites] {
        store.set(|rows| (rows.mode, rows.servers) = (mode, 1));
        sleep(Duration::from_mins(2)).await;
        assert_eq!(servers(), 3, "{mode:?}");
    }
    store.set(|rows| (rows.mode, rows.servers) = (Mode::Well, 2));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(servers(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_catalog_that_cannot_be_built_is_tried_ever_more_rarely() {
    let followed = followed(Duration::from_mins(5)).await;
    let builds = || {
        let authenticator = followed.registry.authenticator();
        authenticator.store().reads().find(|(name, _)| *name == "catalog").unwrap().1
    };
    let before = builds();
    followed.set(|rows| {
        rows.mode = Mode::OnlyCounters;
        rows.change_counters.catalog += 1;
    });
    sleep(Duration::from_mins(1)).await;
    let failed = builds() - before;
    assert!((5..25).contains(&failed), "{failed} builds in a minute");
    // The change may have removed the cause of the failure, so the catalog is built at once.
    followed.set(|rows| rows.change_counters.catalog += 1);
    sleep(POLL * 2).await;
    assert_eq!(builds() - before, failed + 1);
    followed.set(|rows| rows.mode = Mode::Well);
    sleep(Duration::from_secs(11)).await;
    let built = builds();
    assert_eq!(built - before, failed + 2);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(builds(), built, "no build after a success");
}
