"""Checkpoints that earlier versions wrote of models that they had trained, in the hands of this one, bit by bit."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import restored_job
import table_servers
from afo.checkpoint import manifest
from afo.checkpoint.restore import CheckpointReader
from afo.state.parameters import range_of
from afo.tables import saved_tables
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows
from fork_server import start_function

pytestmark = pytest.mark.tensorflow

GOLDEN = Path(__file__).parent / "golden"


class Trained(NamedTuple):
    """A checkpoint of the folder `golden/<name>`."""

    name: str
    step: int
    #: Of `restored_job.EMBEDDINGS`.
    kind: str
    #: Formats of the manifest and of that of the hash tables.
    formats: tuple[int, int | None]

    @property
    def url(self) -> str:
        [url] = [each.url for each in manifest.find_manifests(str(GOLDEN / self.name)) if each.step == self.step]
        return url

    @property
    def values(self) -> dict[str, Any]:
        """What the version that wrote it read from its servers then."""
        with np.load(GOLDEN / self.name / f"values-{self.step}.npz") as values:
            return dict(values)


WHOLE = (
    Trained("trained1", 3, "dense", (1, None)),
    Trained("trained2", 3, "dense", (2, None)),
    Trained("trained3-tables1", 3, "tables", (3, 1)),
    Trained("trained3-tables2", 3, "tables", (3, 2)),
    Trained("trained3-tables3", 3, "filter", (3, 3)),
)
FILTER_PARTS = ("keys", "steps", "frequencies")
#: The newest of each folder, with all that its hash tables stand on.
NEWEST = (
    *WHOLE[:2],
    Trained("trained3-tables1", 5, "tables", (3, 1)),
    Trained("trained3-tables2", 5, "tables", (3, 2)),
    Trained("trained3-tables3", 5, "filter", (3, 3)),
)
ALL = (*WHOLE, *NEWEST[2:])


def named(saved: object) -> str | None:
    """The name of a case."""
    return f"{saved.name}-{saved.step}" if isinstance(saved, Trained) else None


def is_of_tables(name: str) -> bool:
    return ":" in name


def is_row_by_row(name: str) -> bool:
    """Whether a tensor is a table's or its slots', a row of which is on one server."""
    return name.partition(".")[0] in ("deep", "wide")


def saved_rows(saved: Trained) -> dict[str, Any]:
    """What a restore makes of the hash tables.

    Of keys that wait for a row a delta holds those that changed, not those that were dropped: until the next eviction
    these are there again, as the whole checkpoint has them.
    """
    found = {name: value for name, value in saved.values.items() if is_of_tables(name)}
    if (saved.kind, saved.step) != ("filter", 5):
        return found
    whole = {name: value for name, value in saved._replace(step=3).values.items() if ":filter:" in name}
    for table in {name.partition(":")[0] for name in whole}:
        waiting = {part: whole[f"{table}:filter:{part}"] for part in FILTER_PARTS}
        newest = {part: found.get(f"{table}:filter:{part}", waiting[part][:0]) for part in FILTER_PARTS}
        stays = ~np.isin(waiting["keys"], [*found[f"{table}:keys"], *newest["keys"]])
        order = np.argsort([*waiting["keys"][stays], *newest["keys"]])
        for part in FILTER_PARTS:
            found[f"{table}:filter:{part}"] = np.concatenate([waiting[part][stays], newest[part]])[order]
    return found


def shards_of(values: dict[str, Any], servers: int) -> dict[str, Any]:
    """The variables of so many servers that hold whole tensors."""
    found = {}
    for name, whole in values.items():
        variable = f"afo/{name.replace('.', '/')}"
        for server in range(servers):
            if is_row_by_row(name):
                found[f"{variable}/{server}"] = whole[server::servers]
            elif name.startswith("dense"):
                first, end = range_of(len(whole), server, servers)
                found[f"{variable}/{server}"] = whole[first:end]
    for name in ("positions", "step"):
        found |= {f"afo/{name}": values[name], f"afo/{name}/copy1": values[name]}
    return found | {"afo/statistics": values["statistics"]}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_array_equal(found[name], value, name)


class Filled(NamedTuple):
    """What servers hold after one of the ways of `restored_job.be_client`."""

    variables: dict[str, Any]
    tables: str

    def rows(self, server: int | None = None) -> dict[str, Any]:
        return restored_job.rows_of(self.tables, server) if Path(self.tables).exists() else {}


def filled(folder: Path, way: str) -> Filled:
    with np.load(folder / way / "variables.npz") as variables:
        return Filled(dict(variables), str(folder / way / "tables" / "tables.json"))


def assert_restored(saved: Trained, found: Filled, servers: int) -> None:
    values = saved.values
    assert_same(found.variables, shards_of(values, servers))
    assert_same(found.rows(), saved_rows(saved))
    if saved.kind != "dense":
        with CheckpointReader(saved.url, Path(found.tables).parent) as reader:
            old, new = (saved_tables.read_manifest(url) for url in (reader.tables_url, found.tables))
        assert new.tables == old.tables, "names, optimizers and how often these were applied"


def assert_others_kept(found: Filled, whole: Filled, servers: int) -> None:
    """All of server 0 is back, the other servers are as they were changed, and they say how far training is."""
    for name, value in whole.variables.items():
        last = name.rpartition("/")[2]
        if name.startswith("afo/step"):
            expected = np.int64(99)
        elif name.startswith("afo/positions"):
            expected = value + 1
        else:
            expected = value + 1 if last.isdigit() and int(last) > 0 else value
        np.testing.assert_array_equal(found.variables[name], expected, name)
    assert_same(found.rows(0), whole.rows(0))
    assert found.rows().keys() == found.rows(0).keys()


def assert_taken_over(saved: Trained, found: Filled, servers: int) -> None:
    """All numbers go on; the files are others, so that no position is known."""
    nothing_read = np.tile(np.array([-1, 0, 0]), (restored_job.SPLITS, 1))
    assert_same(found.variables, shards_of(saved.values | {"positions": nothing_read}, servers))
    assert_same(found.rows(), saved_rows(saved))


@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("saved", NEWEST, ids=named)
def test_servers_hold_what_the_servers_of_then_held(saved: Trained, servers: int, tmp_path: Path) -> None:
    with table_servers.running(tmp_path, *[""] * servers) as running:
        addresses = json.dumps(running.addresses)
        client = start_function("restored_job", "be_client", addresses, saved.kind, saved.url, str(tmp_path))
        assert client.wait(120) == 0
    whole = filled(tmp_path, "all")
    assert_restored(saved, whole, servers)
    assert_others_kept(filled(tmp_path, "lost"), whole, servers)
    plan = (tmp_path / "plan").read_text()
    if saved.formats[0] == 1:
        assert "is of format 1, which does not say which feature owns which rows" in plan
    else:
        assert json.loads(plan) == [[], []], "nothing is made new, nothing dropped"
        assert_taken_over(saved, filled(tmp_path, "warm"), servers)


@pytest.mark.parametrize("saved", ALL, ids=named)
def test_a_reader_without_servers_has_the_same_numbers(saved: Trained, tmp_path: Path) -> None:
    values = saved.values
    with CheckpointReader(saved.url, tmp_path) as reader:
        assert (reader.manifest.version, reader.manifest.step) == (saved.formats[0], saved.step)
        for name, value in values.items():
            if is_of_tables(name) or name == "probabilities":
                continue
            if is_row_by_row(name) and value.ndim == 2:
                np.testing.assert_array_equal(reader.table(name, *value.shape), value, name)
            elif not is_row_by_row(name):
                np.testing.assert_array_equal(reader.whole(name, value.dtype.name), value, name)
        model = restored_job.parts_of(saved.kind, tmp_path).model.local(reader)
    scores = model.probabilities(restored_job.features()).numpy()
    np.testing.assert_allclose(scores, values["probabilities"], rtol=1e-6)


@pytest.mark.parametrize("saved", [each for each in ALL if each.kind != "dense"], ids=named)
@pytest.mark.parametrize(("memory", "kind"), [(None, Rows), (0, MergedRows)])
def test_hash_tables_are_the_same_in_memory_and_merged(
    saved: Trained, memory: int | None, kind: type, tmp_path: Path
) -> None:
    dims = {f"{part}/{name}": dim for part, dim in (("deep", 2), ("wide", 1)) for name in ("user", "city", "age")}
    with CheckpointReader(saved.url, tmp_path, memory) as reader:
        assert saved_tables.read_manifest(reader.tables_url).version == saved.formats[1]
        tables = reader.hash_tables(dims | {"wide/user x city": 1})
    for name, rows in tables.items():
        assert isinstance(rows, kind)
        pieces = list(rows.pieces())
        keys, weights = (np.concatenate([getattr(piece, part) for piece in pieces]) for part in ("keys", "weights"))
        np.testing.assert_array_equal(keys, saved.values[f"{name}:keys"], name)
        np.testing.assert_array_equal(weights, saved.values[f"{name}:values"][:, : weights.shape[1]], name)
