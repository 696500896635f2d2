"""JSON that several threads decode."""

import subprocess
import sys

#: Two threads meet the same structs for the first time, again and again; without care the process ends by SIGSEGV.
MEETS = """
import gc, sys, threading
import msgspec
from afo.formats.decoding import from_json
gc.set_threshold(1)
sys.setswitchinterval(1e-6)
for _ in range(50):
    class Inner(msgspec.Struct):
        name: str = ""
        numbers: tuple[int, ...] = ()
    class One(msgspec.Struct, tag="one"):
        inner: tuple[Inner, ...] = ()
    class Other(msgspec.Struct, tag="other"):
        inner: Inner | None = None
    text, barrier, found = msgspec.json.encode(One((Inner("a", (1,)),))), threading.Barrier(2), []
    def decode():
        barrier.wait()
        found.append(from_json(text, One | Other, "there"))
    threads = [threading.Thread(target=decode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [One((Inner("a", (1,)),))] * 2
"""


def test_threads_that_meet_a_struct_at_the_same_time_all_decode_it() -> None:
    done = subprocess.run([sys.executable, "-c", MEETS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
