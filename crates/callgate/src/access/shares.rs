//! A limited resource, divided fairly among its principals: [`Shares`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of waiting requests of one principal, for each unit of the limit.
const MAX_WAITING_PER_UNIT: usize = 16;

/// Number of waiting requests that a principal is always allowed: two batches.
const MIN_WAITING: usize = 200;

/// A limit below this number is not divided: one principal can use all units, and other principals wait for their turn.
const MIN_DIVIDED: usize = 4;

/// Identifies the user or the client for which limits are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Principal {
    /// An authenticated user, whichever token they use.
    User(i64),
    /// A client without a credential, by address. Of an IPv6 address, only the network (/64) is used.
    Address(IpAddr),
    /// The server itself, or a client that has neither a credential nor an address, such as a client on standard input.
    Unknown,
}

/// A map by principal. Its hash function is seeded and takes a tenth of the time of `SipHash`.
type PrincipalMap<V> = HashMap<Principal, V, foldhash::fast::RandomState>;

impl Principal {
    pub(crate) fn address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address @ IpAddr::V4(_) => address,
        })
    }

    pub(super) fn is_anonymous(self) -> bool {
        matches!(self, Self::Address(_))
    }
}

/// Hashes only the id or the address. Hashing the variant too would double the time, and every request hashes its
/// principal several times.
impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::User(id) => id.hash(state),
            Self::Address(address) => address.hash(state),
            Self::Unknown => {}
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user {id}"),
            Self::Address(address) => address.fmt(f),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// A limited number of units (concurrent calls, streams, bytes) for all principals together.
///
/// A principal may acquire units only if it then has at most three times as many units as remain free. A single
/// principal can therefore use three quarters of the limit, and two principals can use three sevenths each. The
/// rest remains free for other principals. There are two exceptions: a principal without units can acquire one if a
/// unit is free, and a limit below [`MIN_DIVIDED`] is not divided.
///
/// Network switches divide a shared buffer among their ports in the same way ("dynamic thresholds"). One eighth of the
/// units is reserved for users: all anonymous clients together cannot use it.
#[derive(Debug)]
pub(crate) struct Shares {
    division: Division,
    state: Mutex<SharesState>,
}

/// How a limit is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    limit: usize,
    /// Number of units that anonymous clients cannot use.
    reserved_for_users: usize,
}

impl Division {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, reserved_for_users: limit / 8 }
    }

    /// Returns `true` if a principal that uses `used_by_principal` of the `used` units may acquire `units` more.
    pub(super) fn allows(
        self,
        principal: Principal,
        used: usize,
        used_by_principal: usize,
        units: usize,
    ) -> bool {
        let Some(free) = self.limit.checked_sub(used.saturating_add(units)) else { return false };
        if principal.is_anonymous() && free < self.reserved_for_users {
            return false;
        }
        self.limit < MIN_DIVIDED
            || used_by_principal == 0 && units == 1
            || used_by_principal.saturating_add(units) <= free.saturating_mul(3)
    }
}

#[derive(Debug, Default)]
struct SharesState {
    used: usize,
    principals: PrincipalMap<PrincipalUsage>,
    /// Principals with waiting requests, in the order in which they are served.
    waiting: VecDeque<Principal>,
    /// Number of principals in `waiting` that are not anonymous.
    waiting_users: usize,
    /// Total number of requests that have had to wait.
    waited: u64,
    /// Number of waiting principals that were examined when units were released.
    #[cfg(test)]
    examined: usize,
}

#[derive(Debug, Default)]
struct PrincipalUsage {
    used: usize,
    /// Waiting requests with their numbers, oldest first.
    waiting: VecDeque<(u64, oneshot::Sender<Share>)>,
}

/// A waiting request. Leaves the queue when it is dropped before it has its share.
struct WaitingRequest<'a> {
    shares: &'a Shares,
    principal: Principal,
    number: u64,
    is_served: bool,
}

/// Units that a principal uses. Dropping the share releases them.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    principal: Principal,
    units: AtomicUsize,
}

/// Reason why a principal gets no units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoShare {
    /// The principal already uses all units that it may have.
    PrincipalLimit,
    /// Other principals use the units.
    UsedByOthers,
}

impl Shares {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { division: Division::new(limit), state: Mutex::default() })
    }

    /// Creates shares that only addresses use, so that nothing is reserved for users.
    #[cfg(feature = "http")]
    pub(crate) fn of_addresses(limit: usize) -> Arc<Self> {
        let division = Division { limit, reserved_for_users: 0 };
        Arc::new(Self { division, state: Mutex::default() })
    }

    pub(crate) fn limit(&self) -> usize {
        self.division.limit
    }

    /// Returns the number of units that one principal can have while no other principal uses any.
    pub(crate) fn max_per_principal(&self) -> usize {
        let limit = self.limit();
        if limit < MIN_DIVIDED { limit } else { limit - limit.div_ceil(4) }
    }

    /// Returns the number of units in use.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }

    /// Acquires units if they are free for this principal.
    pub(crate) fn try_acquire(
        self: &Arc<Self>,
        principal: Principal,
        units: usize,
    ) -> Result<Share, NoShare> {
        let share = self.empty(principal);
        share.grow(units)?;
        Ok(share)
    }

    /// Acquires one unit if it is free for this principal and no request of this principal is waiting.
    #[cfg(feature = "forward")]
    pub(crate) fn try_acquire_one(self: &Arc<Self>, principal: Principal) -> Option<Share> {
        self.lock().acquire_one(self.division, principal).then(|| self.share(principal, 1))
    }

    /// Acquires one unit, and waits for it if necessary. Waiting principals are served in turn, however many requests
    /// each of them has. Fails if the principal has too many waiting requests ([`MAX_WAITING_PER_UNIT`], [`MIN_WAITING`]).
    pub(crate) async fn acquire(self: &Arc<Self>, principal: Principal) -> Result<Share, NoShare> {
        let (receiver, mut waiting) = {
            let mut state = self.lock();
            if state.acquire_one(self.division, principal) {
                return Ok(self.share(principal, 1));
            }
            state.waited += 1;
            let number = state.waited;
            let usage = state.principals.entry(principal).or_default();
            if usage.waiting.len() >= self.max_waiting() {
                return Err(NoShare::PrincipalLimit);
            }
            let (sender, receiver) = oneshot::channel();
            let is_first = usage.waiting.is_empty();
            usage.waiting.push_back((number, sender));
            if is_first {
                state.waiting.push_back(principal);
                state.waiting_users += usize::from(!principal.is_anonymous());
            }
            (receiver, WaitingRequest { shares: self, principal, number, is_served: false })
        };
        let share = receiver.await;
        waiting.is_served = true;
        // The sender is kept in the queue until it is used, so this error does not occur.
        share.map_err(|_| NoShare::UsedByOthers)
    }

    /// Returns a share without units. [`Share::grow`] adds units to it.
    pub(crate) fn empty(self: &Arc<Self>, principal: Principal) -> Share {
        self.share(principal, 0)
    }

    fn max_waiting(&self) -> usize {
        self.limit().saturating_mul(MAX_WAITING_PER_UNIT).max(MIN_WAITING)
    }

    fn share(self: &Arc<Self>, principal: Principal, units: usize) -> Share {
        Share { shares: Arc::clone(self), principal, units: units.into() }
    }

    fn release(self: &Arc<Self>, principal: Principal, units: usize) {
        let mut granted = Vec::new();
        {
            let mut state = self.lock();
            state.release(principal, units);
            while let Some((sender, principal)) = state.serve_next(self.division) {
                granted.push((sender, self.share(principal, 1)));
            }
        }
        // Sends after the lock is released: if a receiver was dropped, its share is dropped here, which takes the lock.
        for (sender, share) in granted {
            drop(sender.send(share));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharesState {
    fn is_free(&self, division: Division, principal: Principal, units: usize) -> bool {
        let used_by_principal = self.principals.get(&principal).map_or(0, |usage| usage.used);
        division.allows(principal, self.used, used_by_principal, units)
    }

    /// Acquires one unit if it is free and no request of the principal is waiting. Looks up the principal only once,
    /// because every call runs this function.
    fn acquire_one(&mut self, division: Division, principal: Principal) -> bool {
        let entry = self.principals.entry(principal);
        let (used_by_principal, is_waiting) = match &entry {
            Entry::Occupied(usage) => (usage.get().used, !usage.get().waiting.is_empty()),
            Entry::Vacant(_) => (0, false),
        };
        if is_waiting || !division.allows(principal, self.used, used_by_principal, 1) {
            return false;
        }
        entry.or_default().used += 1;
        self.used += 1;
        true
    }

    fn acquire(&mut self, principal: Principal, units: usize) {
        self.used += units;
        self.principals.entry(principal).or_default().used += units;
    }

    fn release(&mut self, principal: Principal, units: usize) {
        self.used -= units;
        if let Entry::Occupied(mut entry) = self.principals.entry(principal) {
            let usage = entry.get_mut();
            usage.used -= units;
            if usage.used == 0 && usage.waiting.is_empty() {
                entry.remove();
            }
        }
    }

    /// Acquires a unit for the next waiting request that may have one. This function runs each time a unit is released.
    /// So if no unit is free, the time must not grow with the number of waiting principals.
    fn serve_next(&mut self, division: Division) -> Option<(oneshot::Sender<Share>, Principal)> {
        let reserved = if self.waiting_users == 0 { division.reserved_for_users } else { 0 };
        if self.used.saturating_add(reserved) >= division.limit {
            return None;
        }
        for _ in 0..self.waiting.len() {
            #[cfg(test)]
            {
                self.examined += 1;
            }
            let principal = self.waiting.pop_front()?;
            let Some(usage) = self.principals.get_mut(&principal) else { continue };
            let is_free = division.allows(principal, self.used, usage.used, 1);
            let request = if is_free { usage.waiting.pop_front() } else { None };
            if usage.waiting.is_empty() {
                self.waiting_users -= usize::from(!principal.is_anonymous());
            } else {
                self.waiting.push_back(principal);
            }
            if let Some((_, sender)) = request {
                usage.used += 1;
                self.used += 1;
                return Some((sender, principal));
            }
        }
        None
    }

    /// Removes a request that no longer waits.
    fn remove_waiting(&mut self, principal: Principal, number: u64) {
        let Some(usage) = self.principals.get_mut(&principal) else { return };
        let Ok(index) = usage.waiting.binary_search_by_key(&number, |(number, _)| *number) else {
            return;
        };
        usage.waiting.remove(index);
        if usage.waiting.is_empty() {
            self.waiting.retain(|waiting| *waiting != principal);
            self.waiting_users -= usize::from(!principal.is_anonymous());
            self.release(principal, 0);
        }
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        if !self.is_served {
            self.shares.lock().remove_waiting(self.principal, self.number);
        }
    }
}

impl Share {
    /// Returns the number of units for all principals together.
    pub(crate) fn limit(&self) -> usize {
        self.shares.limit()
    }

    /// Returns a share without units for the same principal.
    #[cfg(feature = "forward")]
    pub(crate) fn new_empty(&self) -> Self {
        self.shares.empty(self.principal)
    }

    /// Returns `true` if both shares belong to the same principal.
    pub(crate) fn is_of_same_principal(&self, other: &Self) -> bool {
        self.principal == other.principal
    }

    /// Acquires more units for the same principal.
    pub(crate) fn grow(&self, units: usize) -> Result<(), NoShare> {
        if units == 0 {
            return Ok(());
        }
        let mut state = self.shares.lock();
        if state.is_free(self.shares.division, self.principal, units) {
            state.acquire(self.principal, units);
            self.units.fetch_add(units, Ordering::Relaxed);
            return Ok(());
        }
        let used_by_principal = state.principals.get(&self.principal).map_or(0, |usage| usage.used);
        Err(if used_by_principal > self.shares.limit() / 4 {
            NoShare::PrincipalLimit
        } else {
            NoShare::UsedByOthers
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let units = *self.units.get_mut();
        if units > 0 {
            self.shares.release(self.principal, units);
        }
    }
}

#[cfg(test)]
mod tests {

    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    const ALICE: Principal = Principal::User(1);
    const BOB: Principal = Principal::User(2);

    fn acquire_all(shares: &Arc<Shares>, principal: Principal) -> Vec<Share> {
        std::iter::from_fn(|| shares.try_acquire(principal, 1).ok()).collect()
    }

    #[test]
    fn every_principal_leaves_units_for_the_next_principal() {
        let shares = Shares::new(100);
        let alice = acquire_all(&shares, ALICE);
        let bob = acquire_all(&shares, BOB);
        let carol = acquire_all(&shares, Principal::User(3));
        assert_eq!([alice.len(), bob.len(), carol.len()], [75, 18, 5]);
        drop(alice);
        let bob_again = acquire_all(&shares, BOB);
        assert_eq!(bob_again.len(), 53, "three times what is free afterwards");
        drop((bob, bob_again, carol));
        assert_eq!(shares.used(), 0);
        assert!(shares.lock().principals.is_empty());
    }

    #[test]
    fn anonymous_clients_cannot_use_the_eighth_that_is_reserved_for_users() {
        let shares = Shares::new(80);
        let address = |last| Principal::address(IpAddr::from([10, 0, 0, last]));
        let anonymous: Vec<_> =
            (0..200).flat_map(|last| acquire_all(&shares, address(last))).collect();
        assert_eq!(anonymous.len(), 70);
        assert_eq!(acquire_all(&shares, ALICE).len(), 7);
    }

    #[test]
    fn addresses_of_one_network_are_one_principal() {
        let principal = |text: &str| Principal::address(text.parse().unwrap());
        assert_eq!(principal("2001:db8::1"), principal("2001:db8::ffff:0:0:2"));
        assert_ne!(principal("2001:db8::1"), principal("2001:db8:0:1::1"));
        assert_eq!(principal("::ffff:10.0.0.1"), principal("10.0.0.1"));
        assert_ne!(principal("10.0.0.1"), principal("10.0.0.2"));
    }

    #[test]
    fn a_limit_of_one_allows_one_unit_at_a_time() {
        let shares = Shares::new(1);
        let share = shares.try_acquire(ALICE, 1).unwrap();
        assert_eq!(shares.try_acquire(ALICE, 1).unwrap_err(), NoShare::PrincipalLimit);
        assert_eq!(shares.try_acquire(BOB, 1).unwrap_err(), NoShare::UsedByOthers);
        drop(share);
        assert!(shares.try_acquire(BOB, 1).is_ok());
    }

    #[test]
    fn acquiring_zero_units_always_succeeds_and_stores_nothing() {
        let shares = Shares::new(8);
        let all = acquire_all(&shares, ALICE);
        drop(shares.try_acquire(ALICE, 0).unwrap());
        drop(shares.try_acquire(BOB, 0).unwrap());
        drop(all);
        assert!(shares.lock().principals.is_empty());
    }

    #[test]
    fn a_limit_below_four_is_not_divided() {
        let shares = Shares::new(3);
        assert_eq!(acquire_all(&shares, ALICE).len(), 3);
    }

    #[test]
    fn waiting_principals_are_served_in_turn() {
        let shares = Shares::new(1);
        let first = shares.try_acquire(ALICE, 1).unwrap();
        let (mut alice, mut bob) = (Box::pin(shares.acquire(ALICE)), Box::pin(shares.acquire(BOB)));
        assert!(alice.as_mut().now_or_never().is_none());
        assert!(bob.as_mut().now_or_never().is_none());
        // This request waits, and is then cancelled.
        assert!(shares.acquire(Principal::User(3)).now_or_never().is_none());
        let waiting: Vec<_> =
            (1..shares.max_waiting()).map(|_| Box::pin(shares.acquire(ALICE))).collect();
        let waiting: Vec<_> =
            waiting.into_iter().map(|mut it| (it.as_mut().now_or_never(), it)).collect();
        let refused = shares.acquire(ALICE).now_or_never().unwrap();
        assert_eq!(refused.unwrap_err(), NoShare::PrincipalLimit, "too many wait");
        drop(waiting);
        drop(first);
        let share = alice.now_or_never().unwrap().unwrap();
        assert!(bob.as_mut().now_or_never().is_none());
        drop(share);
        drop(bob.now_or_never().unwrap().unwrap());
        assert_eq!(shares.used(), 0);
        assert!(shares.lock().principals.is_empty());
    }

    #[test]
    fn a_release_examines_only_one_waiting_principal() {
        let user = |number: u16| Principal::User(number.into());
        let address = |number: u16| {
            let [high, low] = number.to_be_bytes();
            Principal::address(IpAddr::from([10, 0, high, low]))
        };
        let principals: [(usize, &dyn Fn(u16) -> Principal); 2] = [(8, &user), (7, &address)];
        for (max, principal) in principals {
            let shares = Shares::new(8);
            let mut held: VecDeque<_> = (0_u16..)
                .zip(0..max)
                .map(|(number, _)| shares.try_acquire(principal(number), 1).unwrap())
                .collect();
            let mut waiting: Vec<_> =
                (10..10_000).map(|number| Box::pin(shares.acquire(principal(number)))).collect();
            assert!(waiting.iter_mut().all(|it| it.as_mut().now_or_never().is_none()));
            let count = waiting.len();
            for request in waiting {
                held.pop_front();
                held.push_back(request.now_or_never().unwrap().unwrap());
            }
            assert_eq!(shares.lock().examined, count);
            drop(held);
            assert!(shares.lock().principals.is_empty());
        }
    }

    #[test]
    fn a_cancelled_request_leaves_the_queue_at_once() {
        let shares = Shares::new(1);
        let held = shares.try_acquire(ALICE, 1).unwrap();
        let mut first = Box::pin(shares.acquire(BOB));
        let mut second = Box::pin(shares.acquire(BOB));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(shares.lock().principals[&BOB].waiting.len(), 1);
        drop(second);
        assert!(!shares.lock().principals.contains_key(&BOB));
        assert!(shares.lock().waiting.is_empty());
        drop(held);
        assert_eq!(shares.used(), 0);
    }

    #[test]
    fn the_maximum_per_principal_can_be_acquired_and_no_more() {
        for limit in [1, 3, 4, 7, 100, 1_000_001] {
            let shares = Shares::new(limit);
            let max = shares.max_per_principal();
            assert!(shares.try_acquire(ALICE, max + 1).is_err(), "{limit}");
            assert!(shares.try_acquire(ALICE, max).is_ok(), "{limit}");
        }
    }

    proptest! {
        #[test]
        fn a_fourth_user_can_always_acquire_a_unit(
            limit in 64_usize..500,
            requests in prop::collection::vec((1_i64..4, 1_usize..50), 0..500),
        ) {
            let shares = Shares::new(limit);
            let mut held = Vec::new();
            for (user, units) in requests {
                held.extend(shares.try_acquire(Principal::User(user), units));
            }
            prop_assert!(shares.used() <= limit);
            prop_assert!(shares.try_acquire(Principal::User(4), 1).is_ok());
            drop(held);
            prop_assert_eq!(shares.used(), 0);
        }
    }
}
