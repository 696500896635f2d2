"""The example of docs/embedding-variables.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

PAGE = Path(__file__).parents[3] / "docs" / "embedding-variables.md"


def test_the_example_of_the_page(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S))
    script = tmp_path / "example.py"
    script.write_text(code.replace("file:///tmp/afo-doc/ctr", tmp_path.as_uri()), encoding="utf-8")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    tables, admitted = ran.stdout.splitlines()[-2:]
    assert tables.startswith("3 ")
    assert admitted == "0 0", "5 was met twice, not three times"
    assert (tmp_path / "delta-1" / "tables.json").exists()
