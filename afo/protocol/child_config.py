"""Configuration of every Child: one JSON file for all containers of a job, nothing secret in it."""

from typing import Literal

from msgspec import Struct

from afo.job import Job

#: Environment variables that tell a Child which task it is.
ROLE, INDEX, ATTEMPT = "AFO_ROLE", "AFO_INDEX", "AFO_ATTEMPT"
#: The container's name in its runtime (YARN's own CONTAINER_ID is used where this is not set).
CONTAINER = "AFO_CONTAINER"
#: Where the AM was when it asked for the container (`afo.rpc.client.AmAddress`): delegation tokens by which a container
#: could read the address file may have had their last day, and the AM has new ones.
AM = "AFO_AM"
#: Path of the file that holds a `ChildConfig` (see `afo.formats.json_file`).
CONFIG = "AFO_CHILD_CONFIG"


class ChildConfig(Struct, frozen=True, kw_only=True):
    """The same for all tasks of a job. Files are local paths inside the container, the rest are URLs."""

    job: Job
    job_id: str
    #: Says which of this machine's names the other tasks can reach (`afo.process.hosts`).
    runtime: Literal["local", "yarn"]
    am_address_url: str
    #: The job's secret, mode 0400.
    secret_file: str
    schema_file: str
    #: The list of training files (`afo.job_dir.lineage.InputFile`).
    files_url: str
    checkpoint_url: str
    export_url: str
    summary_url: str
    #: Directory that receives `<role>_<index>/<attempt>/{stdout,stderr}`.
    logs_url: str
    #: Interpreter of the TensorFlow process; '' is the Child's own.
    python: str = ""
    #: Seconds between heartbeats until the AM's first directive says otherwise.
    heartbeat_s: float = 1.0
    #: How long a stopped process may take between SIGTERM and SIGKILL, in seconds.
    stop_s: float = 5.0
