//! ADSPEC: what the path offers, updated at each hop towards the receivers (RFC 2210, section 3.3;
//! RFC 2215).
//!
//! Stored as per-service fragments with parameters, so that unknown ones pass through unchanged.

use super::intserv::{CONTROLLED_LOAD, GENERAL, GUARANTEED, Real, head, header};
use super::object::Object;
use super::reader::{Misread, Reader};
use crate::traffic_control::Advertised;

/// A per-service data fragment. The first holds the default general parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdspecFragment {
    /// The service number: 1 general, 2 guaranteed, 5 controlled load.
    pub service: u8,
    /// The break bit: some hop does not offer the service.
    pub broken: bool,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A characterisation parameter of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The parameter number.
    pub id: u8,
    /// The flags; the top bit marks the value invalid.
    pub flags: u8,
    /// The value, in 32-bit words.
    pub words: Vec<u32>,
}

/// The contents of ADSPEC; never empty, the general fragment first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adspec(Vec<AdspecFragment>);

/// IS hop count.
const HOPS: u8 = 4;
/// Path bandwidth estimate: the minimum so far, in bytes per second.
const BANDWIDTH: u8 = 6;
/// Minimum path latency: the sum so far, in microseconds.
const LATENCY: u8 = 8;
/// Composed path MTU: the minimum so far.
const MTU: u8 = 10;
/// Error terms of guaranteed service (RFC 2212): Ctot and Dtot over the path, Csum and Dsum since
/// the last reshaping point.
const C_TOTAL: u8 = 133;
const D_TOTAL: u8 = 134;
const C_SINCE: u8 = 135;
const D_SINCE: u8 = 136;
const BREAK: u8 = 0x80;

impl Adspec {
    /// From its fragments, if the general one is first.
    pub fn new(fragments: Vec<AdspecFragment>) -> Option<Self> {
        let general = fragments.first().is_some_and(|first| first.service == GENERAL);
        general.then_some(Self(fragments))
    }

    /// The ADSPEC of a sender: no hops, the bandwidth and MTU of its own link, and fragments of
    /// both services, in which the routers note whether they offer them.
    pub fn at_sender(bandwidth: Real, latency: u32, mtu: u32) -> Self {
        let general = [
            (HOPS, 0),
            (BANDWIDTH, bandwidth.bits()),
            (LATENCY, latency),
            (MTU, mtu),
        ];
        let errors = [C_TOTAL, D_TOTAL, C_SINCE, D_SINCE].map(|id| (id, 0));
        let fragment = |service, parameters: &[(u8, u32)]| AdspecFragment {
            service,
            broken: false,
            parameters: parameters
                .iter()
                .map(|(id, word)| Parameter {
                    id: *id,
                    flags: 0,
                    words: vec![*word],
                })
                .collect(),
        };
        Self(vec![
            fragment(GENERAL, &general),
            fragment(GUARANTEED, &errors),
            fragment(CONTROLLED_LOAD, &[]),
        ])
    }

    /// Its fragments.
    pub fn fragments(&self) -> &[AdspecFragment] {
        &self.0
    }

    /// Composes the parameters of one more hop (RFC 2215, section 3; RFC 2210, section 3.3): sums
    /// and minima, also of service-specific values; a service that the hop does not offer gets its
    /// break bit.
    pub fn cross(&mut self, link: &Advertised) {
        let terms = link.guaranteed.unwrap_or_default();
        for fragment in &mut self.0 {
            fragment.broken |= match fragment.service {
                GENERAL => false,
                GUARANTEED => link.guaranteed.is_none(),
                CONTROLLED_LOAD => !link.controlled_load,
                _ => true,
            };
            for parameter in &mut fragment.parameters {
                let [word] = parameter.words.as_mut_slice() else {
                    continue;
                };
                *word = match (parameter.id, fragment.service) {
                    (HOPS, _) => word.saturating_add(1),
                    (BANDWIDTH, _) => link.bandwidth.bits().min(*word),
                    // All ones mark an unknown latency, and stay.
                    (LATENCY, _) => word.saturating_add(link.latency),
                    (MTU, _) => link.mtu.min(*word),
                    (C_TOTAL | C_SINCE, GUARANTEED) => word.saturating_add(terms.rate_dependent),
                    (D_TOTAL | D_SINCE, GUARANTEED) => word.saturating_add(terms.rate_independent),
                    _ => *word,
                };
            }
        }
    }

    /// Sets the global break bit: there was a hop without RSVP.
    pub fn break_general(&mut self) {
        self.0[0].broken = true;
    }

    /// Whether every hop so far offers this service, as far as is known: 2 guaranteed, 5 controlled
    /// load.
    pub fn offers(&self, service: u8) -> bool {
        let fragment = self.0.iter().find(|fragment| fragment.service == service);
        !self.0[0].broken && fragment.is_some_and(|fragment| !fragment.broken)
    }

    /// The value of a general parameter that has one word.
    fn general(&self, id: u8) -> Option<u32> {
        let parameter = self.0[0].parameters.iter().find(|p| p.id == id)?;
        parameter.words.first().copied()
    }

    /// The IS hop count.
    pub fn hops(&self) -> Option<u32> {
        self.general(HOPS)
    }

    /// The path bandwidth estimate, in bytes per second.
    pub fn bandwidth(&self) -> Option<Real> {
        self.general(BANDWIDTH).and_then(Real::from_bits)
    }

    /// The composed path MTU.
    pub fn mtu(&self) -> Option<u32> {
        self.general(MTU)
    }
}

impl Parameter {
    /// The length in words. Encoding refuses what exceeds the 64 KiB of a message.
    fn length(&self) -> u16 {
        u16::try_from(self.words.len()).unwrap_or(u16::MAX)
    }
}

impl AdspecFragment {
    fn length(&self) -> u16 {
        let one = |parameter: &Parameter| parameter.length().saturating_add(1);
        self.parameters.iter().map(one).fold(0, u16::saturating_add)
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Misread> {
        let (service, flags, words) = (body.u8()?, body.u8()?, usize::from(body.u16()?));
        let mut data = Reader(body.take(words * 4)?);
        let parameters = data.all(|data| {
            let (id, flags, words) = (data.u8()?, data.u8()?, usize::from(data.u16()?));
            let words = Reader(data.take(words * 4)?).all(Reader::u32)?;
            Ok(Parameter { id, flags, words })
        })?;
        Ok(Self {
            service,
            broken: flags & BREAK != 0,
            parameters,
        })
    }
}

impl Object for Adspec {
    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, out: &mut Vec<u8>) {
        let one = |fragment: &AdspecFragment| fragment.length().saturating_add(1);
        head(0, 0, self.0.iter().map(one).fold(0, u16::saturating_add), out);
        for fragment in &self.0 {
            let flags = if fragment.broken { BREAK } else { 0 };
            head(fragment.service, flags, fragment.length(), out);
            for parameter in &fragment.parameters {
                head(parameter.id, parameter.flags, parameter.length(), out);
                out.extend(parameter.words.iter().flat_map(|word| word.to_be_bytes()));
            }
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 2 {
            return Err(Misread::CType);
        }
        header(body)?;
        Self::new(body.all(AdspecFragment::read)?).ok_or(Misread::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_control::ErrorTerms;

    fn fragment(service: u8, broken: bool, words: &[(u8, u32)]) -> AdspecFragment {
        let parameters = words.iter().map(|(id, word)| Parameter {
            id: *id,
            flags: 0,
            words: vec![*word],
        });
        AdspecFragment {
            service,
            broken,
            parameters: parameters.collect(),
        }
    }

    fn link(controlled_load: bool, guaranteed: Option<ErrorTerms>) -> Advertised {
        Advertised {
            bandwidth: Real::nearest(1_000_000),
            latency: 30,
            mtu: 1400,
            controlled_load,
            guaranteed,
        }
    }

    const TERMS: ErrorTerms = ErrorTerms {
        rate_dependent: 700,
        rate_independent: 90,
    };

    #[test]
    fn rfc_2210_3_3_a_hop_adds_its_part_to_every_parameter() {
        let mut adspec = Adspec::at_sender(Real::nearest(2_000_000), 100, 1500);
        adspec.cross(&link(true, Some(TERMS)));
        adspec.cross(&Advertised {
            bandwidth: Real::nearest(3_000_000),
            latency: u32::MAX,
            mtu: 9000,
            ..link(true, Some(TERMS))
        });
        let general = [
            (HOPS, 2),
            (BANDWIDTH, Real::nearest(1_000_000).bits()),
            (LATENCY, u32::MAX),
            (MTU, 1400),
        ];
        let errors = [(C_TOTAL, 1400), (D_TOTAL, 180), (C_SINCE, 1400), (D_SINCE, 180)];
        assert_eq!(
            adspec.fragments(),
            [
                fragment(GENERAL, false, &general),
                fragment(GUARANTEED, false, &errors),
                fragment(CONTROLLED_LOAD, false, &[]),
            ]
        );
        assert_eq!((adspec.hops(), adspec.mtu()), (Some(2), Some(1400)));
        assert_eq!(adspec.bandwidth(), Some(Real::nearest(1_000_000)));
    }

    #[test]
    fn a_service_is_offered_if_every_hop_offers_it() {
        for (controlled, guaranteed) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut adspec = Adspec::at_sender(Real::INFINITE, 0, 1500);
            adspec.cross(&link(true, Some(TERMS)));
            adspec.cross(&link(controlled, guaranteed.then_some(TERMS)));
            adspec.cross(&link(true, Some(TERMS)));
            assert_eq!(adspec.offers(CONTROLLED_LOAD), controlled);
            assert_eq!(adspec.offers(GUARANTEED), guaranteed);
            assert!(!adspec.offers(77), "nobody has told of it");
            adspec.break_general();
            assert!(!adspec.offers(CONTROLLED_LOAD) && !adspec.offers(GUARANTEED));
        }
    }

    #[test]
    fn a_service_that_no_hop_here_knows_is_broken_and_its_values_stay() {
        let Some(mut adspec) = Adspec::new(vec![
            fragment(GENERAL, false, &[(HOPS, u32::MAX)]),
            fragment(77, false, &[(C_TOTAL, 5), (D_SINCE, 6), (LATENCY, 7), (200, 8)]),
        ]) else {
            panic!("it is sound");
        };
        adspec.cross(&link(true, Some(TERMS)));
        assert_eq!(
            adspec.fragments(),
            [
                fragment(GENERAL, false, &[(HOPS, u32::MAX)]),
                fragment(77, true, &[(C_TOTAL, 5), (D_SINCE, 6), (LATENCY, 37), (200, 8)]),
            ]
        );
    }
}
