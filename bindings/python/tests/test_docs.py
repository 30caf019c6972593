"""The documents' blocks of `py`, which use the package: they run as they stand, with fewer points.

Blocks of `python` need no package; `tools/test-frames.sh` runs them.
"""

import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.frames

ROOT = pathlib.Path(__file__).parents[3]
FEWER = {"range(10_000)": "range(20)", '"64..1500:4"': '"64,512,1500"'}


@pytest.mark.parametrize("page", ["README.md", "bindings/python/README.md", "docs/points.md"])
def test_the_python_of_a_page_runs(page, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S))
    assert program
    for many, few in FEWER.items():
        program = program.replace(many, few)
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
