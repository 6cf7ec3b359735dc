//! ADSPEC: what the path offers, gathered on the way to the receivers (RFC 2210, section 3.3; RFC 2215).
//!
//! Kept as services with parameters, so that what is not known passes through unharmed.

use super::intserv::{GENERAL, Real, head, header};
use super::object::Object;
use super::reader::{Misread, Reader};

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
const BREAK: u8 = 0x80;

impl Adspec {
    /// From its parts, if the general one is first.
    pub fn new(fragments: Vec<Fragment>) -> Option<Self> {
        let general = fragments.first().is_some_and(|first| first.service == GENERAL);
        general.then_some(Self(fragments))
    }

    /// What a sender starts with: no hop so far, and the bandwidth and MTU of its own link.
    pub fn at_sender(bandwidth: Real, latency: u32, mtu: u32) -> Self {
        let parameters = [
            (HOPS, 0),
            (BANDWIDTH, bandwidth.bits()),
            (LATENCY, latency),
            (MTU, mtu),
        ];
        let parameters = parameters.map(|(id, word)| Parameter {
            id,
            flags: 0,
            words: vec![word],
        });
        Self(vec![Fragment {
            service: GENERAL,
            broken: false,
            parameters: parameters.to_vec(),
        }])
    }

    /// Its parts.
    pub fn fragments(&self) -> &[Fragment] {
        &self.0
    }

    /// One more IntServ hop, with a link of this bandwidth, latency in microseconds and MTU (RFC 2215, section 3).
    pub fn cross(&mut self, bandwidth: Real, latency: u32, mtu: u32) {
        for parameter in &mut self.0[0].parameters {
            let [word] = parameter.words.as_mut_slice() else {
                continue;
            };
            *word = match parameter.id {
                HOPS => word.saturating_add(1),
                BANDWIDTH => bandwidth.bits().min(*word),
                // All ones say that the latency is not known, and stay.
                LATENCY => word.saturating_add(latency),
                MTU => mtu.min(*word),
                _ => *word,
            };
        }
    }

    /// A hop without RSVP was crossed: nothing is certain any more.
    pub fn break_general(&mut self) {
        self.0[0].broken = true;
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
