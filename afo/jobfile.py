"""A job file into a resolved `Job`: settings and variables of the command line applied, every path absolute."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from afo.errors import SpecError, UsageError
from afo.job import Checkpoint, Data, Environment, Job, Model
from afo.own_code import split_entry
from afo.units import expand_variables
from afo.yamlfile import convert
from afo.yamltree import Document, Steps, Value, parse_yaml, path_text, read_yaml


class JobSource(msgspec.Struct, frozen=True, kw_only=True):
    """A job file as it was written, its settings applied and its variables not yet: `afo resubmit` begins with it."""

    tree: dict[str, Any]
    #: What relative paths in it are relative to.
    folder: str
    #: Those of the command line; they win over the `vars` of the tree.
    variables: dict[str, str] = {}


def load_job(path: str | Path, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> Job:
    """Read a job file. `settings` are `roles.worker.memory=4g`, `variables` win over the file's `vars`.

    Raises `NotFound` when there is no such file, `UsageError` for a malformed setting, `SpecError` otherwise.
    """
    return read_job(path, settings=settings, variables=variables)[0]


def read_job(
    path: str | Path, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> tuple[Job, JobSource]:
    """As `load_job`; the source, too."""
    return _job_of(read_yaml(path), Path(path).absolute().parent, settings, variables or {})


def read_again(
    source: JobSource, name: str, *, settings: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> tuple[Job, JobSource]:
    """The job of an earlier submission's source, which errors call `name`, with more settings and variables."""
    given = {**source.variables, **(variables or {})}
    return _job_of(Document(name, source.tree), Path(source.folder), settings, given)


def _job_of(
    document: Document, folder: Path, settings: Sequence[str], variables: Mapping[str, str]
) -> tuple[Job, JobSource]:
    for setting in settings:
        document = with_setting(document, setting)
    job = _resolved(convert(document, Job), document, folder, dict(variables))
    tree = document.value if isinstance(document.value, dict) else {}
    return job, JobSource(tree=tree, folder=str(folder), variables=dict(variables))


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    """`dt=2026-11-19` each. Raises `UsageError` for one without `=` or without a name."""
    return dict(_pair(text, "--var") for text in texts)


def with_setting(document: Document, setting: str) -> Document:
    """The document with one value replaced or added; the value is read as YAML."""
    dotted, text = _pair(setting, "--set")
    steps: Steps = tuple(dotted.split("."))
    source = f"--set {setting}"
    inner = parse_yaml(text, source)
    value = _replaced(document.value, steps, inner.value, source)
    kept = {at: place for at, place in document.places.items() if at[: len(steps)] != steps}
    return Document(document.name, value, {**kept, steps: source})


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not all(name.split(".")):
        raise UsageError(f"{option} {text!r} is malformed; write {option} name=value")
    return name, value


def _replaced(tree: Value, steps: Steps, value: Value, source: str) -> Value:
    if not steps:
        return value
    if tree is not None and not isinstance(tree, dict):
        raise SpecError(f"{source}: the job file has no mapping to hold `{steps[0]}`; set the whole value instead")
    held, step = tree or {}, str(steps[0])
    return {**held, step: _replaced(held.get(step), steps[1:], value, source)}


@dataclass(frozen=True)
class _Resolver:
    """Expands variables and makes paths absolute; an error names the place in the file."""

    document: Document
    folder: Path
    variables: dict[str, str]

    def many(self, texts: Sequence[str], steps: Steps) -> tuple[str, ...]:
        return tuple(one for index, text in enumerate(texts) for one in self._expand(text, (*steps, index)))

    def one(self, text: str, steps: Steps) -> str:
        if not text:
            return ""
        expanded = self._expand(text, steps)
        if len(expanded) != 1:
            raise self.error(steps, f"{text!r} is a range of {len(expanded)}; name one path")
        return expanded[0]

    def local(self, text: str, steps: Steps) -> str:
        """The absolute path of a file that has to be on this machine."""
        if "://" in text:
            raise self.error(steps, f"{text!r} is a URL; name a file on this machine, it is sent to the containers")
        return self.one(text, steps)

    def path(self, text: str) -> str:
        """A URL as it is; a path relative to the job file's folder. A slash at its end says that it is a folder."""
        if not text or "://" in text:
            return text
        path = os.path.normpath(os.path.join(self.folder, os.path.expanduser(text)))
        return f"{path}/" if text.endswith("/") and path != "/" else path

    def words(self, texts: Sequence[str], steps: Steps) -> tuple[str, ...]:
        """Variables expanded in what is no path; a range makes several words of one."""
        return tuple(one for index, text in enumerate(texts) for one in self._expanded(text, (*steps, index)))

    def _expand(self, text: str, steps: Steps) -> list[str]:
        return [self.path(one) for one in self._expanded(text, steps)]

    def _expanded(self, text: str, steps: Steps) -> list[str]:
        try:
            return expand_variables(text, self.variables)
        except SpecError as error:
            raise self.error(steps, str(error)) from error

    def error(self, steps: Steps, what: str) -> SpecError:
        return SpecError(f"{self.document.place(steps)}: {path_text(steps)}: {what}")


def _resolved(job: Job, document: Document, folder: Path, given: dict[str, str]) -> Job:
    resolver = _Resolver(document, folder, {**job.vars, **given})
    return msgspec.structs.replace(
        job,
        vars=resolver.variables,
        data=_resolved_data(job.data, resolver),
        environment=_resolved_environment(job.environment, resolver),
        model=_resolved_model(job.model, resolver),
        program=resolver.local(job.program, ("program",)),
        args=_resolved_args(job, resolver),
        checkpoint=_resolved_checkpoint(job.checkpoint, resolver),
        export=msgspec.structs.replace(job.export, dir=resolver.one(job.export.dir, ("export", "dir"))),
    )


def _resolved_data(data: Data, resolver: _Resolver) -> Data:
    return msgspec.structs.replace(
        data,
        schema=resolver.one(data.schema, ("data", "schema")),
        train=resolver.many(data.train, ("data", "train")),
        eval=resolver.many(data.eval, ("data", "eval")),
    )


def _resolved_checkpoint(checkpoint: Checkpoint, resolver: _Resolver) -> Checkpoint:
    """The sources of a warm start are in the order of preference, so a range of dates, oldest first, is none."""
    steps, warm = ("checkpoint", "warm_start"), checkpoint.warm
    if warm is not None:
        place = steps if isinstance(checkpoint.warm_start, str) else (*steps, "sources")
        sources = tuple(resolver.one(source, place) for source in warm.sources)
        warm = msgspec.structs.replace(warm, sources=sources)
    return msgspec.structs.replace(checkpoint, dir=resolver.one(checkpoint.dir, ("checkpoint", "dir")), warm_start=warm)


def _resolved_environment(environment: Environment, resolver: _Resolver) -> Environment:
    python = environment.python
    return msgspec.structs.replace(
        environment,
        python=resolver.path(python) if "/" in python or environment.is_packed else python,
        files=tuple(resolver.path(file) for file in environment.files),
    )


def _resolved_model(model: Model, resolver: _Resolver) -> Model:
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


def _resolved_args(job: Job, resolver: _Resolver) -> tuple[str, ...]:
    if job.args and not job.program:
        raise resolver.error(("args",), "`args` are arguments of `program`, and the job has none; remove them")
    return resolver.words(job.args, ("args",))
