"""`python -m afo_child`."""

import sys

from afo_child.main import main

sys.exit(main())
