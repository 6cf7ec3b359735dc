//! Lines of which nine has no easy witness: a buffer too shallow for a queue that RTTs show, and a
//! host whose own address is that of loopback.

use super::rig::{CUBIC, Rig};
use super::until::until;
use super::{FILES, LONG, NOBODY, PATIENCE, reasons};

/// That the download under nine yields to what the interface counts of another one.
fn yields_to_what_is_counted(rig: &Rig) {
    let low = rig.nine(&["--", "bash", "-c", &Rig::download(CUBIC, "low")]);
    assert!(until(PATIENCE, || rig.sent("low") > 5_000_000), "{}", rig.top());
    let high = rig.high("cubic", LONG);
    let is_so = || {
        let reasons = reasons(&rig.top());
        !reasons.is_empty() && reasons.iter().all(|why| why.starts_with("yields to"))
    };
    assert!(until(PATIENCE, is_so), "{:#}", rig.top());
    drop((high, low));
}

#[test]
fn the_rate_over_a_shallow_buffer_is_known_by_its_losses() {
    lab::isolated_as(NOBODY, FILES, || {
        // A quarter of a bandwidth-delay product: eight packets.
        yields_to_what_is_counted(&Rig::new(20, 12_500));
    });
}

#[test]
fn a_host_whose_address_is_loopbacks_has_the_link_of_its_route() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let own = "10.0.9.1/32".parse().expect("an address");
        rig.home.address("lo", own).expect("set");
        for (host, words) in [
            (&rig.home, "route replace 10.0.0.0/24 dev eth0 src 10.0.9.1"),
            (&rig.server, "route add 10.0.9.1 via 10.0.0.1"),
        ] {
            let done = host.program("ip").args(words.split(' ')).output();
            let done = done.expect("ip runs");
            assert!(done.status.success(), "{words}: {done:?}");
        }
        yields_to_what_is_counted(&rig);
    });
}
