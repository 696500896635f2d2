"""Task file and reports between the Child and the TensorFlow process. No TensorFlow here."""

from typing import Literal

from msgspec import Struct, structs

from afo.job import Job, Role
from afo.protocol.input_wait import InputWait

#: Exit code of a process whose parameter server or generation is gone: start me anew, no budget used
#: (EX_TEMPFAIL of sysexits).
EXIT_RESTART = 75
#: Steps of a new model before several are in flight. At first all rows move far and the same way; gradients that do not
#: see each other go too far, and what AdaGrad has summed of them slows it for good: 0.004 less AUC after 293 steps.
WARM_UP = 100

#: Parameter servers that hold the data position where `checkpoint.on_ps_loss` is `partial`: as long as one of them
#: keeps what it holds, so may the others.
POSITION_HOLDERS = (0, 1)

Phase = Literal[
    "starting", "serving", "waiting", "restoring", "initializing", "training", "saving", "evaluating", "exporting",
    "done",
    # of a program, of which no more is known
    "running",
]  # fmt: skip


class TrainTask(Struct, frozen=True, kw_only=True):
    """One start of one task's TensorFlow process; written by the Child as JSON of mode 0600."""

    job_id: str
    role: Role
    index: int
    attempt: int
    #: Grows by one whenever the set of parameter servers starts anew; messages of an older one are refused.
    generation: int
    is_chief: bool
    #: Addresses `host:port` of all parameter servers, in order of their index.
    ps: tuple[str, ...]
    num_workers: int
    #: Splits that the AM knew when the generation started. It alone knows those that came since.
    splits_at_start: int
    #: URL of the list of the files that the job was submitted with (`afo.protocol.input_file.InputFile`).
    files_url: str
    job: Job
    #: Text of the feature schema (YAML) as staged with the job.
    schema_file: str
    #: URL of the file that holds the AM's present address, and local path of the job's secret.
    am_address_url: str
    secret_file: str
    work_dir: str
    checkpoint_url: str
    export_url: str
    summary_url: str
    progress_fd: int
    #: Where others reach this process, and the proxy by which it reaches them (`host:port`); '' without a tunnel.
    address: str = ""
    proxy: str = ""


class Progress(Struct, frozen=True, kw_only=True):
    """A line on `progress_fd`. Counters are totals of this process in its generation; times are seconds."""

    phase: Phase
    #: Of the process: the one that it was started in, or has gone over into since (`Master.servers`). 0 where it does
    #: not say: its Child then puts in the first one.
    generation: int = 0
    step: int = 0
    samples: int = 0
    #: Time of all steps, that waiting for their batches included.
    step_s: float = 0.0
    input_wait: InputWait = InputWait()
    loss: float | None = None
    #: Running mean of the updates by other workers while a step of this one ran, from reading the variables to its own
    #: update: how stale its gradients are. None before the second step.
    staleness: float | None = None
    #: Records that could not be read and were skipped.
    bad_records: int = 0
    message: str = ""

    def is_beyond(self, other: "Progress") -> bool:
        """Whether something was done in between, not only waited."""
        return structs.replace(self, step_s=other.step_s, input_wait=other.input_wait) != other
