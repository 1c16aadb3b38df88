"""What is emitted is laid out alike by the oldest black of the range and by the newest.

The newest is the one that is installed: see unit/test_emission.py.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from goldens import cases, emitted

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
[RANGE] = [one for one in PROJECT["dependencies"] if one.startswith("black>=")]
OLDEST = RANGE.partition(",")[0].replace(">=", "==")


@pytest.mark.slow
def test_the_oldest_black_of_the_range_leaves_it_as_it_is(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "black")]
    subprocess.run([*pip, f"{OLDEST}.*"], check=True, capture_output=True)
    folder = tmp_path / "emitted"
    folder.mkdir()
    for case in cases():
        text = emitted(case).replace("# fmt: off\n", "", 1)
        (folder / f"{case.name}.py").write_text(text, encoding="utf-8", newline="\n")
    done = subprocess.run(
        [sys.executable, "-m", "black", "--check", "--diff", "--line-length", "100", str(folder)],
        env={"PYTHONPATH": str(tmp_path / "black")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
