//! Texts of failed integrity checks (RFC 2747), with advice.

use rsvp::integrity::IntegrityFailure;

/// Why messages of a neighbour are dropped: a machine-readable keyword, and its meaning with
/// advice.
pub const fn dropped(reason: IntegrityFailure) -> (&'static str, &'static str) {
    match reason {
        IntegrityFailure::Malformed => ("malformed", "they are not RSVP messages"),
        IntegrityFailure::Missing => (
            "missing",
            "they carry no INTEGRITY object, which is required: give that node the key (`keys`), or list it in `unprotected` here",
        ),
        IntegrityFailure::UnknownKey => (
            "unknown-key",
            "this node has no key with their identifier: both nodes need it in their key files",
        ),
        IntegrityFailure::KeyNotValid => (
            "key-not-in-force",
            "their key is not yet or no longer valid: check `begins` and `ends`, and the clocks of both nodes",
        ),
        IntegrityFailure::Digest => (
            "wrong-key",
            "the digest is wrong: give both nodes the same secret (or the messages are altered in transit)",
        ),
        IntegrityFailure::WrongNeighbour => (
            "foreign",
            "their key belongs to another neighbour: check `whose` in the key file",
        ),
        IntegrityFailure::Reflected => (
            "reflected",
            "they claim to come from this node: they are reflected",
        ),
        IntegrityFailure::Replayed => (
            "replayed",
            "they were received before: they are replayed, or that node's clock has gone back; then correct the clock, or give the node a new key",
        ),
        IntegrityFailure::Unsynchronised => (
            "unsynchronised",
            "that node has not responded to our challenge yet: does it receive our messages?",
        ),
        IntegrityFailure::Challenge => ("challenge", "unexpected responses, or too many challenges"),
        IntegrityFailure::Full => ("full", "the limit of neighbours is reached"),
    }
}
