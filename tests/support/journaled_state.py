"""What the journal covers of a core: a replay of its events must reach the same."""

from afo_am.core.core import Core

_VOLATILE = {
    "last_seen", "waiting_since", "leaves_since", "not_before", "address", "address_generation", "process_alive",
    "at_work", "halted", "progress", "usage", "stopped",
}  # fmt: skip


def journaled_state(core: Core) -> dict[str, object]:
    """Everything but what comes anew with every heartbeat."""
    state = dict(vars(core.state))
    splits = {key: value for key, value in vars(state.pop("splits")).items() if key != "_heap"}
    tasks = {
        key: {name: value for name, value in vars(task).items() if name not in _VOLATILE}
        for key, task in state.pop("tasks").items()
    }
    return {**state, "splits": splits, "tasks": tasks}
