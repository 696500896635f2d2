"""Training file, or the part of one that is a split, as a job finds it. No TensorFlow here."""

from msgspec import Struct

from afo.storage.url import ByteRange, part_name


class InputFile(Struct, frozen=True, omit_defaults=True, gc=False):
    """A training file, or the `part` of it that is a split, as it was when the job was told of it.

    `size` is the file's, `modified` in seconds since 1970.
    """

    url: str
    size: int
    modified: float
    part: ByteRange | None = None

    @property
    def name(self) -> str:
        """What the split is called."""
        return part_name(self.url, self.part)
