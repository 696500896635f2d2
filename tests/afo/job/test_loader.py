import json
from pathlib import Path

import pytest

from afo.errors import NotFound, SpecError, UsageError
from afo.formats import units
from afo.formats.units import Memory
from afo.job import WarmStart
from afo.job.loader import load_job, parse_variables, read_again, read_job

JOB = """name: x
vars: {dt: 2026-03-01, out: /out}
roles: {ps: {}, worker: {memory: 1g}, evaluator: {}}
environment: {files: [crosses.py, lib/], python: env/bin/python}
data:
  schema: schema.yaml
  train: ["data/{{dt-1..dt}}/*", "hdfs://c/{{dt}}/p-*"]
  eval: [../eval]
checkpoint: {dir: "{{out}}/ckpt"}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my jobs" / "job.yaml"
    path.parent.mkdir()
    path.write_text(JOB)
    return path


def test_paths_are_relative_to_the_file_and_variables_expanded(path: Path) -> None:
    job, folder = load_job(path), path.parent
    assert job.data.train == (
        f"{folder}/data/2026-02-28/*",
        f"{folder}/data/2026-03-01/*",
        "hdfs://c/2026-03-01/p-*",
    )
    assert job.data.eval == (f"{folder.parent}/eval",)
    assert job.data.schema == f"{folder}/schema.yaml"
    assert job.environment.files == (f"{folder}/crosses.py", f"{folder}/lib/")
    assert job.environment.python == f"{folder}/env/bin/python"
    assert job.checkpoint.dir == "/out/ckpt"
    assert job.export.dir == ""


def test_the_command_line_wins(path: Path) -> None:
    job = load_job(
        path,
        settings=["roles.worker.memory=4g", "data.epochs=3", "model.embedding.dim=8", "data.eval=[a, b]"],
        variables=parse_variables(["out=hdfs:///o"]),
    )
    assert job.roles["worker"].memory == Memory(4096)
    assert (job.data.epochs, job.model.embedding.dim) == (3, 8)
    assert job.data.eval == (f"{path.parent}/a", f"{path.parent}/b")
    assert job.checkpoint.dir == "hdfs:///o/ckpt"
    assert job.vars == {"dt": "2026-03-01", "out": "hdfs:///o"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("roles.worker.memory=4q", "--set roles.worker.memory=4q: $.roles.worker.memory: '4q' is not"),
        (
            "roles.worker.memry=4g",
            "--set roles.worker.memry=4g: $.roles.worker.memry: unknown key `memry`; did you mean",
        ),
        ("name.x=1", "no mapping to hold `x`"),
        ("optimizer.adam.x=1", "--set optimizer.adam.x=1: $.optimizer.adam: unknown key `adam`"),
        ("roles.wroker.memory=4g", "--set roles.wroker.memory=4g: $.roles.wroker: unknown key `wroker`"),
        ("checkpoint.kepe.x=1", "--set checkpoint.kepe.x=1: $.checkpoint.kepe: unknown key `kepe`"),
        ("data.train=[", "--set data.train=[:2: column 1: not valid YAML"),
    ],
)
def test_a_bad_setting_is_named(path: Path, setting: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_job(path, settings=[setting])
    assert message in str(caught.value)


@pytest.mark.parametrize("setting", ["a", "=1", "a..b=1"])
def test_a_malformed_setting_is_a_usage_error(path: Path, setting: str) -> None:
    with pytest.raises(UsageError, match="--set name=value"):
        load_job(path, settings=[setting])


def test_an_unknown_variable_names_its_line(path: Path) -> None:
    path.write_text(JOB.replace("{{out}}", "{{ou}}"))
    with pytest.raises(SpecError, match=r"job\.yaml:9: \$\.checkpoint\.dir: unknown variable 'ou'; known: dt, out"):
        load_job(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("outt=/o", r"^--var outt=/o: `outt` is used nowhere.*; did you mean `out`\? variables: dt, free, out$"),
        ("x=1", "^--var x=1: `x` is used nowhere in the job; variables: dt, free, out$"),
    ],
)
def test_a_variable_that_nothing_uses_is_refused(path: Path, given: str, message: str) -> None:
    """`free` is not in `vars` and is used; the job file may keep variables that it does not use."""
    settings, variables = ["name='{{free}}'", "checkpoint.dir=c"], parse_variables(["free=f", "out=/o"])
    assert load_job(path, settings=settings, variables=variables).name == "f"
    with pytest.raises(SpecError, match=message):
        load_job(path, settings=settings, variables=variables | parse_variables([given]))


def test_a_variable_of_an_earlier_submission_may_be_used_no_more(path: Path) -> None:
    _, source = read_job(path, settings=["name='{{free}}'"], variables={"free": "f"})
    assert read_again(source, "job x", settings=["name=n"])[0].name == "n"
    with pytest.raises(SpecError, match="`free` is used nowhere"):
        read_again(source, "job x", settings=["name=n"], variables={"free": "g"})


def test_a_directory_is_one(path: Path) -> None:
    path.write_text(JOB.replace("{{out}}", "{{dt..dt+1}}"))
    with pytest.raises(SpecError, match="range of 2"):
        load_job(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.yaml: no such file"):
        load_job(tmp_path / "gone.yaml")


def test_the_same_file_again_with_another_day(path: Path) -> None:
    job, source = read_job(path, settings=["data.epochs=3"], variables={"out": "hdfs:///o"})
    path.write_text("gone")
    again, source = read_again(source, "job x", settings=["data.batch_size=7"], variables={"dt": "2026-03-02"})
    assert (again.data.epochs, again.data.batch_size, again.checkpoint.dir) == (3, 7, "hdfs:///o/ckpt")
    assert again.data.train[1:] == (f"{path.parent}/data/2026-03-02/*", "hdfs://c/2026-03-02/p-*")
    assert again.data.eval == job.data.eval
    assert source.variables == {"out": "hdfs:///o", "dt": "2026-03-02"}
    with pytest.raises(
        SpecError, match=r"--set data.epoch=1: \$.data.epoch: unknown key `epoch`; did you mean `epochs`"
    ):
        read_again(source, "job x", settings=["data.epoch=1"])


def test_the_users_code_is_found_from_the_job_file(path: Path) -> None:
    path.write_text(JOB + 'model: {entry: "models/{{dt}}/my_ctr.py:build", params: {dim: 8}}\n')
    model = load_job(path).model
    assert model.entry == f"{path.parent}/models/2026-03-01/my_ctr.py:build"
    assert (model.kind, model.params) == ("entry", {"dim": 8})


@pytest.mark.parametrize("key", ["data.schema", "checkpoint.dir", "export.dir"])
def test_a_path_of_which_empty_variables_leave_nothing_is_refused(path: Path, key: str) -> None:
    with pytest.raises(
        SpecError, match=rf"\$\.{key}: nothing is left of '\{{\{{where\}}\}}', as its variables are empty"
    ):
        load_job(path, settings=[f"{key}='{{{{where}}}}'"], variables={"where": ""})


def test_a_programs_arguments_have_variables_but_are_no_paths(path: Path) -> None:
    path.write_text(JOB + 'program: ../train.py\nargs: ["--day={{dt}}", "{{dt-1..dt}}", "in/out"]\n')
    job = load_job(path)
    assert job.program == f"{path.parent.parent}/train.py"
    assert job.args == ("--day=2026-03-01", "2026-02-28", "2026-03-01", "in/out")
    assert job.model.kind == "wide_deep"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("model: {entry: my_ctr.py}", "job.yaml:10: $.model.entry: 'my_ctr.py' names no function; write `my_ctr.py:b"),
        ("model: {entry: my_ctr:build}", "job.yaml:10: $.model.entry: 'my_ctr:build' is no entry; write `my_ctr.py:b"),
        ("model: {entry: 'my_ctr.py:'}", "$.model.entry: 'my_ctr.py:' is no entry"),
        ("model: {entry: 'hdfs://c/m.py:build'}", "$.model.entry: 'hdfs://c/m.py' is a URL; name a file on this"),
        ("model: {entry: '{{x}}.py:build'}", "$.model.entry: unknown variable 'x'"),
        ("model: {kind: entry}", "$.model.kind: `entry` needs `model.entry`"),
        (
            "program: a.py\ntrain: {max_steps: 5}",
            "job.yaml:11: $.train.max_steps: a `program` heeds nothing of",
        ),
        ("args: [a]", "job.yaml:10: $.args: `args` are arguments of `program`"),
        ("program: a.py\nargs: [a, '{{x}}']", "job.yaml:11: $.args[1]: unknown variable 'x'"),
    ],
)
def test_code_that_cannot_be_meant(path: Path, lines: str, message: str) -> None:
    path.write_text(f"{JOB}{lines}\n")
    with pytest.raises(SpecError) as caught:
        load_job(path)
    assert message in str(caught.value)


def test_a_warm_start_names_its_sources_in_the_order_of_preference(path: Path) -> None:
    short = load_job(path, settings=["checkpoint.warm_start=hdfs://c/ckpt/{{dt-1}}"])
    assert short.checkpoint.warm == WarmStart(sources=("hdfs://c/ckpt/2026-02-28",))
    long = load_job(path, settings=["checkpoint.warm_start={sources: ['m/{{dt-1}}', 'm/{{dt-2}}'], missing: fresh}"])
    folder = path.parent
    assert long.checkpoint.warm == WarmStart(
        sources=(f"{folder}/m/2026-02-28", f"{folder}/m/2026-02-27"), missing="fresh"
    )
    assert load_job(path).checkpoint.warm is None
    with pytest.raises(SpecError, match=r"\$\.checkpoint\.warm_start: .* is a range of 7"):
        load_job(path, settings=["checkpoint.warm_start=m/{{dt-7..dt-1}}"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("export.require={auc: '0.74'}", r"\$\.export.*'0\.74' is no bound; write '>=0\.74'"),
        ("export.require={acu: '>=0.74'}", r"\$\.export.*no metric 'acu'; allowed are auc,"),
        ("export.metric=calibration", r"`metric` is 'calibration'; allowed are auc, log_loss"),
        ("train.early_stop={metric: loss}", r"`metric` is 'loss'; allowed are auc, log_loss"),
    ],
)
def test_bounds_and_metrics_are_checked_at_once(path: Path, setting: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_job(path, settings=[setting])


@pytest.mark.parametrize(
    "setting", ["export.require={auc: '>=0.74'}", "export.checkpoint=best", "train.early_stop={patience: 2}"]
)
def test_what_goes_by_evaluations_needs_an_evaluator(path: Path, setting: str) -> None:
    load_job(path, settings=[setting])
    key = setting.partition("=")[0]
    with pytest.raises(SpecError, match=f"`{key}` goes by evaluations: add `roles.evaluator`"):
        load_job(path, settings=[setting, "roles={ps: {}, worker: {}}"])


def test_an_optimizer_of_hash_tables_needs_them_and_is_one(path: Path) -> None:
    own = "optimizer.embedding={momentum: {}, clip_norm: 2}"
    rule = load_job(path, settings=[own]).optimizer.embedding
    assert rule is not None
    assert rule.clip_norm == 2
    with pytest.raises(SpecError, match=r"`optimizer\.embedding` is for `model\.embedding\.storage: hash_table`"):
        load_job(path, settings=[own, "model.embedding.storage=dense"])
    with pytest.raises(SpecError, match=r"\$\.optimizer\.embedding.*name one optimizer, not 2: adam, sgd"):
        load_job(path, settings=["optimizer.embedding={adam: {}, sgd: {}}"])


def test_a_tunnel_is_for_the_connections_of_a_model(path: Path) -> None:
    assert load_job(path, settings=["security.tunnel=true"]).security.tunnel
    path.write_text("name: mine\nroles: {worker: {}}\nprogram: train.py\nsecurity: {tunnel: true}\n")
    with pytest.raises(SpecError, match=r"`security\.tunnel` is for a `model`"):
        load_job(path)


def test_filter_and_evict_are_for_hash_tables(path: Path) -> None:
    evict = "model.embedding.evict={unused_steps: 1000000, capacity: 500, unused_time: 14d}"
    own = ["model.embedding.filter.min_count=3", evict]
    embedding = load_job(path, settings=own).model.embedding
    assert (embedding.filter.min_count, embedding.filter.probability) == (3, 1.0)
    assert (embedding.evict.unused_steps, embedding.evict.capacity, embedding.evict.l2_weight) == (1000000, 500, 0.0)
    assert embedding.evict.unused_time == 14 * 86400
    with pytest.raises(SpecError, match=r"\$\.model\.embedding.*`filter` is for `storage: hash_table`"):
        load_job(path, settings=[*own, "model.embedding.storage=dense"])
    with pytest.raises(SpecError, match=r"`min_count` or `probability`, not both"):
        load_job(path, settings=["model.embedding.filter={min_count: 2, probability: 0.1}"])
    bloom = "model.embedding.filter={min_count: 3, max_element_size: 1000000000}"
    assert load_job(path, settings=[bloom]).model.embedding.filter.false_positive_probability == 0.01
    with pytest.raises(SpecError, match=r"with `max_element_size` needs a `min_count` of 2 to 255, not 1"):
        load_job(path, settings=["model.embedding.filter.max_element_size=9"])
    with pytest.raises(SpecError, match=r"\$\.model\.embedding\.filter\.probability"):
        load_job(path, settings=["model.embedding.filter.probability=0"])


def test_a_feature_has_a_filter_an_eviction_and_a_pooling_of_its_own(path: Path) -> None:
    own = "model.embedding.features={user: {filter: {min_count: 3}, pooling: servers}, ad: {evict: {unused_time: 1d}}}"
    embedding = load_job(path, settings=[own, "model.embedding.evict.capacity=9", "model.embedding.wire=bfloat16"])
    found = embedding.model.embedding
    assert [found.filter_of(name).min_count for name in ("user", "ad", "other")] == [3, 1, 1]
    assert [(found.evict_of(name).capacity, found.evict_of(name).unused_time) for name in ("user", "ad")] == [
        (9, None), (0, 86400),
    ]  # fmt: skip
    assert [found.pooling_of(name) for name in ("user", "ad")] == ["servers", "auto"]
    assert found.wire == "bfloat16"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.embedding={storage: dense, pooling: servers}", r"`pooling` is for `storage: hash_table`; leave it out"),
        ("model.embedding={storage: dense, wire: bfloat16}", r"`wire` is for `storage: hash_table`; leave it out"),
        ("model.embedding={storage: dense, value_dtype: bfloat16}", r"`value_dtype` is for `storage: hash_table`"),
        ("model.embedding.value_dtype=float16", r"\$\.model\.embedding\.value_dtype"),
        ("model.embedding={storage: dense, features: {a: {}}}", r"`features` is for `storage: hash_table`"),
        ("model={entry: 'm.py:build', embedding: {features: {a: {}}}}", r"`embedding\.features` is for `wide_deep`"),
        (
            "model={entry: 'm.py:build', embedding: {dim: 8}}",
            r"`embedding\.dim` is for `wide_deep` and would change no",
        ),
        ("model={entry: 'm.py:build', hidden_units: [4]}", r"`hidden_units` is for `wide_deep`"),
        ("model={entry: 'm.py:build', wide: {crosses: [[a, b]]}}", r"`wide` is for `wide_deep`"),
        ("model.embedding.pooling=server", r"\$\.model\.embedding\.pooling.*auto, servers or workers"),
        ("model.embedding.features={a: {filtre: {}}}", r"\$\.model\.embedding\.features\.a.*filtre.*filter"),
    ],
)
def test_pooling_wire_and_features_where_they_cannot_be(path: Path, setting: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_job(path, settings=[setting])


def test_a_name_has_variables_and_is_one_name(path: Path) -> None:
    assert load_job(path, settings=["name=ctr {{dt-1}}"]).name == "ctr 2026-02-28"
    with pytest.raises(SpecError, match=r"\$\.name: '\{\{dt-1\.\.dt\}\}' is a range of 2; name one day"):
        load_job(path, settings=['name="{{dt-1..dt}}"'])


HUGE = "1" + "0" * 38


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (f"roles.worker.instances={HUGE}", "$.roles.worker.instances: 1000.* does not fit; allowed: .* <= 100000"),
        (f"roles.worker.instances={{min: 1, max: {HUGE}}}", "$.roles.worker.instances.max: .* <= 100000"),
        (f"roles.ps.vcores={HUGE}", "$.roles.ps.vcores: .* <= 2147483647"),
        (f"model.embedding.dim={HUGE}", "$.model.embedding.dim: .* <= 4096"),
        (f"model.embedding.hash_buckets={HUGE}", "$.model.embedding.hash_buckets: .* <= 1000000000000"),
        (f"model.embedding.evict.capacity={HUGE}", "$.model.embedding.evict.capacity: .* <= 1000000000000"),
        (f"model.hidden_units=[64, {HUGE}]", "$.model.hidden_units[1]: .* <= 2147483647"),
        (f"data.batch_size={HUGE}", "$.data.batch_size: .* <= 2147483647"),
        (f"data.shuffle.seed={HUGE}", "$.data.shuffle.seed: .* <= 9223372036854775807"),
        (f"train.max_steps={HUGE}", "$.train.max_steps: .* <= 4294967294"),
        (f"restart.worker={{max: {HUGE}}}", "$.restart.worker.max: .* <= 2147483647"),
        ("checkpoint.every=" + "9" * 4200 + "d", "$.checkpoint.every: '999.*… is too long; .* at most 36500d"),
        ("checkpoint.every=36501d", "$.checkpoint.every: '36501d' is too long; a duration is at most 36500d"),
        (f"timeouts.job={HUGE}", "$.timeouts.job: 1000.* is too long"),
        ("roles.ps.memory=" + "9" * 4200 + " GiB", "$.roles.ps.memory: '999.*… is too much; memory is at most"),
        ("roles.ps.memory=2097152 GiB", "$.roles.ps.memory: '2097152 GiB' is too much; .* at most 2147483647 MiB"),
        ("data.eval=['{{dt-999999999..dt}}']", "$.data.eval[0]: 'dt' is '2026-03-01', and '-999999999' days lead out"),
        ("data.eval=['{{dt-" + "9" * 5000 + "}}']", "$.data.eval[0]: 'dt' is .* days lead out of the years 1 to 9999"),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_what_is_too_large_is_refused_with_its_bound(path: Path, setting: str, message: str) -> None:
    with pytest.raises(SpecError, match=message.replace("$", r"\$").replace("[", r"\[").replace("]", r"\]")) as raised:
        load_job(path, settings=[setting])
    assert len(str(raised.value).replace(setting, "")) < 400


def test_variables_of_any_number_are_expanded(path: Path) -> None:
    job = load_job(path, settings=["name='" + "{{out}}" * 28 + "'", "data.eval=['" + "{{out}}" * 3000 + "']"])
    assert job.name == "/out" * 28
    assert job.data.eval == ("/out" * 3000,)


def test_ranges_multiply_up_to_a_bound(path: Path) -> None:
    job = load_job(path, settings=["data.train=['/{{dt-1..dt}}/{{dt..dt+1}}']"])
    days = ["2026-02-28", "2026-03-01", "2026-03-02"]
    assert job.data.train == tuple(f"/{a}/{b}" for a in days[:2] for b in days[1:])
    with pytest.raises(SpecError, match="come to more than 100000 texts together"):
        load_job(path, settings=["data.train=['" + "{{dt-999..dt}}" * 200 + "']"])


@pytest.mark.parametrize(
    "texts",
    [["{{long}}" * 3000], ["{{long}}" * 900] * 2, ["/{{dt-999..dt}}/{{long}}{{long}}"], ["{{dt-999..dt}}" * 3000]],
    ids=["in one", "in two", "in each of a range", "in ranges"],
)
def test_variables_come_to_texts_of_a_bounded_size(
    path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges, of_range = list[list[str]](), units._range
    monkeypatch.setattr(units, "_range", lambda *given: ranges.append(of_range(*given)) or ranges[-1])
    setting = f"data.eval={json.dumps(texts)}"
    with pytest.raises(SpecError, match=r"\$\.data\.eval\[\d\]: .* come to more than \d+ (characters|texts)") as raised:
        load_job(path, settings=[setting], variables={"long": "x" * 10_000})
    assert len(str(raised.value).replace(setting, "")) < 500
    assert len(ranges) <= 3, "one in data.train, and as many here as tell that they are too many"


def test_no_day_comes_after_the_last_one(path: Path) -> None:
    with pytest.raises(SpecError, match="'dt' is '9999-12-31', and '\\+5' days lead out of the years 1 to 9999"):
        load_job(path, settings=["data.train=['{{dt..dt+5}}']"], variables={"dt": "9999-12-31"})


def test_the_largest_are_taken(path: Path) -> None:
    settings = ["checkpoint.every=36500d", "roles.ps.memory=2147483647", "model.embedding.dim=4096"]
    job = load_job(path, settings=settings)
    assert job.checkpoint.every == 36500 * 86400
    assert job.roles["ps"].memory == 2**31 - 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('environment.variables={"A=B": c}', r"\$\.environment.*'A=B'; allowed are letters, digits and `_`"),
        ('environment.variables={"": c}', "names ''; allowed are letters"),
        ('environment.variables={"1A": c}', "a digit not first"),
        ('environment.variables={A: "x\\0y"}', r"`variables.A` holds a NUL byte"),
        ('args=["x\\0y"]', "`args` hold a NUL byte"),
    ],
)
def test_what_no_process_can_be_given_is_refused(path: Path, setting: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_job(path, settings=[setting], variables={"out": "hdfs:///o"})
