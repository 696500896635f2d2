"""`afo serve`."""

import os

import click
import msgspec

from afo import storage
from afo.errors import NotFound, UsageError
from afo.formats.yaml_file import convert
from afo.formats.yaml_tree import read_yaml
from afo.job.paths import is_job_id
from afo.site.config import load_config
from afo.site.user_state import UserState
from afo_client.cli.options import examples
from afo_client.jobs.ref import find_job
from afo_client.jobs.summary import places
from afo_client.serving import model_server
from afo_client.serving.serving_config import GRPC_PORT, LOOPBACK, REST_PORT, Endpoint, ModelConfig, ServingConfig
from afo_client.submission.submitted import submitted_config

_PORT = click.IntRange(0, 65535)


@click.command(
    help="Serve exported models by TensorFlow Serving's gRPC and REST interfaces until Ctrl-C or SIGTERM. MODEL is a "
    "directory, here or in HDFS, with a name for requests before it: `ctr=serving/ctr`; of a SavedModel, or of "
    "numbered versions (`ctr/3/saved_model.pb`), of which the newest is served and new ones are watched for. Or it is "
    "a job, whose export is served, under the job's name or the one before it; left out: the job submitted last.",
    epilog=examples(
        "afo serve                       # the job submitted last",
        "afo serve ctr=serving/ctr cvr=serving/cvr --grpc-port 9000",
        "afo serve ctr=hdfs://nameservice/models/ctr",
        "afo serve --config serving.yaml",
    ),
)
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option(
    "--config", "file", metavar="FILE", type=click.Path(), help="File of models, versions, ports, limits, TLS, tokens."
)
@click.option(
    "--name",
    metavar="NAME",
    help="Of the server, which tells it from others of yours here; left out: FILE's, or `default`.",
)
@click.option("--host", metavar="ADDRESS", help=f"Address to listen at; left out: {LOOPBACK}.")
@click.option("--grpc-port", type=_PORT, help=f"Port of gRPC; left out: {GRPC_PORT}; 0: any free one.")
@click.option("--rest-port", type=_PORT, help=f"Port of REST; left out: {REST_PORT}; 0: any free one.")
def command(
    models: tuple[str, ...],
    file: str | None,
    name: str | None,
    host: str | None,
    grpc_port: int | None,
    rest_port: int | None,
) -> None:
    """Become the server."""
    if file is None:
        host = f"[{host}]" if host and ":" in host else host or LOOPBACK
        config = ServingConfig(
            models=_models(models),
            grpc=Endpoint(address=f"{host}:{GRPC_PORT if grpc_port is None else grpc_port}"),
            rest=Endpoint(address=f"{host}:{REST_PORT if rest_port is None else rest_port}"),
        )
    elif models or (host, grpc_port, rest_port) != (None, None, None):
        raise UsageError("--config says what is served and where; leave MODEL, --host, --grpc-port and --rest-port out")
    else:
        config = convert(read_yaml(file), ServingConfig)
    directory = os.path.dirname(os.path.abspath(file)) if file else os.getcwd()
    if name is not None:
        config = _named(config, name)
    state = UserState(load_config().state_dir)
    state.make()
    config = _with_cache(config.relative_to(directory), state)
    model_server.become(config, state.folder)


def _named(config: ServingConfig, name: str) -> ServingConfig:
    try:
        return msgspec.structs.replace(config, name=name)
    except ValueError as error:
        raise UsageError(f"--name: {error}") from error


def _with_cache(config: ServingConfig, state: UserState) -> ServingConfig:
    """Where models of HDFS are copied to, though nobody said so."""
    if config.cache_directory or not any(model.in_hdfs for model in config.models):
        return config
    return msgspec.structs.replace(config, cache_directory=str(state.folder.absolute() / "model-cache"))


def _models(named: tuple[str, ...]) -> tuple[ModelConfig, ...]:
    return tuple(_model(each) for each in named or (None,))


def _model(named: str | None) -> ModelConfig:
    name, _, place = (named or "").rpartition("=")
    if named is None or is_job_id(place):
        return _exported(name, place or None)
    if "://" not in place:
        place = os.path.abspath(os.path.expanduser(place))
        if not os.path.isdir(place):
            raise NotFound(f"MODEL {named}: {place} is no directory")
    return _config(name or os.path.basename(place), place)


def _exported(name: str, job: str | None) -> ModelConfig:
    """What a job exported, under the job's name where no other is given."""
    config = load_config()
    ref = find_job(config, job)
    place = places(ref)["model"].removeprefix("file://")
    if not storage.exists(place):
        raise NotFound(f"{ref.job_id} has exported nothing to {place}; `afo status {ref.job_id}` says how it stands")
    submitted = submitted_config(config, ref)
    return _config(name or (submitted.job.name if submitted else ref.job_id), place, ref.job_id)


def _config(name: str, place: str, job: str = "") -> ModelConfig:
    try:
        return ModelConfig(name=name, base_path=place)
    except ValueError as error:
        advice = f"; name the model: `afo serve NAME={job or place}`" if str(error).startswith("`name`") else ""
        raise UsageError(f"{error}{advice}") from error
