//! Object classes, and the treatment of unknown ones (RFC 2205, section 3.10 and appendix A).

pub(super) const NULL: u8 = 0;
pub(super) const SESSION: u8 = 1;
pub(super) const HOP: u8 = 3;
pub(super) const INTEGRITY: u8 = 4;
pub(super) const TIME_VALUES: u8 = 5;
pub(super) const ERROR_SPEC: u8 = 6;
pub(super) const SCOPE: u8 = 7;
pub(super) const STYLE: u8 = 8;
pub(super) const FLOWSPEC: u8 = 9;
pub(super) const FILTER_SPEC: u8 = 10;
pub(super) const SENDER_TEMPLATE: u8 = 11;
pub(super) const SENDER_TSPEC: u8 = 12;
pub(super) const ADSPEC: u8 = 13;
pub(super) const POLICY_DATA: u8 = 14;
pub(super) const RESV_CONFIRM: u8 = 15;
pub(super) const MESSAGE_ID: u8 = 23;
pub(super) const MESSAGE_ID_ACK: u8 = 24;
pub(super) const MESSAGE_ID_LIST: u8 = 25;
pub(super) const CHALLENGE: u8 = 64;

/// What to do with an object of an unknown class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unknown {
    /// Reject the message and report an error.
    Reject,
    /// Ignore the object.
    Ignore,
    /// Store the object with the state, and forward it.
    Forward,
}

/// The two high-order bits of the class decide.
pub(super) const fn unknown(class: u8) -> Unknown {
    match class >> 6 {
        0 | 1 => Unknown::Reject,
        2 => Unknown::Ignore,
        _ => Unknown::Forward,
    }
}
