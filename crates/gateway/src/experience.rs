//! Which paths show round trips to which watch: the two of opposite directions to one, whichever
//! workers they belong to.

use crate::direction::secret_seed;
use crate::workers::both_ways;
use control::experienced::ExperienceSetting;
use control::policy::{InterfacePolicy, Policy};
use control::snapshot::ExperienceOfInterface;
use netio::experience::{Direction, ExperienceOf, ExperienceWatch};
use netio::port::Port;
use netio::ports::Lane;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A watch, and its two lanes.
#[derive(Debug)]
pub(crate) struct WatchedLanes {
    pub(crate) watch: Arc<ExperienceWatch>,
    /// That of [`Direction::There`] first.
    pub(crate) lanes: [usize; 2],
}

/// What is read of interfaces, by name.
pub type ExperienceReaders = BTreeMap<String, ExperienceReader>;

/// Reads what is measured of an interface.
#[derive(Clone, Debug)]
pub struct ExperienceReader {
    watch: Arc<ExperienceWatch>,
    direction: Direction,
}

impl ExperienceReader {
    /// All counts since the start.
    pub(crate) fn read(&self) -> ExperienceOfInterface {
        let reading = self.watch.read(self.direction).unwrap_or_default();
        ExperienceOfInterface {
            classes: reading.classes.into_iter().collect(),
            hosts: reading.hosts,
        }
    }
}

/// The watches that a policy asks for, how each interface is read, and warnings.
pub(crate) fn watches(
    policy: &Policy,
    ports: &[Box<dyn Port>],
    lanes: &[Lane],
) -> (Vec<WatchedLanes>, ExperienceReaders, Vec<String>) {
    let (mut watches, mut readers, mut warnings) = (Vec::<WatchedLanes>::new(), BTreeMap::new(), Vec::new());
    for interface in policy.interfaces.iter().filter(|one| kept(one).is_some()) {
        let name = &interface.name;
        let Some([data, back]) = both_ways(name, ports, lanes) else {
            warnings.push(format!(
                "{name}: no experience is measured, as its other direction does not pass here: manage {} too",
                engine::port_kind::opposite(name)
            ));
            continue;
        };
        let known = watches.iter().find(|one| one.lanes == [back, data]);
        let (watch, direction) = match known {
            Some(known) => (Arc::clone(&known.watch), Direction::Back),
            None => {
                let of = |lane: usize| {
                    let carries = |one: &&InterfacePolicy| {
                        both_ways(&one.name, ports, lanes).is_some_and(|[own, _]| own == lane)
                    };
                    policy.interfaces.iter().find(carries).and_then(kept)
                };
                let watch = Arc::new(ExperienceWatch::new([of(data), of(back)], secret_seed()));
                watches.push(WatchedLanes {
                    watch: Arc::clone(&watch),
                    lanes: [data, back],
                });
                (watch, Direction::There)
            }
        };
        readers.insert(name.clone(), ExperienceReader { watch, direction });
    }
    (watches, readers, warnings)
}

fn kept(interface: &InterfacePolicy) -> Option<ExperienceOf> {
    match interface.settings.experience {
        ExperienceSetting::Off => None,
        ExperienceSetting::Classes => Some(ExperienceOf::Classes),
        ExperienceSetting::Hosts => Some(ExperienceOf::Hosts),
    }
}
