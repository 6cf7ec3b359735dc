//! Which classes are listed, and in which order: all in that of the policy, or by a number, the
//! greatest first; or those alone whose names have what is searched for.

use control::snapshot::{ClassView, InterfaceView};

/// The order of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListOrder {
    /// As the policy has them, each parent before its children.
    #[default]
    Policy,
    /// By measured rate.
    Measured,
    /// By the delay of 99 of 100 packets.
    Delay,
    /// By packets that wait.
    Backlog,
    /// By dropped packets.
    Dropped,
}

impl ListOrder {
    /// The next one: each comes once.
    pub fn next(self) -> Self {
        match self {
            Self::Policy => Self::Measured,
            Self::Measured => Self::Delay,
            Self::Delay => Self::Backlog,
            Self::Backlog => Self::Dropped,
            Self::Dropped => Self::Policy,
        }
    }

    /// The column by which it orders; none for the policy's.
    pub fn column(self) -> Option<&'static str> {
        match self {
            Self::Policy => None,
            Self::Measured => Some("measured"),
            Self::Delay => Some("p99"),
            Self::Backlog => Some("backlog"),
            Self::Dropped => Some("dropped"),
        }
    }

    fn number(self, class: &ClassView) -> u64 {
        let traffic = &class.traffic;
        match self {
            Self::Policy => 0,
            Self::Measured => traffic.got_bps.unwrap_or(0),
            Self::Delay => traffic.delay.map_or(0, |delay| delay.p99_ns),
            Self::Backlog => traffic.backlog_packets,
            Self::Dropped => traffic.dropped_packets,
        }
    }
}

/// The classes that are listed, by their indices.
pub fn listed(interface: &InterfaceView, search: &str, order: ListOrder) -> Vec<usize> {
    let wanted = search.to_lowercase();
    let classes = interface.classes.iter().enumerate();
    let found = classes.filter(|(_, class)| class.name.to_lowercase().contains(&wanted));
    // By a number, a parent would stand beside what it is the sum of.
    let found = found.filter(|(_, class)| order == ListOrder::Policy || class.leaf);
    let mut found: Vec<usize> = found.map(|(index, _)| index).collect();
    // Equals stay as the policy has them.
    found.sort_by_key(|&index| std::cmp::Reverse(order.number(&interface.classes[index])));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::example;

    fn names(search: &str, order: ListOrder) -> Vec<String> {
        let interface = &example::snapshot().interfaces[0];
        let found = listed(interface, search, order).into_iter();
        found.map(|index| interface.classes[index].name.clone()).collect()
    }

    #[test]
    fn classes_are_listed_as_in_the_policy_or_the_greatest_leaf_first() {
        assert_eq!(names("", ListOrder::Policy), ["office", "voice", "work", "rest"]);
        assert_eq!(names("", ListOrder::Measured), ["work", "rest", "voice"]);
    }

    #[test]
    fn a_search_finds_parts_of_names_in_any_case() {
        assert_eq!(names("O", ListOrder::Policy), ["office", "voice", "work"]);
        assert_eq!(names("OR", ListOrder::Measured), ["work"]);
        assert!(names("nobody", ListOrder::Policy).is_empty());
    }

    #[test]
    fn every_order_comes_once() {
        let mut order = ListOrder::default();
        let columns: Vec<_> = (0..5)
            .map(|_| {
                order = order.next();
                order.column()
            })
            .collect();
        let expected = [
            Some("measured"),
            Some("p99"),
            Some("backlog"),
            Some("dropped"),
            None,
        ];
        assert_eq!(columns, expected);
    }
}
