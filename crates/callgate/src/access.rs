//! Access control: users, their grants, and the requirements of methods. [`Caller`] has an example.
//!
//! An [`Access`] contains the users and grants of the registry (the SQL database). When a user or a grant changes, a
//! new [`Access`] replaces the old one. The catalog does not depend on the [`Access`].

mod batch_replies;
mod caller;
mod grants;
mod rate_limits;
mod visible_methods;
mod last_value_cache;
mod method_set;
mod requirement;
#[cfg_attr(
    not(all(feature = "forward", feature = "http")),
    allow(dead_code, reason = "shares limit only streams and calls to services")
)]
mod shares;
mod token_digest;
pub(crate) mod tool_limits;
mod rate_limiter;
mod running_calls;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use batch_replies::{BatchReplies, MAX_BATCH_REPLY_BYTES};
pub use caller::{Caller, User};
pub use grants::{Grant, GrantSource, Grants, Mask, MaskError, Section};
pub(crate) use method_set::{MethodSet, MethodSets};
pub(crate) use rate_limiter::RateLimiter;
pub use rate_limiter::{LimitScope, RateLimited};
pub(crate) use rate_limits::ActiveLimits;
pub use rate_limits::{LimitError, Rate, RateLimit, RateLimits};
pub use requirement::{Decision, Requirement, SectionCheck, SectionRequirement};
pub(crate) use running_calls::{RunningCallGuard, RunningCalls};
#[cfg(feature = "http")]
pub(crate) use shares::NoShare;
pub(crate) use shares::{Principal, Share, Shares};
pub use token_digest::TokenDigest;
pub(crate) use tool_limits::CallBounds;
pub use tool_limits::ToolLimits;
pub(crate) use visible_methods::VisibleMethods;

/// All users with their grants.
///
/// An application that knows the user of a token gets the [`Caller`] of this user from the `Access`:
///
/// ```
/// use std::collections::HashMap;
/// use callgate::access::{Access, TokenDigest};
/// use callgate::{Grants, Mask, User};
///
/// let ada = User { id: 7, name: "ada".to_owned(), role: None };
/// let grants = Grants::from_iter([("users", Mask::Execute)]);
/// let access = Access::new([(ada, grants)], Grants::default());
/// let tokens = HashMap::from([(TokenDigest::of("cg_secret"), 7)]);
///
/// let user_id = tokens.get(&TokenDigest::of("cg_secret")).ok_or("unknown token")?;
/// let caller = access.caller(*user_id).ok_or("unknown user")?;
/// assert_eq!(caller.name(), "ada");
/// assert_eq!(access.anonymous().name(), "anonymous");
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug)]
pub struct Access {
    users: HashMap<i64, Caller, foldhash::fast::RandomState>,
    anonymous: Caller,
}

impl Default for Access {
    fn default() -> Self {
        Self::new::<Grants>([], Grants::default())
    }
}

impl Access {
    /// Creates an `Access` from users with their effective grants, and from the grants of anonymous callers. Several
    /// users can share one `Arc` of grants.
    pub fn new<G: Into<Arc<Grants>>>(
        users: impl IntoIterator<Item = (User, G)>,
        mut anonymous: Grants,
    ) -> Self {
        anonymous.remove_authenticated();
        Self {
            users: users
                .into_iter()
                .map(|(user, grants)| (user.id, Caller::with_shared_grants(user, grants.into())))
                .collect(),
            anonymous: Caller::new(None, Arc::new(anonymous)),
        }
    }

    /// Returns the anonymous caller.
    pub fn anonymous(&self) -> &Caller {
        &self.anonymous
    }

    /// Returns the caller for a user id.
    pub fn caller(&self, user_id: i64) -> Option<&Caller> {
        self.users.get(&user_id)
    }

    /// Returns the caller for a login name.
    pub fn caller_named(&self, name: &str) -> Option<&Caller> {
        self.users.values().find(|caller| caller.name() == name)
    }
}
