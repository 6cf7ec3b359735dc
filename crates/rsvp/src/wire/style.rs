//! STYLE and the flow descriptor list (RFC 2205, section 3.1.4 and appendix A.7).

use super::object::Object;
use super::reader::{Misread, Reader};
use super::session::SenderTemplate;

/// STYLE: how reservations for the senders of a session share resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// WF (wildcard filter): one reservation, shared by all senders.
    Wildcard,
    /// FF (fixed filter): a reservation for each sender.
    Fixed,
    /// SE (shared explicit): one reservation, shared by listed senders.
    SharedExplicit,
    /// An unknown option vector, 24 bits.
    Unknown(u32),
}

impl Style {
    /// The option vector, 24 bits.
    pub const fn options(self) -> u32 {
        match self {
            Self::Wildcard => 0x11,
            Self::Fixed => 0x0a,
            Self::SharedExplicit => 0x12,
            Self::Unknown(options) => options & 0x00ff_ffff,
        }
    }
}

impl Object for Style {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.options().to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 1 {
            return Err(Misread::CType);
        }
        Ok(match body.u32()? & 0x00ff_ffff {
            0x11 => Self::Wildcard,
            0x0a => Self::Fixed,
            0x12 => Self::SharedExplicit,
            options => Self::Unknown(options),
        })
    }
}

/// STYLE with its flow descriptor list. `F` is the flowspec; `()` in a ResvTear, which ignores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Descriptors<F> {
    /// WF: one flowspec.
    Wildcard(F),
    /// FF: a flowspec for each sender; at least one.
    Fixed(Vec<(F, SenderTemplate)>),
    /// SE: one flowspec for these senders; at least one.
    SharedExplicit(F, Vec<SenderTemplate>),
    /// An unknown style; the objects after it as they came, to be returned in an error.
    Unknown(u32, Vec<u8>),
}

impl<F> Descriptors<F> {
    /// The style.
    pub const fn style(&self) -> Style {
        match self {
            Self::Wildcard(_) => Style::Wildcard,
            Self::Fixed(_) => Style::Fixed,
            Self::SharedExplicit(..) => Style::SharedExplicit,
            Self::Unknown(options, _) => Style::Unknown(*options),
        }
    }
}
