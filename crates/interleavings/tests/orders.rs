//! The models, each in every order.

#[test]
fn entries_of_a_ring_arrive_once_and_in_order() {
    interleavings::entries_of_a_ring();
}

#[test]
fn who_takes_spares_never_sleeps_beside_one() {
    interleavings::spares_that_are_taken();
}

#[test]
fn a_connection_has_the_whole_address_of_its_own_host_or_none() {
    interleavings::hosts_of_connections();
}

#[test]
fn no_frame_goes_neither_way_at_the_first_beats() {
    interleavings::frames_at_the_first_beats();
}
