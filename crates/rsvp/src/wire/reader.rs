//! Reads fields from a bounded part of a message. Every read is checked against the end.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Why an object cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misread {
    /// The class has no such C-Type.
    CType,
    /// Too short or too long.
    Length,
    /// A field has an invalid value.
    Value,
    /// An unknown IntServ service.
    Service,
}

/// The bytes not read yet.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than `N` bytes are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Misread> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Misread::Length)?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than `n` bytes are left.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Misread> {
        let (first, rest) = self.0.split_at_checked(n).ok_or(Misread::Length)?;
        self.0 = rest;
        Ok(first)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// Returns an error if no byte is left.
    pub fn u8(&mut self) -> Result<u8, Misread> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes in network order.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than two bytes are left.
    pub fn u16(&mut self) -> Result<u16, Misread> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes in network order.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than four bytes are left.
    pub fn u32(&mut self) -> Result<u32, Misread> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes in network order.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than eight bytes are left.
    pub fn u64(&mut self) -> Result<u64, Misread> {
        self.array().map(u64::from_be_bytes)
    }

    /// An IPv4 address.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than four bytes are left.
    pub fn v4(&mut self) -> Result<Ipv4Addr, Misread> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    /// An IPv6 address.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer than sixteen bytes are left.
    pub fn v6(&mut self) -> Result<Ipv6Addr, Misread> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// Reads items until no bytes are left.
    ///
    /// # Errors
    ///
    /// Returns an error if an item cannot be read.
    pub fn all<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Misread>,
    ) -> Result<Vec<T>, Misread> {
        let mut list = Vec::new();
        while !self.is_empty() {
            list.push(one(self)?);
        }
        Ok(list)
    }
}
