"""State of a parameter server beside its tables: dense weights with their slots, and records (positions, step, state).

A step reads and changes it by `StepState`; whoever creates, saves or restores it does so by `ServerState`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from afo.state.parameters import Parameters
from afo.state.store_state import StoreState, StoreStepState
from afo.state.variable_state import VariableState, VariableStepState


class StepState(Protocol):
    """A server's state in one traced function. Every method builds operations on the server, whose device is set."""

    def read_weights(self) -> Any:
        """The server's part of the dense vector."""

    def apply_gradient(self, gradient: Any, rate: Any) -> Any:
        """The operation that updates it by its rule; `rate` multiplies the learning rate: 1.0 or a scalar."""

    def add_to_weights(self, change: Any) -> Any:
        """The operation that adds what is no gradient."""

    def read_records(self, splits: Any = None) -> tuple[Any, tuple[Any, ...], Any]:
        """Step, the model's state in the order of `Parameters.state`, and positions [R, 3] of `splits` [R], or None."""

    def advance(self, splits: Any, positions: Any, added: Sequence[Any]) -> tuple[list[Any], Any]:
        """Count a step, write positions [R, 3], add to the model's state; returns the operations, and the step then."""


class ServerState(Protocol):
    """A server's state outside of a step, as numpy arrays by the names that checkpoints have for them."""

    def create(self) -> None:
        """Weights and slots of zeros, for `write_weights`."""

    def reset_weights(self, weights: Any) -> None:
        """Create the weights [n] with the slots that such weights begin with."""

    def read_weights(self) -> dict[str, Any]:
        """Weights and slots, [n] each."""

    def write_weights(self, values: Mapping[str, Any]) -> None:
        """Overwrite all that `read_weights` returns."""

    def read_records(self) -> dict[str, Any]:
        """`step`, `positions` [splits, 3], and the model's state, as far as this server holds them, in this order."""

    def write_records(self, values: Mapping[str, Any]) -> None:
        """Create or replace all that `read_records` returns."""

    def read_step(self) -> int:
        """How many steps were applied."""

    def read_position(self, split: int) -> tuple[int, int, int]:
        """Epoch, count and xor of one split."""


def server_state(parameters: Parameters, server: int) -> ServerState:
    """That of one server. Keep it for what is done again: each traces its functions once."""
    return VariableState(parameters, server) if parameters.embeddings is None else StoreState(parameters, server)


def server_states(parameters: Parameters) -> list[ServerState]:
    """Those of all servers."""
    return [server_state(parameters, server) for server in range(parameters.servers)]


def step_state(parameters: Parameters, server: int) -> StepState:
    """That of one server, to be made once in a traced function."""
    if parameters.embeddings is None:
        return VariableStepState(parameters, server)
    return StoreStepState(parameters, server)
