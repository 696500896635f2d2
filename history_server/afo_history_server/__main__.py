"""`python -m afo_history_server --root URL`: prints its address once it listens, then serves until a signal."""

import argparse
import importlib.util
import logging
import sys
from pathlib import Path

from afo.errors import AfoError, NotFound
from afo.process import descriptors
from afo.site.config import load_config
from afo.site.user_state import read_token

_NEEDED = ("flask", "waitress")


def main(arguments: list[str]) -> int:
    """Serve; returns an exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    descriptors.raise_limit()
    try:
        _check_packages()
        from afo_history_server.web.serve import serve

        token = read_token(options.token_file) if options.token_file else ""
        serve(options.root, options.port, load_config().history, options.index, token)
    except AfoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _check_packages() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NotFound(f"the history server needs {' and '.join(missing)}; install afo[history] into {sys.executable}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m afo_history_server", description="Show jobs in a browser.")
    parser.add_argument("--root", required=True, help="directory of all jobs: a path, file:// or hdfs:// URL")
    parser.add_argument("--port", type=int, default=18089, help="0 for any free one")
    parser.add_argument("--token-file", type=Path, help="holds what its user signs in with; nobody can if left out")
    parser.add_argument("--index", type=Path, help="file for a copy of what is known of ended jobs; none if left out")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
