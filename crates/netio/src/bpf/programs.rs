//! The programs. Each first checks whether the port is alive, and lets the frame pass if it is not.
//!
//! A bump in the wire runs above a plain kernel bridge. The bridge forwards while we are away, and
//! must not forward a second copy while we are there. Who forwards what while the port is alive:
//!
//! | frame that arrives on one side | AF_PACKET | AF_XDP |
//! |---|---|---|
//! | to the address of the bridge or of the port | the kernel | the kernel |
//! | to a group (broadcast, ARP requests, multicast) | both: the kernel for itself, we for the other side; [`ECHO`] drops the bridge's copy at egress | the kernel, unshaped: XDP cannot both redirect and pass a frame |
//! | to 01-80-C2-00-00-0x (spanning tree, link discovery) | the kernel | the kernel |
//! | to any other host | we; [`TAKE`] drops the original after the packet socket had its copy | we, by [`TO_SOCKET`] |
//!
//! A router that is also the bridge therefore keeps its own addresses reachable, the bridge keeps
//! learning stations from their broadcasts, and no frame crosses twice. What the bridge itself
//! sends is not shaped; that is the egress port's work. The bridge must have no third port: frames
//! that it would have forwarded there go to the other side instead.
//!
//! What we send bypasses the qdisc, and with it tcx and clsact (`PACKET_QDISC_BYPASS`, AF_XDP): no
//! program sees it again.

use super::heartbeat::Word;
use super::instruction::Register::{R0, R1, R2, R3, R4, R5, R6, R7};
use super::instruction::Width::{Byte, Double, Half, Word as Long};
use super::instruction::{
    Instruction, Reference, add, and, call, copy, exit, load, or, pass, pass_if, pass_if_above, pass_if_any,
    pass_if_at_least, pass_if_equal, pass_if_not_equal, program, refer, set, shift_left, shift_right,
    skip_if_any, skip_if_equal, skip_if_not_equal, store, subtract,
};

const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;
const REDIRECT_MAP: i32 = 51;

/// Verdicts, the same numbers for tcx and for a filter's direct action.
pub(super) const TCX_NEXT: i32 = -1;
pub(super) const TCX_DROP: i32 = 2;
const XDP_PASS: i32 = 2;

/// Offsets of `data` and `data_end` in a context: `__sk_buff` and `xdp_md`.
const SKB: (i16, i16) = (76, 80);
const XDP: (i16, i16) = (0, 4);
const SKB_MARK: i16 = 8;
const SKB_ARRIVED_AT: i16 = 36;
const SKB_ARRIVED: i16 = 152;
const XDP_QUEUE: i16 = 16;
const ETHERNET: i32 = 14;

/// Two bytes of a frame as they are loaded.
const fn half(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes) as i32
}

/// Context to `R6`, cell to `R7`; passes if the cell has expired.
pub(super) const ALIVE: [Instruction; 6] = {
    let [low, high] = refer(R7, Reference::Cell);
    [
        copy(R6, R1),
        low,
        high,
        call(KTIME_GET_NS),
        load(Double, R1, R7, Word::AliveUntil.offset()),
        pass_if_at_least(R0, R1),
    ]
};

/// The start of the frame to `R2`, once it is known to have an Ethernet header, and its first byte
/// to `R4`.
const fn ethernet((data, end): (i16, i16)) -> [Instruction; 6] {
    [
        load(Long, R2, R6, data),
        load(Long, R3, R6, end),
        copy(R4, R2),
        add(R4, ETHERNET),
        pass_if_above(R4, R3),
        load(Byte, R4, R2, 0),
    ]
}

/// Passes frames to groups and to ourselves. Addresses are loaded in two pieces: not every
/// processor can load eight unaligned bytes, and the verifier depends on the processor.
const FOR_OTHERS: [Instruction; 9] = [
    pass_if_any(R4, 1),
    load(Half, R4, R2, 0),
    shift_left(R4, 32),
    load(Long, R5, R2, 2),
    or(R4, R5),
    load(Double, R5, R7, Word::PortAddress.offset()),
    pass_if_equal(R4, R5),
    load(Double, R5, R7, Word::BridgeAddress.offset()),
    pass_if_equal(R4, R5),
];

/// Ingress: drops frames for other hosts, which the packet socket has already received.
pub const TAKE: [Instruction; 29] = program(&[
    &ALIVE,
    &ethernet(SKB),
    &FOR_OTHERS,
    &[
        // The socket decides by the same timestamp. Zero: there is none.
        load(Double, R1, R6, SKB_ARRIVED),
        skip_if_equal(R1, 0, 2),
        load(Double, R2, R7, Word::Since.offset()),
        pass_if_above(R2, R1),
        set(R0, TCX_DROP),
        exit(),
        set(R0, TCX_NEXT),
        exit(),
    ],
]);

/// Egress of one side: drops the bridge's copies of group frames that arrived on the other side.
/// Frames to 01-80-C2-00-00-0x pass: whether they are forwarded is for the bridge to decide
/// (`stp_state`, `group_fwd_mask`), and we do not forward them.
pub const ECHO: [Instruction; 30] = program(&[
    &ALIVE,
    &[
        load(Long, R2, R6, SKB_ARRIVED_AT),
        load(Double, R3, R7, Word::Interface.offset()),
        pass_if_not_equal(R2, R3),
    ],
    &ethernet(SKB),
    &[
        skip_if_any(R4, 1),
        pass(),
        load(Half, R4, R2, 0),
        skip_if_not_equal(R4, half([0x01, 0x80]), 7),
        load(Half, R4, R2, 2),
        skip_if_not_equal(R4, half([0xc2, 0x00]), 5),
        load(Byte, R4, R2, 4),
        skip_if_not_equal(R4, 0, 3),
        load(Byte, R4, R2, 5),
        and(R4, 0xf0),
        pass_if(R4, 0),
        set(R0, TCX_DROP),
        exit(),
        set(R0, TCX_NEXT),
        exit(),
    ],
]);

/// XDP: redirects frames for other hosts to the AF_XDP socket of their receive queue, if any.
pub const TO_SOCKET: [Instruction; 29] = {
    let [low, high] = refer(R1, Reference::Sockets);
    program(&[
        &ALIVE,
        &ethernet(XDP),
        &FOR_OTHERS,
        &[
            load(Long, R2, R6, XDP_QUEUE),
            low,
            high,
            set(R3, XDP_PASS),
            call(REDIRECT_MAP),
            exit(),
        ],
        &[set(R0, XDP_PASS), exit()],
    ])
};

/// Redirects to the interface in the cell.
const REDIRECTED: [Instruction; 4] = [
    load(Double, R1, R7, Word::Interface.offset()),
    set(R2, 0),
    call(REDIRECT),
    exit(),
];

/// Egress: redirects what this host sends to the interface in the cell, which is our TAP.
pub const TO_TAP: [Instruction; 12] = program(&[&ALIVE, &REDIRECTED, &[set(R0, TCX_NEXT), exit()]]);

/// The upper half of the marks of frames that are handed back: "su". Nothing else sees them.
pub const HANDED_BACK: u32 = 0x7375;

/// Redirects what arrives or is sent to the interface in the cell, which is our TAP. What was
/// handed back from there passes without its mark, also when we are gone. What another detour
/// handed back passes with its mark: that one comes later at this hook, and has taken it before.
pub const DETOUR: [Instruction; 25] = {
    let [low, high] = refer(R7, Reference::Cell);
    program(&[
        &[
            low,
            high,
            load(Long, R2, R1, SKB_MARK),
            load(Double, R3, R7, Word::Mark.offset()),
            copy(R4, R2),
            subtract(R4, R3),
            skip_if_not_equal(R4, 0, 4),
            set(R3, 0),
            store(Long, R1, SKB_MARK, R3),
            set(R0, TCX_NEXT),
            exit(),
            shift_right(R2, 16),
            pass_if(R2, HANDED_BACK as i32),
        ],
        &ALIVE,
        &REDIRECTED,
        &[set(R0, TCX_NEXT), exit()],
    ])
};

/// Ingress of our TAP: hands what we write to the interface in the cell, as if it had arrived or
/// been sent there.
pub const HAND_BACK: [Instruction; 8] = {
    let [low, high] = refer(R7, Reference::Cell);
    program(&[&[
        low,
        high,
        load(Double, R3, R7, Word::Mark.offset()),
        store(Long, R1, SKB_MARK, R3),
        load(Double, R2, R7, Word::HandBackHow.offset()),
        load(Double, R1, R7, Word::HandBackTo.offset()),
        call(REDIRECT),
        exit(),
    ]])
};
