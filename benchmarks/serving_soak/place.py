"""Where versions go: a file system of its own that can be full, behind a link that can be gone."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_MIB = 512
_FILLER = "filler"


class VersionsPlace:
    """`base_path` is the exporter's; `link` is the server's."""

    def __init__(self, directory: Path) -> None:
        self.mount, self.link = directory / "disk", directory / "served"
        self.base_path = self.mount / "ctr"
        self.mount.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={_MIB}m", "afo-soak", str(self.mount)]
        #: Whether it can be made full: who may not mount has an ordinary directory.
        self.is_own = subprocess.run(words, capture_output=True, check=False).returncode == 0
        self.base_path.mkdir()
        self.link.symlink_to(self.base_path)

    def close(self) -> None:
        """Give the file system back."""
        if self.is_own:
            subprocess.run(["umount", "--lazy", str(self.mount)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        with (self.mount / _FILLER).open("wb") as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)

    def empty(self) -> None:
        """Give the room back."""
        (self.mount / _FILLER).unlink()

    def take_away(self) -> None:
        """The server finds no directory."""
        self.link.unlink()

    def bring_back(self) -> None:
        """As it was."""
        self.link.symlink_to(self.base_path)

    def numbers(self) -> list[int]:
        """Versions that are there, old to new."""
        return sorted(int(path.name) for path in self.base_path.glob("[0-9]*"))
