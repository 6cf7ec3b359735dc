//! What others do to an interface that suimon manages, as `tc` and `ip` would, in the namespace of
//! the calling thread.

use netio::netlink::{Netlink, NetlinkRequest};

/// As `tc qdisc add dev NAME root handle 7: pfifo` does.
pub fn choose_a_qdisc(name: &str) -> std::io::Result<()> {
    const KIND: u16 = 1;
    let interface = netio::interface::Interface::named(name)?.index;
    let mut head = [0; 20];
    for (at, value) in [(4, interface), (8, 7 << 16), (12, u32::MAX)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = NetlinkRequest::new(libc::RTM_NEWQDISC, flags, &head).text(KIND, "pfifo");
    Netlink::open()?.ask(request).map(drop)
}

/// As `tc qdisc del dev NAME root` does.
pub fn remove_the_qdisc(name: &str) -> std::io::Result<()> {
    let interface = netio::interface::Interface::named(name)?.index;
    let mut head = [0; 20];
    for (at, value) in [(4, interface), (12, u32::MAX)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let request = NetlinkRequest::new(libc::RTM_DELQDISC, 0, &head);
    Netlink::open()?.ask(request).map(drop)
}

/// As `ip link set NAME nomaster` does.
pub fn leave_the_bridge(name: &str) -> std::io::Result<()> {
    let interface = netio::interface::Interface::named(name)?.index;
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&interface.to_ne_bytes());
    let request = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &head).number(libc::IFLA_MASTER, 0);
    Netlink::open()?.ask(request).map(drop)
}
