"""Examples at the end of a command's help."""


def examples(*lines: str) -> str:
    """An epilog for click, its lines kept as they are. `tests/test_docs.py` parses each as a command line."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
