//! Rounds that something else on the machine disturbed are made again.

use crate::results::Cores;

/// How often rounds were made again, and how often they still may be.
#[derive(Debug)]
pub(crate) struct Repeats {
    pub(crate) made: usize,
    left: usize,
}

impl Repeats {
    /// As many repeats as there are rounds.
    pub(crate) fn new(rounds: usize) -> Self {
        Self { made: 0, left: rounds }
    }

    /// Makes as many rounds as asked for. A round has every server's figure; where one of them was
    /// disturbed it is made again as a whole, as long as repeats are left.
    pub(crate) fn rounds<T>(
        &mut self,
        count: usize,
        mut round: impl FnMut() -> anyhow::Result<Vec<(T, Cores)>>,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        let mut rounds = Vec::with_capacity(count);
        while rounds.len() < count {
            let figures = round()?;
            if self.left > 0 && figures.iter().any(|(_, cores)| cores.is_disturbed()) {
                self.left -= 1;
                self.made += 1;
                continue;
            }
            rounds.push(figures.into_iter().map(|(figure, _)| figure).collect());
        }
        Ok(rounds)
    }
}
