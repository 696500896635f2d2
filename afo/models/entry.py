"""The user's own model: a function in a Python file, loaded and called."""

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from afo.data.schema import Schema
from afo.errors import AfoError, ModelError, NotFound, SpecError
from afo.job import Model
from afo.job.entry_point import split_entry

#: Keras puts words around what a layer raised, and prints that in bold.
_KERAS = re.compile(r"\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
#: Characters of a message that are shown.
_LONGEST = 2000
#: Argument of the function that is given the schema's features.
FEATURES = "features"
#: What of its file says which of Keras' callbacks belong to a training.
CALLBACKS = "callbacks"
#: By their place the files that were loaded last.
_loaded: dict[Path, ModuleType] = {}


def build_model(model: Model, schema: Schema) -> Any:
    """What the function of `model.entry` returns for `model.params`.

    The function gets the schema's features by name (`afo.data.schema.Feature`) if it has an argument `features`.
    Raises NotFound, SpecError for a function or parameters that are not there, ModelError if the user's code raises.
    """
    function = load(model.entry)
    arguments: dict[str, Any] = dict(model.params)
    signature = inspect.signature(function)
    if FEATURES in signature.parameters and FEATURES not in arguments:
        arguments[FEATURES] = {feature.name: feature for feature in schema.features}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise SpecError(
            f"$.model.params: {error}; `{function.__name__}` of {model.entry} takes {signature}, and it is given"
            f" {', '.join(sorted(arguments)) or 'nothing'}"
        ) from error
    with user_code(model.entry):
        return function(**arguments)


def callbacks_of(model: Model) -> tuple[Any, ...]:
    """What `callbacks` of the loaded file of `model.entry` is or returns; empty where it has none.

    A function is called with those of `model.params` that it takes. Raises ModelError if it raises or gives no list.
    """
    given = getattr(_loaded[Path(split_entry(model.entry)[0]).absolute()], CALLBACKS, None)
    # `from keras import callbacks` says nothing of a training.
    if given is None or inspect.ismodule(given):
        return ()
    if callable(given):
        taken = inspect.signature(given).parameters
        with user_code(model.entry):
            given = given(**{name: value for name, value in model.params.items() if name in taken})
    if not isinstance(given, list | tuple):
        raise ModelError(f"{model.entry}: `{CALLBACKS}` gives {type(given).__name__}; it must be a list of callbacks")
    return tuple(given)


def load(entry: str) -> Callable[..., Any]:
    """The function of `my_ctr.py:build`. Its file may import what lies beside it or in the working directory."""
    path, name = split_entry(entry)
    file = Path(path).absolute()
    if not file.is_file():
        raise NotFound(f"$.model.entry: there is no file {path} (looked for {file})")
    for directory in (str(Path.cwd()), str(file.parent)):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    # A name of its own where it would take that of a library.
    module_name = file.stem if file.stem not in sys.modules else f"afo_entry_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise SpecError(f"$.model.entry: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: layers that Keras registers and dataclasses look their module up by name.
    sys.modules[module_name] = module
    with user_code(entry):
        spec.loader.exec_module(module)
    _loaded[file] = module
    function = getattr(module, name, None)
    if not callable(function):
        there = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
        raise SpecError(f"$.model.entry: {path} has no function `{name}`; it has {', '.join(there) or 'none'}")
    return function  # type: ignore[no-any-return]


@contextmanager
def user_code(entry: str) -> Iterator[None]:
    """What is raised inside becomes a ModelError that names the user's line; the whole traceback goes to stderr."""
    try:
        yield
    except AfoError:
        raise
    except SystemExit as error:
        raise ModelError(f"{entry}: sys.exit({error.code!r}){_place(error, entry)}: a model ends no process") from error
    except Exception as error:
        traceback.print_exc()
        raise ModelError(f"{entry}: {type(error).__name__}{_place(error, entry)}: {_first_line(error)}") from error


def _place(error: BaseException, entry: str) -> str:
    """The innermost line of the user's folder on the way to the error."""
    folder = Path(split_entry(entry)[0]).absolute().parent
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f" in line {error.lineno} of {Path(error.filename or '').name}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if folder in Path(frame.filename).parents and "site-packages" not in frame.filename
    ]
    return f" in line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""


def _first_line(error: Exception) -> str:
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    told = _KERAS.search(text)
    lines = [line for line in (told[1] if told else text).splitlines() if line.strip()]
    return lines[0].strip()[:_LONGEST] if lines else "no message"
