//! Builds a lab from a topology: namespaces, addresses, routes and emulated links.

use crate::Error;
use crate::Scenario;
use crate::lab_policies::{LabPolicies, LinkDirection};
use crate::topology::{LabLinkSettings, LinkConfig, Topology};
use control::policy::InterfacePolicy;
use engine::classify::Classifier;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::Bandwidth;
use lab::addressing::{self, AddressPair};
use lab::host::know_each_other;
use lab::{CableSwitch, EmulatedDirection, EmulatedLink, Host, Lab, Record, RuledQueue, TraceBegin};
use measure::impairments::ImpairmentSchedule;
use measure::link_trace::LinkTrace;
use netio::classify::ByFilters;
use sim::simulation::link_seed;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// A running lab, and its interfaces.
#[derive(Debug)]
pub struct Built {
    /// Hosts and links; dropping it removes them.
    pub lab: Lab,
    /// For each host its interfaces.
    pub interfaces: Vec<Vec<HostInterface>>,
    /// The policies of its links.
    pub policies: LabPolicies,
}

/// An interface of a host.
#[derive(Debug)]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// Its addresses, IPv4 and IPv6.
    pub addresses: AddressPair,
    /// The host at the other end.
    pub to: String,
    /// What it sends goes by this direction of a link.
    pub direction: LinkDirection,
}

/// Captures and recordings of links.
#[derive(Debug, Default)]
pub struct Instruments {
    /// pcapng files for the packets that arrive at the far end.
    pub captures: Vec<(LinkDirection, PathBuf)>,
    /// CSV files for the packets offered and sent, bin by bin.
    pub series: Vec<(LinkDirection, PathBuf, Record)>,
    /// Switches that cut cables.
    pub cables: Vec<(LinkDirection, CableSwitch)>,
    /// Recordings that are read, not written.
    pub records: Vec<(LinkDirection, Record)>,
    /// Says when the links' traces begin.
    pub begin: TraceBegin,
}

impl Instruments {
    /// The emulated direction with the instruments of this direction.
    pub(crate) fn on(&self, link: LinkDirection, mut direction: EmulatedDirection) -> EmulatedDirection {
        direction = direction.begun_by(&self.begin);
        for (_, file) in self.captures.iter().filter(|(of, _)| *of == link) {
            direction = direction.captured(file);
        }
        for (_, cable) in self.cables.iter().filter(|(of, _)| *of == link) {
            direction = direction.cut_by(cable);
        }
        for (_, _, record) in self.series.iter().filter(|(of, ..)| *of == link) {
            direction = direction.recorded(record);
        }
        for (_, record) in self.records.iter().filter(|(of, _)| *of == link) {
            direction = direction.recorded(record);
        }
        direction
    }

    /// Writes the CSV files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be created or written.
    pub fn write(&self) -> Result<(), Error> {
        for (_, file, record) in &self.series {
            let failed = |why| Error::Unwritten {
                file: file.clone(),
                why,
            };
            let mut out = File::create(file).map(BufWriter::new).map_err(failed)?;
            record
                .read()
                .write_csv(&mut out)
                .and_then(|()| out.flush())
                .map_err(failed)?;
        }
        Ok(())
    }
}

/// Creates hosts and links, with addresses and routes.
///
/// # Errors
///
/// Returns an error if a host, a link, an address or a route cannot be created.
pub fn build(
    topology: &Topology,
    registry: &Registry,
    instruments: &Instruments,
    seed: Seed,
) -> Result<Built, Error> {
    let mut lab = Lab::new();
    let hosts: Vec<Host> = topology
        .hosts
        .iter()
        .map(|name| lab.host(name))
        .collect::<lab::Result<_>>()?;
    let mut interfaces: Vec<Vec<HostInterface>> = hosts.iter().map(|_| Vec::new()).collect();
    for (number, link) in topology.links.iter().enumerate() {
        let names = link.between.map(|host| format!("eth{}", interfaces[host].len()));
        let [a, b] = link.between;
        join(
            &mut lab,
            [&hosts[a], &hosts[b]],
            &names,
            link,
            seed,
            &|side, direction| instruments.on((number, side), direction),
        )?;
        // The reader of topologies allows 250 links.
        let addresses = addressing::of_link(number as u16);
        for (side, name) in names.iter().enumerate() {
            for address in addresses[side] {
                hosts[link.between[side]].address(name, address)?;
            }
        }
        know_each_other(
            [(&hosts[a], &names[0]), (&hosts[b], &names[1])],
            [&addresses[0].map(|own| own.ip), &addresses[1].map(|own| own.ip)],
        )?;
        for (side, name) in names.into_iter().enumerate() {
            let host = link.between[side];
            interfaces[host].push(HostInterface {
                name,
                addresses: addresses[side],
                to: topology.hosts[link.between[1 - side]].clone(),
                direction: (number, side),
            });
        }
    }
    for (host, interfaces) in hosts.iter().zip(&interfaces) {
        if interfaces.len() > 1 {
            host.forward()?;
        }
    }
    let ends: Vec<[usize; 2]> = topology.links.iter().map(|link| link.between).collect();
    for route in addressing::routes(hosts.len(), &ends) {
        hosts[route.host].route(route.to, route.by)?;
    }
    let name = |direction: LinkDirection| {
        let mut all = interfaces.iter().flatten();
        let found = all.find(|interface| interface.direction == direction);
        found.map_or_else(String::new, |interface| interface.name.clone())
    };
    let ends: Vec<&Host> = hosts.iter().collect();
    let policies = LabPolicies::start(&lab, &ends, topology, registry, name).map_err(Error::Started)?;
    Ok(Built {
        lab,
        interfaces,
        policies,
    })
}

/// Builds the lab of a scenario. A host has the address that filters see in the simulator, on its
/// loopback interface, and sends from it.
///
/// # Errors
///
/// Returns an error if a host, a link, an address or a route cannot be created.
pub fn build_scenario(
    scenario: &Scenario,
    registry: &Registry,
    instruments: &Instruments,
) -> Result<Built, Error> {
    let seed = Seed(scenario.settings.seed.into());
    let built = build(&Topology::of(scenario), registry, instruments, seed)?;
    let hosts = built.lab.hosts();
    for ((host, config), interfaces) in hosts.iter().zip(&scenario.hosts).zip(&built.interfaces) {
        let own = |end: &HostInterface| end.addresses.iter().any(|address| address.ip == config.address);
        if !interfaces.iter().any(own) {
            let prefix = if config.address.is_ipv4() { 32 } else { 128 };
            host.address("lo", lab::addressing::Address::new(config.address, prefix))?;
        }
    }
    reroute(&built, scenario, &BTreeSet::new())?;
    Ok(built)
}

/// Sets the routes between the hosts of a scenario, around the links of these numbers.
///
/// # Errors
///
/// Returns an error if the kernel refuses a route.
pub(crate) fn reroute(built: &Built, scenario: &Scenario, avoided: &BTreeSet<usize>) -> Result<(), Error> {
    for (from, host) in built.lab.hosts().iter().enumerate() {
        for (to, config) in scenario.hosts.iter().enumerate() {
            let Some(&first) = scenario.path_around([from, to], avoided).first() else {
                continue;
            };
            let near = scenario.hosts[from].address;
            if near.is_ipv4() != config.address.is_ipv4() {
                continue;
            }
            // The far end of the direction's link.
            let far = addressing::of_link((first / 2) as u16)[1 - first % 2];
            let gateway = far[usize::from(near.is_ipv6())].ip;
            host.route_from(near, config.address, gateway)?;
        }
    }
    Ok(())
}

fn join(
    lab: &mut Lab,
    hosts: [&Host; 2],
    names: &[String; 2],
    link: &LinkConfig,
    seed: Seed,
    look: &dyn Fn(usize, EmulatedDirection) -> EmulatedDirection,
) -> lab::Result<()> {
    let (a, b) = ((hosts[0], names[0].as_str()), (hosts[1], names[1].as_str()));
    let [Some(forth), Some(back)] = link.settings.each_ref().map(|settings| settings.rate) else {
        return lab.veth(a, b);
    };
    let direction = |side: usize, rate: Bandwidth| {
        // The simulator's link has the same.
        let ends = [hosts[side], hosts[1 - side]].map(Host::name);
        let seed = link_seed(seed, ends);
        let policy = link.policies[side].as_ref();
        let varies = (link.traces[side].clone(), link.later[side].clone());
        look(side, direction(rate, &link.settings[side], varies, policy, seed))
    };
    lab.link(a, b, direction(0, forth), direction(1, back)).map(drop)
}

/// One direction of a link, with a policy if there is one.
pub(crate) fn direction(
    rate: Bandwidth,
    settings: &LabLinkSettings,
    (trace, later): (Option<LinkTrace>, ImpairmentSchedule),
    policy: Option<&InterfacePolicy>,
    seed: Seed,
) -> EmulatedDirection {
    let link = EmulatedLink::new(rate).delay(settings.delay);
    let link = link.impaired(settings.impairments(), seed);
    let mut link = link.impaired_later(later).trace(trace);
    if let Some(buffer) = settings.buffer {
        link = link.buffer(buffer);
    }
    let Some(policy) = policy else {
        return link.into();
    };
    ruled(link, policy, seed)
}

/// One direction of a link with a policy. What leaves the policy keeps to its bandwidth, which is
/// at most the link's rate: no queue builds up behind the policy.
pub fn ruled(link: EmulatedLink, policy: &InterfacePolicy, seed: Seed) -> EmulatedDirection {
    let classifier = Classifier::new(policy.filters.iter().cloned(), seed);
    let classify = ByFilters::new(classifier, &policy.plan, seed);
    let ruled = RuledQueue {
        plan: Some(policy.plan.clone()),
        conserves_work: policy.plan.root.conserves_work(),
        bandwidth: Some(policy.link().bandwidth),
        framing: policy.link().framing,
        guarantees: policy.guarantees(),
        yields: policy.yields.iter().map(|yields| yields.class.clone()).collect(),
        ..RuledQueue::new(policy.plan.build(seed), Box::new(classify))
    };
    EmulatedDirection::ruled(link, ruled)
}

impl Built {
    /// Environment variables for the program in the lab: the first IPv4 address of each host,
    /// such
    /// as `SUIMON_ALICE`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let named = self.lab.hosts().iter().zip(&self.interfaces);
        let addressed = named.filter_map(|(host, interfaces)| {
            let name = host.name().to_uppercase().replace('-', "_");
            let first = interfaces.first()?;
            Some((format!("SUIMON_{name}"), first.addresses[0].ip.to_string()))
        });
        addressed.collect()
    }

    /// The command line that opens a shell on a host from outside the lab.
    pub fn enter(&self, host: &Host) -> Vec<String> {
        let id = lab::isolation::id_outside();
        let mut command = vec!["nsenter".to_string()];
        if lab::isolation::in_user_namespace() {
            command.extend([
                "--preserve-credentials".into(),
                format!("--user=/proc/{id}/ns/user"),
            ]);
        }
        command.push(format!("--net=/proc/{id}/fd/{}", host.namespace().as_raw_fd()));
        command.push("bash".into());
        command
    }
}
