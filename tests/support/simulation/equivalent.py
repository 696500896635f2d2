"""Mutants that no schedule can tell from the real thing, each with the reason. The first words have to fit wholly."""

_REGISTERED_ALONE = "only a registered attempt has an address or a process, and its next attempt begins without"
_BY_NAME = "`closed` is given by its name"

#: (module, words before, words after, why); of the words the beginning is enough.
_EQUIVALENT = (
    ("afo_am.state.tasks", 'f"{self.id} cannot go from', "", "how much of its story the message of a mistake shows"),
    ("afo_am.state.tasks", "(Stage.REQUESTED, Stage.ALLOCATED): _stay", "(Stage.REQUESTED, Stage.ALLOCATED): _leave",
     _REGISTERED_ALONE),
    ("afo_am.state.tasks", "(Stage.REQUESTED, Stage.REGISTERED): _stay", "(Stage.REQUESTED, Stage.REGISTERED): _leave",
     _REGISTERED_ALONE),
    ("afo_am.state.tasks", "(Stage.ALLOCATED, Stage.REGISTERED): _stay", "(Stage.ALLOCATED, Stage.REGISTERED): _leave",
     _REGISTERED_ALONE),
    ("afo_am.state.tasks", "(Stage.REQUESTED, Stage.ENDED): _leave", "(Stage.REQUESTED, Stage.ENDED): _stay",
     _REGISTERED_ALONE),
    ("afo_am.state.tasks", "(Stage.ALLOCATED, Stage.ENDED): _leave", "(Stage.ALLOCATED, Stage.ENDED): _stay",
     _REGISTERED_ALONE),
    ("afo_am.state.tasks", "(Stage.SUCCEEDED, Stage.ENDED): _leave", "(Stage.SUCCEEDED, Stage.ENDED): _stay",
     "it left when it succeeded"),
    ("afo_am.state.split_queue", "def add(", "def add(self, number: int, /, closed", _BY_NAME),
    ("afo_am.policy.split_discovery", "def _add(", "def _add(self, first: int, splits: Sequence[InputFile], /, closed",
     _BY_NAME),
    ("afo_am.policy.restarts", "return float(min(",
     "return float(min(backoff.max, backoff.initial * 2.0 ** (recent - 2)) / (0.75",
     "80 to 133 % in place of 75 to 125 % of a minute at most: the step of the AM's clock hides it"),
    ("afo_am.policy.restarts", "return 0.0", "return -1.0", "a pause that was over a second ago is over"),
    ("afo_am.core.training_rpc", "if generation > now:", "if generation >= now:",
     "the present generation is not refused"),
    ("afo_am.state.job_state", "said = progress.generation if",
     "said = progress.generation if progress is not None or self.stays(task)",
     "of a process that does not stay, the progress is of the generation that the Child names; one that stays told"),
)  # fmt: skip


def why_equivalent(module: str, before: str, after: str) -> str:
    """The reason, or ''."""
    return next(
        (
            why
            for where, old, new, why in _EQUIVALENT
            if module == where and before.startswith(old) and after.startswith(new)
        ),
        "",
    )
