"""Mistakes that people make, one line each: what is changed, the exit code, the place that is named, what to do.

A line names the file that is changed, what in it is replaced by what, the code, the place and the advice. The files
here are right before.
"""

JOB = """name: clicks
roles:
  ps: {instances: 1, memory: 1 GiB, vcores: 1}
  worker: {instances: 2, memory: 1 GiB}
  evaluator: {}
data:
  schema: schema.yaml
  train: ["train/*.tfrecord"]
  eval: ["eval/*.tfrecord"]
  label: click
  batch_size: 64
model:
  hidden_units: [16, 8]
  embedding: {dim: 4}
optimizer:
  deep: {adagrad: {learning_rate: 0.05}}
train: {eval_every: 30s}
checkpoint: {every: 30s, keep: 2}
export: {dir: model}
"""
SCHEMA = """label: click
features:
  - {name: user_id, kind: categorical}
  - {name: page, kind: string}
  - {name: price, kind: dense}
"""
SITE = """runtime: local
jobs_root: {local: jobs}
"""
FILES = {"job.yaml": JOB, "schema.yaml": SCHEMA, "afo-site.yaml": SITE}

#: id, what is replaced in job.yaml, by what, place, advice. The exit code is 3.
IN_THE_JOB_FILE = [
    # -- a key that is spelled wrong ---------------------------------------------------------------------------------
    ("name-typo", "name: clicks", "nmae: clicks", "job.yaml:1: $.nmae", "did you mean `name`?"),
    ("roles-typo", "roles:", "rolse:", "job.yaml:2: $.rolse", "did you mean `roles`?"),
    ("role-typo", "  worker:", "  wroker:", "job.yaml:4: $.roles.wroker", "did you mean `worker`?"),
    ("memory-typo", "ps: {instances: 1, memory", "ps: {instances: 1, memry",
     "job.yaml:3: $.roles.ps.memry", "did you mean `memory`?"),
    ("train-typo", "  train:", "  trian:", "job.yaml:8: $.data.trian", "did you mean `train`?"),
    ("batch-typo", "batch_size", "batchsize", "job.yaml:11: $.data.batchsize", "did you mean `batch_size`?"),
    ("units-typo", "hidden_units", "hiden_units", "job.yaml:13: $.model.hiden_units", "did you mean `hidden_units`?"),
    ("dim-typo", "{dim: 4}", "{dmi: 4}", "job.yaml:14: $.model.embedding.dmi", "did you mean `dim`?"),
    ("optimizer-typo", "adagrad", "adagard", "job.yaml:16: $.optimizer.deep.adagard", "did you mean `adagrad`?"),
    ("rate-typo", "learning_rate", "learnig_rate",
     "job.yaml:16: $.optimizer.deep.adagrad.learnig_rate", "did you mean `learning_rate`?"),
    ("every-typo", "eval_every", "evaluate_every", "job.yaml:17: $.train.evaluate_every", "did you mean `eval_every`?"),
    ("keep-typo", "keep", "kepe", "job.yaml:18: $.checkpoint.kepe", "did you mean `keep`?"),
    ("dir-typo", "{dir: model}", "{directory: model}", "job.yaml:19: $.export.directory", "did you mean `dir`?"),
    ("user-feature-twice", "{dir: model}", "{user_features: [page, page]}",
     "job.yaml:19: $.export", "names `page` twice; remove one"),
    ("environment-typo", "data:", "environment: {file: [a.py]}\ndata:",
     "job.yaml:6: $.environment.file", "did you mean `files`?"),
    ("restart-typo", "data:", "restart: {workers: {max: 1}}\ndata:",
     "job.yaml:6: $.restart.workers", "did you mean `worker`?"),
    ("timeout-typo", "data:", "timeouts: {stal: 5m}\ndata:", "job.yaml:6: $.timeouts.stal", "did you mean `stall`?"),
    ("warm-typo", "keep: 2", "warm_start: {source: [a]}",
     "job.yaml:18: $.checkpoint.warm_start.source", "did you mean `sources`?"),
    # -- a value that does not fit -----------------------------------------------------------------------------------
    ("memory-unit", "memory: 1 GiB, vcores", "memory: 1 parsec, vcores",
     "job.yaml:3: $.roles.ps.memory: '1 parsec'", "write e.g. '8 GiB'"),
    ("memory-negative", "memory: 1 GiB, vcores", "memory: -1 GiB, vcores",
     "job.yaml:3: $.roles.ps.memory: '-1 GiB'", "write e.g. '8 GiB'"),
    ("memory-none", "memory: 1 GiB, vcores", "memory: 0, vcores", "job.yaml:3: $.roles.ps.memory: 0", "at least 1"),
    ("vcores-none", "vcores: 1", "vcores: 0", "job.yaml:3: $.roles.ps.vcores: 0", "allowed: whole number >= 1"),
    ("instances-word", "instances: 2", "instances: two",
     "job.yaml:4: $.roles.worker.instances: 'two'", "allowed: whole number"),
    ("instances-none", "instances: 2", "instances: 0", "$.roles", "`worker` with at least one instance"),
    ("evaluators", "evaluator: {}", "evaluator: {instances: 2}", "job.yaml:5: $.roles.evaluator", "at most 1, not 2"),
    ("no-ps", "  ps: {instances: 1, memory: 1 GiB, vcores: 1}\n", "", "`ps`", "needs `ps` with at least one instance"),
    ("elastic-ps", "ps: {instances: 1", "ps: {instances: {min: 1, max: 2}",
     "roles.ps.instances", "only workers are elastic"),
    ("elastic-order", "instances: 2", "instances: {min: 3, max: 2}", "roles.worker.instances", "min <= max"),
    ("batch-none", "batch_size: 64", "batch_size: 0",
     "job.yaml:11: $.data.batch_size: 0", "allowed: whole number >= 1"),
    ("epochs-half", "batch_size: 64", "epochs: 1.5", "job.yaml:11: $.data.epochs: 1.5", "allowed: whole number >= 1"),
    ("rate-negative", "0.05", "-1", "job.yaml:16: $.optimizer.deep.adagrad.learning_rate: -1", "allowed: number > 0"),
    ("rate-text", "0.05", "fast", "job.yaml:16: $.optimizer.deep.adagrad.learning_rate: 'fast'", "allowed: number > 0"),
    ("two-optimizers", "{adagrad: {learning_rate: 0.05}}", "{adagrad: {}, ftrl: {}}",
     "job.yaml:16: $.optimizer.deep", "name exactly one optimizer"),
    ("no-optimizer", "{adagrad: {learning_rate: 0.05}}", "{}",
     "job.yaml:16: $.optimizer.deep", "ftrl, adagrad, sgd, adam, adamw, momentum or rmsprop"),
    ("units-none", "[16, 8]", "[]", "job.yaml:13: $.model.hidden_units: an empty list", "allowed: "),
    ("units-zero", "[16, 8]", "[16, 0]", "job.yaml:13: $.model.hidden_units[1]: 0", "allowed: whole number >= 1"),
    ("kind", "hidden_units: [16, 8]", "kind: wide-deep",
     "job.yaml:13: $.model.kind: 'wide-deep'", "did you mean `wide_deep`?"),
    ("compression", "batch_size: 64", "compression: gz",
     "job.yaml:11: $.data.compression: 'gz'", "did you mean `gzip`?"),
    ("duration", "30s}", "soon}", "job.yaml:17: $.train.eval_every: 'soon'", "write e.g. '10m'"),
    ("duration-null", "{eval_every: 30s}", "{eval_every: null}", "job.yaml:17: $.train.eval_every", "write e.g. '10m'"),
    ("bad-share", "batch_size: 64", "max_bad_records: 2", "job.yaml:11: $.data.max_bad_records: 2", "allowed: number"),
    ("sampling", "batch_size: 64", "negative_sampling: {keep: 0}",
     "job.yaml:11: $.data.negative_sampling.keep: 0", "allowed: number > 0"),
    ("label-twice", "label: click", "label: [click, click]", "job.yaml", "each once"),
    ("stop-metric", "{eval_every: 30s}", "{early_stop: {metric: recall}}",
     "job.yaml:17: $.train.early_stop", "allowed are auc, log_loss"),
    ("gate-metric", "{dir: model}", "{require: {acu: '>=0.7'}}", "job.yaml:19: $.export", "allowed are auc"),
    ("gate-bound", "{dir: model}", "{require: {auc: high}}", "job.yaml:19: $.export", ">="),
    ("name-empty", "name: clicks", "name: ''", "job.yaml:1: $.name: ''", "allowed: text"),
    ("name-number", "name: clicks", "name: 7", "job.yaml:1: $.name: 7", "put it in quotes"),
    ("name-missing", "name: clicks\n", "", "job.yaml", "`name` is missing; add it"),
    ("section-list", "checkpoint: {every: 30s, keep: 2}", "checkpoint: [30s, 2]",
     "job.yaml:18: $.checkpoint: a list", "allowed: "),
    ("hook-text", "data:", "on_end: notify.sh\ndata:", "job.yaml:6: $.on_end: 'notify.sh'", "allowed: list"),
    ("variable-text", "data:", "environment: {variables: {A: 1}}\ndata:",
     "$.environment.variables", "put it in quotes"),
    ("gpus", "vcores: 1", "gpus: -1", "job.yaml:3: $.roles.ps.gpus: -1", "allowed: whole number >= 0"),
    # -- what belongs together -----------------------------------------------------------------------------------------
    ("two-programs", "data:", "program: train.py\ndata:", "$", "a `model` or a `program`, not both"),
    ("arguments", "data:", "args: [--fast]\ndata:", "job.yaml:6: $.args", "are arguments of `program`"),
    ("no-entry", "hidden_units: [16, 8]", "kind: entry", "$.model.kind", "e.g. `entry: my_ctr.py:build`"),
    ("entry-form", "hidden_units: [16, 8]\n  embedding: {dim: 4}", "entry: my_ctr.build",
     "$.model.entry: 'my_ctr.build'", "write `my_ctr.py:build`"),
    ("entry-dim", "hidden_units: [16, 8]", "entry: my_ctr.py:build",
     "job.yaml:14: $.model.embedding.dim", "is for `wide_deep` and would change nothing of `my_ctr.py:build`"),
    ("no-train", '  train: ["train/*.tfrecord"]\n', "", "data.train", "needs at least one file or glob"),
    ("no-eval", '  eval: ["eval/*.tfrecord"]\n', "", "roles.evaluator", "needs files in `data.eval`"),
    # -- variables -----------------------------------------------------------------------------------------------------
    ("variable", "train/*", "{{day}}/*", "job.yaml:8: $.data.train[0]: unknown variable 'day'", "--var day="),
    ("variable-range", "schema.yaml", '"{{dt..dt}}.yaml"', "job.yaml:7: $.data.schema", "--var dt="),
    ("variable-date", "name: clicks", "vars: {dt: today}\nname: c{{dt-1}}",
     "job.yaml:2: $.name: variable 'dt' is 'today'", "a date is written 2026-11-19"),
    # -- YAML ----------------------------------------------------------------------------------------------------------
    ("yaml-tab", "  schema:", "\tschema:", "job.yaml:7: column 1", "not with tabs"),
    ("yaml-braces", "schema: schema.yaml", "schema: {{data}}/schema.yaml", "job.yaml:7", "begins with {{ in quotes"),
    ("yaml-open", "clicks", "[", "job.yaml", "not valid YAML"),
    ("yaml-twice", "name: clicks", "name: clicks\nname: again",
     "job.yaml:2: $.name: key 'name' is given twice", "job.yaml:1"),
    ("yaml-tag", "name: clicks", "name: !!python/object:os.system x", "job.yaml:1", "tag"),
    ("yaml-list", JOB, "- a\n- b\n", "job.yaml", "allowed: "),
    ("yaml-empty", JOB, "", "job.yaml", "allowed: "),
    ("yaml-two", JOB, "a: 1\n---\nb: 2\n", "job.yaml:2", "one document"),
]  # fmt: skip

#: id, what is replaced in schema.yaml, by what, place, advice. The exit code is 3.
IN_THE_SCHEMA = [
    ("features-typo", "features:", "feature:", "schema.yaml:2: $.feature", "did you mean `features`?"),
    ("kind-typo", "kind: categorical", "kind: catgorical",
     "schema.yaml:3: $.features[0].kind: 'catgorical'", "did you mean `categorical`?"),
    ("key-typo", "kind: string", "kind: string, max_lenght: 3",
     "schema.yaml:4: $.features[1].max_lenght", "did you mean `max_length`?"),
    ("feature-twice", "name: page", "name: user_id", "schema.yaml", "given twice; remove one"),
    ("label-as-feature", "name: page", "name: click", "schema.yaml", "label or sample_id"),
    ("default-kind", "kind: dense", "kind: dense, default: many",
     "schema.yaml:5: $.features[2]", "no value of a dense feature"),
    ("length-none", "kind: string", "kind: string, max_length: 0",
     "schema.yaml:4: $.features[1].max_length: 0", "allowed: whole number >= 1"),
    ("weights-typo", "kind: string", "kind: string, max_length: 3, weights: prise",
     "schema.yaml", "did you mean `price`?"),
    ("combiner", "kind: string", "kind: string, max_length: 3, combiner: avg",
     "schema.yaml:4: $.features[1].combiner: 'avg'", "allowed: mean, sqrtn or sum"),
    ("no-features", SCHEMA, "features: []\n", "schema.yaml:1: $.features: an empty list", "at least 1 item"),
]  # fmt: skip

#: id, file, what is replaced in it, by what, exit code, place, advice: what does not fit together, or is not there.
BETWEEN_FILES = [
    ("schema-gone", "job.yaml", "schema.yaml", "skema.yaml", 5, "$.data.schema", "leave `schema` out"),
    ("train-gone", "job.yaml", "train/*", "trian/*", 5, "$.data.train", "trian/*.tfrecord"),
    ("eval-gone", "job.yaml", "eval/*", "evla/*", 5, "$.data.eval", "evla/*.tfrecord"),
    ("feature-gone", "schema.yaml", "name: page", "name: paeg", 3, "a.tfrecord", "did you mean `page`?"),
    ("feature-kind", "schema.yaml", "kind: string", "kind: dense", 3,
     "a.tfrecord, record 0: feature `page` holds bytes", "the schema needs float"),
    ("label-gone", "job.yaml", "label: click", "label: clik", 3, "$.data.label", "there are: click"),
    ("weight-gone", "job.yaml", "label: click", "label: click\n  weight: wieght", 3,
     "$.data.weight", "there are: click"),
    ("id-gone", "job.yaml", "label: click", "label: click\n  sample_id: id", 3, "$.data.sample_id", "there are: click"),
    ("user-feature-typo", "job.yaml", "dir: model", "user_features: [page, user_idd]", 3,
     "$.export.user_features[1]: feature `user_idd`", "did you mean `user_id`?"),
    ("user-feature-label", "job.yaml", "dir: model", "user_features: [click]", 3,
     "$.export.user_features[0]: `click` is a label", "take it out"),
    ("user-features-all", "job.yaml", "dir: model", "user_features: [price, page, user_id]", 3,
     "$.export.user_features: all 3 features", "name those alone that are the same for all items"),
    ("cross-typo", "job.yaml", "hidden_units: [16, 8]", "wide: {crosses: [[user_id, pagee]]}", 3,
     "$.model.wide.crosses[0]", "did you mean `page`?"),
    ("entry-gone", "job.yaml", "hidden_units: [16, 8]\n  embedding: {dim: 4}", "entry: my_ctr.py:build", 5,
     "$.model.entry", "relative to the job file"),
    ("file-gone", "job.yaml", "data:", "environment: {files: [mine.py]}\ndata:", 5,
     "$.environment.files[0]", "relative to the job file"),
    ("environment-gone", "job.yaml", "data:", "environment: {python: env.tar.gz}\ndata:", 5,
     "$.environment.python", "`afo env pack` makes one"),
    ("defaults-gone", "job.yaml", "name: clicks", "name: clicks\ndefaults: team.yaml", 5,
     "team.yaml: no such file", "give the path"),
    ("output-file", "job.yaml", "{dir: model}", "{dir: schema.yaml/model}", 4,
     "schema.yaml/model", "choose another directory"),
    ("site-typo", "afo-site.yaml", "jobs_root:", "jobs_rot:", 3,
     "afo-site.yaml:2: $.jobs_rot", "did you mean `jobs_root`?"),
    ("site-runtime", "afo-site.yaml", "runtime: local", "runtime: mesos", 3,
     "afo-site.yaml:1: $.runtime: 'mesos'", "allowed: '', local or yarn"),
]  # fmt: skip

#: id, command line, exit code, place, advice.
ON_THE_COMMAND_LINE = [
    ("verb", "sbumit job.yaml", 2, "sbumit", "Did you mean `afo submit`?"),
    ("option", "submit job.yaml --detahc", 2, "--detahc", "--detach"),
    ("no-file", "submit", 2, "JOB_FILE", "afo submit"),
    ("file-gone", "submit job.yml", 5, "job.yml: no such file", "give the path of an existing YAML file"),
    ("folder", "validate .", 3, ".: cannot be read: Is a directory", "give the path of a YAML file"),
    ("set-form", "validate job.yaml --set data.epochs", 2, "--set 'data.epochs'", "--set name=value"),
    ("set-typo", "validate job.yaml --set data.epoch=2", 3,
     "--set data.epoch=2: $.data.epoch", "did you mean `epochs`?"),
    ("set-value", "validate job.yaml --set data.epochs=many", 3,
     "--set data.epochs=many: $.data.epochs: 'many'", "allowed: whole number"),
    ("set-below", "validate job.yaml --set name.first=x", 3, "--set name.first=x", "set the whole value instead"),
    ("set-yaml", "validate job.yaml --set data.train=[a", 3, "--set data.train=[a", "not valid YAML"),
    ("unmeasured", "validate job.yaml --set 'roles={ps: {}, worker: {}}' --set 'train={early_stop: {}}'", 3,
     "$.train.early_stop", "add `roles.evaluator`"),
    ("set-section", "validate job.yaml --set optimizer.adam.learning_rate=1", 3,
     "--set optimizer.adam.learning_rate=1: $.optimizer.adam", "it belongs under `wide`, `deep` or `embedding`"),
    ("var-typo", "validate job.yaml --var dtt=1", 3, "--var dtt=1: `dtt` is used nowhere", "variables: none"),
    ("var-form", "validate job.yaml --var dt", 2, "--var 'dt'", "--var name=value"),
    ("runtime", "validate job.yaml --runtime mesos", 2, "'mesos'", "'local', 'yarn'"),
    ("timeout", "submit job.yaml --timeout soon", 2, "'--timeout': 'soon' is not", "write e.g. '10m'"),
    ("key-empty", "submit job.yaml --idempotency-key ''", 2, "--idempotency-key ''", "1 to 1000 printable characters"),
    ("retry", "submit job.yaml --retry", 2, "--retry", "give a key"),
    ("job-id", "status 17", 2, "'17' is not a job id", "application_1700000000000_0001"),
    ("job-path", "wait ../../etc", 2, "'../../etc' is not a job id", "looks like"),
    ("job-gone", "status local_1_0001", 5, "there is no job local_1_0001", "`afo ls`"),
    ("no-job", "resubmit", 2, "no job was named", "`afo ls`"),
    ("kill-unnamed", "kill", 2, "no job was named", "`afo ls`"),
    ("task", "stacks local_1_0001 worker-0", 2, "'worker-0' is no task", "worker:0"),
    ("no-command", "exec worker:0", 2, "nothing to run", "-- COMMAND"),
    ("log-word", "logs wroker:0", 2, "'wroker:0' is not a job id, and no task", "did you mean `worker`?"),
    ("log-task", "logs local_1_0001 wroker:0", 5, "local_1_0001", "`afo ls`"),
    ("cause", "explain memory_limt", 2, "'memory_limt'", "did you mean `memory_limit`?"),
    ("causes", "explain --causes memory_limit", 2, "--causes", "leave 'memory_limit' out"),
    ("compare", "compare local_1_0001 local_1_0001", 5, "there is no job local_1_0001", "`afo ls`"),
    ("limit", "ls -n 0", 2, "'-n'", "x>=1"),
    ("inspect-gone", "data inspect gone/*", 5, "gone/*", "check the path"),
    ("convert-schema", "data convert a.csv --out out", 2, "--schema", "Missing option"),
    ("synth", "data synth out --train 0", 2, "'--train'", "x>=1"),
    ("init-there", "init", 1, "job.yaml is there already", "name another folder"),
    ("init-eval", "init new --eval eval/*", 2, "--eval", "name the training files, too"),
    ("history-port", "history start --port 99999", 2, "'--port'", "0<=x<=65535"),
    ("shell", "completion tcsh", 2, "'tcsh'", "'bash', 'zsh', 'fish'"),
]  # fmt: skip
