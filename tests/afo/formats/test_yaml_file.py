import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.errors import SpecError
from afo.formats.units import Memory
from afo.formats.yaml_file import convert
from afo.formats.yaml_tree import Document, parse_yaml
from afo.job import Job

JOB = """name: x
roles:
  ps: {}
  worker:
    memory: 1g
data:
  schema: s
  train: [a]
"""


def read(text: str) -> Job:
    return convert(parse_yaml(text, "job.yaml"), Job)


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(text)
    return str(caught.value)


def test_a_right_file() -> None:
    assert read(JOB).roles["worker"].memory == Memory(1024)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1g", "1 gx", "job.yaml:5: $.roles.worker.memory: '1 gx' is not an amount of memory"),
        ("memory", "memry", "job.yaml:5: $.roles.worker.memry: unknown key `memry`; did you mean `memory`? allowed:"),
        ("worker", "wroker", "job.yaml:4: $.roles.wroker: unknown key `wroker`; did you mean `worker`? allowed:"),
        ("name: x", "name: x\nexport: {checkpoint: bets}", "'bets' does not fit; did you mean `best`? allowed: "),
        ("schema", "schemas", "job.yaml:7: $.data.schemas: unknown key `schemas`; did you mean `schema`?"),
        ("name: x\n", "", "job.yaml:1: $: `name` is missing; add it: text"),
        ("[a]", "[1]", "job.yaml:8: $.data.train[0]: 1 does not fit; allowed: text; put it in quotes"),
        ("[a]", "[]", "job.yaml:8: $.data.train: `data.train` needs at least one file or glob"),
        ("ps: {}", "ps: {instances: two}", "job.yaml:3: $.roles.ps.instances: 'two' does not fit; allowed: whole"),
        ("ps: {}", "ps: {vcores: 0}", "job.yaml:3: $.roles.ps.vcores: 0 does not fit; allowed: whole number >= 1"),
        ("name: x", "name: x\ntags: {a: b, 'c d': 2}", "job.yaml:2: $.tags['c d']: 2 does not fit; allowed: text"),
        ("name: x", "name: x\nengine: torch", "job.yaml:2: $.engine: 'torch' does not fit; allowed: psplus or tenso"),
        ("name: x", "name: x\nexport: null", "job.yaml:2: $.export: nothing (null) does not fit"),
        ("name: x", "name: x\noptimizer: {wide: {}}", "job.yaml:2: $.optimizer.wide: name exactly one optimizer"),
        ("name: x", "name: x\noptimizer: {adam: {}}", "`adam`; it belongs under `wide`, `deep` or `embedding`;"),
        ("name: x", "name: x\noptimizer: {deep: {adam: {lr: 1}}}", "unknown key `lr`; did you mean `learning_rate`?"),
        ("name: x", "name: x\noptimizer: {deep: adam}", "'adam' does not fit; write `{adam: {}}`; allowed: mapping"),
        ("name: x", "name: x\noptimizer: adam", "'adam' does not fit; it belongs under `wide`, `deep` or `embedding`"),
        ("schema: s", "schema: s\n  buffer: 3", "$.data.buffer: unknown key `buffer`; it belongs under `shuffle`;"),
        ("name: x", "name: x\nmemory: 2g", "unknown key `memory`; it belongs under `roles.…` or `am`;"),
        ("  ps: {}\n", "", "job.yaml:2: $.roles: `roles` needs `ps`"),
        (JOB, "", "job.yaml: $: nothing (null) does not fit; allowed: mapping with name, roles"),
        (JOB, "- 1", "job.yaml:1: $: a list does not fit"),
    ],
)  # fmt: skip
def test_messages(old: str, new: str, message: str) -> None:
    assert message in refusal(JOB.replace(old, new, 1))


def test_the_second_of_two_roles_is_named() -> None:
    text = JOB.replace("ps: {}", "ps: {memory: 2g}").replace("memory: 1g", "memory: 1 gx")
    assert "$.roles.worker.memory" in refusal(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "roles", "data", "ps", "worker", "tags", "model", "memory", "instances", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(VALUES)
def test_any_tree_is_a_job_or_a_spec_error(value: object) -> None:
    message = ""
    try:
        convert(Document("job.yaml", value), Job)  # type: ignore[arg-type]
    except SpecError as error:
        message = str(error)
    assert not message or message.startswith("job.yaml: $")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_job_or_a_spec_error(data: bytes) -> None:
    with pytest.raises(SpecError):
        convert(parse_yaml(data, "job.yaml"), Job)
