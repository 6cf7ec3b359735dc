//! The budgets of the managed interfaces, and the class trees that enforce their reservations.

use super::local_senders::KernelNode;
use super::trees::{Trees, budget};
use super::tried_policy::TriedPolicy;
use control::begins_anew::ClassesAnew;
use control::difference::Breaking;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::recorded::RecordedPolicy;
use rsvp::admission::InterfaceBudget;
use rsvp::traffic_control::InterfaceId;
use std::collections::BTreeMap;

/// The classes of all policies that a tape names, at most: they are kept in memory.
const MOST_CLASSES: usize = 200_000;
/// So many classes take as much memory as what a policy has besides.
const OWN_PART: usize = 400;

/// Help where a change would break reservations.
const ALL_THE_SAME: &str = "`suimon reserve status` shows whose they are; `suimon apply FILE --break-reservations` \
                            puts the policy into force all the same";

/// What another policy of an interface comes to.
#[derive(Debug, Default)]
pub struct ChangedPolicy {
    /// What that breaks of what reservations were promised, a line each.
    pub breaks: Vec<String>,
    /// Classes that stay and begin anew.
    pub begins_anew: Vec<ClassesAnew>,
}

/// The budgets and trees of a node's interfaces.
pub struct Budgets {
    trees: Box<dyn Trees>,
    /// The policies of the managed interfaces, by their identifiers in the node.
    policies: BTreeMap<InterfaceId, InterfacePolicy>,
    /// Those that the node's tape has, by their numbers there.
    taped: Vec<InterfacePolicy>,
}

impl Budgets {
    /// Budgets for those of these interfaces whose policy has `reserve`.
    pub fn new<'a>(trees: Box<dyn Trees>, names: impl Iterator<Item = &'a str>) -> Self {
        let managed = trees.managed();
        let of = |name: &str| {
            let mut managed = managed.iter();
            managed.find(|policy| policy.name == name && policy.reserve.is_some())
        };
        let policies = (0..)
            .zip(names)
            .filter_map(|(id, name)| Some((id, of(name)?.clone())));
        Self {
            policies: policies.collect(),
            taped: Vec::new(),
            trees,
        }
    }

    /// Sets the budget of an interface that has none yet, or whose MTU may have changed.
    pub fn set(&mut self, node: &mut KernelNode, id: InterfaceId, mtu: u32) {
        let admission = node.traffic_control_mut();
        let policy = self.policies.get(&id);
        if admission.budget(id).is_none() || policy.is_none() {
            let managed = policy.and_then(budget);
            admission.set_budget(id, managed.unwrap_or(InterfaceBudget::Unlimited { mtu }));
            self.write_down(node, id, mtu);
        }
    }

    /// A tape has begun, on which these interfaces are to be, with their MTUs.
    pub fn begin_tape(&mut self, node: &KernelNode, mtus: impl Iterator<Item = u32>) {
        self.taped.clear();
        for (id, mtu) in (0..).zip(mtus) {
            if node.traffic_control().budget(id).is_some() {
                self.write_down(node, id, mtu);
            }
        }
    }

    /// Writes down what may be reserved on an interface from now on, while there is a tape.
    fn write_down(&mut self, node: &KernelNode, id: InterfaceId, mtu: u32) {
        if !node.tape().goes_on() {
            return;
        }
        let policy = self.policies.get(&id).filter(|policy| policy.reserve.is_some());
        let number = policy.map(|policy| {
            self.taped.push(policy.clone());
            self.taped.len() as u32 - 1
        });
        node.tape().budget(id, number, mtu);
        let classes = |policy: &InterfacePolicy| OWN_PART + policy.plan.classes.len();
        let classes = self.taped.iter().map(classes);
        if self.taped.len() > 1 && classes.sum::<usize>() > MOST_CLASSES {
            node.tape().break_off();
        }
    }

    /// The policies that the tape names by numbers.
    pub fn taped(&self) -> Vec<RecordedPolicy> {
        self.taped.iter().map(RecordedPolicy::reservable).collect()
    }

    /// Installs the trees of changed interfaces; failures go to the log.
    pub fn install(&self, node: &mut KernelNode, log: &mut dyn FnMut(&str)) {
        for id in node.traffic_control_mut().take_changed() {
            let (Some(policy), Some(layout)) = (self.policies.get(&id), node.traffic_control().lay_out(id))
            else {
                continue;
            };
            let adopted = match layout {
                Ok(layout) => self.trees.adopt(policy, layout),
                Err(problems) => Err(Refusal::from(problems)),
            };
            match adopted {
                Ok(_) => node.tape().installed(id, node.traffic_control().held(id)),
                Err(why) => log(&format!("{}: the classes stay unchanged: {why}", policy.name)),
            }
        }
    }

    /// What a policy would do to the reservations of its interface; none if it takes none.
    pub fn try_policy(&self, node: &KernelNode, policy: &InterfacePolicy) -> Option<TriedPolicy> {
        let (&id, _) = self
            .policies
            .iter()
            .find(|(_, known)| known.name == policy.name)?;
        let admission = node.traffic_control();
        let tried = admission.tried(id, &budget(policy)?)?;
        Some(TriedPolicy::of(policy, tried, admission))
    }

    /// Replaces the policy of an interface, and keeps its reservations.
    ///
    /// # Errors
    ///
    /// If the interface is not managed, or the tree of the new policy cannot be installed with the
    /// reservations, or breaks what it may not and was not broken before; the old policy stays in
    /// force then.
    pub fn change_policy(
        &mut self,
        node: &mut KernelNode,
        policy: InterfacePolicy,
        breaking: Breaking,
    ) -> Result<ChangedPolicy, Refusal> {
        let found = self.policies.iter().find(|(_, known)| known.name == policy.name);
        let Some((&id, former)) = found else {
            return Err(Refusal::new(format!(
                "nothing can be reserved on {}",
                policy.name
            )));
        };
        let gone = || Refusal::new(format!("nothing can be reserved on {} any more", policy.name));
        let new = budget(&policy).ok_or_else(gone)?;
        let tried = self.try_policy(node, &policy).ok_or_else(gone)?;
        let before = self.try_policy(node, former);
        let broken = before.map_or_else(Vec::new, |before| before.broken);
        let breaks = tried.whole.is_none() || tried.broken.iter().any(|one| !broken.contains(one));
        if breaking.is_refused() && breaks {
            return Err(Refusal {
                message: format!("nothing was changed:\n{}", tried.breaks.join("\n")),
                help: Some(ALL_THE_SAME.into()),
            });
        }
        let admission = node.traffic_control_mut();
        let old = admission.budget(id).cloned();
        admission.set_budget(id, new);
        let adopted = match admission.lay_out(id) {
            Some(Ok(layout)) => self.trees.adopt(&policy, layout),
            Some(Err(problems)) => Err(Refusal::from(problems)),
            None => Err(gone()),
        };
        match adopted {
            Ok(begins_anew) => {
                self.policies.insert(id, policy);
                self.write_down(node, id, 0);
                Ok(ChangedPolicy {
                    breaks: tried.breaks,
                    begins_anew,
                })
            }
            Err(why) => {
                old.into_iter().for_each(|old| admission.set_budget(id, old));
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signalling::routing::KernelRoutes;
    use control::policy::Policy;
    use engine::random::Seed;
    use engine::reserved::ReservedLayout;
    use engine::tree::Registry;
    use engine::units::Instant;
    use netio::routes::Routes;
    use rsvp::admission::AdmissionState;
    use rsvp::node::{Node, Settings};

    fn policy() -> InterfacePolicy {
        let text = "version = 1\n[rsvp]\ninterfaces = [\"wan0\"]\n[interface.wan0]\nbandwidth = \"40 Mbit/s\"\n\
                    discipline = \"drr\"\nreserve = { share = \"50 %\" }\n[[interface.wan0.class]]\nname = \"rest\"\n\
                    default = true\n";
        let read = Policy::read("p.toml", text, &Registry::builtin(), &[]);
        read.unwrap_or_else(|wrong| panic!("{}", wrong.render(false)))
            .interfaces
            .remove(0)
    }

    /// Takes every tree.
    struct Takes;

    impl Trees for Takes {
        fn managed(&self) -> Vec<InterfacePolicy> {
            vec![policy()]
        }

        fn adopt(
            &self,
            _policy: &InterfacePolicy,
            _layout: ReservedLayout,
        ) -> Result<Vec<ClassesAnew>, Refusal> {
            Ok(Vec::new())
        }
    }

    /// A soak found it: they were kept for ever.
    #[test]
    fn policies_are_kept_for_a_tape_up_to_a_bound_and_not_behind_its_end() {
        let routing = KernelRoutes::new(Box::new(Routes::open().expect("the kernel's routes")), Vec::new());
        let settings = Settings::new(Vec::new(), Seed(1));
        let mut node = Node::new(settings, AdmissionState::new(), routing);
        let mut budgets = Budgets::new(Box::new(Takes), ["wan0"].into_iter());
        budgets.set(&mut node, 0, 1500);
        assert_eq!(budgets.taped.len(), 0, "there is no tape yet");
        assert!(node.begin_tape(Instant::START, Seed(1), 0, 8 << 20));
        budgets.begin_tape(&node, [1500].into_iter());
        let change = |budgets: &mut Budgets, node: &mut KernelNode| {
            let changed = budgets.change_policy(node, policy(), Breaking::Refused);
            changed.expect("nothing is reserved");
        };
        for _ in 0..2_000 {
            change(&mut budgets, &mut node);
        }
        let kept = budgets.taped.len();
        assert!((400..=500).contains(&kept) && !node.tape().goes_on(), "{kept}");
        // Without state it begins anew.
        assert!(node.begin_tape(Instant::START, Seed(1), 0, 8 << 20));
        budgets.begin_tape(&node, [1500].into_iter());
        change(&mut budgets, &mut node);
        assert_eq!(budgets.taped.len(), 2);
    }
}
