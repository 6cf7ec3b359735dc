//! Objects: length, class, C-Type, and contents in whole words (RFC 2205, section 3.1.2).

use super::reader::{Misread, Reader};
use core::net::IpAddr;

/// The contents of an object. The class is not part of it, since some classes share their format.
pub(super) trait Object: Sized {
    /// The C-Type.
    fn c_type(&self) -> u8;
    /// Appends the contents to a message.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the contents of this C-Type.
    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread>;
}

/// An object that is carried without being interpreted: POLICY_DATA, and unknown classes to be
/// forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opaque {
    /// The class.
    pub class: u8,
    /// The C-Type.
    pub c_type: u8,
    /// The contents, in whole words.
    pub data: Vec<u8>,
}

/// An undecoded object.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub class: u8,
    pub c_type: u8,
    pub data: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Takes the next object of a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the message ends too early, or the object's length is below 4 or no
    /// multiple of 4.
    pub fn next(message: &mut Reader<'a>) -> Result<Self, Misread> {
        let length = usize::from(message.u16()?);
        let (class, c_type) = (message.u8()?, message.u8()?);
        if length < 4 || length % 4 != 0 {
            return Err(Misread::Length);
        }
        let data = message.take(length - 4)?;
        Ok(Self { class, c_type, data })
    }

    /// Decodes the contents, which must be read to the last byte.
    ///
    /// # Errors
    ///
    /// Returns an error if the contents are not those of a `T`, or bytes are left over.
    pub fn read<T: Object>(&self) -> Result<T, Misread> {
        let mut body = Reader(self.data);
        let object = T::read(self.c_type, &mut body)?;
        if body.is_empty() {
            Ok(object)
        } else {
            Err(Misread::Length)
        }
    }

    /// A copy, not interpreted.
    pub fn opaque(&self) -> Opaque {
        Opaque {
            class: self.class,
            c_type: self.c_type,
            data: self.data.to_vec(),
        }
    }
}

/// The C-Type of an address family in most classes: 1 for IPv4, 2 for IPv6.
pub(super) const fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    }
}

/// Appends an address.
pub(super) fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => out.extend(v4.octets()),
        IpAddr::V6(v6) => out.extend(v6.octets()),
    }
}

/// Reads an address of the family that the C-Type selects.
pub(super) fn read_address(c_type: u8, body: &mut Reader<'_>) -> Result<IpAddr, Misread> {
    match c_type {
        1 => body.v4().map(IpAddr::V4),
        2 => body.v6().map(IpAddr::V6),
        _ => Err(Misread::CType),
    }
}
