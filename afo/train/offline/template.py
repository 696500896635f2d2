"""`python -m afo.train.offline.template`: offline tasks, each in a process forked from one with TensorFlow imported.

It takes names of task files by standard input, one a line and one at a time, and ends with it. An import of TensorFlow
takes seconds of a core; what is forked starts at once and as new, for here TensorFlow is imported and never used. How
a process ended is in the file `ENDED` beside the task.
"""

import os
import sys
from pathlib import Path

from afo.process.lifetime import die_with_parent, end_at_once
from afo.protocol.offline_task import ENDED
from afo.train.offline import work
from afo.trainable import hashed_wide_deep, wide_deep_model

#: What a task imports by itself, by its model.
IMPORTED = (hashed_wide_deep, wide_deep_model)


def main() -> int:
    """Carry out tasks until there are no more."""
    die_with_parent(os.getppid())
    for line in sys.stdin:
        file = line.rstrip("\n")
        code = _forked(file)
        ended = Path(file).with_name(ENDED)
        beside = ended.with_suffix(".new")
        beside.write_text(str(code))
        beside.replace(ended)
    return 0


def _forked(file: str) -> int:
    """How the process of a task ended; negative is a signal's number."""
    parent = os.getpid()
    if (child := os.fork()) == 0:
        code = 1
        try:
            die_with_parent(parent)
            code = work.main([file])
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            end_at_once(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
