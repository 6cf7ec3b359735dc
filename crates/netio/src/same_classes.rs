//! Which classes of a tree go on in the one that takes its place: those of the same name. With very
//! many classes it takes long to say, so whoever prepares the tree does, beside the packet loop.

use engine::packet::ClassId;
use engine::tree::TreePlan;

/// No class.
const NONE: u32 = u32::MAX;

/// The numbers of classes in a tree and in another that takes its place.
#[derive(Debug, Default)]
pub(crate) struct SameClasses {
    /// By the number in the other one; none of a tree without a plan: all keep theirs.
    both: Option<[Vec<u32>; 2]>,
}

impl SameClasses {
    /// Of two plans.
    pub(crate) fn of(old: Option<&TreePlan>, new: &TreePlan) -> Self {
        let Some(old) = old else { return Self::default() };
        let names = old.classes.iter().map(|info| info.name.as_str());
        let new_of: Vec<u32> = names
            .map(|name| new.class(name).map_or(NONE, |class| class.0))
            .collect();
        let mut old_of = vec![NONE; new.classes.len()];
        for (old, &new) in new_of.iter().enumerate() {
            if let Some(of) = old_of.get_mut(new as usize) {
                *of = old as u32;
            }
        }
        Self {
            both: Some([new_of, old_of]),
        }
    }

    /// The number from now on of a class of the former tree.
    pub(crate) fn successor(&self, class: ClassId) -> Option<ClassId> {
        self.look_up(0, class)
    }

    /// The number in the former tree of a class.
    pub(crate) fn predecessor(&self, class: ClassId) -> Option<ClassId> {
        self.look_up(1, class)
    }

    /// How many classes the former tree had, if any is known.
    pub(crate) fn former(&self) -> u32 {
        let both = self.both.as_ref();
        both.map_or(0, |[former, _]| u32::try_from(former.len()).unwrap_or(u32::MAX))
    }

    fn look_up(&self, side: usize, class: ClassId) -> Option<ClassId> {
        let Some(both) = &self.both else {
            return Some(class);
        };
        let found = both[side].get(class.0 as usize).copied();
        found.filter(|number| *number != NONE).map(ClassId)
    }

    /// Old and new numbers.
    #[cfg(test)]
    pub(crate) fn of_pairs(pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut both = [Vec::new(), Vec::new()];
        for (old, new) in pairs {
            for (numbers, (at, to)) in both.iter_mut().zip([(old, new), (new, old)]) {
                numbers.resize(numbers.len().max(at as usize + 1), NONE);
                numbers[at as usize] = to;
            }
        }
        Self { both: Some(both) }
    }
}
