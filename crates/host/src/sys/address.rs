//! The addresses of this host's interfaces.
#![expect(
    unsafe_code,
    reason = "getifaddrs returns a C list, if_indextoname a C string"
)]

use super::check;
use super::socket::address_of;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::IpAddr;
use std::ptr::{copy_nonoverlapping, null_mut};

/// The name of the interface with this index.
pub(crate) fn name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the call writes a name that ends in zero, of at most so many bytes, or none.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: it has written such a name.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(name.to_string_lossy().into_owned())
}

/// The interface of each address of this host.
pub(crate) fn interfaces() -> io::Result<BTreeMap<IpAddr, String>> {
    let mut found = BTreeMap::new();
    let mut first: *mut libc::ifaddrs = null_mut();
    // SAFETY: the list is freed once below and not read after that.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut at = first;
    while !at.is_null() {
        // SAFETY: a node of the list. Its name ends in zero; its address, if any, has the length of
        // its family.
        unsafe {
            let node = &*at;
            at = node.ifa_next;
            if node.ifa_addr.is_null() {
                continue;
            }
            let len = match i32::from((*node.ifa_addr).sa_family) {
                libc::AF_INET => size_of::<libc::sockaddr_in>(),
                libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
                _ => continue,
            };
            let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
            copy_nonoverlapping(node.ifa_addr.cast::<u8>(), storage.as_mut_ptr().cast::<u8>(), len);
            let name = CStr::from_ptr(node.ifa_name).to_string_lossy().into_owned();
            if let Some(address) = address_of(&storage.assume_init()) {
                found.insert(address.ip(), name);
            }
        }
    }
    // SAFETY: as above.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}
