"""Files by URL, the same on local disks and in HDFS.

Every operation is bounded in time and raises only `afo.errors`: NotFound, PermissionDenied, AlreadyExists,
ClusterUnreachable, Unsupported (another scheme), and StorageError for the rest.
"""

from afo.storage.backend import FileInfo
from afo.storage.operations import (
    append,
    delete,
    download,
    exists,
    glob,
    info,
    list_dir,
    make_dirs,
    open_input,
    open_output,
    read_bytes,
    rename,
    take_over,
    upload,
    write_bytes,
)
from afo.storage.patience import be_patient, patiently
from afo.storage.url import is_below, join, name, parent, relative, resolve

__all__ = [
    "FileInfo",
    "append",
    "be_patient",
    "delete",
    "download",
    "exists",
    "glob",
    "info",
    "is_below",
    "join",
    "list_dir",
    "make_dirs",
    "name",
    "open_input",
    "open_output",
    "parent",
    "patiently",
    "read_bytes",
    "relative",
    "rename",
    "resolve",
    "take_over",
    "upload",
    "write_bytes",
]
