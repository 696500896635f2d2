"""Job files above files of defaults: what holds, and where an error says that it was written."""

from pathlib import Path

import pytest

from afo.errors import NotFound, SpecError, UsageError
from afo.formats.yaml_tree import parse_yaml
from afo.job import Adagrad, Ftrl
from afo.job.layering import Layer
from afo.job.loader import load_job, places_of, read_again, read_job

JOB = """name: x
defaults: ../team/ctr.yaml
roles: {worker: {memory: 4g}}
data: {train: [clicks/*], schema: null}
tags: {model: ctr}
optimizer: {deep: {ftrl: {l1: 0.5}}}
"""
TEAM = """defaults: base.yaml
queue: ads
roles:
  ps: {instances: 4}
  worker: {vcores: 3, memory: 2g}
data: {train: [never/*], schema: schema.yaml, label: click}
environment: {files: [lib/], python: env.tar.gz}
tags: {team: ads, owner: nobody}
optimizer: {deep: {adagrad: {learning_rate: 0.1}}}
"""
BASE = """roles: {worker: {memory: 1g, gpus: 1}}
environment: {variables: {A: "1"}, files: [base.py]}
queue: default
tags: {owner: ann}
train: {max_steps: 7}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name, text in {"jobs/job.yaml": JOB, "team/ctr.yaml": TEAM, "team/base.yaml": BASE}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path / "jobs" / "job.yaml"


def site(tmp_path: Path, text: str) -> Layer:
    """Defaults of a site whose file is /site/site.yaml."""
    return Layer(parse_yaml(text, "/site/site.yaml"), "/site")


def test_mappings_are_merged_and_all_else_is_of_the_uppermost(path: Path) -> None:
    job, team = load_job(path), path.parents[1] / "team"
    worker = job.roles["worker"]
    assert (int(worker.memory), worker.vcores, worker.gpus, job.roles["ps"].count) == (4096, 3, 1, 4)
    assert job.queue == "ads"
    assert job.tags == {"model": "ctr", "team": "ads", "owner": "nobody"}
    assert (job.data.train, job.data.label) == ((f"{path.parent}/clicks/*",), "click")
    assert job.data.schema == ""  # `null` took it away
    assert (job.environment.files, job.environment.variables) == ((f"{team}/lib/",), {"A": "1"})
    assert job.environment.python == f"{team}/env.tar.gz"
    assert job.train.max_steps == 7


def test_a_choice_is_replaced_as_a_whole(path: Path) -> None:
    assert load_job(path).optimizer.deep_or_default.chosen == Ftrl(l1=0.5)
    path.write_text(JOB.replace("optimizer: {deep: {ftrl: {l1: 0.5}}}", ""))
    assert load_job(path).optimizer.deep_or_default.chosen == Adagrad(learning_rate=0.1)


def test_the_site_lies_below_all_files(path: Path, tmp_path: Path) -> None:
    below = site(tmp_path, "queue: site\nam: {memory: 3g}\nexport: {dir: models}\nroles: {ps: {vcores: 2}}\n")
    job, source = read_job(path, below=below)
    assert (job.queue, int(job.am.memory), job.export.dir) == ("ads", 3072, "/site/models")
    assert (job.roles["ps"].count, job.roles["ps"].vcores) == (4, 2)
    places = places_of(source)
    assert places["queue"] == f"{tmp_path}/team/ctr.yaml:2"
    assert places["roles.ps"] == f"{tmp_path}/team/ctr.yaml:4"
    assert places["roles.ps.vcores"] == "/site/site.yaml:4"
    assert places["roles.worker.gpus"] == f"{tmp_path}/team/base.yaml:1"
    assert places["export"] == "/site/site.yaml:3"
    assert "name" not in places
    assert "roles.worker.memory" not in places


def test_the_command_line_lies_above(path: Path) -> None:
    settings = ["queue=mine", "environment.python=here.zip", "environment.files=[a.py]", "train.max_steps="]
    job, source = read_job(path, settings=settings)
    assert (job.queue, job.train.max_steps) == ("mine", None)
    assert job.environment.python == f"{path.parent}/here.zip"
    assert job.environment.files == (f"{path.parent}/a.py",)
    assert places_of(source)["queue"] == "--set queue=mine"
    other = path.parent / "other.yaml"
    other.write_text("queue: others\nroles: {ps: {}}\n")
    assert load_job(path, settings=["defaults=other.yaml"]).queue == "others"


def test_a_submission_can_be_read_again_without_the_files(path: Path) -> None:
    job, source = read_job(path, settings=["data.epochs=2"])
    for file in path.parents[1].glob("*/*.yaml"):
        file.unlink()
    again, kept = read_again(source, "job x", settings=["environment.files=[b.py]"])
    assert again.environment.files == (f"{path.parent}/b.py",)
    assert again.environment.python == job.environment.python
    assert (again.queue, again.data) == (job.queue, job.data)
    assert read_again(kept, "job x")[0] == again
    with pytest.raises(UsageError, match="--set defaults: the defaults of that time are part of job x"):
        read_again(source, "job x", settings=["defaults=other.yaml"])


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("base.yaml", "queue: default", "queu: a", r"base\.yaml:3: \$\.queu: unknown key `queu`; did you mean `queue`"),
        ("ctr.yaml", "instances: 4", "instances: many", r"ctr\.yaml:4: \$\.roles\.ps\.instances: 'many' does not fit"),
        ("ctr.yaml", "schema.yaml", "'{{gone}}'", r"ctr\.yaml:6: \$\.data\.schema: .*gone"),
        ("base.yaml", BASE, "- 1\n", r"base\.yaml: \$: a file of defaults has the keys of a job file"),
        ("base.yaml", BASE, f"{BASE}defaults: ../jobs/job.yaml\n", r"base\.yaml:6: \$\.defaults: .*break the circle"),
        ("ctr.yaml", "base.yaml", "ctr.yaml", r"ctr\.yaml:1: \$\.defaults: .*ctr.yaml is included already"),
        ("ctr.yaml", "base.yaml", "[a]", r"ctr\.yaml:1: \$\.defaults: \['a'\] does not fit"),
        ("ctr.yaml", "base.yaml", "hdfs://n/a.yaml", r"allowed: the path of a file on this machine"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_it_is_in(path: Path, file: str, old: str, new: str, message: str) -> None:
    target = path.parents[1] / "team" / file
    text = target.read_text()
    assert old in text
    target.write_text(text.replace(old, new))
    if "{{gone}}" in new:
        path.write_text(JOB.replace(", schema: null", ""))
    with pytest.raises(SpecError, match=message):
        load_job(path)


def test_defaults_that_are_not_there(path: Path) -> None:
    (path.parents[1] / "team" / "base.yaml").unlink()
    with pytest.raises(NotFound, match=r"team/base\.yaml: no such file"):
        load_job(path)


def test_defaults_for_models_do_not_trouble_a_program(path: Path, tmp_path: Path) -> None:
    path.write_text("name: x\nprogram: train.py\nroles: {worker: {}}\n")
    below = site(tmp_path, "train: {max_steps: 5}\nexport: {dir: models}\n")
    assert load_job(path, below=below).program.endswith("train.py")
