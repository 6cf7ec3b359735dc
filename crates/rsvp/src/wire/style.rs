//! STYLE and the flow descriptors that follow it (RFC 2205, section 3.1.4 and appendix A.7).

use super::object::Object;
use super::reader::{Misread, Reader};
use super::session::SenderTemplate;

/// How reservations of several senders and receivers go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// WF: one reservation for all senders.
    Wildcard,
    /// FF: one reservation for each sender.
    Fixed,
    /// SE: one reservation for the senders that are named.
    SharedExplicit,
    /// An option vector that is not known; 24 bits, none of the three.
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

/// The style and what it applies to. `F` is the flowspec; `()` in a tear, which has no use for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Descriptors<F> {
    /// One flowspec for everyone.
    Wildcard(F),
    /// A flowspec for each sender; at least one.
    Fixed(Vec<(F, SenderTemplate)>),
    /// One flowspec for these senders; at least one.
    SharedExplicit(F, Vec<SenderTemplate>),
    /// A style that is not known; the objects behind it as they came, to be sent back.
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
