"""The program as a whole."""

import subprocess
import sys


def test_the_child_imports_no_tensorflow() -> None:
    code = "import sys, afo_child.main; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
