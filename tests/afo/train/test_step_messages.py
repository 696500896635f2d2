"""What a step sends its servers, and what it has to wait for: servers are asked side by side, by one message each, and
none waits for another before it can answer."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from afo.job import Data, Embedding, Job, Model, RoleSpec
from click_records import write_files

pytestmark = pytest.mark.tensorflow

SERVERS = 3


@pytest.fixture(params=["hash_table", "dense"])
def graph(request: pytest.FixtureRequest, tmp_path: Path, schema_file: Path) -> Any:
    """A traced step."""
    from afo.train.setup import JobParts
    from afo.train.step import prepare_function, step_function

    write_files(tmp_path / "data", 1, 10)
    job = Job(
        name="messages", roles={"ps": RoleSpec(instances=SERVERS), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=4),
        model=Model(hidden_units=(4,), embedding=Embedding(storage=request.param)),
    )  # fmt: skip
    parts = JobParts(job, str(schema_file))
    parameters = parts.model.parameters(SERVERS, 1)
    prepare = prepare_function(parts.model, parts.parser, SERVERS)
    return step_function(parts.model, parameters, prepare).get_concrete_function().graph


def place(operation: Any) -> str:
    """`ps:1`, or `worker`."""
    return f"ps:{operation.device.split('task:')[1][0]}" if "job:ps" in operation.device else "worker"


def test_servers_wait_for_each_other_only_where_the_position_is_written(graph: Any) -> None:
    waits = {
        (before.type, place(before), after.type, place(after))
        for after in graph.get_operations()
        for before in after.control_inputs
        if place(before) != place(after) != "worker"
    }
    assert {(start, end) for _, start, _, end in waits} == {(f"ps:{other}", "ps:0") for other in range(1, SERVERS)}
    assert {kind for kind, *_ in waits} == {"NoOp"}, "a server has one end of all that it applies"
    late = {kind for _, _, kind, _ in waits}
    of_variables = {"AssignAddVariableOp", "ResourceScatterUpdate", "ReadVariableOp", "Const", "NoOp"}
    assert late <= of_variables or late == {"AfoAdvance", "NoOp"}, late


def test_the_worker_waits_for_no_server_but_at_the_very_end(graph: Any) -> None:
    waiting = [each for each in graph.get_operations() if place(each) == "worker"]
    late = {each.type for each in waiting for before in each.control_inputs if place(before) != "worker"}
    assert late == {"NoOp"}


@pytest.mark.parametrize("graph", ["hash_table"], indirect=True)
def test_a_server_is_sent_a_pull_and_a_push_and_sends_an_answer(graph: Any) -> None:
    sent = {
        (place(tensor.op), place(operation), tensor.name)
        for operation in graph.get_operations()
        for tensor in operation.inputs
        if place(tensor.op) != place(operation)
    }
    ways = Counter((start, end) for start, end, _ in sent)
    # The first server has the steps that were made, when all is applied.
    servers = {f"ps:{number}": 1 + (number == 0) for number in range(SERVERS)}
    assert ways == {("worker", each): 2 for each in servers} | {
        (each, "worker"): answers for each, answers in servers.items()
    }
