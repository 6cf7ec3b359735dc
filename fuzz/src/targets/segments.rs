//! Super-frames: cut into segments, and their checksums.

use super::FuzzTarget;
use crate::mutate::InputShape;
use engine::header::{Family, Headers};
use netio::checksum;
use netio::pool::{Pool, Slots};
use netio::segment::{Cut, cut};
use netio::vnet;

/// Slots of each size: what is left after a run is compared with it.
const SLOTS: Slots = Slots { small: 48, big: 8 };

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "segments",
    about: "an offload header and a frame: payload kept, headers and checksums right, no slot lost",
    shape: InputShape::Binary(6_000),
    tree: &[],
    make: || {
        let mut pool = Pool::new(SLOTS).unwrap_or_else(|e| panic!("a pool: {e}"));
        Box::new(move |input| judge(input, &mut pool))
    },
};

fn judge(input: &[u8], pool: &mut Pool) {
    let Some((header, frame)) = input.split_first_chunk::<{ vnet::LEN }>() else {
        return;
    };
    let Some(offload) = vnet::decode(*header) else {
        return;
    };
    assert_eq!(vnet::decode(vnet::encode(&offload)), Some(offload));
    if let Some(unfinished) = offload.checksum {
        let mut finished = frame.to_vec();
        if !checksum::finish(&mut finished, unfinished) {
            assert_eq!(finished, frame, "changed what it refused");
        }
    }
    let headers = Headers::parse(frame, 0);
    let Some(plan) = Cut::of(frame, &offload, &headers) else {
        return;
    };
    let Some(buffer) = pool.put(frame, offload) else {
        return;
    };
    let used = |pool: &Pool| pool.usage().map(|size| size.used).iter().sum::<u32>();
    let mut pieces = Vec::new();
    if !cut(pool, buffer, &plan, true, &mut pieces) {
        assert!(pieces.is_empty() && used(pool) == 1 && pool.bytes(buffer) == frame);
        pool.free(buffer);
        return;
    }
    assert_eq!(pieces.len(), plan.count);
    assert_eq!(
        used(pool) as usize,
        plan.count,
        "a slot was lost, or one is used twice"
    );
    let mut payload = Vec::new();
    let mut wire = 0;
    for piece in &pieces {
        let bytes = pool.bytes(*piece);
        assert!(bytes.len() <= plan.longest(frame.len()));
        payload.extend_from_slice(&bytes[plan.header..]);
        wire += bytes.len();
        check_sum(bytes, &headers);
    }
    assert_eq!(payload, frame[plan.header..]);
    assert_eq!(wire, plan.on_wire(frame.len()));
    pieces.into_iter().for_each(|piece| pool.free(piece));
    assert_eq!(used(pool), 0);
}

/// The transport's checksum over the pseudo-header, computed anew.
fn check_sum(frame: &[u8], headers: &Headers) {
    assert!(headers.l3.and(headers.l4).is_some(), "segments without headers");
    // A segment is as long as its frame, whatever the whole packet's header said.
    let sum = sum_until(frame, frame.len(), headers);
    assert!(sum == 0xffff, "the checksum of a segment is wrong");
}

/// The sum over the transport's part of a packet and its pseudo-header: 0xffff where its checksum
/// is right.
pub(super) fn transport_sum(frame: &[u8], headers: &Headers) -> u16 {
    let end = headers.l3.map_or(0, usize::from) + headers.l3_len as usize;
    sum_until(frame, end.min(frame.len()), headers)
}

fn sum_until(frame: &[u8], end: usize, headers: &Headers) -> u16 {
    let (Some(l3), Some(l4)) = (headers.l3.map(usize::from), headers.l4.map(usize::from)) else {
        return 0;
    };
    let addresses = match headers.key.family {
        Family::V6 => &frame[l3 + 8..l3 + 40],
        _ => &frame[l3 + 12..l3 + 20],
    };
    let transport = &frame[l4..end.max(l4)];
    let mut pseudo = addresses.to_vec();
    pseudo.extend_from_slice(&(transport.len() as u32).to_be_bytes());
    pseudo.extend_from_slice(&[0, headers.key.protocol]);
    checksum::fold(checksum::add(checksum::add(0, &pseudo), transport))
}
