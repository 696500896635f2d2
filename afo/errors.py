"""Every error that afo raises on purpose.

One base class; a leaf is a class and a sentence. Catching `AfoError` catches all of them, and its text is what the
user reads: what is wrong, where, the value given, what is allowed, what to do. Errors of libraries are translated
into these in one place per library (`afo.storage` for file systems, `afo.rpc.client` for gRPC, the YARN runtime for
skein).
"""

import errno


class AfoError(Exception):
    """Base of all errors meant for the user. `exit_code` is what the `afo` command ends with."""

    exit_code = 1


class UsageError(AfoError):
    """The command line is wrong."""

    exit_code = 2


class SpecError(AfoError, ValueError):
    """A job file, schema or site configuration is wrong; the text starts with file and line."""

    exit_code = 3


class PermissionDenied(AfoError, PermissionError):
    """The caller may not do this: a wrong secret, an unwritable output, a missing Kerberos ticket."""

    exit_code = 4


class NotFound(AfoError, LookupError):
    """A job, task, file or feature that was named does not exist."""

    exit_code = 5


class ClusterUnreachable(AfoError, ConnectionError):
    """A cluster, its file system or a job's Application Master does not answer."""

    exit_code = 6


class Orphaned(ClusterUnreachable):
    """No Application Master answered a Child for `timeouts.orphan`; its container ends."""

    exit_code = 76


class WaitTimeout(AfoError, TimeoutError):
    """What was waited for did not happen in the time given."""

    exit_code = 7


class StorageError(AfoError, OSError):
    """Reading or writing a file failed; the text names the file."""


class OutOfDescriptors(ClusterUnreachable, StorageError):
    """This process, or the machine, has as many files and connections open as it may; nothing was read or written.

    Worth another try, so whoever waits for a cluster waits for a descriptor, too.
    """


class NoSpaceLeft(StorageError):
    """The disk is full, or a quota of it used up; there may be room again once somebody has made some."""


class StillOpen(StorageError):
    """Another process has had the file open for writing for as long as the reader waited."""


class AlreadyExists(StorageError):
    """A file that may be created only once is there already; also the loser of two simultaneous creators."""


class DataError(AfoError, ValueError):
    """Records are corrupt or do not fit the schema; the text names file and offset."""

    exit_code = 3


class TrainingError(AfoError, RuntimeError):
    """Training cannot go on."""


class ModelError(AfoError, ValueError):
    """The user's own model raised, or is not what the trainer can train; the text names the user's line."""

    exit_code = 3


class CheckpointLost(TrainingError):
    """A job must go back to a checkpoint of its own and none is whole any more; the text names what each lacks."""


class NotFinite(TrainingError):
    """A loss, weight, gradient or input is not a number; the text names the step, the files and which one it is."""


class GateRefused(TrainingError):
    """A model did not pass `export.require`; the text names every bound that does not hold."""


class ProtocolError(AfoError, RuntimeError):
    """A message is malformed, of another version, or of a generation that has ended."""


class GenerationOver(ProtocolError):
    """A message is of a generation that has ended, of a process that lives and may ask for the next one."""


class Unsupported(AfoError, NotImplementedError):
    """Asked for something this version does not do; the text says which."""

    exit_code = 3


def unwritable(error: Exception, text: str) -> AfoError:
    """`NoSpaceLeft` where the system says that the disk is full or a quota used up, else `PermissionDenied`."""
    return (NoSpaceLeft if has_no_space(error) else PermissionDenied)(text)


def has_no_space(error: Exception) -> bool:
    """Whether the disk is full, or a quota of it used up."""
    return isinstance(error, NoSpaceLeft) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def in_words(error: Exception) -> str:
    """What is said of one thing among many that cannot be shown: of a fault of ours its kind too, 500 characters."""
    return str(error) if isinstance(error, AfoError) else f"{type(error).__name__}: {error}"[:500]
