"""Sources and congestion controls in Python: what they are told, what they may answer, and that runs repeat."""

import math
import random
import unittest

import suimon

CAMERA = """
version = 1
duration = "4 s"
[[link]]
between = ["here", "there"]
rate = "10 Mbit/s"
delay = "10 ms"
[[flow]]
name = "camera"
between = ["here", "there"]
kind = "own"
"""

BULK = """
version = 1
duration = "20 s"
[[link]]
between = ["here", "there"]
rate = "10 Mbit/s"
delay = "20 ms"
buffer = "50 kB"
[[flow]]
name = "bulk"
between = ["here", "there"]
kind = "tcp"
control = "reno"
"""


class Reno:
    """RFC 5681, as crates/sim/src/tcp/congestion/reno.rs has it, in bytes."""

    def __init__(self, start):
        self.mss = start.mss_bytes
        self.cwnd_bytes = start.initial_window_bytes
        self.ssthresh = math.inf
        self.told = []

    @property
    def in_slow_start(self):
        return self.cwnd_bytes < self.ssthresh

    def on_ack(self, ack):
        if not ack.may_grow:
            return
        left = ack.growth_bytes
        if self.in_slow_start:
            grown = self.cwnd_bytes + min(left, 2 * self.mss)
            left = max(0, grown - self.ssthresh)
            self.cwnd_bytes = min(grown, self.ssthresh)
        self.cwnd_bytes += left * self.mss / self.cwnd_bytes

    def half(self, congestion):
        flight = congestion.flight_bytes
        used = self.cwnd_bytes if flight + self.mss > self.cwnd_bytes else flight
        return max(used / 2, 2 * self.mss)

    def on_loss(self, congestion):
        self.cwnd_bytes = self.ssthresh = self.half(congestion)

    def on_timeout(self, congestion):
        if not congestion.repeated:
            self.ssthresh = self.half(congestion)
        self.cwnd_bytes = congestion.pipe_bytes + self.mss


class Window:
    """So many segments, whatever happens."""

    segments = 8

    def __init__(self, start):
        self.cwnd_bytes = self.segments * start.mss_bytes

    def on_ack(self, ack):
        pass

    def on_loss(self, congestion):
        pass

    on_timeout = on_loss


def camera(*packets, **options):
    return suimon.simulate(CAMERA, sources={"camera": lambda seed: packets}, **options)


class Sources(unittest.TestCase):
    def test_packets_are_those_that_were_given_at_their_times(self):
        result = camera((0, 642), (1e9, 1042), (1_000_000_000, 1442), (3.5e9, 100))
        got = result.flow("camera")
        self.assertEqual(got["received_bytes"], 642 + 1042 + 1442 + 100)
        bins = {row["from_s"]: row["rate_bps"] for row in result.series() if row["what"] == "link" and row["rate_bps"]}
        self.assertEqual([math.floor(at * 10) for at in bins if bins[at] > 0][:1], [0])
        self.assertEqual(result.link("here > there")["sent_packets"], 4)

    def test_a_generator_is_asked_as_time_goes_on_and_ends_with_the_run(self):
        asked = []

        def every(seed):
            at = 0
            while True:
                asked.append(at)
                yield at, 142
                at += 10_000_000

        result = suimon.simulate(CAMERA, sources={"camera": every})
        self.assertEqual(result.link("here > there")["sent_packets"], 400)
        self.assertLessEqual(len(asked), 402)

    def test_seeds_are_those_of_the_run_and_of_the_copy(self):
        seeds = []

        def draw(seed):
            seeds.append(seed)
            numbers = random.Random(seed)
            at = 0
            for _ in range(200):
                at += numbers.expovariate(1 / 5e6)
                yield at, numbers.randint(60, 1514)

        run = lambda seed: suimon.simulate(
            CAMERA, set={"flow.camera.count": 2}, seed=seed, sources={"camera": draw}
        ).to_dict()
        first = run(1)
        self.assertEqual(first, run(1))
        self.assertNotEqual(first, run(2))
        self.assertEqual(seeds[:2], seeds[2:4])
        self.assertEqual(len(set(seeds)), 4)

    def test_what_a_source_raises_is_raised(self):
        raised = LookupError("no more film")

        def fails(seed):
            yield 0, 142
            raise raised

        with self.assertRaises(LookupError) as caught:
            suimon.simulate(CAMERA, sources={"camera": fails})
        self.assertIs(caught.exception, raised)

        def fails_at_once(seed):
            raise raised

        with self.assertRaises(LookupError):
            suimon.simulate(CAMERA, sources={"camera": fails_at_once})

    def test_misuse_is_told(self):
        for packets, error, why in [
            ([(0, -1)], ValueError, "length of a frame, in bytes: .* found -1"),
            ([(0, 41)], suimon.SimulationError, "from 42 B to 1514 B.* 41 B"),
            ([(0, 1515)], suimon.SimulationError, "1515 B"),
            ([(-1, 142)], ValueError, "time of a packet, in ns: .* found -1"),
            ([(math.nan, 142)], ValueError, "time of a packet.* found NaN"),
            ([(0, math.nan)], ValueError, "length of a frame.* found NaN"),
            ([(math.inf, 142)], ValueError, "found inf"),
            ([(2e6, 142), (1e6, 142)], suimon.SimulationError, "`camera`: time went back: a packet at 1 ms after one at 2 ms"),
            ([("0", 142)], TypeError, "expected a number; found str"),
            ([7], TypeError, r"expected packets as \(at_ns, frame_bytes\); found int"),
        ]:
            with self.subTest(packets=packets), self.assertRaisesRegex(error, why):
                camera(*packets)
        forever = iter(lambda: (0, 142), None)
        with self.assertRaisesRegex(suimon.SimulationError, "time stands still"):
            suimon.simulate(CAMERA, sources={"camera": lambda seed: forever})
        with self.assertRaisesRegex(TypeError, "class or a function"):
            suimon.simulate(CAMERA, sources={"camera": [(0, 142)]})
        with self.assertRaisesRegex(TypeError, "not iterable"):
            suimon.simulate(CAMERA, sources={"camera": lambda seed: 3})

    def test_flows_are_those_of_the_scenario(self):
        with self.assertRaisesRegex(suimon.ScenarioError, "did you mean `camera`"):
            suimon.simulate(CAMERA, sources={"kamera": lambda seed: []})
        with self.assertRaisesRegex(suimon.ScenarioError, "`bulk` is of kind `tcp`.* kind `own`"):
            suimon.simulate(BULK, sources={"bulk": lambda seed: []})
        with self.assertRaisesRegex(suimon.SimulationError, "`camera` sends packets of a program's own"):
            suimon.simulate(CAMERA)
        with self.assertRaisesRegex(suimon.ScenarioError, "`camera` is of kind `own`.* no congestion control"):
            suimon.simulate(CAMERA, sources={"camera": lambda seed: []}, controls={"camera": Window})


class Controls(unittest.TestCase):
    def test_reno_in_python_gives_the_figures_of_the_builtin(self):
        for settings in [{}, {"link.0.buffer": "20 kB", "flow.bulk.count": 3}, {"link.0.loss": "0.5 %"}]:
            own = suimon.simulate(BULK, set=settings, controls={"bulk": Reno})
            builtin = suimon.simulate(BULK, set=settings)
            for what in ["rate_bps", "received_bytes"]:
                ratio = own.flow("bulk")[what] / builtin.flow("bulk")[what]
                self.assertAlmostEqual(ratio, 1, delta=0.01, msg=settings)
            drops = [result.link("here > there")["dropped_packets"] for result in (own, builtin)]
            self.assertAlmostEqual(*drops, delta=2 + drops[1] / 20, msg=settings)
            self.assertEqual(own.flow("bulk")["kind"], "tcp Reno")

    def test_a_window_is_kept(self):
        result = suimon.simulate(BULK, controls={"bulk": Window})
        # 8 segments of 1,448 bytes in 40 ms and the time of two of them.
        self.assertAlmostEqual(result.flow("bulk")["rate_bps"] / (8 * 1448 * 8 / 0.0425), 1, delta=0.01)
        self.assertEqual(result.link("here > there")["dropped_packets"], 0)

    def test_a_pacing_rate_is_kept(self):
        class Paced(Window):
            segments = 60
            pacing_rate_bps = 2e6

        result = suimon.simulate(BULK, controls={"bulk": Paced})
        self.assertAlmostEqual(result.flow("bulk")["rate_bps"], 2e6, delta=0.06 * 2e6)
        self.assertLess(result.link("here > there")["backlog_max_bytes"], 5 * 1514)

    def test_what_a_control_is_told(self):
        told = []

        class Curious(Reno):
            wants_delivery_rate = True

            def __init__(self, start):
                super().__init__(start)
                told.append(("start", start.rtt_ns, start.initial_window_bytes // start.mss_bytes))

            def on_ack(self, ack):
                super().on_ack(ack)
                if len(told) < 400:
                    told.append(("ack", ack.rtt_ns, ack.delivered_bytes, ack.delivery_rate_bps))

            def on_recovered(self, now_ns):
                told.append(("recovered", now_ns))

            def on_ecn(self, congestion):
                told.append(("ecn", congestion.flight_bytes))

        suimon.simulate(BULK, controls={"bulk": Curious})
        kinds = [kind for kind, *_ in told]
        self.assertEqual(told[0][0], "start")
        self.assertAlmostEqual(told[0][1] / 40e6, 1, delta=0.05)
        self.assertEqual(told[0][2], 10)
        self.assertIn("recovered", kinds)
        self.assertNotIn("ecn", kinds)
        rates = [fact[3] for fact in told if fact[0] == "ack" and fact[3]]
        self.assertAlmostEqual(max(rates) / 9.57e6, 1, delta=0.05)

    def test_a_mark_is_a_loss_unless_there_is_a_method_for_it(self):
        marking = {
            "version": 1,
            "duration": "5 s",
            "link": [
                {
                    "between": ["here", "there"],
                    "rate": "10 Mbit/s",
                    "delay": "20 ms",
                    "policy": {"here": {"bandwidth": "9 Mbit/s", "discipline": "fq_codel"}},
                }
            ],
            "flow": [{"name": "bulk", "between": ["here", "there"], "kind": "tcp", "ecn": True}],
        }
        for name in ["on_loss", "on_ecn"]:
            calls = []
            kind = type("Marked", (Reno,), {name: lambda self, congestion: (calls.append(1), Reno.on_loss(self, congestion))})
            suimon.simulate(marking, controls={"bulk": kind})
            self.assertGreater(len(calls), 2, name)

    def test_what_a_control_raises_is_raised_and_misuse_is_told(self):
        def with_(**attributes):
            return type("Odd", (Window,), attributes)

        raised = RuntimeError("odd")

        def fail(self, ack):
            raise raised

        with self.assertRaises(RuntimeError) as caught:
            suimon.simulate(BULK, controls={"bulk": with_(on_ack=fail)})
        self.assertIs(caught.exception, raised)
        set_to = lambda value: lambda self, ack: setattr(self, "cwnd_bytes", value)
        for control, error, why in [
            (with_(on_ack=set_to(0)), ValueError, "`bulk`: cwnd_bytes, at least a segment: .* from 1448 .* found 0"),
            (with_(on_ack=set_to(-1)), ValueError, "found -1"),
            (with_(on_ack=set_to(math.nan)), ValueError, "found NaN"),
            (with_(on_ack=set_to(math.inf)), ValueError, "found inf"),
            (with_(on_ack=set_to(None)), TypeError, "expected a number; found NoneType"),
            (with_(pacing_rate_bps=0), ValueError, "pacing_rate_bps: .* found 0"),
            (with_(pacing_rate_bps=-3.0), ValueError, "pacing_rate_bps: .* found -3"),
            (with_(on_loss=None), TypeError, "needs a method on_loss; Odd has none"),
            (lambda start: object(), TypeError, "needs a method on_ack; object has none"),
            (lambda: None, TypeError, "argument"),
        ]:
            with self.subTest(why=why), self.assertRaisesRegex(error, why):
                suimon.simulate(BULK, controls={"bulk": control})
        with self.assertRaisesRegex(TypeError, "class or a function"):
            suimon.simulate(BULK, controls={"bulk": "reno"})

    def test_a_sweep_with_callbacks_is_the_same_on_any_number_of_threads(self):
        grid = {"link.0.buffer": ["20 kB", "50 kB", "90 kB"], "flow.bulk.count": [1, 2]}
        run = lambda jobs: suimon.sweep(BULK, grid, set={"duration": "5 s"}, jobs=jobs, controls={"bulk": Reno})
        self.assertEqual(run(1), run(4))

    def test_the_first_point_that_fails_is_told(self):
        def buffers(start):
            raise LookupError(start.now_ns)

        with self.assertRaises(LookupError):
            suimon.sweep(BULK, {"seed": range(20)}, jobs=4, controls={"bulk": buffers})


if __name__ == "__main__":
    unittest.main()
