//! Legacy sessions. A session id contains the signed content of the session, so that any server with the same key can
//! serve the session, even after a restart. Only state that changes later is stored.

pub(crate) mod session_id;
pub(crate) mod state;
pub(crate) mod connection;
pub(crate) mod relay;
pub(crate) mod unread_pages;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

use super::{Header, Inbound, Mcp, McpError, SESSION_ID};
use crate::access::{Caller, Principal, RateLimited, RateLimiter, Share, Shares};
use crate::lru_cache::LruCache;
use crate::upstream::client::Capabilities;
use crate::wire::Revision;
use relay::{LimitedRelay, Relay};
use session_id::{Nonce, Session, SessionKey};
use state::{SessionChange, SessionEdit, SessionState, SessionStore};

/// Maximum total size of session states in memory, in bytes. If it is exceeded, states are evicted.
const MAX_STATES: usize = 32 * 1024 * 1024;
/// Assumed size of a state or a subscription in bytes, without the text of the URI.
const ENTRY_SIZE: usize = 128;
/// Maximum number of session changes that are stored at the same time. A higher number would not be faster: in the
/// registry, all changes wait for the same row.
const MAX_CHANGES: usize = 1;
/// Maximum time that one write to a store waits for other writes.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Opens, verifies and ends legacy sessions.
///
/// Argument of [`Builder::sessions`](crate::Builder::sessions).
///
/// ```
/// use callgate::Callgate;
/// use callgate::mcp::{SessionKey, Sessions};
///
/// # fn secret(_: &str) -> [u8; 32] { [7; 32] }
/// // All servers use the same keys. Sessions that are signed with the old key stay valid.
/// let (new, old) = (secret("SESSION_KEY"), secret("OLD_SESSION_KEY"));
/// let sessions = Sessions::new([SessionKey::new(&new), SessionKey::new(&old)]);
/// let server = Callgate::builder().sessions(sessions).build()?;
///
/// // After `Sessions::LIFETIME`, no valid session is signed with the old key.
/// server.mcp().sessions().set_keys([SessionKey::new(&new)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sessions {
    /// The first key signs. All keys verify.
    keys: ArcSwap<Vec<SessionKey>>,
    states: LruCache<Nonce, SessionState>,
    changes: Arc<Shares>,
    limiter: RateLimiter,
    store: Option<Arc<dyn SessionStore>>,
    relay: Option<LimitedRelay>,
}

impl Sessions {
    /// Lifetime of a session. It is long because hardly any client opens a new session after the old one expires.
    /// Other content that is signed with the keys is valid at most as long as a session.
    pub const LIFETIME: Duration = Duration::from_hours(24 * 30);

    /// Creates sessions. New sessions are signed with the first key; sessions signed with any of the keys are accepted.
    pub fn new(keys: impl IntoIterator<Item = SessionKey>) -> Self {
        let keys = ArcSwap::from_pointee(keys.into_iter().collect());
        let states = LruCache::with_weight(MAX_STATES, |_, state: &SessionState| {
            let uris: usize = state.subscriptions.iter().map(|uri| ENTRY_SIZE + uri.len()).sum();
            ENTRY_SIZE + uris
        });
        let (changes, limiter) = (Shares::new(MAX_CHANGES), RateLimiter::default());
        Self { keys, states, changes, limiter, store: None, relay: None }
    }

    /// Stores session states, so that other servers and later processes know them.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Relays answers and cancellations to other servers.
    #[must_use]
    pub fn with_relay(mut self, relay: Arc<dyn Relay>) -> Self {
        self.relay = Some(LimitedRelay::new(relay));
        self
    }

    pub(crate) fn relay(&self) -> Option<&LimitedRelay> {
        self.relay.as_ref()
    }

    /// Replaces the keys. The first key signs. All keys verify.
    pub fn set_keys(&self, keys: impl IntoIterator<Item = SessionKey>) {
        self.keys.store(Arc::new(keys.into_iter().collect()));
    }

    /// Applies a change that another server, or an earlier process, stored. If an [`Mcp`](crate::mcp::Mcp) uses these
    /// sessions, call [`Mcp::apply_change`](crate::mcp::Mcp::apply_change) instead.
    pub fn apply_change(&self, change: SessionChange) {
        // A session that has ended stays ended, even if changes arrive in another order.
        self.states.update(change.nonce, |previous| {
            let ended = previous.is_some_and(|previous| previous.ended);
            SessionState { ended: ended || change.state.ended, ..change.state }
        });
    }

    /// Returns the id of a new session. Returns `None` if there is no key or no random number; the client is then
    /// served without a session.
    pub(crate) fn open(
        &self,
        revision: Revision,
        capabilities: Capabilities,
        caller: &Caller,
        now: SystemTime,
    ) -> Option<String> {
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).ok()?;
        let ends_at = seconds(now + Self::LIFETIME);
        let user = caller.user_id();
        let session = Session { revision, capabilities, user, nonce, ends_at };
        self.seal(&session.write())
    }

    /// Returns the session of an id if the signature is valid, the session has not ended, and the session belongs to
    /// the caller.
    pub(crate) fn find(&self, id: &str, caller: &Caller, now: SystemTime) -> Option<Session> {
        let session = Session::read(&self.unseal(id)?)?;
        let has_ended = session.ends_at <= seconds(now) || self.state(&session).ended;
        (!has_ended && session.user == caller.user_id()).then_some(session)
    }

    /// Signs content that a client sends back later. The first byte of the content must identify its kind.
    ///
    /// Returns `None` if there is no key.
    pub(crate) fn seal(&self, content: &[u8]) -> Option<String> {
        Some(self.keys.load().first()?.seal(content))
    }

    /// Returns the content of a text that [`seal`](Self::seal) returned, if any of the keys verifies the signature.
    pub(crate) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.keys.load().iter().find_map(|key| key.unseal(text))
    }

    pub(crate) fn state(&self, session: &Session) -> SessionState {
        self.states.get(&session.nonce).unwrap_or_default()
    }

    /// Counts a change that a caller makes to a session. The rate of changes is limited, because each state is stored
    /// until its session expires.
    pub(crate) fn admit_change(&self, principal: Principal) -> Result<(), RateLimited> {
        if principal == Principal::Unknown {
            return Ok(());
        }
        self.limiter.count_session_change(principal)
    }

    /// Changes the state of a session and returns the new state. Waiting callers are served in turn.
    pub(crate) async fn change(
        &self,
        session: &Session,
        principal: Principal,
        edit: SessionEdit,
    ) -> Result<SessionState, Box<dyn std::error::Error + Send + Sync>> {
        let _share = take_share(&self.changes, principal).await?;
        let Session { nonce, ends_at, .. } = *session;
        let state = match &self.store {
            // The change is applied to the stored state, because this server may not know yet that another server has
            // changed the state.
            Some(store) => store.update(nonce, edit, ends_at).await?,
            None => {
                let mut state = self.state(session);
                edit.apply(&mut state);
                state
            }
        };
        self.apply_change(SessionChange { nonce, state: state.clone(), ends_at });
        Ok(state)
    }
}

/// Waits for a share of `writes`, the limit on concurrent writes to a store. Fails after [`MAX_WAIT`], or if the
/// caller has too many writes waiting.
pub(super) async fn take_share(
    writes: &Arc<Shares>,
    principal: Principal,
) -> Result<Share, Box<dyn std::error::Error + Send + Sync>> {
    match tokio::time::timeout(MAX_WAIT, writes.acquire(principal)).await {
        Ok(Ok(share)) => Ok(share),
        Ok(Err(_)) => Err("the caller has too many writes waiting".into()),
        Err(_) => Err(format!("waited longer than {MAX_WAIT:?} for other writes").into()),
    }
}

pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Mcp {
    /// Returns the session in the header `Mcp-Session-Id`. Fails with the same error for sessions that have ended,
    /// belong to another user, or never existed.
    pub(crate) fn session(&self, inbound: &Inbound<'_>) -> Result<Option<Session>, McpError> {
        let session = match inbound.headers.map(|headers| headers.header(SESSION_ID)) {
            None | Some(Header::Absent) => return Ok(None),
            Some(Header::One(id)) => self.sessions.find(id, inbound.caller, SystemTime::now()),
            Some(Header::Unusable) => None,
        };
        session.map(Some).ok_or_else(McpError::unknown_session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grants, User};
    use crate::upstream::BoxFuture;
    use crate::wire::log_level::LogLevel;
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    const ALICE: Principal = Principal::User(7);
    const BOB: Principal = Principal::User(8);

    fn caller(id: i64) -> Caller {
        Caller::user(User { id, name: "a".to_owned(), role: None }, Grants::default())
    }

    fn sessions(secret: u8) -> Sessions {
        Sessions::new([SessionKey::new(&[secret; 32])])
    }

    fn open_session(sessions: &Sessions, caller: &Caller) -> String {
        let capabilities = Capabilities::from_bits(5);
        sessions.open(Revision::V2025_06_18, capabilities, caller, SystemTime::now()).unwrap()
    }

    #[test]
    fn any_server_with_the_key_accepts_the_session() {
        let id = open_session(&sessions(1), &caller(7));
        let session = sessions(1).find(&id, &caller(7), SystemTime::now()).unwrap();
        assert_eq!((session.revision, session.user), (Revision::V2025_06_18, Some(7)));
        assert_eq!(session.capabilities, Capabilities::from_bits(5));
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        let with_both_keys = Sessions::new([SessionKey::new(&[2; 32]), SessionKey::new(&[1; 32])]);
        assert!(
            with_both_keys.find(&id, &caller(7), SystemTime::now()).is_some(),
            "the id is signed with an older key"
        );
    }

    #[test]
    fn a_session_is_valid_only_for_its_user_its_key_and_its_lifetime() {
        let now = SystemTime::now();
        let sessions = sessions(1);
        let id = open_session(&sessions, &caller(7));
        assert!(sessions.find(&id, &caller(8), now).is_none());
        assert!(sessions.find(&id, &Caller::anonymous(), now).is_none());
        assert!(self::sessions(2).find(&id, &caller(7), now).is_none());
        assert!(
            sessions.find(&id, &caller(7), now + Sessions::LIFETIME + Sessions::LIFETIME).is_none()
        );
        let anonymous = open_session(&sessions, &Caller::anonymous());
        assert!(sessions.find(&anonymous, &Caller::anonymous(), now).is_some());
        assert!(
            sessions.find(&anonymous, &caller(0), now).is_none(),
            "an anonymous caller is not user 0"
        );
    }

    /// Records every change in order.
    #[derive(Debug, Default)]
    struct Shared(std::sync::Mutex<Vec<SessionChange>>);

    impl SessionStore for Shared {
        fn update(
            &self,
            nonce: Nonce,
            edit: SessionEdit,
            ends_at: u64,
        ) -> BoxFuture<'_, Result<SessionState, Box<dyn std::error::Error + Send + Sync>>> {
            let mut changes = self.0.lock().unwrap();
            let mut state = changes.last().map(|last| last.state.clone()).unwrap_or_default();
            edit.apply(&mut state);
            changes.push(SessionChange { nonce, state: state.clone(), ends_at });
            Box::pin(async { Ok(state) })
        }
    }

    #[tokio::test]
    async fn changes_of_a_session_are_stored_and_applied_on_other_servers() {
        let now = SystemTime::now();
        let shared = Arc::new(Shared::default());
        let (first, second) = (sessions(1).with_store(Arc::clone(&shared) as _), sessions(1));
        let id = open_session(&first, &caller(7));
        let session = first.find(&id, &caller(7), now).unwrap();
        first.change(&session, ALICE, SessionEdit::LogLevel(LogLevel::Error)).await.unwrap();
        first.change(&session, ALICE, SessionEdit::End).await.unwrap();
        assert!(first.find(&id, &caller(7), now).is_none());
        assert!(
            second.find(&id, &caller(7), now).is_some(),
            "the other server does not know the change yet"
        );
        for change in shared.0.lock().unwrap().iter() {
            second.apply_change(change.clone());
        }
        assert!(second.find(&id, &caller(7), now).is_none());
        let expected = SessionState {
            ended: true,
            log_level: Some(LogLevel::Error),
            ..SessionState::default()
        };
        assert_eq!(second.state(&session), expected);
        // A server that does not know that the session has ended must not undo the end.
        let late_state =
            SessionState { log_level: Some(LogLevel::Debug), ..SessionState::default() };
        second.apply_change(SessionChange {
            nonce: session.nonce,
            state: late_state,
            ends_at: session.ends_at,
        });
        assert!(second.find(&id, &caller(7), now).is_none());
    }

    #[tokio::test]
    async fn a_server_does_not_undo_a_change_that_it_does_not_know() {
        let shared = Arc::new(Shared::default());
        let first = sessions(1).with_store(Arc::clone(&shared) as _);
        let second = sessions(1).with_store(Arc::clone(&shared) as _);
        let id = open_session(&first, &caller(7));
        let session = first.find(&id, &caller(7), SystemTime::now()).unwrap();
        first.change(&session, ALICE, SessionEdit::LogLevel(LogLevel::Error)).await.unwrap();
        let state =
            second.change(&session, ALICE, SessionEdit::Subscribe("a:b".to_owned())).await.unwrap();
        assert_eq!(state.log_level, Some(LogLevel::Error));
        assert_eq!(second.state(&session), state);
    }

    /// Records the nonce of each changed session. Waits for one of the `permits` before each change.
    #[derive(Debug)]
    struct SemaphoreStore {
        permits: tokio::sync::Semaphore,
        changed: std::sync::Mutex<Vec<Nonce>>,
    }

    impl SessionStore for SemaphoreStore {
        fn update(
            &self,
            nonce: Nonce,
            _: SessionEdit,
            _: u64,
        ) -> BoxFuture<'_, Result<SessionState, Box<dyn std::error::Error + Send + Sync>>> {
            Box::pin(async move {
                self.permits.acquire().await?.forget();
                self.changed.lock().unwrap().push(nonce);
                Ok(SessionState::default())
            })
        }
    }

    #[tokio::test]
    async fn many_changes_of_one_caller_do_not_delay_other_callers() {
        let permits = tokio::sync::Semaphore::new(0);
        let store = Arc::new(SemaphoreStore { permits, changed: std::sync::Mutex::default() });
        let sessions = &sessions(1).with_store(Arc::clone(&store) as _);
        let session = |id| {
            let text = open_session(sessions, &caller(id));
            sessions.find(&text, &caller(id), SystemTime::now()).unwrap()
        };
        let change = |principal, session| async move {
            sessions.change(&session, principal, SessionEdit::End).await.unwrap();
        };
        let bob = session(8);
        let mut changes: Vec<_> =
            (0..100).map(|_| change(ALICE, session(7))).map(Box::pin).collect();
        changes.push(Box::pin(change(BOB, bob)));
        for change in &mut changes {
            assert!(change.as_mut().now_or_never().is_none());
        }
        store.permits.add_permits(changes.len());
        futures_util::future::join_all(changes).await;
        let order = store.changed.lock().unwrap();
        let position = order.iter().position(|nonce| *nonce == bob.nonce).unwrap();
        assert!(position < 5, "{position} of {}", order.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_waits_too_long_for_other_changes_fails() {
        let permits = tokio::sync::Semaphore::new(0);
        let store = Arc::new(SemaphoreStore { permits, changed: std::sync::Mutex::default() });
        let sessions = sessions(1).with_store(store);
        let id = open_session(&sessions, &caller(7));
        let session = sessions.find(&id, &caller(7), SystemTime::now()).unwrap();
        let mut waiting = Box::pin(sessions.change(&session, ALICE, SessionEdit::End));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(sessions.change(&session, BOB, SessionEdit::End).await.is_err());
    }

    #[tokio::test]
    async fn the_end_of_a_session_is_remembered_when_the_state_cache_is_full() {
        let sessions = sessions(1);
        let subscriptions = Arc::new([format!("a:{}", "b".repeat(16_000))].into());
        let state = SessionState { subscriptions, ..SessionState::default() };
        let nonces = (0_u128..3_000).map(u128::to_be_bytes);
        for nonce in nonces.clone() {
            sessions.apply_change(SessionChange { nonce, state: state.clone(), ends_at: 0 });
            (0..10).for_each(|_| drop(sessions.states.get(&nonce)));
        }
        let id = open_session(&sessions, &caller(7));
        let session = sessions.find(&id, &caller(7), SystemTime::now()).unwrap();
        sessions.change(&session, ALICE, SessionEdit::End).await.unwrap();
        assert!(sessions.find(&id, &caller(7), SystemTime::now()).is_none());
    }

    #[test]
    fn session_keys_can_be_rotated_while_sessions_are_open() {
        let key = |secret| SessionKey::new(&[secret; 32]);
        let (first, second) = (sessions(1), sessions(1));
        let is_accepted = |sessions: &Sessions, id: &str| {
            sessions.find(id, &caller(7), SystemTime::now()).is_some()
        };
        let old_id = open_session(&first, &caller(7));
        // The second key is announced, but does not sign yet.
        second.set_keys([key(1), key(2)]);
        first.set_keys([key(2), key(1)]);
        let new_id = open_session(&first, &caller(7));
        assert!(is_accepted(&first, &old_id) && is_accepted(&second, &old_id));
        assert!(
            is_accepted(&second, &new_id),
            "the other server knew the key before the key was used"
        );
        second.set_keys([key(2)]);
        assert!(is_accepted(&second, &new_id) && !is_accepted(&second, &old_id));
    }

    proptest! {
        #[test]
        fn a_session_id_with_a_changed_character_is_rejected(index in 0_usize..91, replacement in "[A-Za-z0-9_-]") {
            let sessions = sessions(1);
            let mut id = open_session(&sessions, &caller(7));
            prop_assume!(id.get(index..=index) != Some(replacement.as_str()));
            id.replace_range(index..=index, &replacement);
            prop_assert!(sessions.find(&id, &caller(7), SystemTime::now()).is_none());
        }

        #[test]
        fn arbitrary_text_is_rejected_as_a_session_id(id: String) {
            prop_assert!(sessions(1).find(&id, &caller(7), SystemTime::now()).is_none());
        }
    }
}
