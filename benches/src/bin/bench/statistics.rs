//! Medians and their spread.

use std::fmt;

/// Median, minimum and maximum of several values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the three values. If there are no figures, the values are NaN.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let figure_at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        let last = figures.len().saturating_sub(1);
        let median = f64::midpoint(figure_at(last / 2), figure_at(last.div_ceil(2)));
        Self { median, min: figure_at(0), max: figure_at(last) }
    }
}

/// Formats the median, followed by minimum and maximum in parentheses.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}..{:.2})", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_the_minimum_and_the_maximum() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).to_string(), "2.00 (1.00..3.00)");
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).to_string(), "2.50 (1.00..4.00)");
    }
}
