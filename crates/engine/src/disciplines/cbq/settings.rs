//! What may be set: of `cbq`, and of each of its classes.

use crate::units::{Bytes, Duration, Rate};
use crate::{choices, settings};

choices! {
    /// Who may borrow when.
    pub enum Sharing {
        /// From an ancestor within its limit, when no class of a lower level is unsatisfied.
        Formal = "formal",
        /// From an ancestor within its limit, up to a level that a heuristic moves.
        TopLevel = "top-level",
        /// From any ancestor within its limit.
        AncestorsOnly = "ancestors-only",
    }
}

choices! {
    /// Who is served first when bandwidth is lent.
    pub enum Excess {
        /// All by allotment, whatever the priority.
        Share = "share",
        /// The higher priority, as much as it wants.
        Priority = "priority",
    }
}

choices! {
    /// How classes of one priority take turns.
    pub enum RoundRobin {
        /// By bytes, in proportion to the allotments.
        Weighted = "weighted",
        /// One packet each.
        Packet = "packet",
    }
}

choices! {
    /// What paces packets on a full link.
    pub enum PacedBy {
        /// This discipline: nothing leaves while the link is busy.
        Shaped = "shaped",
        /// The port: it dequeues when the link is free.
        Port = "port",
    }
}

settings! {
    /// Settings of `cbq`.
    pub struct Settings {
        /// Who may borrow when
        sharing: Sharing = default "formal",
            "top-level and ancestors-only can starve a class of lower priority",
            "Floyd and Jacobson 1995, section 3";
        /// Who is served first when bandwidth is lent
        excess: Excess = default "share",
            "priority: the highest priority takes all it wants of the excess. Formal sharing only",
            "Cho 1999, section 5.4, Fig. 11 and 12";
        /// How classes of one priority take turns
        round_robin: RoundRobin = default "weighted",
            "packet: classes with long packets get more of what is lent",
            "Floyd and Jacobson 1995, section 4";
        /// The rate of the link's own estimator; the classes then have moving averages, as in ns-2
        root_rate: Rate = derived "no estimator: the link lends only what it would lose",
            "older modes only: up to this rate the link lends by priority; beyond it, classes keep theirs",
            "the root class of ns-2's tests has 97 to 100 %";
        /// Packets that the link may lend at once after it was idle
        root_maxburst: u32 = default "16",
            "with `root_rate` only; as `maxburst` of a class",
            "ALTQ";
        /// Whether a class that borrows goes on for nothing if nobody else may send
        efficient: bool = default "true",
            "with `root_rate` only; false: the link may idle while packets wait",
            "ns-2, which always does; ALTQ's `efficient`";
        /// Whether rates below a class may add up to more than its own
        overbook: bool = default "false",
            "with `root_rate` only; true: classes of one parent may all get less than their rates",
            "the tests of ns-2 overbook the link by 2 to 3 %";
        /// What paces packets on a full link
        link: PacedBy = default "shaped",
            "port: for a port that itself sends at the link's bandwidth; a faster one is not slowed down",
            "the token-bucket regulator of ALTQ";
        /// How far a late caller may catch up
        link_burst: Duration = default "5 ms",
            "too small: a host that wakes up late wastes bandwidth; too large: a burst after a stall",
            "one tick of a 250 Hz kernel and some";
        /// Wake classes up on multiples of this time only, two ahead at least
        tick: Duration = derived "no tick: exact to 1 ns",
            "10 ms limits a class to `maxburst` packets in 20 ms",
            "Cho 1999, section 4.2.7";
    }
}

impl Settings {
    /// Whether nothing differs from others that decides where classes stand.
    pub(super) fn differ_little(&self, other: &Self) -> bool {
        let of_standing = |settings: &Self| {
            let Self {
                sharing,
                excess,
                round_robin,
                root_rate,
                ..
            } = *settings;
            let formal = sharing == Sharing::Formal;
            (formal, excess, round_robin, root_rate.is_some())
        };
        of_standing(self) == of_standing(other)
    }
}

settings! {
    /// Settings of a class of `cbq`.
    pub struct ClassSettings {
        /// What the class is guaranteed: its allotment
        rate: Rate = required,
            "the sum over the classes of one parent is at most the parent's; 0 bit/s: only what is lent",
            "Floyd and Jacobson 1995, section 2";
        /// Its priority, 0 to 7; the larger is served first
        priority: u32 = default "1",
            "larger: less delay, not more bandwidth (but see `excess`)",
            "ALTQ";
        /// Whether it may use its parent's excess
        borrow: bool = default "true",
            "false: the rate is a limit, and the link can idle with a backlog",
            "a link should not idle; ALTQ asked for the word";
        /// Packets it may send at once after it was idle
        maxburst: u32 = default "16",
            "too small: an intermittent class does not reach its rate; too large: other classes are delayed longer",
            "Floyd's CBQ notes; ALTQ";
        /// Packets it may send at once after it was regulated
        minburst: u32 = default "2",
            "larger: fewer wake-ups, and more jitter",
            "Floyd's CBQ notes; ALTQ";
        /// The length of a packet, for the bursts
        packet_size: Bytes = derived "the longest packet of the link",
            "it sets the size of the bursts only; every packet counts with its own length",
            "ALTQ";
    }
}
