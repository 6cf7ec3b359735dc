"""Simulates networks with the engine that manages traffic in `suimon run`.

Rates are in bits per second, lengths in bytes. Those of links and classes count Ethernet frames, those of flows what the
receiving program got. The unit of a number is the end of its name: `rate_bps`, `p99_ns`.
"""

from os import PathLike
from typing import Any, Callable, Iterable, Literal, Mapping, Optional, Protocol, Sequence, TypedDict, Union

__version__: str

Value = Union[str, int, float, bool, Sequence["Value"], Mapping[str, "Value"]]
"""A value of a setting, as in TOML: `"10 Mbit/s"`, `4`, `True`, `{"discipline": "fifo", "limit": 200}`."""

Scenario = Union[str, "PathLike[str]", Mapping[str, Value]]
"""A scenario: the path of a file, its text (of more than one line), or a dict of what the text would say."""

Settings = Mapping[str, Value]
"""Settings by place. A place is written as dotted keys in TOML are: `seed`, `flow.transfer.count`,
`link."server > home".rate`. In a list of sections a key is the `name` of one, the hosts that it is `between`, or its number,
from 0. The name of a list in `[sweep]` is a place, too."""

Picture = Literal["bandwidth", "delays", "flow-delays", "backlog", "flows"]

class Delay(TypedDict):
    """Queueing delays of a class or link, one-way delays or response times of a flow. Each is at most 1/64 too long; `max_ns`
    is exact."""

    mean_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int

class Passed(TypedDict):
    """What passed a link or a class of it. Rates are means over the duration."""

    name: str
    rate_bps: int
    sent_packets: int
    sent_bytes: int
    delay: Optional[Delay]
    dropped_packets: int
    drops: dict[str, int]
    """Packets dropped, by reason."""
    marked_packets: int
    backlog_max_bytes: int
    backlog_p99_bytes: int

class Class(Passed):
    """A class of the policy on a link. What an interior class sent is the sum of the classes below it."""

    parent: Optional[str]
    leaf: bool
    asked_bps: Optional[int]
    """The rate that its discipline guarantees, if any."""
    borrowed_bytes: Optional[int]

class Wire(TypedDict):
    """What befell packets on the wire of a link."""

    lost_packets: int
    corrupted_packets: int
    duplicated_packets: int
    overtaken_packets: int

class Link(Passed):
    """A link in one direction."""

    bandwidth_bps: int
    """The rate of its wire; of one that varies the mean."""
    discipline: Optional[str]
    wire: Wire
    classes: list[Class]

class _Ends(TypedDict("Ends", {"from": str, "to": str})): ...

class Video(TypedDict):
    """What has become of playing a flow of `kind = "video"`, all copies together."""

    bitrate_bps: int
    """The mean of its segments."""
    segments: int
    switches: int
    stalls: int
    stalled_ns: int
    startup_ns: int
    """The longest; of one that does not play yet, until the end."""
    playing: int
    """The copies that play."""

class _Played(TypedDict, total=False):
    video: Video

class Flow(_Ends, _Played):
    """What the receivers of a flow got. `from` and `to` are its hosts."""

    name: str
    kind: str
    start_ns: int
    rate_bps: int
    received_bytes: int
    copies_bytes: list[int]
    """The bytes of each copy, of a flow with `count`."""
    delay: Optional[Delay]
    counts: dict[str, int]

class Expectation(TypedDict):
    """An expectation and what was measured, in words and as a number: `value`, in `unit`."""

    what: str
    expected: str
    got: str
    value: int
    unit: str
    met: bool
    missed_by: Optional[str]
    """By how much, if it was missed."""
    held_up: None
    """Something in the lab alone, where the machine can be late."""

class Bin(TypedDict):
    """A rate in one bin of time."""

    what: Literal["link", "class", "flow"]
    link: str
    name: str
    from_s: float
    rate_bps: int

class Distribution(TypedDict):
    """The share of packets that waited at most so long."""

    delay_s: list[float]
    share: list[float]

class Place(TypedDict, total=False):
    """A mistake or a warning, and where it stands, from 1."""

    severity: Literal["mistake", "warning"]
    file: str
    line: int
    column: int
    message: str
    help: str

class Result:
    """What was measured in a simulation. A notebook shows it as the chart that the scenario's `picture` names."""

    @property
    def scenario(self) -> str:
        """The name of the scenario: that of its file."""
    @property
    def text(self) -> str:
        """The text that was run, with the settings that `set` gave."""
    @property
    def met(self) -> bool:
        """Whether all expectations were met."""
    @property
    def expectations(self) -> list[Expectation]: ...
    @property
    def links(self) -> list[Link]:
        """Every link, in each direction."""
    @property
    def flows(self) -> list[Flow]: ...
    @property
    def reservations(self) -> list[dict[str, Any]]:
        """What became of each RSVP reservation."""
    @property
    def warnings(self) -> list[Place]: ...
    def link(self, name: str) -> Link:
        """The direction of a link, such as `"server > home"`. Raises KeyError."""
    def class_(self, name: str, *, link: Optional[str] = None) -> Class:
        """A class by its name, and by its link if several have one of this name. Raises KeyError."""
    def flow(self, name: str) -> Flow:
        """A flow by its name. Raises KeyError."""
    def to_dict(self) -> dict[str, Any]:
        """All of it, as `suimon sim --json` prints it."""
    def row(self) -> dict[str, Any]:
        """Its row of a table: what `sweep` returns for each point."""
    def series(self) -> list[Bin]:
        """Rates over time, a row for each bin of each link, class and flow: for `pandas.DataFrame`."""
    def delays(
        self, *, flow: Optional[str] = None, class_: Optional[str] = None, link: Optional[str] = None
    ) -> Distribution:
        """The distribution of the delays of a flow, a class or a link: for a plot, or for `pandas.DataFrame`."""
    def svg(self, picture: Optional[Picture] = None) -> str:
        """A chart, by default the one that the scenario names."""
    def html(self) -> str:
        """The page that `suimon sim --report` writes, with tables and charts."""
    def _repr_svg_(self) -> str: ...

Source = Callable[[int], Iterable[tuple[float, float]]]
"""A source: called for each copy of a flow of kind `own` with the seed of its random numbers, it gives the packets as
`(at_ns, frame_bytes)`: the time since the flow's start, which never decreases, and the length of the Ethernet frame. A
generator is asked for one packet after the other, as they are sent."""

class Start:
    """What a connection starts from."""

    @property
    def now_ns(self) -> int:
        """The time since the start of the simulation, as everywhere."""
    @property
    def mss_bytes(self) -> int:
        """The data of a full segment."""
    @property
    def initial_window_bytes(self) -> int: ...
    @property
    def rtt_ns(self) -> Optional[int]:
        """The round-trip time of the handshake."""

class Ack:
    """What an ACK reported."""

    @property
    def now_ns(self) -> int: ...
    @property
    def delivered_bytes(self) -> int:
        """Bytes newly known to have arrived, cumulatively or by SACK."""
    @property
    def growth_bytes(self) -> int:
        """Of those, the bytes that count for growth."""
    @property
    def pipe_before_bytes(self) -> int:
        """The estimate of bytes in the network before this ACK."""
    @property
    def pipe_bytes(self) -> int:
        """The same after it."""
    @property
    def rtt_ns(self) -> Optional[int]:
        """The round-trip time by the echoed timestamp."""
    @property
    def srtt_ns(self) -> int:
        """The smoothed round-trip time."""
    @property
    def delivery_rate_bps(self) -> Optional[int]:
        """The delivery rate, for a control with `wants_delivery_rate = True`."""
    @property
    def app_limited(self) -> bool:
        """The sender had no more to send, so the path may be faster than `delivery_rate_bps`."""
    @property
    def may_grow(self) -> bool:
        """cwnd may grow: it limited the sender, and no reduction is under way."""

class Congestion:
    """The sender's state at a sign of congestion."""

    @property
    def now_ns(self) -> int: ...
    @property
    def flight_bytes(self) -> int:
        """Bytes sent and not cumulatively acknowledged."""
    @property
    def pipe_bytes(self) -> int:
        """The estimate of bytes in the network; at a timeout, of what is not deemed lost by it."""
    @property
    def repeated(self) -> bool:
        """A repeated timeout: it stands for the same window's congestion as the last one."""

class Control(Protocol):
    """A congestion control: any object with these. Its attributes are read after each call.

    It may also have `pacing_rate_bps`, a number or None (ACKs alone clock segments); `in_slow_start`, a bool; and
    `wants_delivery_rate = True`. If it has them, these are called, too: `on_ecn(congestion)`, at the first mark in a window, by
    default `on_loss`; `on_recovered(now_ns)`; `on_idle(timeouts)`, after an idle time of so many retransmission timeouts.
    """

    cwnd_bytes: float
    """The congestion window: at least a segment."""
    def on_ack(self, ack: Ack, /) -> None: ...
    def on_loss(self, congestion: Congestion, /) -> None:
        """The first loss in this window. The sender repairs it, and spreads the reduction over the recovery."""
    def on_timeout(self, congestion: Congestion, /) -> None: ...

class ScenarioError(ValueError):
    """A scenario with mistakes, or a setting that it does not have. Its text shows each mistake in its line."""

    mistakes: list[Place]
    file: Optional[str]
    """Where the first mistake is; None if it is none of the text."""
    line: Optional[int]
    column: Optional[int]

class SimulationError(RuntimeError):
    """A simulation that could not be run to its end."""

def simulate(
    scenario: Scenario,
    *,
    set: Optional[Settings] = None,
    seed: Optional[int] = None,
    sources: Optional[Mapping[str, Source]] = None,
    controls: Optional[Mapping[str, Callable[[Start], Control]]] = None,
) -> Result:
    """Simulates a scenario, with other settings than its own, and with this seed.

    `sources` are the packets of flows of kind `own`, `controls` the congestion controls of flows with TCP, by the names of the
    flows: classes or functions, called for each copy and each connection.
    The same scenario, settings and seed give the same result on every machine.
    Raises ScenarioError, OSError for a file that cannot be read, SimulationError, and what a callback raises.
    """

def sweep(
    scenario: Scenario,
    grid: Optional[Mapping[str, Iterable[Value]]] = None,
    *,
    set: Optional[Settings] = None,
    seed: Optional[int] = None,
    jobs: Optional[int] = None,
    sources: Optional[Mapping[str, Source]] = None,
    controls: Optional[Mapping[str, Callable[[Start], Control]]] = None,
) -> list[dict[str, Any]]:
    """Simulates every combination of the grid's settings, after those of the scenario's own `[sweep]`.

    Returns a row for each, in order, the last setting varying fastest: `pandas.DataFrame(suimon.sweep(...))`. The columns are
    `point`, the settings as they are written and, where they have a unit, as numbers (`rate bps`); then rates, drops and
    delays of links, classes (`server > home voice delay_p99_ns`) and flows; then expectations.
    `jobs` is the number of threads, by default one per processor; the rows are the same for any. Ctrl-C ends it.
    `sources` and `controls` are those of `simulate`; their calls come from one thread at a time.
    """

def check(scenario: Scenario, *, set: Optional[Settings] = None) -> list[Place]:
    """Checks a scenario with all its points, without running it. Returns warnings; raises ScenarioError for mistakes."""
