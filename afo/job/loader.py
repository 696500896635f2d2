"""A job file into a resolved `Job`: settings and variables of the command line applied, every path absolute."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from afo.errors import SpecError, UsageError
from afo.formats.units import MOST_CHARACTERS, expand_variables, variables_in
from afo.formats.yaml_file import convert, guess
from afo.formats.yaml_tree import Document, Steps, Value, folder_of, parse_yaml, path_text, read_yaml
from afo.job import Checkpoint, Data, Environment, Job, Model
from afo.job.entry_point import split_entry
from afo.job.layering import KEY as DEFAULTS
from afo.job.layering import Inherited, Layer, with_defaults

_OF_MODELS = ("optimizer", "train", "export")


class JobSource(msgspec.Struct, frozen=True, kw_only=True):
    """A job file as it was written, its settings applied and its variables not yet: `afo resubmit` begins with it."""

    tree: dict[str, Any]
    #: What relative paths in it are relative to.
    folder: str
    #: Those of the command line; they win over the `vars` of the tree.
    variables: dict[str, str] = {}
    #: What it does not say itself (see `afo.job.layering.Layer`).
    inherited: dict[str, Inherited] = {}


def load_job(
    path: str | Path, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None,
    below: Layer | None = None,
) -> Job:  # fmt: skip
    """Read a job file and the defaults that it names, above those of `below` (`Config.defaults`).

    `settings` are `roles.worker.memory=4g`, `variables` win over the file's `vars`.
    Raises `NotFound` when there is no such file, `UsageError` for a malformed setting, `SpecError` otherwise.
    """
    return read_job(path, settings=settings, variables=variables, below=below)[0]


def read_job(
    path: str | Path, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None,
    below: Layer | None = None,
) -> tuple[Job, JobSource]:  # fmt: skip
    """As `load_job`; the source, too."""
    document = read_yaml(path)
    of_defaults = [setting for setting in settings if setting.partition("=")[0] == DEFAULTS]
    for setting in of_defaults:
        document, _ = with_setting(document, setting)
    layer = with_defaults(document, folder_of(path), below)
    return _job_of(layer, [given for given in settings if given not in of_defaults], variables or {})


def read_again(
    source: JobSource, name: str, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> tuple[Job, JobSource]:
    """The job of an earlier submission's source, which errors call `name`, with more settings and variables."""
    if any(setting.partition("=")[0] == DEFAULTS for setting in settings):
        raise UsageError(f"--set {DEFAULTS}: the defaults of that time are part of {name}; submit the job file itself")
    layer = Layer(Document(name, source.tree), source.folder, source.inherited)
    return _job_of(layer, settings, variables or {}, source.variables)


def _job_of(
    layer: Layer, settings: Sequence[str], variables: Mapping[str, str], earlier: Mapping[str, str] | None = None
) -> tuple[Job, JobSource]:
    """The job with `variables` above those of an `earlier` submission, which need not be used any more."""
    for setting in settings:
        document, steps = with_setting(layer.document, setting)
        layer = layer.replace_value(steps, document)
    job, given = convert(layer.document, Job), {**(earlier or {}), **variables}
    resolver = _Resolver(layer, {**job.vars, **given})
    resolved = _resolve_job(job, resolver)
    _refuse_unused(variables, sorted(job.vars.keys() | resolver.used))
    tree = layer.document.value if isinstance(layer.document.value, dict) else {}
    return resolved, JobSource(tree=tree, folder=layer.folder, variables=given, inherited=layer.inherited)


def _refuse_unused(given: Mapping[str, str], known: list[str]) -> None:
    """A variable of the command line that neither `vars` nor a text names: the job would run with a default instead."""
    for name in given:
        if name not in known:
            raise SpecError(
                f"--var {name}={given[name]}: `{name}` is used nowhere in the job; {guess(name, known)}"
                f"variables: {', '.join(known) or 'none'}"
            )


def places_of(source: JobSource) -> dict[str, str]:
    """Where what the job file does not say itself was written: `queue` → `/etc/afo/afo-site.yaml:7`."""
    return {key: inherited.place for key, inherited in source.inherited.items()}


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    """`dt=2026-11-19` each. Raises `UsageError` for one without `=` or without a name."""
    return dict(_pair(text, "--var") for text in texts)


def with_setting(document: Document, setting: str) -> tuple[Document, Steps]:
    """The document with one value replaced or added, and its place; the value is read as YAML."""
    dotted, text = _pair(setting, "--set")
    steps: Steps = tuple(dotted.split("."))
    source = f"--set {setting}"
    inner = parse_yaml(text, source)
    value = _replace_value(document.value, steps, inner.value, source)
    kept = {at: place for at, place in document.places.items() if at[: len(steps)] != steps}
    own = dict.fromkeys(_made_by(steps, document.value), source)
    return Document(document.name, value, {**kept, **own}), steps


def _made_by(steps: Steps, tree: Value) -> list[Steps]:
    """What a value at `steps` brings into the tree: itself, and the mappings around it that were not there."""
    there = 0
    while isinstance(tree, dict) and there < len(steps) - 1 and (step := str(steps[there])) in tree:
        tree, there = tree[step], there + 1
    return [steps[:end] for end in range(there + 1, len(steps) + 1)]


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not all(name.split(".")):
        raise UsageError(f"{option} {text!r} is malformed; write {option} name=value")
    return name, value


def _replace_value(tree: Value, steps: Steps, value: Value, source: str) -> Value:
    if not steps:
        return value
    if tree is not None and not isinstance(tree, dict):
        raise SpecError(f"{source}: the job file has no mapping to hold `{steps[0]}`; set the whole value instead")
    held, step = tree or {}, str(steps[0])
    return {**held, step: _replace_value(held.get(step), steps[1:], value, source)}


@dataclass
class _Resolver:
    """Expands variables and makes paths absolute; an error names the place in the file."""

    layer: Layer
    variables: dict[str, str]
    #: Characters that the job's texts may still come to.
    room: int = MOST_CHARACTERS
    #: Names of those that a text was found to use.
    used: set[str] = field(default_factory=set)

    def expand_all(self, texts: Sequence[str], steps: Steps) -> tuple[str, ...]:
        return tuple(one for index, text in enumerate(texts) for one in self._expand(text, (*steps, index)))

    def expand_one(self, text: str, steps: Steps) -> str:
        if not text:
            return ""
        expanded = self._expand(text, steps)
        if len(expanded) != 1:
            raise self.error(steps, f"{text!r} is a range of {len(expanded)}; name one path")
        return expanded[0]

    def text(self, text: str, steps: Steps) -> str:
        """What is no path."""
        expanded = self._expand_text(text, steps)
        if len(expanded) != 1:
            raise self.error(steps, f"{text!r} is a range of {len(expanded)}; name one day")
        return expanded[0]

    def local(self, text: str, steps: Steps) -> str:
        """The absolute path of a file that has to be on this machine."""
        if "://" in text:
            raise self.error(steps, f"{text!r} is a URL; name a file on this machine, it is sent to the containers")
        return self.expand_one(text, steps)

    def path(self, text: str, steps: Steps) -> str:
        """A URL as it is; a path relative to the folder of its file. A slash at its end says that it is a folder."""
        if not text or "://" in text:
            return text
        path = os.path.normpath(os.path.join(self.layer.origin(steps).folder, os.path.expanduser(text)))
        return f"{path}/" if text.endswith("/") and path != "/" else path

    def words(self, texts: Sequence[str], steps: Steps) -> tuple[str, ...]:
        """Variables expanded in what is no path; a range makes several words of one."""
        return tuple(one for index, text in enumerate(texts) for one in self._expand_text(text, (*steps, index)))

    def _expand(self, text: str, steps: Steps) -> list[str]:
        """Paths. One of nothing but empty variables would mean what the key means where it is left out."""
        expanded = self._expand_text(text, steps)
        if text and not all(expanded):
            raise self.error(steps, f"nothing is left of {text!r}, as its variables are empty; give them values")
        return [self.path(one, steps) for one in expanded]

    def _expand_text(self, text: str, steps: Steps) -> list[str]:
        self.used.update(variables_in(text))
        try:
            expanded = expand_variables(text, self.variables, self.room)
        except SpecError as error:
            raise self.error(steps, str(error)) from error
        self.room -= sum(map(len, expanded))
        return expanded

    def error(self, steps: Steps, what: str) -> SpecError:
        return SpecError(f"{self.layer.document.place(steps)}: {path_text(steps)}: {what}")


def _resolve_job(job: Job, resolver: _Resolver) -> Job:
    if job.program:
        _refuse_unheeded(resolver)
    return msgspec.structs.replace(
        job,
        name=resolver.text(job.name, ("name",)),
        vars=resolver.variables,
        data=_resolve_data(job.data, resolver),
        environment=_resolve_environment(job.environment, resolver),
        model=_resolve_model(job.model, resolver),
        program=resolver.local(job.program, ("program",)),
        args=_resolve_args(job, resolver),
        on_end=resolver.words(job.on_end, ("on_end",)),
        checkpoint=_resolve_checkpoint(job.checkpoint, resolver),
        export=msgspec.structs.replace(job.export, dir=resolver.expand_one(job.export.dir, ("export", "dir"))),
    )


def _refuse_unheeded(resolver: _Resolver) -> None:
    """What a program does by itself. The defaults of a site or a team may say it, for the jobs that have a model."""
    tree = resolver.layer.document.value
    for section in _OF_MODELS:
        said = tree.get(section) if isinstance(tree, dict) else None
        for key in map(str, said) if isinstance(said, dict) else ():
            if not resolver.layer.inherits((section, key)):
                raise resolver.error((section, key), f"a `program` heeds nothing of `{section}`; pass it in `args`")


def _resolve_data(data: Data, resolver: _Resolver) -> Data:
    return msgspec.structs.replace(
        data,
        schema=resolver.expand_one(data.schema, ("data", "schema")),
        train=resolver.expand_all(data.train, ("data", "train")),
        eval=resolver.expand_all(data.eval, ("data", "eval")),
    )


def _resolve_checkpoint(checkpoint: Checkpoint, resolver: _Resolver) -> Checkpoint:
    """The sources of a warm start are in the order of preference, so a range of dates, oldest first, is none."""
    steps, warm = ("checkpoint", "warm_start"), checkpoint.warm
    if warm is not None:
        place = steps if isinstance(checkpoint.warm_start, str) else (*steps, "sources")
        sources = tuple(resolver.expand_one(source, place) for source in warm.sources)
        warm = msgspec.structs.replace(warm, sources=sources)
    return msgspec.structs.replace(
        checkpoint, dir=resolver.expand_one(checkpoint.dir, ("checkpoint", "dir")), warm_start=warm
    )


def _resolve_environment(environment: Environment, resolver: _Resolver) -> Environment:
    python, steps = environment.python, ("environment", "python")
    files = enumerate(environment.files)
    return msgspec.structs.replace(
        environment,
        python=resolver.path(python, steps) if "/" in python or environment.is_packed else python,
        files=tuple(resolver.path(file, ("environment", "files", index)) for index, file in files),
    )


def _resolve_model(model: Model, resolver: _Resolver) -> Model:
    steps = ("model", "entry")
    if not model.entry:
        if model.kind == "entry":
            raise resolver.error(("model", "kind"), "`entry` needs `model.entry`, e.g. `entry: my_ctr.py:build`")
        return model
    try:
        path, function = split_entry(model.entry)
    except SpecError as error:
        raise resolver.error(steps, str(error)) from error
    return msgspec.structs.replace(model, kind="entry", entry=f"{resolver.local(path, steps)}:{function}")


def _resolve_args(job: Job, resolver: _Resolver) -> tuple[str, ...]:
    if job.args and not job.program:
        raise resolver.error(("args",), "`args` are arguments of `program`, and the job has none; remove them")
    return resolver.words(job.args, ("args",))
