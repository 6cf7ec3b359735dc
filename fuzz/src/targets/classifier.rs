//! The classifier's search against the plain list of filters.

use super::FuzzTarget;
use crate::mutate::InputShape;
use arbitrary::{Result, Unstructured};
use engine::classify::{Classifier, DscpPattern, Filter, FilterId, Ports, Prefix};
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::random::Seed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "classifier",
    about: "filters added, removed and asked in any order: the search gives the answer of a list",
    shape: InputShape::Choices(700),
    tree: &[],
    make: || {
        Box::new(|input| {
            let _ = judge(&mut Unstructured::new(input));
        })
    },
};

/// Few values, so that filters overlap and packets meet them.
fn address(u: &mut Unstructured<'_>, v6: bool) -> Result<IpAddr> {
    let bits = u.arbitrary::<u8>()?;
    let (high, low) = (u32::from(bits >> 6), u32::from(bits & 7));
    Ok(match v6 {
        true => Ipv6Addr::from_bits(0x2001 << 112 | u128::from(high) << 80 | u128::from(low)).into(),
        false => Ipv4Addr::from_bits(10 << 24 | high << 16 | low).into(),
    })
}

fn prefix(u: &mut Unstructured<'_>, v6: bool) -> Result<Option<Prefix>> {
    let address = address(u, v6)?;
    let longest = if v6 { 128 } else { 32 };
    Ok(Prefix::new(address, u.int_in_range(0..=longest)?))
}

fn maybe<T>(
    u: &mut Unstructured<'_>,
    make: impl FnOnce(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<T>> {
    match u.ratio(1, 3)? {
        true => make(u).map(Some),
        false => Ok(None),
    }
}

fn port(u: &mut Unstructured<'_>) -> Result<u16> {
    Ok([0, 1, 53, 80, 255, 256, 4_000, 65_535][u.int_in_range(0..=7)?])
}

fn range(u: &mut Unstructured<'_>) -> Result<Ports> {
    let (a, b) = (port(u)?, port(u)?);
    Ok(Ports::new(a.min(b), a.max(b)).unwrap_or(Ports::one(a)))
}

fn filter(u: &mut Unstructured<'_>, class: u32) -> Result<Filter> {
    let v6 = u.arbitrary()?;
    let address = |u: &mut Unstructured<'_>| prefix(u, v6);
    Ok(Filter {
        rule: u.int_in_range(0..=2)?,
        source: maybe(u, address)?.flatten(),
        destination: maybe(u, address)?.flatten(),
        family: maybe(u, |_| Ok(if v6 { Family::V6 } else { Family::V4 }))?,
        protocol: maybe(u, |u| Ok([6, 17][usize::from(u.arbitrary::<bool>()?)]))?,
        source_port: maybe(u, range)?,
        destination_port: maybe(u, range)?,
        dscp: maybe(u, |u| {
            Ok(DscpPattern::masked(
                u.arbitrary::<u8>()? & 63,
                u.arbitrary::<u8>()? & 63,
            ))
        })?
        .flatten(),
        flow_label: maybe(u, |u| u.int_in_range(0..=2))?,
        mark: maybe(u, |u| u.int_in_range(0..=2))?,
        ..Filter::new(ClassId(class))
    })
}

fn packet(u: &mut Unstructured<'_>) -> Result<FlowKey> {
    let family = [Family::V4, Family::V6, Family::Other][u.int_in_range(0..=2)?];
    if family == Family::Other {
        // What is not IP has none of the other fields.
        return Ok(FlowKey {
            mark: u.int_in_range(0..=2)?,
            ..FlowKey::default()
        });
    }
    let v6 = family == Family::V6;
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let with_ports = u.arbitrary()?;
    Ok(FlowKey {
        family,
        source: bits(address(u, v6)?),
        destination: bits(address(u, v6)?),
        protocol: [6, 17, 1][u.int_in_range(0..=2)?],
        source_port: Some(port(u)?).filter(|_| with_ports),
        destination_port: Some(port(u)?).filter(|_| with_ports),
        dscp: u.arbitrary::<u8>()? & 63,
        flow_label: u.int_in_range(0..=2)?,
        mark: u.int_in_range(0..=2)?,
        ..FlowKey::default()
    })
}

/// The definition: the highest rule, then the most fixed bits, then the latest.
fn by_list(list: &[(FilterId, Filter)], key: &FlowKey) -> Option<(FilterId, ClassId)> {
    let matching = list.iter().filter(|(_, filter)| filter.matches(key));
    let best = matching.max_by_key(|(id, filter)| (filter.rule, filter.fixed_bits(), *id));
    best.map(|(id, filter)| (*id, filter.class))
}

fn judge(u: &mut Unstructured<'_>) -> Result<()> {
    let mut class = 0;
    let mut next = |u: &mut Unstructured<'_>| {
        class += 1;
        filter(u, class)
    };
    let first: Vec<Filter> = (0..u.int_in_range(0..=24)?)
        .map(|_| next(u))
        .collect::<Result<_>>()?;
    let mut list: Vec<(FilterId, Filter)> = (0..).map(FilterId).zip(first.iter().copied()).collect();
    let mut search = Classifier::new(first, Seed(u.arbitrary()?));
    while !u.is_empty() {
        match u.int_in_range(0..=7)? {
            0 => {
                let filter = next(u)?;
                let id = search.add(filter);
                assert!(list.iter().all(|(other, _)| *other != id), "{id:?} twice");
                list.push((id, filter));
            }
            1 => {
                let id = FilterId(u.int_in_range(0..=30)?);
                let place = list.iter().position(|(other, _)| *other == id);
                assert_eq!(search.remove(id), place.map(|place| list.remove(place).1));
            }
            _ => {
                let key = packet(u)?;
                assert_eq!(search.find(&key), by_list(&list, &key), "{key:?}");
            }
        }
        assert_eq!(search.len(), list.len());
    }
    Ok(())
}
