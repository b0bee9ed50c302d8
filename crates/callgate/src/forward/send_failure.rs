//! Why a request has no answer, and what that means for the request.

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::Connected;

use super::failure::Failure;
use crate::http_client::send_error::SendError;
use crate::http_client::stream::Heard;
use crate::method::Safety;

/// Why a request has no answer, and what that means for it.
#[derive(Debug, Clone)]
pub(super) struct SendFailure {
    failure: Failure,
    again: Again,
    found_no_connection: bool,
}

/// Whether it may be sent again, by D31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// It never left.
    Always,
    /// It may have been read, and nothing came back.
    IfItReads,
    Never,
}

impl SendFailure {
    /// No response over HTTP.
    pub(super) fn of(error: &legacy::Error) -> Self {
        let was_heard = error.connect_info().is_none_or(was_heard);
        let error = SendError::of(error);
        let again = match error {
            SendError::NotSent(_) | SendError::HungUp(_) => Again::Always,
            SendError::Broken(_) if !was_heard => Again::IfItReads,
            _ => Again::Never,
        };
        let is_away = error.never_left();
        let found_no_connection =
            is_away || matches!(error, SendError::Untrusted(_) | SendError::NoTls);
        Self { failure: error.into(), again, found_no_connection }
    }

    /// The connection was gone before the request could be written to it.
    pub(super) fn never_sent(words: &str) -> Self {
        let failure = Failure::Unreachable(words.to_owned());
        Self { failure, again: Again::Always, found_no_connection: true }
    }

    /// Nobody was there in time, and nothing was written.
    #[cfg(feature = "websocket")]
    pub(super) fn silent(words: &str) -> Self {
        Self { again: Again::Never, ..Self::never_sent(words) }
    }

    /// The connection ended after the request was written.
    pub(super) fn broken(words: &str) -> Self {
        let failure = Failure::Broken(words.to_owned());
        Self { failure, again: Again::IfItReads, found_no_connection: false }
    }

    /// The same, of a request that came before the call's own: that one never left.
    #[cfg(feature = "websocket")]
    pub(super) fn before_the_call(self) -> Self {
        match self.failure {
            Failure::Broken(words) => Self::never_sent(&words),
            _ => self,
        }
    }

    pub(super) fn may_be_sent_again(&self, safety: Safety) -> bool {
        match self.again {
            Again::Always => true,
            Again::IfItReads => safety == Safety::ReadOnly,
            Again::Never => false,
        }
    }

    /// Whether the service was not there to be asked.
    pub(super) fn found_no_connection(&self) -> bool {
        self.found_no_connection
    }

    /// Whether the answer was HTTP 401, so that nothing was run.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.failure.is_unauthorized()
    }

    pub(super) fn into_failure(self) -> Failure {
        self.failure
    }
}

/// The service was there, and what it answered is wrong.
impl From<Failure> for SendFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, again: Again::Never, found_no_connection: false }
    }
}

/// Whether bytes came since the request was written. Over HTTP/2 there are always some, of other
/// requests or of none, and a response without its head is no response.
fn was_heard(connected: &Connected) -> bool {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    !connected.is_negotiated_h2() && extras.get::<Heard>().is_none_or(Heard::any)
}
