"""`python -m serving_soak.expected BASE_PATH RECORDS OUT`: what TensorFlow answers with each version, as it comes.

Lines of JSON in OUT: a version with its scores, or why it cannot be loaded. The process ends after some versions,
because TensorFlow keeps something of each model: the caller starts it again, and it goes on after the lines that are
there. It is no child of the server and shares nothing with it but TensorFlow and the operations.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

_AT_ONCE = 40
_LOOK_S = 0.2


class Expected(msgspec.Struct):
    """What a version answers, and when its newest gradient was applied; `error`: it cannot be loaded."""

    version: int
    scores: list[float] = []
    trained_at: float = 0.0
    is_whole: bool = True
    error: str = ""


class ExpectedAnswers:
    """The process, and what it has found."""

    def __init__(self, base_path: Path, records: list[bytes], directory: Path) -> None:
        self._out, asked = directory / "expected.jsonl", directory / "records.msgpack"
        asked.write_bytes(msgspec.msgpack.encode(records))
        self._out.touch()
        self._log = directory / "expected.log"
        self._words = [sys.executable, "-m", "serving_soak.expected", str(base_path), str(asked), str(self._out)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def found(self) -> dict[int, Expected]:
        """By version, so far."""
        lines = self._out.read_bytes().split(b"\n")[:-1]
        each = (msgspec.json.decode(line, type=Expected) for line in lines)
        return {one.version: one for one in each}

    def _run(self) -> None:
        while not self._over.is_set():
            with self._log.open("ab") as words:
                process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
            while process.poll() is None and not self._over.wait(_LOOK_S):
                pass
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End the process."""
        self._over.set()
        self._thread.join()


def main(base_path: Path, records: list[bytes], out: Path) -> None:
    """Look for versions until there were enough."""
    import tensorflow as tf

    from afo.ops.library import load

    load()
    known = {msgspec.json.decode(line, type=Expected).version for line in out.read_bytes().splitlines()}
    left = _AT_ONCE
    with out.open("ab", buffering=0) as lines:
        while left:
            there = sorted(int(path.name) for path in base_path.glob("[0-9]*"))
            for number in (each for each in there if each not in known):
                known.add(number)
                left -= 1
                lines.write(msgspec.json.encode(_expected(tf, base_path / str(number), records)) + b"\n")
            time.sleep(_LOOK_S)


def _expected(tf: object, path: Path, records: list[bytes]) -> Expected:
    number = int(path.name)
    try:
        model = tf.saved_model.load(str(path))  # type: ignore[attr-defined]
        examples = tf.constant(records)  # type: ignore[attr-defined]
        scores = model.signatures["serving_default"](examples=examples)["probabilities"].numpy().ravel()
    except Exception as error:
        return Expected(number, error=f"{type(error).__name__}: {str(error)[:500]}")
    about = msgspec.json.decode((path / "assets.extra" / "afo.json").read_bytes())
    return Expected(number, [float(score) for score in scores], about["trained_at"], about.get("parent") is None)


if __name__ == "__main__":
    os.nice(5)
    main(Path(sys.argv[1]), msgspec.msgpack.decode(Path(sys.argv[2]).read_bytes()), Path(sys.argv[3]))
