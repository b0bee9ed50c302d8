//! What took how long. It is told, and judged only where the program is measured: a test does not know what
//! else its machine does.

use std::time::{Duration, Instant};

use super::judge::Story;

/// A gateway is well again within this.
const MAX_RECOVERY: Duration = Duration::from_secs(2);
/// What was withdrawn is refused within this wherever it can be heard of.
const MAX_HEARD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From when it was whole again until every gateway was well.
    pub(crate) recovery: Duration,
    /// From when the command that withdrew something had returned until the last gateway that could hear
    /// of it honoured it for the last time.
    pub(crate) heard: Option<Duration>,
    /// How long after the cut the deaf gateway last honoured what was withdrawn.
    pub(crate) honoured: Option<Duration>,
}

impl Times {
    /// It was whole again at `whole`, and all was well at `well`; a gateway was cut off at `cut`.
    pub(crate) fn of(story: &Story, whole: Instant, well: Instant, cut: Option<Instant>) -> Self {
        let withdrawal = story.withdrawal.as_ref();
        let deaf = withdrawal.and_then(|it| it.deaf).map(|(gateway, _)| gateway);
        let honoured = story.calls.iter().filter(|call| call.is_served()).filter_map(|call| {
            let (_, returned) = withdrawal?.withdrawn.of(call.who)?;
            Some((Some(call.gateway), call.begin, returned))
        });
        let since = |later: Instant, earlier| later.saturating_duration_since(earlier);
        let heard = honoured.clone().filter(|(gateway, ..)| *gateway != deaf);
        let by_the_deaf = honoured.filter(|(gateway, ..)| *gateway == deaf);
        Self {
            recovery: since(well, whole),
            heard: heard.map(|(_, at, returned)| since(at, returned)).max(),
            honoured: cut.and_then(|cut| by_the_deaf.map(|(_, at, _)| since(at, cut)).max()),
        }
    }

    /// What took too long, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let heard = self.heard.unwrap_or_default();
        let both = [("well again", self.recovery, MAX_RECOVERY), ("heard", heard, MAX_HEARD)];
        let late = both.into_iter().filter(|(_, took, most)| took > most);
        late.map(|(what, took, most)| format!("{what} after {took:?}, not {most:?}")).collect()
    }
}

#[test]
fn what_takes_too_long_is_told() {
    let [second, two] = [1, 2].map(Duration::from_secs);
    let times = Times { recovery: two, heard: Some(second), honoured: None };
    assert_eq!(times.problems(), [""; 0]);
    let more = Duration::from_millis(1);
    let late = Times { recovery: two + more, heard: Some(second + more), honoured: None };
    let told = ["well again after 2.001s, not 2s", "heard after 1.001s, not 1s"];
    assert_eq!(late.problems(), told);
}
