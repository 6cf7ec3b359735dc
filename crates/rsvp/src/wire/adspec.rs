//! ADSPEC: what the path offers, gathered on the way to the receivers (RFC 2210, section 3.3; RFC 2215).
//!
//! Kept as services with parameters, so that what is not known passes through unharmed.

use super::intserv::{CONTROLLED_LOAD, GENERAL, GUARANTEED, Real, head, header};
use super::object::Object;
use super::reader::{Misread, Reader};
use crate::traffic_control::{Advertised, ErrorTerms};

/// One service's part. The first is that of the general parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The service: 1 general, 2 guaranteed, 5 controlled load.
    pub service: u8,
    /// The break bit: some hop does not offer it.
    pub broken: bool,
    /// What is known of it.
    pub parameters: Vec<Parameter>,
}

/// One number, or several, about a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Which parameter.
    pub id: u8,
    /// The top bit says that the value is not valid.
    pub flags: u8,
    /// The value.
    pub words: Vec<u32>,
}

/// The contents of ADSPEC; never empty, general parameters first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adspec(Vec<Fragment>);

/// Number of IntServ hops.
const HOPS: u8 = 4;
/// Smallest link bandwidth so far, bytes per second.
const BANDWIDTH: u8 = 6;
/// Sum of latencies, microseconds.
const LATENCY: u8 = 8;
/// Smallest MTU so far.
const MTU: u8 = 10;
/// Error terms of guaranteed service (RFC 2212): C and D over the whole path, and since the last node that reshapes.
const C_TOTAL: u8 = 133;
const D_TOTAL: u8 = 134;
const C_SINCE: u8 = 135;
const D_SINCE: u8 = 136;
const BREAK: u8 = 0x80;

impl Adspec {
    /// From its parts, if the general one is first.
    pub fn new(fragments: Vec<Fragment>) -> Option<Self> {
        let general = fragments.first().is_some_and(|first| first.service == GENERAL);
        general.then_some(Self(fragments))
    }

    /// What a sender starts with: no hop so far, the bandwidth and MTU of its own link, and both services, so that the
    /// nodes on the way say whether they have them.
    pub fn at_sender(bandwidth: Real, latency: u32, mtu: u32) -> Self {
        let general = [
            (HOPS, 0),
            (BANDWIDTH, bandwidth.bits()),
            (LATENCY, latency),
            (MTU, mtu),
        ];
        let errors = [C_TOTAL, D_TOTAL, C_SINCE, D_SINCE].map(|id| (id, 0));
        let fragment = |service, parameters: &[(u8, u32)]| Fragment {
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

    /// Its parts.
    pub fn fragments(&self) -> &[Fragment] {
        &self.0
    }

    /// One more IntServ hop, with a link that has this to offer (RFC 2215, section 3; RFC 2210, section 3.3): numbers
    /// are added up or held down, also where a service has its own; a service that is not offered gets its break bit.
    pub fn cross(&mut self, link: &Advertised) {
        let terms = link.guaranteed.unwrap_or(ErrorTerms {
            rate_dependent: 0,
            rate_independent: 0,
        });
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
                    // All ones say that the latency is not known, and stay.
                    (LATENCY, _) => word.saturating_add(link.latency),
                    (MTU, _) => link.mtu.min(*word),
                    (C_TOTAL | C_SINCE, GUARANTEED) => word.saturating_add(terms.rate_dependent),
                    (D_TOTAL | D_SINCE, GUARANTEED) => word.saturating_add(terms.rate_independent),
                    _ => *word,
                };
            }
        }
    }

    /// A hop without RSVP was crossed: nothing is certain any more.
    pub fn break_general(&mut self) {
        self.0[0].broken = true;
    }

    /// Whether every node so far offers this service, as far as is known: 2 guaranteed, 5 controlled load.
    pub fn offers(&self, service: u8) -> bool {
        let fragment = self.0.iter().find(|fragment| fragment.service == service);
        !self.0[0].broken && fragment.is_some_and(|fragment| !fragment.broken)
    }

    /// The value of a general parameter of one word.
    fn general(&self, id: u8) -> Option<u32> {
        let parameter = self.0[0].parameters.iter().find(|p| p.id == id)?;
        parameter.words.first().copied()
    }

    /// IntServ hops so far.
    pub fn hops(&self) -> Option<u32> {
        self.general(HOPS)
    }

    /// The smallest link bandwidth so far, in bytes per second.
    pub fn bandwidth(&self) -> Option<Real> {
        self.general(BANDWIDTH).and_then(Real::from_bits)
    }

    /// The smallest MTU so far.
    pub fn mtu(&self) -> Option<u32> {
        self.general(MTU)
    }
}

impl Parameter {
    /// A length in words. What is beyond a message's 64 KiB is refused when the message is encoded.
    fn length(&self) -> u16 {
        u16::try_from(self.words.len()).unwrap_or(u16::MAX)
    }
}

impl Fragment {
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
        let one = |fragment: &Fragment| fragment.length().saturating_add(1);
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
        Self::new(body.all(Fragment::read)?).ok_or(Misread::Value)
    }
}
