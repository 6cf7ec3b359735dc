"""The recipe for Dask of docs/scenarios.md, run as it stands there: what is merged is what one run prints, byte for byte."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import dask

ROOT = pathlib.Path(__file__).resolve().parents[3]

SWEEP = """
version = 1
duration = "500 ms"
[[link]]
between = ["a", "b"]
rate = "{rate}"
delay = "2 ms"
loss = "1 %"
[[flow]]
name = "tcp"
between = ["a", "b"]
kind = "tcp"
count = "{flows}"
[sweep]
rate = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]
flows = [1, 2, 3, 4]
"""


class Dask(unittest.TestCase):
    def test_shards_on_workers_give_the_bytes_of_one_run(self):
        page = (ROOT / "docs" / "scenarios.md").read_text()
        recipe = re.search(r"^```python\n(.*?import dask\n.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
        program = pathlib.Path(os.environ["SUIMON"])
        before, path = os.getcwd(), os.environ["PATH"]
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sweep.toml").write_text(SWEEP)
            try:
                os.chdir(folder)
                os.environ["PATH"] = f"{program.parent}:{path}"
                exec(compile(recipe, "docs/scenarios.md", "exec"), {"__name__": "recipe"})
                parts = sorted(str(part) for part in pathlib.Path(".").glob("part-*.json"))
                self.assertEqual(len(parts), 8)
                merged = subprocess.run([program, "sim", "--merge", *parts], stdout=subprocess.PIPE, check=True).stdout
                whole = subprocess.run([program, "sim", "--json", "sweep.toml"], stdout=subprocess.PIPE, check=True).stdout
            finally:
                os.chdir(before)
                os.environ["PATH"] = path
        self.assertEqual(merged, whole)
        self.assertEqual(len(whole.splitlines()), 12)


if __name__ == "__main__":
    unittest.main()
