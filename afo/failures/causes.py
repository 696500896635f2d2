"""The catalogue of causes: why a task or a job ended, whose fault it was, and what to do about it."""

from typing import Literal

from msgspec import Struct

Blame = Literal["nobody", "user", "cluster", "afo"]

#: Ends that are not the user's fault use no budget, but even they are bounded for each task.
MAX_FREE_RESTARTS = 100


#: What ends all containers at once.
APPLICATION_ATTEMPT_LOST = "application_attempt_lost"


class Cause(Struct, frozen=True, kw_only=True):
    """One way to end. `retried`: another attempt of the same task may go better, so the AM makes one."""

    name: str
    blame: Blame
    retried: bool
    summary: str
    advice: str


def _cause(name: str, blame: Blame, retried: bool, summary: str, advice: str) -> Cause:
    return Cause(name=name, blame=blame, retried=retried, summary=summary, advice=advice)


_ALL = (
    _cause("succeeded", "nobody", False, "It did all its work.", "Nothing to do."),
    _cause(
        "killed_by_user", "nobody", True, "Somebody ended the job, or this task of it.",
        "`afo events JOB` says who asked for it and when. A task that was killed comes back.",
    ),
    _cause("ended_with_job", "nobody", False, "It was ended because its job had its verdict.", "Nothing to do."),
    _cause(
        "master_lost", "cluster", False, "The Application Master ended without a verdict, in its last attempt.",
        "`afo logs JOB am` has its last words, and on a cluster YARN's say why. There, raise `am.attempts` if its "
        "machine was lost, and `am.memory` if it used too much.",
    ),
    # The program of the task.
    _cause(
        "user_exception", "user", True, "The program raised an exception.",
        "The last lines of its stderr name the place; `afo logs JOB TASK` has all of it. It is tried again, for it may "
        "have come of another task's end; the job fails when the same exception comes back.",
    ),
    _cause(
        "data_error", "user", False, "Records are corrupt or do not fit the schema.",
        "The message names file and offset. Check the file with `afo data inspect`, write it anew, or allow a share "
        "of bad records with `data.max_bad_records`.",
    ),
    _cause(
        "spec_error", "user", False, "The job file, the schema or an option is wrong for this task.",
        "The message names the place; `afo validate` finds most of these before a job starts.",
    ),
    _cause(
        "file_not_found", "user", False, "A file that the task needs does not exist.",
        "Check the URL in the message; a file that was replaced while the job ran counts as missing too.",
    ),
    _cause(
        "permission_denied", "user", False, "The task may not read or write something.",
        "Check owner and mode of the path in the message for the user that the job runs as.",
    ),
    _cause(
        "python_not_found", "user", False, "The interpreter of the task cannot be started on that machine.",
        "`environment.python` must exist on every node, or be an archive made for the nodes' system.",
    ),
    _cause(
        "preload_missing", "user", False, "The allocator library of `environment.preload` cannot be loaded.",
        "Install it on every node, give its full path, or put it into the archive of `environment.python`.",
    ),
    _cause(
        "version_mismatch", "user", False, "The container holds another version of afo or TensorFlow than the job.",
        "Make the archive of `environment.python` again with the version that submits, or submit with the other one.",
    ),
    _cause(
        "quality_gate", "user", False, "The model did not pass `export.require`; nothing was exported.",
        "The message names the bound, and the feature where one is missing: compare this day's data with the day "
        "before (`afo data inspect`). The previous export is untouched, and no warm start takes this model.",
    ),
    _cause(
        "model_error", "user", False, "The model of `model.entry` raised, or is not what the trainer can train.",
        "The message names the line; the whole traceback is on stderr. Build the model and call it on a few made-up "
        "samples in a plain Python process first.",
    ),
    _cause(
        "checkpoint_lost", "cluster", False, "The job had to go back to a checkpoint, and none of its own is whole.",
        "Files of it were deleted or damaged while the job ran; the message names the first that is missing of each. "
        "Look in the trash of the file system, and at what cleans up in that directory. Submit the job again: it "
        "begins anew, or with an earlier model by `checkpoint.warm_start`. What was exported before is untouched.",
    ),
    _cause(
        "not_finite", "user", False, "A loss, weight, gradient or input was not a number.",
        "The message names step, files and culprit. A feature: clean it, or clip it in the model. A gradient: lower "
        "the learning rate, or warm it up (`optimizer.schedule.warmup_steps`).",
    ),
    _cause(
        "failed", "user", True, "The program ended with an exit code that says nothing more.",
        "Look at the last lines of its stderr and stdout.",
    ),
    # Resources and machines.
    _cause(
        "out_of_memory", "user", True, "The task needed more memory than it was given.",
        "Raise `roles.<role>.memory`, or use more parameter servers, smaller tables or smaller batches. The "
        "next attempt gets more, once.",
    ),
    _cause(
        "disk_full", "cluster", True, "No space was left on a disk that the task wrote to.",
        "Free the disk of the machine; check quotas of the directories for checkpoints, summaries and exports.",
    ),
    _cause(
        "not_writable", "cluster", True, "A file system took no data: it is read-only, or allows no file of that size.",
        "The message names the file. A disk with errors becomes read-only: the machine's `dmesg` says so; mend it, and "
        "mount it for writing again. For a file that is too large, raise the limit (`ulimit -f`).",
    ),
    _cause(
        "port_in_use", "cluster", True, "A port that was reserved for the server had been taken by another program.",
        "A later attempt takes another port. If it stays, narrow net.ipv4.ip_local_port_range on that machine.",
    ),
    _cause(
        "illegal_instruction", "cluster", True, "The machine's processor lacks instructions that the program uses.",
        "Keep the job off such machines with `node_label`, or build the libraries for an older processor.",
    ),
    _cause(
        "segmentation_fault", "user", True, "Native code crashed (invalid memory access).",
        "Custom ops and mixed library versions are the usual reasons; `PYTHONFAULTHANDLER` is on: see the stderr.",
    ),
    _cause(
        "aborted", "user", True, "Native code gave up (abort, failed check).",
        "The last line of stderr usually names the check that failed.",
    ),
    _cause(
        "killed_by_signal", "cluster", True, "Somebody outside of afo killed the process.",
        "Look at the machine's system log: an administrator, or the kernel short of memory.",
    ),
    _cause(
        "storage_unreachable", "cluster", True, "A file system did not answer.",
        "Check the NameNode and DataNodes; the message names the URL.",
    ),
    # The rest of the job.
    _cause(
        "parameter_server_lost", "cluster", True, "A parameter server could not be reached any more.",
        "Look for the parameter server that ended first: `afo events JOB`.",
    ),
    _cause(
        "generation_lost", "nobody", True, "It ended well, but its generation had been lost meanwhile.",
        "Nothing to do: what was lost is done again. `afo events JOB` says which task was lost.",
    ),
    _cause(
        "restarts_exhausted", "cluster", True, "The process asked to be started anew too often in one generation.",
        "The parameter servers look alive to the AM but cannot be reached from this machine: check the network.",
    ),
    _cause(
        "container_stopped", "cluster", True, "The container was told to end.",
        "YARN does so on preemption, when memory runs over, or when the machine is taken out of service.",
    ),
    _cause(
        "work_dir_lost", "cluster", True, "The directory of the container was taken away from under it.",
        "A NodeManager without recovery (`yarn.nodemanager.recovery.enabled`) empties them when it starts again.",
    ),
    _cause(
        "child_error", "afo", True, "The launcher inside the container failed.",
        "Please report it with the container's own stderr.",
    ),
    # Seen from the Application Master alone.
    _cause(
        "preempted", "cluster", True, "YARN took the container for another queue.",
        "Nothing to do; if it happens often, use a queue with a guaranteed share.",
    ),
    _cause(
        "node_lost", "cluster", True, "The machine of the container went away.",
        "Nothing to do: the task is started elsewhere.",
    ),
    _cause(
        "memory_limit", "user", True, "YARN killed the container for using more memory than it had asked for.",
        "Raise `roles.<role>.memory`.",
    ),
    _cause(
        "container_lost", "cluster", True, "The container ended without a last word of its Child.",
        "On YARN the NodeManager's log of that machine says more, elsewhere what its system logs (`dmesg`).",
    ),
    _cause(
        "orphaned", "cluster", True, "The container ended itself: its Application Master was away for too long.",
        "The task had waited for `timeouts.orphan`. `afo explain JOB` says when the Application Master was away: its "
        "machine was frozen, overloaded or cut off from the network.",
    ),
    _cause(
        APPLICATION_ATTEMPT_LOST, "cluster", True, "YARN ended the container with the Application Master's own.",
        "The job goes on with the next application attempt. `yarn applicationattempt -list ID` says why the one before "
        "ended: raise `am.memory` if it used too much, and `am.attempts` if its machines come and go.",
    ),
    _cause(
        "child_silent", "cluster", True, "The Child stopped sending heartbeats.",
        "The machine was frozen, overloaded or cut off from the network.",
    ),
    _cause(
        "hung", "user", True, "The task made no step for three times `timeouts.hang`, while others trained.",
        "`afo events JOB` has its stacks (TaskStalled). If single steps may take that long, raise `timeouts.hang`.",
    ),
    _cause(
        "unresponsive", "cluster", True,
        "A parameter server did not answer while all workers hung, or a worker or evaluator was stopped by a signal.",
        "Its process was stopped, or hangs in the kernel or in native code: the message has its state, "
        "`afo events JOB` its stacks (TaskStalled). A state of D is a disk or a network file system of that machine.",
    ),
    _cause(
        "slow", "cluster", True, "The worker trained far slower than the others, for long: its machine is to blame.",
        "The message has its rate and theirs; look after that machine. `restart.slow` says when a worker is replaced.",
    ),
    _cause(
        "scaled_away", "nobody", False, "Fewer workers were wanted, and this one was not among them any more.",
        "Nothing to do: `afo scale JOB worker=N` brings it back. Its files went to the other workers.",
    ),
    _cause(
        "launch_failed", "cluster", True, "The container could not be started.",
        "YARN's message says why; often a file that could not be localised.",
    ),
    _cause(
        "bad_host", "cluster", True, "The job gave a container back, for its machine had failed tasks before.",
        "Look after that machine; the message names it, `afo events JOB` what happened there. `restart.host` says "
        "when a machine is avoided.",
    ),
    _cause(
        "request_unanswered", "cluster", True, "A request for a container got no answer and was made again.",
        "Nothing to do, unless it goes on: then the queue is full, or no machine has room for such a container.",
    ),
    _cause(
        "gang_released", "nobody", True, "The job gave the container back: the rest of its gang did not come.",
        "It asks for all of them again. If that goes on, two jobs want the same machines, or the queue is too small "
        "for all parameter servers and the minimum of workers: `afo queue JOB`.",
    ),
    _cause(
        "allocation_timeout", "cluster", False, "The cluster did not give all containers in `timeouts.allocate`.",
        "Ask for less, wait for a quieter hour, or use another queue.",
    ),
    _cause(
        "stalled", "user", False, "No task made progress for `timeouts.stall`.",
        "The message says where tasks stand. Look at input wait and at the workers' logs; raise the timeout if a step "
        "may take that long. A save or an export counts as progress as long as its processes work.",
    ),
    _cause(
        "job_timeout", "user", False, "The job took longer than `timeouts.job`.",
        "Raise the timeout, or give the job more workers.",
    ),
)  # fmt: skip

#: Ends that say something of the machine: the next attempt is better off on another one.
OF_THE_HOST = frozenset(
    {"disk_full", "not_writable", "illegal_instruction", "launch_failed", "child_silent", "child_error", "slow"}
)

#: Ends that come again until a person has mended something; `timeouts.repair` bounds them.
NEEDS_REPAIR = frozenset({"disk_full", "not_writable", "illegal_instruction", "launch_failed", "child_error"})

#: Ends of a wait for a container: no restart, whatever follows; `timeouts.allocate` bounds them, and no budget.
WAITS = frozenset({"request_unanswered", "gang_released"})

#: The end of a worker that is not wanted any more.
SCALED_AWAY = "scaled_away"
#: What follows such an end is no restart: nothing had gone wrong.
NO_RESTART = WAITS | {SCALED_AWAY}
#: Ends that say nothing of a fault.
HARMLESS = frozenset({"succeeded", "ended_with_job", SCALED_AWAY})
#: Ends of a task whose program never ran: the job had to wait, and nothing failed.
UNSTARTED = WAITS | {"allocation_timeout"}

#: Every cause by its name.
CAUSES: dict[str, Cause] = {cause.name: cause for cause in _ALL}
