//! A tiny assembler: BPF instructions (RFC 9669) as constants.

/// One eight-byte instruction.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. `R0` is the return value, `R1` to `R5` are arguments that a call clobbers, `R6` to
/// `R9` are preserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "numbers")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The frame pointer, read-only: the stack grows down from it.
    R10,
}

/// The width of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// What a 64-bit immediate refers to; the loader fills in the descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// The map of AF_XDP sockets.
    Sockets = 1,
    /// The address of the heartbeat cell.
    Cell,
    /// The map of TCP connections.
    Flows,
    /// The map of window limits.
    Limits,
    /// The map of UDP ports.
    Ports,
    /// The map of the policer's buckets.
    Buckets,
}

impl Reference {
    /// The pseudo source register: 1 is a map, 2 the address of a map's value.
    const fn kind(self) -> u8 {
        match self {
            Self::Cell => 2,
            Self::Sockets | Self::Flows | Self::Limits | Self::Ports | Self::Buckets => 1,
        }
    }
}

/// Stands for the offset of a jump to the last two instructions, which let the frame pass.
const TO_PASS: i16 = i16::MAX;
const LOAD_IMMEDIATE: u8 = 0x18;

const fn make(code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> Instruction {
    let (to, from) = (to as u8, from);
    let registers = if cfg!(target_endian = "little") {
        to | from << 4
    } else {
        to << 4 | from
    };
    Instruction {
        code,
        registers,
        offset,
        immediate,
    }
}

/// `to = from`
pub const fn copy(to: Register, from: Register) -> Instruction {
    make(0xbf, to, from as u8, 0, 0)
}

/// `to = number`
pub const fn set(to: Register, number: i32) -> Instruction {
    make(0xb7, to, 0, 0, number)
}

/// `to += number`
pub const fn add(to: Register, number: i32) -> Instruction {
    make(0x07, to, 0, 0, number)
}

/// `to *= number`
pub const fn multiply(to: Register, number: i32) -> Instruction {
    make(0x27, to, 0, 0, number)
}

/// `to |= from`
pub const fn or(to: Register, from: Register) -> Instruction {
    make(0x4f, to, from as u8, 0, 0)
}

/// `to <<= bits`
pub const fn shift_left(to: Register, bits: i32) -> Instruction {
    make(0x67, to, 0, 0, bits)
}

/// `to = *(from + offset)`
pub const fn load(width: Width, to: Register, from: Register, offset: i16) -> Instruction {
    make(0x61 | width as u8, to, from as u8, offset, 0)
}

/// `*(to + offset) = from`
pub const fn store(width: Width, to: Register, offset: i16, from: Register) -> Instruction {
    make(0x63 | width as u8, to, from as u8, offset, 0)
}

/// `*(to + offset) = number`
pub const fn store_number(width: Width, to: Register, offset: i16, number: i32) -> Instruction {
    make(0x62 | width as u8, to, 0, offset, number)
}

/// `*(to + offset) += from`, eight bytes, atomically.
pub const fn count(to: Register, offset: i16, from: Register) -> Instruction {
    make(0xdb, to, from as u8, offset, 0)
}

/// `to += from`
pub const fn sum(to: Register, from: Register) -> Instruction {
    make(0x0f, to, from as u8, 0, 0)
}

/// `to -= from`
pub const fn subtract(to: Register, from: Register) -> Instruction {
    make(0x1f, to, from as u8, 0, 0)
}

/// `to &= bits`
pub const fn and(to: Register, bits: i32) -> Instruction {
    make(0x57, to, 0, 0, bits)
}

/// `to >>= bits`
pub const fn shift_right(to: Register, bits: i32) -> Instruction {
    make(0x77, to, 0, 0, bits)
}

/// `to <<= by`
pub const fn shift_left_by(to: Register, by: Register) -> Instruction {
    make(0x6f, to, by as u8, 0, 0)
}

/// `to >>= by`
pub const fn shift_right_by(to: Register, by: Register) -> Instruction {
    make(0x7f, to, by as u8, 0, 0)
}

/// Sign-extends the lower 32 bits.
pub const fn signed(to: Register) -> [Instruction; 2] {
    [shift_left(to, 32), make(0xc7, to, 0, 0, 32)]
}

/// To or from network byte order; `bits` is 16 or 32.
pub const fn swap(to: Register, bits: i32) -> Instruction {
    make(0xdc, to, 0, 0, bits)
}

/// Skips `over` instructions.
pub const fn skip(over: i16) -> Instruction {
    make(0x05, Register::R0, 0, over, 0)
}

/// Skips `over` instructions if `a == number`.
pub const fn skip_if_equal(a: Register, number: i32, over: i16) -> Instruction {
    make(0x15, a, 0, over, number)
}

/// Skips `over` instructions if `a != number`.
pub const fn skip_if_not_equal(a: Register, number: i32, over: i16) -> Instruction {
    make(0x55, a, 0, over, number)
}

/// Skips `over` instructions if `a >= b`.
pub const fn skip_if_at_least(a: Register, b: Register, over: i16) -> Instruction {
    make(0x3d, a, b as u8, over, 0)
}

/// Skips `over` instructions if `a <= number`, signed.
pub const fn skip_if_at_most(a: Register, number: i32, over: i16) -> Instruction {
    make(0xd5, a, 0, over, number)
}

/// Lets the frame pass if `a != number`.
pub const fn pass_if_not(a: Register, number: i32) -> Instruction {
    make(0x55, a, 0, TO_PASS, number)
}

/// Lets the frame pass if `a == number`.
pub const fn pass_if(a: Register, number: i32) -> Instruction {
    make(0x15, a, 0, TO_PASS, number)
}

/// Lets the frame pass if `a > number`.
pub const fn pass_if_more(a: Register, number: i32) -> Instruction {
    make(0x25, a, 0, TO_PASS, number)
}

/// Lets the frame pass if `a < number`.
pub const fn pass_if_less(a: Register, number: i32) -> Instruction {
    make(0xa5, a, 0, TO_PASS, number)
}

/// The two halves of `to = reference`.
pub const fn refer(to: Register, reference: Reference) -> [Instruction; 2] {
    [
        make(LOAD_IMMEDIATE, to, reference.kind(), 0, reference as i32),
        make(0, Register::R0, 0, 0, 0),
    ]
}

/// Lets the frame pass if `a >= b`.
pub const fn pass_if_at_least(a: Register, b: Register) -> Instruction {
    make(0x3d, a, b as u8, TO_PASS, 0)
}

/// Lets the frame pass if `a > b`.
pub const fn pass_if_above(a: Register, b: Register) -> Instruction {
    make(0x2d, a, b as u8, TO_PASS, 0)
}

/// Lets the frame pass if `a == b`.
pub const fn pass_if_equal(a: Register, b: Register) -> Instruction {
    make(0x1d, a, b as u8, TO_PASS, 0)
}

/// Lets the frame pass if `a != b`.
pub const fn pass_if_not_equal(a: Register, b: Register) -> Instruction {
    make(0x5d, a, b as u8, TO_PASS, 0)
}

/// Lets the frame pass if any of `bits` is set in `a`.
pub const fn pass_if_any(a: Register, bits: i32) -> Instruction {
    make(0x45, a, 0, TO_PASS, bits)
}

/// Skips the next instruction if any of `bits` is set in `a`.
pub const fn skip_if_any(a: Register, bits: i32) -> Instruction {
    make(0x45, a, 0, 1, bits)
}

/// Lets the frame pass.
pub const fn pass() -> Instruction {
    make(0x05, Register::R0, 0, TO_PASS, 0)
}

/// Calls a kernel helper by number.
pub const fn call(helper: i32) -> Instruction {
    make(0x85, Register::R0, 0, 0, helper)
}

/// Ends the program; the return value is in `R0`.
pub const fn exit() -> Instruction {
    make(0x95, Register::R0, 0, 0, 0)
}

/// Concatenates the pieces, `N` instructions in all, and resolves every jump to "pass" to the last
/// two of them.
pub const fn program<const N: usize>(pieces: &[&[Instruction]]) -> [Instruction; N] {
    let mut out = [exit(); N];
    let (mut at, mut piece) = (0, 0);
    while piece < pieces.len() {
        let mut i = 0;
        while i < pieces[piece].len() {
            out[at] = pieces[piece][i];
            if out[at].offset == TO_PASS {
                out[at].offset = (N - 3 - at) as i16;
            }
            (at, i) = (at + 1, i + 1);
        }
        piece += 1;
    }
    assert!(at == N, "N is not the length of the program");
    out
}

/// Resolves every jump to "pass" to the last two instructions, for programs that are assembled at
/// run time.
pub fn resolved(mut program: Vec<Instruction>) -> Vec<Instruction> {
    let len = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        if instruction.offset == TO_PASS {
            instruction.offset = i16::try_from(len.saturating_sub(3 + at)).unwrap_or(0);
        }
    }
    program
}

impl Instruction {
    /// What this instruction refers to, if it is the first half of a reference.
    pub fn reference(self) -> Option<Reference> {
        let all = [
            Reference::Sockets,
            Reference::Cell,
            Reference::Flows,
            Reference::Limits,
            Reference::Ports,
            Reference::Buckets,
        ];
        let named = |reference: &Reference| *reference as i32 == self.immediate;
        all.into_iter()
            .find(named)
            .filter(|_| self.code == LOAD_IMMEDIATE)
    }

    /// The same with another immediate.
    pub fn with_immediate(self, immediate: i32) -> Self {
        Self { immediate, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_to_pass_resolve_to_the_last_two_instructions() {
        use Register::{R0, R1};
        let made: [Instruction; 5] =
            program(&[&[pass_if_any(R1, 1), set(R0, 2)], &[pass(), set(R0, 0), exit()]]);
        assert_eq!(made[0].offset, 2);
        assert_eq!(made[2].offset, 0);
        assert_eq!(made[3], set(R0, 0));
    }

    #[test]
    fn encodings_are_those_of_the_rfc() {
        use Register::{R1, R6};
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(
            (copy(R6, R1).code, load(Width::Double, R1, R6, 8).code),
            (0xbf, 0x79)
        );
        assert_eq!(
            (
                load(Width::Word, R1, R6, 0).code,
                load(Width::Byte, R1, R6, 0).code
            ),
            (0x61, 0x71)
        );
        assert_eq!(refer(R1, Reference::Cell)[0].reference(), Some(Reference::Cell));
        assert_eq!(copy(R6, R1).reference(), None);
    }
}
