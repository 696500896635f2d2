"""`python -m afo_am.supervisor AM_CONFIG_JSON`."""

import sys

from afo_am.supervisor.supervision import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
