//! The spans of time in which a source is active, as all sources share them.

use engine::units::Instant;

/// Spans in which a source is active: each from its first instant to before its second. They are in
/// order and disjoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Active(Vec<(Instant, Instant)>);

impl Default for Active {
    /// Always.
    fn default() -> Self {
        Self(vec![(Instant::START, Instant::NEVER)])
    }
}

impl Active {
    /// Until this time.
    pub fn until(end: Instant) -> Self {
        Self::spans(&[(Instant::START, end)])
    }

    /// In these spans, in any order; adjacent ones are merged. Without spans it is always active,
    /// as in a scenario that names none.
    pub fn spans(spans: &[(Instant, Instant)]) -> Self {
        if spans.is_empty() {
            return Self::default();
        }
        let mut sorted: Vec<_> = spans.iter().copied().filter(|(from, to)| from < to).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(Instant, Instant)> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match merged.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// The first active instant from `now` on; `None` if there is none.
    pub fn resumes(&self, now: Instant) -> Option<Instant> {
        let next = self.0.partition_point(|&(_, end)| end <= now);
        self.0.get(next).map(|&(from, _)| from.max(now))
    }

    /// Whether this is an active instant.
    pub fn at(&self, now: Instant) -> bool {
        self.resumes(now) == Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_half_open_and_adjacent_ones_are_merged() {
        let at = Instant::from_nanos;
        let active = Active::spans(&[
            (at(30), at(40)),
            (at(10), at(20)),
            (at(20), at(25)),
            (at(7), at(7)),
        ]);
        let spans: Vec<u64> = (0..50).filter(|&ns| active.at(at(ns))).collect();
        let expected: Vec<u64> = (10..25).chain(30..40).collect();
        assert_eq!(spans, expected);
        assert_eq!(active.resumes(at(25)), Some(at(30)));
        assert_eq!(active.resumes(at(40)), None);
    }

    #[test]
    fn no_spans_mean_always_and_empty_spans_mean_never() {
        assert!(Active::spans(&[]).at(Instant::from_nanos(5)));
        assert_eq!(Active::until(Instant::START).resumes(Instant::START), None);
    }
}
