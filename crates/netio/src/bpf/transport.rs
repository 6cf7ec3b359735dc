//! Shared by programs that parse packets: finding the transport header, and looking up map values.

use super::instruction::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R10};
use super::instruction::Width::{self, Byte, Double, Half, Word as Long};
use super::instruction::{
    Instruction, Reference, add, and, call, copy, load, pass_if_any, pass_if_not, refer, set, shift_left,
    skip, skip_if_not_equal, store, store_number,
};

const LOOKUP: i32 = 1;
pub(super) const KTIME_GET_NS: i32 = 5;
pub(super) const LOAD_BYTES: i32 = 26;

/// `__sk_buff`: length, and protocol in network byte order.
pub(super) const LENGTH: i16 = 0;
const PROTOCOL: i16 = 16;
const IPV4: i32 = 0x0800_u16.to_be() as i32;
const IPV6: i32 = 0x86dd_u16.to_be() as i32;
const FRAGMENT: i32 = 0x1fff_u16.to_be() as i32;

/// The length of a block, for a jump over it.
pub(super) fn over(block: &[Instruction]) -> i16 {
    i16::try_from(block.len()).unwrap_or(i16::MAX)
}

/// Copies `len` bytes of the frame to `to` on the stack, from an offset or, if there is none, from
/// `R8` on; passes if the frame is shorter.
pub(super) fn fetch(from: Option<i32>, to: i16, len: i32) -> [Instruction; 7] {
    [
        copy(R1, R6),
        from.map_or(copy(R2, R8), |from| set(R2, from)),
        copy(R3, R10),
        add(R3, i32::from(to)),
        set(R4, len),
        call(LOAD_BYTES),
        pass_if_not(R0, 0),
    ]
}

/// Copies within the stack.
pub(super) fn copied(width: Width, from: i16, to: i16) -> [Instruction; 2] {
    [load(width, R1, R10, from), store(width, R10, to, R1)]
}

/// Zeros `times` × 8 bytes of the stack.
pub(super) fn zeros(from: i16, times: i16) -> Vec<Instruction> {
    (0..times)
        .map(|n| store_number(Double, R10, from + 8 * n, 0))
        .collect()
}

/// Copies the IP header to `ip` on the stack and sets `R8` to the offset of the transport header;
/// passes if the protocol is another one. `v4` and `v6` run after the header of that version is
/// loaded.
pub(super) fn transport(protocol: i32, ip: i16, v4: &[Instruction], v6: &[Instruction]) -> Vec<Instruction> {
    let second = [
        vec![pass_if_not(R7, IPV6)],
        fetch(Some(14), ip, 40).to_vec(),
        vec![
            load(Byte, R1, R10, ip + 6),
            pass_if_not(R1, protocol),
            set(R8, 54),
        ],
        v6.to_vec(),
    ]
    .concat();
    let first = [
        &fetch(Some(14), ip, 20)[..],
        &[
            load(Byte, R1, R10, ip + 9),
            pass_if_not(R1, protocol),
            load(Half, R1, R10, ip + 6),
            pass_if_any(R1, FRAGMENT),
            load(Byte, R8, R10, ip),
            and(R8, 15),
            shift_left(R8, 2),
            add(R8, 14),
        ],
        v4,
        &[skip(over(&second))],
    ]
    .concat();
    [
        vec![
            load(Long, R7, R6, PROTOCOL),
            skip_if_not_equal(R7, IPV4, over(&first)),
        ],
        first,
        second,
    ]
    .concat()
}

/// Looks up the key at this stack offset; the value's address, or zero, is then in `R0`.
pub(super) fn lookup(map: Reference, key: i16) -> Vec<Instruction> {
    let [low, high] = refer(R1, map);
    vec![low, high, copy(R2, R10), add(R2, i32::from(key)), call(LOOKUP)]
}
