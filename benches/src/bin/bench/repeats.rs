//! Repeats rounds that other processes disturbed.

use crate::results::Cores;

/// Number of repeated rounds, and number of rounds that may still be repeated.
#[derive(Debug)]
pub(crate) struct Repeats {
    pub(crate) repeated: usize,
    remaining: usize,
}

impl Repeats {
    /// Allows as many repetitions as rounds.
    pub(crate) fn new(rounds: usize) -> Self {
        Self { repeated: 0, remaining: rounds }
    }

    /// Runs the rounds. A round measures every server. If one of the measurements was disturbed, repeats the whole
    /// round, as long as repetitions are left.
    pub(crate) fn rounds<T>(
        &mut self,
        count: usize,
        mut round: impl FnMut() -> anyhow::Result<Vec<(T, Cores)>>,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        let mut rounds = Vec::with_capacity(count);
        while rounds.len() < count {
            let figures = round()?;
            if self.remaining > 0 && figures.iter().any(|(_, cores)| cores.is_disturbed()) {
                self.remaining -= 1;
                self.repeated += 1;
                continue;
            }
            rounds.push(figures.into_iter().map(|(figure, _)| figure).collect());
        }
        Ok(rounds)
    }
}
