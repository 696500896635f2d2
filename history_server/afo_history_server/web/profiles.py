"""Profiles of live tasks, as the Child kept them: the hottest operators, stacks, and TensorFlow's own file."""

import re
from collections.abc import Iterator

from flask import Blueprint, Response, render_template

from afo import storage
from afo.errors import NotFound
from afo.formats.json_file import decode
from afo.protocol.profile_request import OPERATORS, STACKS, Operators
from afo_history_server.logs.log_files import whole
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import query

_NAME = re.compile(r"profile-(?:chief|worker|ps|evaluator)_[0-9]{1,6}-[0-9]{1,9}")
#: Bytes of the small file of operators, and of the stacks, which are shown whole.
_MAX_BYTES = 1 << 20
_PATH = "/jobs/<job_id>/profiles/<name>"


def profile_blueprint(store: JobStore) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("profiles", __name__)

    def place(job_id: str, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise NotFound("there is no such profile; one looks like profile-worker_0-3")
        return storage.join(store.paths(job_id).summaries, name)

    @routes.get(_PATH)
    def profile(job_id: str, name: str) -> str:
        query.require_known(())
        folder = place(job_id, name)
        url = storage.join(folder, OPERATORS)
        found = decode(store.files.read(url, _MAX_BYTES), Operators, url)
        stacks = store.files.read(storage.join(folder, STACKS), _MAX_BYTES).decode(errors="replace")
        job, _ = store.job(job_id)
        return render_template("profile.html", job=job, name=name, found=found, stacks=stacks)

    @routes.get(f"{_PATH}/download")
    def download(job_id: str, name: str) -> Response:
        query.require_known(())
        url = next(_of_tensorflow(store.files, place(job_id, name)), None)
        if url is None:
            raise NotFound(f"{name} of {job_id} holds no file of TensorFlow")
        file = store.files.open(url)
        response = Response(whole(file), content_type="application/octet-stream")
        response.call_on_close(file.close)  # a request for the head alone reads nothing
        response.headers["Content-Disposition"] = f'attachment; filename="{job_id}_{name}.xplane.pb"'
        return response

    return routes


def _of_tensorflow(files: JobFiles, folder: str) -> Iterator[str]:
    for run in files.list_dir(storage.join(folder, "plugins", "profile")):
        yield from (file.url for file in files.list_dir(run.url) if file.url.endswith(".xplane.pb"))
