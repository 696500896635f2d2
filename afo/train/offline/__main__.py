"""`python -m afo.train.offline TASK_JSON`."""

import sys

from afo.process.lifetime import end_at_once
from afo.train.offline.work import main

if __name__ == "__main__":
    # A thread that a model has left running may hang.
    end_at_once(main(sys.argv[1:]))
