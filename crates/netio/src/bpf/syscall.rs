//! bpf(2): maps, program loading, links. The layouts are those of the kernel's `union bpf_attr`.

#![expect(unsafe_code, reason = "bpf(2) takes structures by address")]

use super::instruction::{Instruction, Reference};
use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP: c_long = 1;
const MAP_UPDATE: c_long = 2;
const MAP_DELETE: c_long = 3;
const MAP_NEXT_KEY: c_long = 4;
const PROG_LOAD: c_long = 5;
const OBJECT_INFO: c_long = 15;
const PROG_QUERY: c_long = 16;
const LINK_CREATE: c_long = 28;
const LINK_BY_NUMBER: c_long = 30;
const LINK_DETACH: c_long = 34;

const MAP_ARRAY: u32 = 2;
const MAP_HASH: u32 = 1;
const MAP_LRU_HASH: u32 = 9;
const MAP_SOCKETS: u32 = 17;
const MAPPABLE: u32 = 1 << 10;
const WITH_FRAGMENTS: u32 = 1 << 5;
const LOG: usize = 512 * 1024;

/// The hook that a program runs at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// tcx or clsact ingress.
    Ingress,
    /// tcx or clsact egress.
    Egress,
    /// XDP in the driver.
    XdpNative,
    /// Generic XDP: on any device, after the driver; costs a copy.
    XdpGeneric,
}

impl Hook {
    /// Program type, attach type, link flags.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::Ingress => (3, 46, 0),
            Self::Egress => (3, 47, 0),
            Self::XdpNative => (6, 37, 1 << 2),
            Self::XdpGeneric => (6, 37, 1 << 1),
        }
    }

    pub(super) fn is_xdp(self) -> bool {
        matches!(self, Self::XdpNative | Self::XdpGeneric)
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// A loaded program.
#[derive(Debug)]
pub struct BpfProgram {
    fd: OwnedFd,
    name: &'static str,
    hook: Hook,
}

impl BpfProgram {
    pub(super) fn hook(&self) -> Hook {
        self.hook
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Its descriptor as a number of `union bpf_attr`.
    pub(super) fn number(&self) -> u32 {
        self.fd.as_raw_fd().unsigned_abs()
    }
}

/// An attached program. It is detached when this is dropped, and when the process ends in any way.
#[derive(Debug)]
#[must_use = "the program is detached when its link is dropped"]
pub(super) struct Link {
    link: OwnedFd,
    hook: Hook,
}

impl Link {
    pub(super) fn is_xdp(&self) -> bool {
        self.hook.is_xdp()
    }

    /// Whether the program is still at its interface: anyone with the privilege may detach it, and
    /// then the link is left. Also if the kernel does not tell.
    pub(super) fn is_attached(&self) -> bool {
        LinkInfo::of(self.link.as_fd()).is_none_or(|info| info.interface != 0)
    }
}

/// What the kernel tells of a link of a hook of an interface.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    number: u32,
    program: u32,
    padding: u32,
    /// 0 once it is detached.
    interface: u32,
    attach: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoRequest {
    descriptor: u32,
    length: u32,
    info: u64,
}

impl LinkInfo {
    fn of(link: BorrowedFd<'_>) -> Option<Self> {
        let mut info = Self::default();
        let mut attr = InfoRequest {
            descriptor: link.as_raw_fd().unsigned_abs(),
            length: u32::try_from(size_of::<Self>()).ok()?,
            info: std::ptr::from_mut(&mut info) as u64,
        };
        // SAFETY: `info` is as long as said, and lives until the call returns.
        unsafe { bpf(OBJECT_INFO, &mut attr) }.ok()?;
        Some(info)
    }
}

#[repr(C)]
#[derive(Default)]
struct Query {
    interface: u32,
    attach: u32,
    flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

/// Detaches all programs, also those of others, that are at the hooks of the network stack of this
/// interface by links, as `bpftool link detach` does: for tests of what is said of it. How many
/// there were.
///
/// # Errors
///
/// Returns an error if the kernel does not list the links, or does not detach them.
pub fn detach_all(interface: u32) -> io::Result<usize> {
    let mut detached = 0;
    for hook in [Hook::Ingress, Hook::Egress] {
        let (mut programs, mut links) = ([0u32; 64], [0u32; 64]);
        let (_, attach, _) = hook.numbers();
        let mut query = Query {
            interface,
            attach,
            programs: programs.as_mut_ptr() as u64,
            links: links.as_mut_ptr() as u64,
            count: 64,
            ..Query::default()
        };
        // SAFETY: both lists are as long as said, and live until the call returns.
        unsafe { bpf(PROG_QUERY, &mut query) }?;
        let listed = links.iter().take(query.count as usize);
        for &(mut number) in listed.filter(|number| **number != 0) {
            // SAFETY: no addresses in it.
            let link = unsafe { descriptor(LINK_BY_NUMBER, &mut number) }?;
            let mut link_number = link.as_raw_fd().unsigned_abs();
            // SAFETY: as above.
            unsafe { bpf(LINK_DETACH, &mut link_number) }?;
            detached += 1;
        }
    }
    Ok(detached)
}

/// # Safety
/// The addresses within `attr` are valid for what `command` does with them.
unsafe fn bpf<T>(command: c_long, attr: &mut T) -> io::Result<i64> {
    // SAFETY: `attr` has the kernel's layout and its length is given; the caller guarantees the
    // rest.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// As [`bpf`], for commands that return a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn descriptor<T>(command: c_long, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees it.
    let fd = unsafe { bpf(command, attr) }?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The error with what was attempted and, if known, what is missing.
fn explain(what: &str, error: &io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            ": needs the capabilities CAP_BPF and CAP_NET_ADMIN (run as root, or grant them to the program)"
        }
        Some(libc::ENOSYS) => ": this kernel was built without bpf(2)",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what}: {error}{hint}"))
}

/// A map of one element of this size, which can be mapped into memory.
pub(super) fn new_cell(bytes: usize) -> io::Result<OwnedFd> {
    let value = u32::try_from(bytes).map_err(io::Error::other)?;
    let mut attr = MapCreate {
        kind: MAP_ARRAY,
        key: 4,
        value,
        entries: 1,
        flags: MAPPABLE,
    };
    // SAFETY: no addresses in it.
    unsafe { descriptor(MAP_CREATE, &mut attr) }.map_err(|e| explain("making the heartbeat cell", &e))
}

/// A map from receive queues to AF_XDP sockets.
///
/// # Errors
///
/// Returns an error if the kernel has no AF_XDP, or refuses to make the map.
pub fn new_socket_map(queues: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: MAP_SOCKETS,
        key: 4,
        value: 4,
        entries: queues,
        flags: 0,
    };
    let what = "making the map of AF_XDP sockets";
    // SAFETY: no addresses in it.
    unsafe { descriptor(MAP_CREATE, &mut attr) }.map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => io::Error::new(
            e.kind(),
            format!("{what}: {e}: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"),
        ),
        _ => explain(what, &e),
    })
}

/// Enters the socket of a receive queue into the map.
///
/// # Errors
///
/// Returns an error if the kernel refuses the entry, for example because the map has no such queue.
pub fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let (map, socket) = (map.as_raw_fd(), socket.as_raw_fd());
    let mut attr = MapUpdate {
        map: u64::from(map.unsigned_abs()),
        key: std::ptr::from_ref(&queue) as u64,
        value: std::ptr::from_ref(&socket) as u64,
        flags: 0,
    };
    // SAFETY: key and value are four bytes each, as in the map, and live until the call returns.
    unsafe { bpf(MAP_UPDATE, &mut attr) }
        .map_err(|e| explain("entering an AF_XDP socket into its map", &e))?;
    Ok(())
}

/// What a full hash map does with a new key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WhenFull {
    /// Refuses it.
    Refuse,
    /// Evicts the least recently used one.
    Evict,
}

/// A hash map with keys and values of these sizes.
pub(super) fn new_hash(key: usize, value: usize, entries: u32, full: WhenFull) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: match full {
            WhenFull::Refuse => MAP_HASH,
            WhenFull::Evict => MAP_LRU_HASH,
        },
        key: u32::try_from(key).map_err(io::Error::other)?,
        value: u32::try_from(value).map_err(io::Error::other)?,
        entries,
        flags: 0,
    };
    // SAFETY: no addresses in it.
    unsafe { descriptor(MAP_CREATE, &mut attr) }.map_err(|e| explain("making a map of connections", &e))
}

/// A map made by [`new_hash`], with keys of `K` and values of `V` bytes.
#[derive(Debug)]
pub(super) struct Hash<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> Hash<K, V> {
    pub(super) fn new(entries: u32, full: WhenFull) -> io::Result<Self> {
        new_hash(K, V, entries, full).map(Self)
    }

    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn attr(&self, key: Option<&[u8; K]>, value: u64) -> MapUpdate {
        MapUpdate {
            map: u64::from(self.0.as_raw_fd().unsigned_abs()),
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value,
            flags: 0,
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8; K]) -> Option<[u8; V]> {
        let mut value = [0; V];
        let mut attr = self.attr(Some(key), value.as_mut_ptr() as u64);
        // SAFETY: keys are K bytes and values V bytes, as in the map; both live until the call
        // returns.
        unsafe { bpf(MAP_LOOKUP, &mut attr) }.is_ok().then_some(value)
    }

    /// Enters a value.
    pub(super) fn set(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut attr = self.attr(Some(key), value.as_ptr() as u64);
        // SAFETY: as in `get`.
        unsafe { bpf(MAP_UPDATE, &mut attr) }
            .map_err(|e| explain("entering a connection into its map", &e))?;
        Ok(())
    }

    /// Removes a key, if present.
    pub(super) fn remove(&self, key: &[u8; K]) {
        let mut attr = self.attr(Some(key), 0);
        // SAFETY: as in `get`; the value is not read.
        let _ = unsafe { bpf(MAP_DELETE, &mut attr) };
    }

    /// All keys, at most so many. One that is entered or removed meanwhile may be missing.
    pub(super) fn keys(&self, most: usize) -> Vec<[u8; K]> {
        let mut keys: Vec<[u8; K]> = Vec::new();
        while keys.len() < most {
            let mut next = [0; K];
            let mut attr = self.attr(keys.last(), next.as_mut_ptr() as u64);
            // SAFETY: as in `get`; the next key is written in place of a value, and is K bytes.
            if unsafe { bpf(MAP_NEXT_KEY, &mut attr) }.is_err() {
                break;
            }
            keys.push(next);
        }
        keys
    }
}

/// Loads a program and fills in its references to the cell and to the socket map.
///
/// # Errors
///
/// Returns an error if the kernel refuses to load the program.
pub fn load(
    name: &'static str,
    hook: Hook,
    fragments: bool,
    program: &[Instruction],
    cell: BorrowedFd<'_>,
    sockets: Option<BorrowedFd<'_>>,
) -> io::Result<BpfProgram> {
    load_with(name, hook, fragments, program, |reference| match reference {
        Reference::Cell => cell.as_raw_fd(),
        _ => sockets.map_or(-1, |sockets| sockets.as_raw_fd()),
    })
}

/// Loads a program and fills in each reference with the number of a descriptor.
pub(super) fn load_with(
    name: &'static str,
    hook: Hook,
    fragments: bool,
    program: &[Instruction],
    number: impl Fn(Reference) -> i32,
) -> io::Result<BpfProgram> {
    let fill = |instruction: &Instruction| match instruction.reference() {
        Some(reference) => instruction.with_immediate(number(reference)),
        None => *instruction,
    };
    let program: Vec<Instruction> = program.iter().map(fill).collect();
    let mut log = vec![0u8; LOG];
    let (kind, attach, _) = hook.numbers();
    let mut attr = ProgLoad {
        kind,
        count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 1,
        log_size: LOG as u32,
        log: log.as_mut_ptr() as u64,
        flags: if fragments { WITH_FRAGMENTS } else { 0 },
        // Only XDP sets the attach type: older kernels refuse those of tcx here.
        attach: if kind == 6 { attach } else { 0 },
        ..ProgLoad::default()
    };
    for (to, from) in attr.name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: instructions, licence and log are valid for their lengths and live until the call
    // returns.
    let loaded = unsafe { descriptor(PROG_LOAD, &mut attr) };
    let fd = loaded.map_err(|e| {
        let text = String::from_utf8_lossy(log.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
        let last = text
            .lines()
            .rev()
            .find(|line| !line.starts_with("processed"))
            .unwrap_or("");
        let what = format!("loading the BPF program {name}");
        if last.is_empty() {
            return explain(&what, &e);
        }
        // The verifier's "permission denied" is about the program, not about capabilities.
        io::Error::new(e.kind(), format!("{what}: {e} (verifier: {last})"))
    })?;
    Ok(BpfProgram { fd, name, hook })
}

/// Where a program is attached among those that are at its hook already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookPlace {
    /// Before all of them: Linux 6.6 or later.
    First,
    /// After all of them.
    Last,
}

/// `BPF_F_BEFORE`: before the program named; none is named, so before all.
const BEFORE: u32 = 1 << 3;

/// Attaches a program to an interface by a link.
pub(super) fn link(program: &BpfProgram, interface: u32, place: HookPlace) -> io::Result<Link> {
    let (_, attach, flags) = program.hook.numbers();
    let flags = flags | if place == HookPlace::First { BEFORE } else { 0 };
    let mut attr = LinkCreate {
        program: program.number(),
        interface,
        attach,
        flags,
        ..LinkCreate::default()
    };
    // SAFETY: no addresses in it.
    let fd = unsafe { descriptor(LINK_CREATE, &mut attr) }?;
    Ok(Link {
        link: fd,
        hook: program.hook,
    })
}

/// Why a link could not be made, and what to do.
pub(super) fn refused(hook: Hook, error: &io::Error) -> io::Error {
    let hint = match (hook, error.raw_os_error()) {
        (Hook::XdpNative, Some(libc::EOPNOTSUPP)) => {
            "the driver has no XDP, or not for this MTU: use the generic mode"
        }
        (Hook::XdpNative | Hook::XdpGeneric, Some(libc::EBUSY | libc::EEXIST)) => {
            "another XDP program is attached to this interface: detach that one first"
        }
        (Hook::XdpNative | Hook::XdpGeneric, Some(libc::EINVAL)) => {
            "XDP links need Linux 5.9 or later, and in native mode an MTU that the driver supports with XDP"
        }
        _ => return explain("attaching the BPF program", error),
    };
    io::Error::new(
        error.kind(),
        format!("attaching the BPF program: {error}: {hint}"),
    )
}
