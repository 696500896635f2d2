"""Virtual environments of the peers, one each under `build/peers/<name>`, made once with pinned requirements.

`python benchmarks/peers/environment.py tfra` makes one and prints its interpreter. What is installed is noted in a
marker file last; a folder without it, or with another list, is made anew.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "peers"
_MARKER = ".installed"
_DEADLINE_S = 1800.0

#: TFRA 0.8.1 takes no TensorFlow above 2.16.2.
REQUIREMENTS: dict[str, list[str]] = {
    "tfra": [
        "tensorflow==2.16.2",
        "tensorflow-recommenders-addons==0.8.1",
        "tf-keras==2.16.0",
    ],
    "fbgemm": [
        "torch==2.14.1",
        "fbgemm-gpu-cpu==1.9.0",
        "numpy==2.2.6",
    ],
    "onnx": [
        "onnx==1.23.2",
        "onnxruntime==1.32.0",
        "numpy==2.2.6",
    ],
    "linear": [
        "scikit-learn==1.9.1",
        "pandas==3.1.1",
    ],
}


def python_of(name: str) -> Path:
    """The interpreter of a peer's environment, which is made if it does not exist."""
    folder, wanted = FOLDER / name, "\n".join(REQUIREMENTS[name]) + "\n"
    marker = folder / _MARKER
    if not marker.exists() or marker.read_text() != wanted:
        _make(folder, REQUIREMENTS[name])
        marker.write_text(wanted)
    return folder / "bin" / "python"


def _make(folder: Path, requirements: list[str]) -> None:
    """A fresh environment in `folder`; what was there is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"makes {folder} with {' '.join(requirements)}", file=sys.stderr)
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", *requirements])


def _run(command: list[str]) -> None:
    """Run a step of the installation; its output is shown when it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired as late:
        raise SystemExit(f"not within {_DEADLINE_S:g} s: {' '.join(command)}") from late
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(REQUIREMENTS))
    print(python_of(parser.parse_args().name))
