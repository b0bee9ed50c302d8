//! Legacy sessions: an id that carries its own signed content, so that any server with the same key
//! can serve it, also after a restart. Only what changes later is kept, and that can be shared.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use moka::sync::Cache;
use sha2::Sha256;

use super::relay::{Relay, Relaying};
use super::state::{KeepSessions, SessionChange, SessionEdit, SessionState};
use crate::access::Caller;
use crate::upstream::client::Capabilities;
use crate::wire::revision::Revision;

/// What sessions became may take so many bytes together; beyond, some lose it.
const MAX_STATES: u64 = 32 * 1024 * 1024;
/// What one takes, beside what it subscribes to.
const STATE: usize = 128;
/// So many sessions can be changed at once.
const LANES: usize = 16;
/// What the ids of this form begin with.
const FORM: u8 = 1;
/// Form, revision, capabilities, user, nonce, end.
const CONTENT: usize = 1 + 1 + 1 + 9 + 16 + 8;
/// The whole signature.
const SIGNATURE: usize = 32;

/// The bytes of an id that nobody can guess.
const RANDOM_ID: usize = 18;
/// Its length as a text.
const RANDOM_ID_TEXT: usize = RANDOM_ID / 3 * 4;

/// What tells one session from the others.
pub type Nonce = [u8; 16];

/// A session, as its id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    /// What the client said that it can do; for when it is asked something.
    pub(crate) capabilities: Capabilities,
    /// The user that it was opened by; nobody else may use it.
    pub(crate) user: Option<i64>,
    pub(crate) nonce: Nonce,
    /// Seconds since 1970.
    pub(crate) ends_at: u64,
}

/// A secret that session ids are signed with.
#[derive(Clone)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// From 32 bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        // A shorter key is the same with zeros behind it; so no length can be wrong.
        let mut block = [0; 64];
        for (to, from) in block.iter_mut().zip(secret) {
            *to = *from;
        }
        Self(Hmac::new(&block.into()))
    }

    /// A key of this process alone: sessions end with it.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self::new(&secret))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// Opens, recognises and ends sessions.
#[derive(Debug)]
pub struct Sessions {
    /// Signed with the first, recognised with any.
    keys: ArcSwap<Vec<SessionKey>>,
    states: Cache<Nonce, SessionState>,
    /// One change of a session after the other; sessions share these.
    changing: [tokio::sync::Mutex<()>; LANES],
    keeper: Option<Arc<dyn KeepSessions>>,
    relaying: Option<Relaying>,
}

/// A state that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the session's state cannot be kept")]
pub(crate) struct NotKept(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Sessions {
    /// How long a session lasts: nearly no client starts another when one is over. Nothing else that
    /// is signed with its keys lasts longer.
    pub const LIFETIME: Duration = Duration::from_hours(24 * 30);

    /// Sessions signed with the first key; those signed with others are still good.
    pub fn new(keys: impl IntoIterator<Item = SessionKey>) -> Self {
        let keys = ArcSwap::from_pointee(keys.into_iter().collect());
        let weigh = |_: &Nonce, state: &SessionState| {
            let uris: usize = state.subscriptions.iter().map(|uri| STATE + uri.len()).sum();
            u32::try_from(STATE + uris).unwrap_or(u32::MAX)
        };
        let states = Cache::builder().max_capacity(MAX_STATES).weigher(weigh).build();
        Self { keys, states, changing: Default::default(), keeper: None, relaying: None }
    }

    /// Has states kept elsewhere too.
    #[must_use]
    pub fn kept_by(mut self, keeper: Arc<dyn KeepSessions>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Has what clients send about calls of other servers brought there.
    #[must_use]
    pub fn relayed_by(mut self, relay: Arc<dyn Relay>) -> Self {
        self.relaying = Some(Relaying::new(relay));
        self
    }

    pub(crate) fn relaying(&self) -> Option<&Relaying> {
        self.relaying.as_ref()
    }

    /// Other keys from now on: the first signs, and what was signed with any of them is good.
    pub fn set_keys(&self, keys: impl IntoIterator<Item = SessionKey>) {
        self.keys.store(Arc::new(keys.into_iter().collect()));
    }

    /// A state that another server, or this one before its restart, kept. Where there is a
    /// [`Mcp`](crate::mcp::Mcp) with these sessions, it is to be told instead.
    pub fn learn(&self, change: SessionChange) {
        // What has ended stays so, in whatever order it is heard.
        self.states.entry(change.nonce).and_upsert_with(|known| {
            let ended = known.is_some_and(|known| known.into_value().ended);
            SessionState { ended: ended || change.state.ended, ..change.state }
        });
    }

    /// A new session's id; none without a key or without randomness, and then the client is served
    /// without a session.
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
        let user = user_of(caller);
        let session = Session { revision, capabilities, user, nonce, ends_at };
        self.seal(&session.write())
    }

    /// The session of an id, unless it is none of ours, is over, or is another caller's.
    pub(crate) fn find(&self, id: &str, caller: &Caller, now: SystemTime) -> Option<Session> {
        let session = Session::read(&self.unseal(id)?)?;
        let is_over = session.ends_at <= seconds(now) || self.state(&session).ended;
        (!is_over && session.user == user_of(caller)).then_some(session)
    }

    /// Content that comes back as it was, as a text for a client to carry. What is sealed begins with
    /// a byte that tells what it is. None without a key.
    pub(crate) fn seal(&self, content: &[u8]) -> Option<String> {
        let keys = self.keys.load();
        let signature = keys.first()?.0.clone().chain_update(content).finalize().into_bytes();
        Some(URL_SAFE_NO_PAD.encode([content, &signature].concat()))
    }

    /// What was sealed, with any of the keys.
    pub(crate) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        let mut content = URL_SAFE_NO_PAD.decode(text).ok()?;
        let signature = content.split_off(content.len().checked_sub(SIGNATURE)?);
        let is_signed = |key: &SessionKey| {
            key.0.clone().chain_update(&content).verify_slice(&signature).is_ok()
        };
        self.keys.load().iter().any(is_signed).then_some(content)
    }

    /// What a session became.
    pub(crate) fn state(&self, session: &Session) -> SessionState {
        self.states.get(&session.nonce).unwrap_or_default()
    }

    /// Changes what a session is. Comes back with what it is then.
    pub(crate) async fn change(
        &self,
        session: &Session,
        edit: SessionEdit,
    ) -> Result<SessionState, NotKept> {
        let [lane, ..] = session.nonce;
        let lane = self.changing.get(usize::from(lane) % LANES);
        let _one = match lane {
            Some(lane) => Some(lane.lock().await),
            None => None,
        };
        let Session { nonce, ends_at, .. } = *session;
        let state = match &self.keeper {
            // Another server may have changed it, and this one not have heard of it yet.
            Some(keeper) => keeper.keep(nonce, edit, ends_at).await.map_err(NotKept)?,
            None => {
                let mut state = self.state(session);
                edit.apply(&mut state);
                state
            }
        };
        self.learn(SessionChange { nonce, state: state.clone(), ends_at });
        Ok(state)
    }
}

/// A text that nobody can guess; none without randomness.
pub(crate) fn random_id() -> Option<String> {
    let mut id = [0; RANDOM_ID];
    getrandom::fill(&mut id).ok()?;
    Some(URL_SAFE_NO_PAD.encode(id))
}

/// Whether a text could be one of those, of this server or another.
pub(crate) fn is_random_id(text: &str) -> bool {
    let mut id = [0; RANDOM_ID];
    text.len() == RANDOM_ID_TEXT && URL_SAFE_NO_PAD.decode_slice(text, &mut id).is_ok()
}

pub(crate) fn user_of(caller: &Caller) -> Option<i64> {
    caller.user.as_ref().map(|user| user.id)
}

pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Session {
    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CONTENT);
        bytes.push(FORM);
        let revision = Revision::ALL.iter().position(|known| *known == self.revision);
        bytes.push(revision.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX));
        bytes.push(self.capabilities.bits());
        bytes.push(self.user.is_some().into());
        bytes.extend_from_slice(&self.user.unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.ends_at.to_be_bytes());
        bytes
    }

    fn read(content: &[u8]) -> Option<Self> {
        let (form, rest) = content.split_first()?;
        let (revision, rest) = rest.split_first()?;
        let (capabilities, rest) = rest.split_first()?;
        let (has_user, rest) = rest.split_first()?;
        let (user, rest) = rest.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let ends_at = rest.try_into().ok()?;
        Some(Self {
            revision: *Revision::ALL.get(usize::from(*revision)).filter(|_| *form == FORM)?,
            capabilities: Capabilities::from_bits(*capabilities),
            user: (*has_user == 1).then(|| i64::from_be_bytes(*user)),
            nonce: *nonce,
            ends_at: u64::from_be_bytes(ends_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grants, User};
    use crate::upstream::BoxFuture;
    use crate::wire::log_level::LogLevel;
    use proptest::prelude::*;

    fn caller(id: i64) -> Caller {
        Caller::user(User { id, name: "a".to_owned(), role: None }, Grants::default())
    }

    fn sessions(secret: u8) -> Sessions {
        Sessions::new([SessionKey::new(&[secret; 32])])
    }

    fn opened(sessions: &Sessions, caller: &Caller) -> String {
        let capabilities = Capabilities::from_bits(5);
        sessions.open(Revision::V2025_06_18, capabilities, caller, SystemTime::now()).unwrap()
    }

    #[test]
    fn d34_any_server_with_the_key_knows_the_session() {
        let id = opened(&sessions(1), &caller(7));
        let session = sessions(1).find(&id, &caller(7), SystemTime::now()).unwrap();
        assert_eq!((session.revision, session.user), (Revision::V2025_06_18, Some(7)));
        assert_eq!(session.capabilities, Capabilities::from_bits(5));
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        let both = Sessions::new([SessionKey::new(&[2; 32]), SessionKey::new(&[1; 32])]);
        assert!(both.find(&id, &caller(7), SystemTime::now()).is_some(), "an older key");
    }

    #[test]
    fn d34_another_users_key_time_or_end_is_no_session() {
        let now = SystemTime::now();
        let sessions = sessions(1);
        let id = opened(&sessions, &caller(7));
        assert!(sessions.find(&id, &caller(8), now).is_none());
        assert!(sessions.find(&id, &Caller::anonymous(), now).is_none());
        assert!(self::sessions(2).find(&id, &caller(7), now).is_none());
        assert!(
            sessions.find(&id, &caller(7), now + Sessions::LIFETIME + Sessions::LIFETIME).is_none()
        );
        let anonymous = opened(&sessions, &Caller::anonymous());
        assert!(sessions.find(&anonymous, &Caller::anonymous(), now).is_some());
        assert!(sessions.find(&anonymous, &caller(0), now).is_none(), "nobody is not user 0");
    }

    /// What servers share, with every change in order.
    #[derive(Debug, Default)]
    struct Shared(std::sync::Mutex<Vec<SessionChange>>);

    impl KeepSessions for Shared {
        fn keep(
            &self,
            nonce: Nonce,
            edit: SessionEdit,
            ends_at: u64,
        ) -> BoxFuture<'_, Result<SessionState, Box<dyn std::error::Error + Send + Sync>>> {
            let mut kept = self.0.lock().unwrap();
            let mut state = kept.last().map(|last| last.state.clone()).unwrap_or_default();
            edit.apply(&mut state);
            kept.push(SessionChange { nonce, state: state.clone(), ends_at });
            Box::pin(async { Ok(state) })
        }
    }

    #[tokio::test]
    async fn d34_what_changes_is_kept_by_nonce_and_learned_by_others() {
        let now = SystemTime::now();
        let shared = Arc::new(Shared::default());
        let (one, other) = (sessions(1).kept_by(Arc::clone(&shared) as _), sessions(1));
        let id = opened(&one, &caller(7));
        let session = one.find(&id, &caller(7), now).unwrap();
        one.change(&session, SessionEdit::LogLevel(LogLevel::Error)).await.unwrap();
        one.change(&session, SessionEdit::End).await.unwrap();
        assert!(one.find(&id, &caller(7), now).is_none());
        assert!(other.find(&id, &caller(7), now).is_some(), "not told yet");
        for change in shared.0.lock().unwrap().iter() {
            other.learn(change.clone());
        }
        assert!(other.find(&id, &caller(7), now).is_none());
        let expected = SessionState {
            ended: true,
            log_level: Some(LogLevel::Error),
            ..SessionState::default()
        };
        assert_eq!(other.state(&session), expected);
        // A server that has not heard of the end must not undo it.
        let late = SessionState { log_level: Some(LogLevel::Debug), ..SessionState::default() };
        other.learn(SessionChange { nonce: session.nonce, state: late, ends_at: session.ends_at });
        assert!(other.find(&id, &caller(7), now).is_none());
    }

    #[tokio::test]
    async fn d34_a_server_that_has_not_heard_of_a_change_does_not_undo_it() {
        let shared = Arc::new(Shared::default());
        let one = sessions(1).kept_by(Arc::clone(&shared) as _);
        let other = sessions(1).kept_by(Arc::clone(&shared) as _);
        let id = opened(&one, &caller(7));
        let session = one.find(&id, &caller(7), SystemTime::now()).unwrap();
        one.change(&session, SessionEdit::LogLevel(LogLevel::Error)).await.unwrap();
        let state = other.change(&session, SessionEdit::Subscribe("a:b".to_owned())).await.unwrap();
        assert_eq!(state.log_level, Some(LogLevel::Error));
        assert_eq!(other.state(&session), state);
    }

    #[test]
    fn d34_keys_are_replaced_while_sessions_are_open() {
        let key = |secret| SessionKey::new(&[secret; 32]);
        let (one, other) = (sessions(1), sessions(1));
        let is_known = |sessions: &Sessions, id: &str| {
            sessions.find(id, &caller(7), SystemTime::now()).is_some()
        };
        let old = opened(&one, &caller(7));
        // The second key is announced, and signs nothing yet.
        other.set_keys([key(1), key(2)]);
        one.set_keys([key(2), key(1)]);
        let new = opened(&one, &caller(7));
        assert!(is_known(&one, &old) && is_known(&other, &old));
        assert!(is_known(&other, &new), "known before it was used");
        other.set_keys([key(2)]);
        assert!(is_known(&other, &new) && !is_known(&other, &old));
    }

    #[test]
    fn ids_of_questions_are_told_from_others() {
        assert!(is_random_id(&random_id().unwrap()));
        for other in ["", "7", "question-1", &"!".repeat(24), &"a".repeat(25), &"a".repeat(48)] {
            assert!(!is_random_id(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_of_an_id_can_be_changed(at in 0_usize..91, to in "[A-Za-z0-9_-]") {
            let sessions = sessions(1);
            let mut id = opened(&sessions, &caller(7));
            prop_assume!(id.get(at..=at) != Some(to.as_str()));
            id.replace_range(at..=at, &to);
            prop_assert!(sessions.find(&id, &caller(7), SystemTime::now()).is_none());
        }

        #[test]
        fn any_text_is_no_session(id: String) {
            prop_assert!(sessions(1).find(&id, &caller(7), SystemTime::now()).is_none());
        }
    }
}
