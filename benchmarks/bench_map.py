"""The map alone against boost::unordered_flat_map: compiles and runs `map_find.cc`, one thread.

Needs boost 1.81 or later (Debian: libboost1.81-dev) and g++.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from report import MISSED, publish, result
from size import sized

HERE = Path(__file__).parent
CORE = HERE.parent / "afo" / "core"
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-march=x86-64-v3", "-ffp-contract=off"]
LIBRARIES = ["-lpthread", "-lz"]
#: The widest kernels are compiled for themselves (afo/core/CMakeLists.txt).
WIDE = "kernels_v4.cc"
#: boost's memory comes from malloc: in huge pages then, as ours.
ENVIRONMENT = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def built() -> Path:
    """The program, compiled with the flags of the library."""
    work = HERE.parent / "build" / "map_find"
    work.mkdir(parents=True, exist_ok=True)
    compiler = ["g++", *FLAGS, f"-I{CORE.parent.parent}"]
    wide = work / "kernels_v4.o"
    subprocess.run([*compiler, "-march=x86-64-v4", "-c", str(CORE / WIDE), "-o", str(wide)], check=True)
    sources = [str(source) for source in sorted(CORE.glob("*.cc")) if source.name != WIDE]
    program = work / "map_find"
    subprocess.run([*compiler, str(HERE / "map_find.cc"), *sources, str(wide), *LIBRARIES, "-o", program], check=True)
    return program


def main() -> None:
    """Measure and publish."""
    given = sys.argv[1:] or sized([], ["100000"])
    ran = subprocess.run([built(), *given], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    answer = json.loads(ran.stdout)
    print(f"bytes a key beside its row: {answer['index_bytes_a_key']} against {answer['boost_bytes_a_key']}")
    found = result(
        "find of 40,000 keys among 10 M against boost::unordered_flat_map",
        answer["ours_ns"], answer["theirs_ns"], "ns a key", 1.0, lower_is_better=True,
    )  # fmt: skip
    sys.exit(0 if publish("map", [found]) else MISSED)


if __name__ == "__main__":
    main()
