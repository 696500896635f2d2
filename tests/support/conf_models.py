"""The models of conf/models and the data they read."""

import subprocess
from pathlib import Path

import numpy as np

from adult import COLUMNS, REPOSITORY
from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import read_schema
from afo.data.synthetic.behaviour import BehaviourParameters, BehaviourSpec, write_behaviour
from live_job import afo

MODELS = REPOSITORY / "conf" / "models"
NAMES = ("deepfm", "din", "dlrm", "mmoe")
TWO_LABELS = REPOSITORY / "conf" / "schemas" / "adult-two-labels.yaml"
#: What porting public code to afo changed: one import.
PORTED, PUBLIC = "from afo.layers import Embedding", "from keras.layers import Embedding"
#: The second label is the last column; the sixth is the marital status. Only whole rows are kept.
_SECOND_LABEL = """NF == 15 {print $0, ($6 == "Never-married")}"""


def is_sequence_model(name: str) -> bool:
    """True for the model that reads `afo data behaviour`, false for those that read Adult."""
    return name == "din"


def write_public(name: str, folder: Path) -> Path:
    """A model as it was before it was ported, with Keras's own `Embedding`: a file that knows nothing of afo."""
    source = (MODELS / name / "model.py").read_text(encoding="utf-8")
    public = folder / f"{name}_public.py"
    public.write_text(source.replace(PORTED, PUBLIC), encoding="utf-8")
    return public


def convert_two_labels(source: Path, folder: Path, url: str) -> None:
    """Adult with its second label as TFRecord files under `url`, by the commands of docs/own-models.md."""
    rest = ["--schema", str(TWO_LABELS), "--columns", f"{COLUMNS},never_married", "--strip", "--missing", "?"]
    for part, options in (
        ("data", ["--out", f"{url}/train", "--files", "8", "--positive", ">50K"]),
        ("test", ["--out", f"{url}/test", "--files", "2", "--positive", ">50K."]),
    ):
        rows = folder / f"adult-two.{part}"
        with rows.open("wb") as out:
            program = ["awk", "-F", ", ", "-v", "OFS=, ", _SECOND_LABEL, str(source / f"adult.{part}")]
            subprocess.run(program, check=True, stdout=out)
        done = afo("data", "convert", str(rows), *rest, *options)
        assert done.returncode == 0, done.stderr


def write_small(name: str, directory: Path, records: int = 600) -> None:
    """Records that a model can read, in `train` and in the directory of its evaluation files."""
    if is_sequence_model(name):
        size = BehaviourParameters(train=records, eval=records, train_files=2, eval_files=1, spec=BehaviourSpec())
        write_behaviour(str(directory), size)
    else:
        for part, files in (("train", 2), ("test", 1)):
            _write_like_adult(directory / part, files, records // files)


def _write_like_adult(directory: Path, files: int, records: int) -> None:
    """Labels that go with age and education, and features that are absent now and then."""
    features = read_schema(TWO_LABELS).features
    generator = np.random.default_rng(len(directory.name))
    directory.mkdir(parents=True)
    for number in range(files):
        with RecordWriter(str(directory / f"part-{number}.tfrecord")) as writer:
            for row in range(records):
                level, age = int(generator.integers(1, 17)), float(generator.integers(17, 80))
                values = {
                    each.name: [f"{each.name} {level % 5}"] if each.kind == "string" else [float(level)]
                    for each in features
                    if generator.random() > 0.05
                }
                values |= {
                    "age": [age],
                    "income": [int(level + age / 10 + generator.normal() > 14)],
                    "never_married": [int(age + 5 * generator.normal() < 30)],
                    "sample_id": [number * records + row],
                }
                writer.write(encode(values))
