"""The package, installed from its wheel, beside the program: the same figures. `cargo xtask wheel` runs it, with the program's path
in SUIMON."""

import csv
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

import suimon

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STUB = HERE.parent / "suimon.pyi"

HOME = """
version = 1
duration = "4 s"
[[link]]
between = ["server", "home"]
rate = "10 Mbit/s"
delay = "10 ms"
policy.server = { bandwidth = "9.5 Mbit/s", discipline = "drr", class = [
    { name = "voice", weight = 1 },
    { name = "rest", weight = 4, default = true },
] , filter = [{ class = "voice", protocol = "udp" }] }
[[flow]]
name = "transfer"
between = ["server", "home"]
kind = "tcp"
count = 2
[[flow]]
name = "call"
between = ["server", "home"]
kind = "constant"
rate = "100 kbit/s"
frame = "214 B"
[[expect]]
flow = "call"
metric = "delay-p99"
at_most = "30 ms"
"""


def program(*arguments):
    """What `suimon sim` prints."""
    done = subprocess.run([os.environ["SUIMON"], "sim", *arguments], capture_output=True, text=True)
    assert done.returncode in (0, 4), done.stderr
    return done.stdout


class Simulate(unittest.TestCase):
    def test_figures_are_those_of_the_program(self):
        for name in ["home", "reserved-path", "link-impaired", "yields", "disciplines/fq_codel"]:
            path = ROOT / "scenarios" / f"{name}.toml"
            told = json.loads(program("--json", str(path)))
            self.assertEqual(suimon.simulate(path).to_dict(), told, name)

    def test_a_path_a_text_and_a_dict_are_the_same_scenario(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "scenario.toml"
            path.write_text(HOME)
            told = json.loads(program("--json", str(path)))
            spoken = {
                "version": 1,
                "duration": "4 s",
                "link": [
                    {
                        "between": ("server", "home"),
                        "rate": "10 Mbit/s",
                        "delay": "10 ms",
                        "policy": {
                            "server": {
                                "bandwidth": "9.5 Mbit/s",
                                "discipline": "drr",
                                "class": [
                                    {"name": "voice", "weight": 1},
                                    {"name": "rest", "weight": 4, "default": True},
                                ],
                                "filter": [{"class": "voice", "protocol": "udp"}],
                            }
                        },
                    }
                ],
                "flow": [
                    {"name": "transfer", "between": ["server", "home"], "kind": "tcp", "count": 2},
                    {
                        "name": "call",
                        "between": ["server", "home"],
                        "kind": "constant",
                        "rate": "100 kbit/s",
                        "frame": "214 B",
                    },
                ],
                "expect": [{"flow": "call", "metric": "delay-p99", "at_most": "30 ms"}],
            }
            for scenario in [path, str(path), HOME, spoken]:
                self.assertEqual(suimon.simulate(scenario).to_dict(), told)

    def test_settings_and_seed_are_those_that_a_file_would_have(self):
        other = HOME.replace("count = 2", "count = 3").replace("weight = 4", "weight = 9")
        other = other.replace("version = 1", 'version = 1\nseed = 5')
        settings = {
            "flow.transfer.count": 3,
            'link."server > home".policy.server.class.rest.weight': 9,
        }
        given = suimon.simulate(HOME, set=settings, seed=5)
        self.assertEqual(given.to_dict(), suimon.simulate(other).to_dict())
        self.assertNotEqual(given.to_dict(), suimon.simulate(HOME).to_dict())
        self.assertIn("count = 3", given.text)

    def test_parts_are_found_by_name(self):
        result = suimon.simulate(HOME)
        self.assertEqual(result.link("server > home")["classes"][0], result.class_("voice"))
        self.assertEqual(result.class_("voice", link="server > home")["name"], "voice")
        self.assertEqual(result.flow("call")["to"], "home")
        for wrong in [
            lambda: result.link("server"),
            lambda: result.class_("vice"),
            lambda: result.class_("voice", link="home > server"),
            lambda: result.flow("calls"),
        ]:
            with self.assertRaises(KeyError):
                wrong()
        with self.assertRaisesRegex(KeyError, "did you mean `call`"):
            result.flow("calls")

    def test_series_and_delays_add_up_to_the_totals(self):
        result = suimon.simulate(HOME, set={"bin": "100 ms"})
        voice = result.class_("voice")
        bins = [bin for bin in result.series() if (bin["what"], bin["name"]) == ("class", "voice")]
        self.assertEqual([round(bin["from_s"] * 10) for bin in bins], list(range(40)))
        self.assertAlmostEqual(sum(bin["rate_bps"] for bin in bins) / 80, voice["sent_bytes"], delta=1)
        delays = result.delays(flow="call")
        self.assertEqual(delays["share"][-1], 1.0)
        self.assertEqual(sorted(delays["share"]), delays["share"])
        p99 = next(at for at, share in zip(delays["delay_s"], delays["share"]) if share >= 0.99)
        self.assertAlmostEqual(p99, result.flow("call")["delay"]["p99_ns"] / 1e9, delta=p99 / 16)
        self.assertEqual(result.delays(link="server > home")["share"][-1], 1.0)
        with self.assertRaises(TypeError):
            result.delays()

    def test_charts_are_svg_and_the_page_is_html(self):
        result = suimon.simulate(HOME)
        for svg in [result._repr_svg_(), result.svg("delays"), result.svg("flows")]:
            self.assertTrue(xml.etree.ElementTree.fromstring(svg).tag.endswith("svg"))
        self.assertEqual(result.svg(), result.svg("bandwidth"))
        self.assertNotEqual(result.svg(), result.svg("delays"))
        self.assertIn("voice", result.html())
        with self.assertRaisesRegex(ValueError, "delays"):
            result.svg("delay")

    def test_expectations_are_judged(self):
        result = suimon.simulate(HOME)
        self.assertTrue(result.met)
        self.assertEqual(repr(result), "<suimon.Result scenario: 4 s, 1 of 1 expectations met>")
        missed = suimon.simulate(HOME, set={"expect.0.at_most": "1 ms"})
        self.assertFalse(missed.met)
        self.assertRegex(missed.expectations[0]["missed_by"], "too much")


class Errors(unittest.TestCase):
    def test_a_mistake_has_its_place(self):
        text = HOME.replace('kind = "tcp"', 'kind = "tpc"')
        line = text[: text.index("tpc")].count("\n") + 1
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.toml"
            path.write_text(text)
            for call in [suimon.simulate, suimon.sweep, suimon.check]:
                with self.assertRaises(suimon.ScenarioError) as caught:
                    call(path)
                error = caught.exception
                self.assertEqual((error.file, error.line, error.column), (str(path), line, 8))
                self.assertEqual(len(error.mistakes), 1)
                self.assertIn("tcp", error.mistakes[0]["message"])
                self.assertIn(f"mine.toml:{line}:8", str(error))
        self.assertTrue(issubclass(suimon.ScenarioError, ValueError))

    def test_a_text_that_is_no_toml_has_its_place_with_settings_too(self):
        for settings in [None, {"seed": 3}]:
            with self.assertRaises(suimon.ScenarioError) as caught:
                suimon.simulate("version = 1\nseed = \n", set=settings)
            self.assertEqual(caught.exception.line, 2)

    def test_a_setting_that_is_not_there_is_told_with_the_nearest(self):
        with self.assertRaisesRegex(suimon.ScenarioError, "did you mean `transfer`"):
            suimon.simulate(HOME, set={"flow.transfr.count": 3})
        with self.assertRaisesRegex(suimon.ScenarioError, "did you mean `count`"):
            suimon.simulate(HOME, set={"flow.transfer.cuont": 3})

    def test_wrong_types_and_files_are_pythons_own_errors(self):
        with self.assertRaisesRegex(FileNotFoundError, "nothing.toml"):
            suimon.simulate("nothing.toml")
        with self.assertRaises(TypeError):
            suimon.simulate(3)
        with self.assertRaisesRegex(TypeError, "object"):
            suimon.simulate(HOME, set={"seed": object()})
        with self.assertRaisesRegex(TypeError, "list of values"):
            suimon.sweep(HOME, {"seed": "1"})
        with self.assertRaises(suimon.ScenarioError):
            suimon.sweep(HOME, {"seed": []})

    def test_several_points_are_no_single_result(self):
        text = HOME.replace("count = 2", 'count = "{n}"') + "[sweep]\nn = [1, 2]\n"
        with self.assertRaisesRegex(suimon.ScenarioError, "2 points"):
            suimon.simulate(text)
        one = suimon.simulate(text, set={"n": 2}).to_dict()
        del one["sweep"]
        both = suimon.simulate(HOME).to_dict()
        del both["sweep"]
        self.assertEqual(one, both)

    def test_a_warning_is_told_and_no_error(self):
        text = HOME + "[sweep]\nn = [1]\n"
        self.assertIn("nothing uses `n`", suimon.check(text)[0]["message"])
        self.assertEqual(suimon.simulate(text).warnings[0]["severity"], "warning")
        self.assertEqual(suimon.check(HOME), [])


class Sweep(unittest.TestCase):
    GRID = {"flow.transfer.count": range(1, 4), "link.0.rate": ["10 Mbit/s", "20 Mbit/s"]}

    def test_rows_are_in_order_and_the_same_on_any_number_of_threads(self):
        rows = suimon.sweep(HOME, self.GRID)
        points = [(row["point"], row["flow.transfer.count"], row["link.0.rate"]) for row in rows]
        pairs = itertools.product(*self.GRID.values())
        self.assertEqual(points, [(number, *pair) for number, pair in enumerate(pairs, 1)])
        self.assertEqual(rows[1]["link.0.rate bps"], 20e6)
        self.assertEqual(rows, suimon.sweep(HOME, self.GRID, jobs=1))
        self.assertEqual(rows, suimon.sweep(HOME, self.GRID, jobs=7))

    def test_a_row_is_that_of_the_point_alone(self):
        row = suimon.sweep(HOME, self.GRID)[3]
        alone = suimon.simulate(HOME, set={"flow.transfer.count": 2, "link.0.rate": "20 Mbit/s"}).row()
        self.assertGreater(len(alone), 20)
        for name in set(alone) - {"point"}:
            self.assertEqual(row[name], alone[name], name)

    def test_rows_are_those_of_the_programs_table(self):
        text = HOME.replace("count = 2", 'count = "{n}"') + "[sweep]\nn = [1, 2]\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.toml"
            path.write_text(text)
            program("--report", folder, str(path))
            with open(pathlib.Path(folder) / "mine.csv", newline="") as file:
                table = list(csv.DictReader(file))
        said = {None: "", True: "true", False: "false"}
        plain = lambda value: said[value] if value is None or isinstance(value, bool) else str(value)
        rows = [{name: plain(value) for name, value in row.items()} for row in suimon.sweep(text)]
        self.assertEqual(rows, table)

    def test_other_threads_run_while_it_simulates(self):
        done = threading.Event()
        turns = []

        def count():
            while not done.is_set():
                turns.append(1)
                time.sleep(0.001)

        beside = threading.Thread(target=count, daemon=True)
        beside.start()
        try:
            suimon.simulate(HOME, set={"duration": "60 s"})
        finally:
            done.set()
            beside.join()
        self.assertGreater(len(turns), 2)

    def test_ctrl_c_ends_it(self):
        import _thread

        # A shell that starts the tests in the background has them ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.2, _thread.interrupt_main)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            suimon.sweep(HOME, {"seed": range(1, 1000)}, set={"duration": "60 s"}, jobs=1)
        timer.join()


class Stub(unittest.TestCase):
    """The types that suimon.pyi states are those that there are."""

    def setUp(self):
        self.stub = {}
        exec(compile(STUB.read_text(), str(STUB), "exec"), self.stub)

    def test_dicts_have_the_keys_that_are_stated(self):
        result = suimon.simulate(HOME)
        link = result.link("server > home")
        for name, told in [
            ("Link", link),
            ("Class", link["classes"][0]),
            ("Wire", link["wire"]),
            ("Delay", link["delay"]),
            ("Flow", result.flow("call")),
            ("Expectation", result.expectations[0]),
            ("Bin", result.series()[0]),
            ("Distribution", result.delays(flow="call")),
        ]:
            stated = self.stub[name]
            self.assertEqual(set(stated.__required_keys__), set(told), name)
            self.assertLessEqual(set(told), set(stated.__annotations__), name)

    def test_every_name_is_stated_and_is_there(self):
        public = lambda names: {name for name in names if not name.startswith("_")}
        there = public(vars(suimon)) - {"suimon"}
        stated = public(self.stub) & there
        self.assertEqual(stated, there)
        self.assertEqual(public(vars(self.stub["Result"])), public(vars(suimon.Result)))
        for name in ["simulate", "sweep", "check"]:
            self.assertIsNotNone(self.stub[name].__doc__, name)


if __name__ == "__main__":
    unittest.main()
