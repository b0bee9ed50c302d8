//! A time limit that fits what it is for.

use std::time::Duration;

use tokio::time::Instant;

use crate::contact::within;
use crate::store::Result;

const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_mins(1);

/// How long something may take: more where it took long or was cut off, and step by step less where it
/// did not, so that a cut is noticed soon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(Duration);

impl Default for Limit {
    fn default() -> Self {
        Self(LEAST)
    }
}

impl Limit {
    /// For what nobody knows yet how long it takes.
    pub(crate) fn longest() -> Self {
        Self(MOST)
    }

    /// What comes of an operation within the limit.
    pub(crate) async fn hold<T>(
        &mut self,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (began, limit) = (Instant::now(), self.0);
        let done = within(limit, operation).await;
        let took = began.elapsed();
        let wanted = match &done {
            _ if took >= limit => limit * 2,
            Ok(_) => (took * 4).max(limit * 3 / 4),
            Err(_) => limit,
        };
        self.0 = wanted.clamp(LEAST, MOST);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take(limit: &mut Limit, took: Duration) -> bool {
        let operation = async {
            tokio::time::sleep(took).await;
            Ok(())
        };
        limit.hold(operation).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_grows_with_what_takes_long_and_shrinks_with_what_does_not() {
        let mut limit = Limit::default();
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(30));
        assert!(take(&mut limit, short).await);
        assert_eq!(limit.0, LEAST);
        let mut cut = 0;
        while !take(&mut limit, long).await {
            cut += 1;
        }
        assert_eq!((cut, limit.0), (4, MOST), "2, 4, 8, 16 seconds were too short");
        for _ in 0..4 {
            assert!(take(&mut limit, short).await);
        }
        assert!(limit.0 > LEAST && limit.0 < MOST / 2, "{limit:?}");
        for _ in 0..20 {
            assert!(take(&mut limit, short).await);
        }
        assert_eq!(limit.0, LEAST);
    }
}
