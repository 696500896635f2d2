"""Structure of the code: `python tests/support/structure.py [ROOT]` counts folders, lengths, names and circles.

ROOT is a checkout of any commit; left out: this one. Imports for types alone count as imports do.
"""

import ast
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

#: Folder of each package, from the root.
PACKAGES = {
    "afo": ".",
    "afo_am": "am",
    "afo_child": "child",
    "afo_client": "client",
    "afo_history_server": "history_server",
}
CRUMB = 40


def modules(root: Path) -> dict[str, Path]:
    """Files by the dotted names of their modules; a package's `__init__` by the name of the package."""
    found = {}
    for package, folder in PACKAGES.items():
        for file in sorted((root / folder / package).rglob("*.py")):
            name = ".".join(file.relative_to(root / folder).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def imports(files: dict[str, Path]) -> dict[str, set[str]]:
    """What each module imports of the others, wherever the import stands."""
    return {name: set(_imported(name, file, files)) - {name} for name, file in files.items()}


def _imported(name: str, file: Path, files: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in files:
                    yield inner
                elif node.module in files:
                    yield node.module


def on_circles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import themselves by way of others."""
    found = []
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph[name]
        if start in seen:
            found.append(start)
    return found


def folders(files: dict[str, Path], root: Path) -> Counter[str]:
    """Modules in each folder."""
    return Counter(
        str(file.parent.relative_to(root)) for file in files.values() if file.name not in ("__init__.py", "__main__.py")
    )


def lengths(files: dict[str, Path]) -> dict[str, int]:
    """Lines of each module that is not an `__init__`."""
    return {
        name: len(file.read_bytes().splitlines()) for name, file in files.items() if file.name != "__init__.py"
    }  # fmt: skip


def shared_names(files: dict[str, Path]) -> dict[str, list[str]]:
    """Modules by a file name that several have."""
    by_name = defaultdict(list)
    for name, file in files.items():
        if not file.name.startswith("__"):
            by_name[file.stem].append(name)
    return {name: found for name, found in sorted(by_name.items()) if len(found) > 1}


def summary(root: Path) -> dict[str, object]:
    """The figures, as docs/reports/structure-part10.md has them."""
    files = modules(root)
    sizes, rooms, graph = lengths(files), folders(files, root), imports(files)
    circles = on_circles(graph)
    return {
        "modules": len(sizes),
        "imports": sum(map(len, graph.values())),
        "modules on an import circle": len(circles),
        "folders": len(rooms),
        "largest folders": dict(rooms.most_common(6)),
        "median lines of a module": statistics.median(sizes.values()),
        f"modules under {CRUMB} lines": sum(size < CRUMB for size in sizes.values()),
        "longest modules": dict(Counter(sizes).most_common(4)),
        "file names that several modules have": len(shared_names(files)),
    }


if __name__ == "__main__":
    print(
        json.dumps(summary(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()), indent=1)
    )
