"""A ResourceManager over real HTTP: one node of 4 GiB and 4 cores, one queue, what applications one likes."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NODE = {
    "nodeHostName": "n1", "state": "RUNNING", "usedMemoryMB": 0, "availMemoryMB": 4096,
    "usedVirtualCores": 0, "availableVirtualCores": 4,
}  # fmt: skip
QUEUES = {"queue": [{"queueName": "default", "queuePath": "root.default", "state": "RUNNING"}]}


class FakeResourceManager:
    """Serves until `stop`."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [NODE]
        self.applications: dict[str, dict[str, Any]] = {}
        handler = type("Handler", (_Handler,), {"manager": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def add_application(self, application_id: str, state: str, final: str = "UNDEFINED", **fields: Any) -> None:
        """An application as the REST interface shows it."""
        basics = {"id": application_id, "user": "ann", "name": "a job", "queue": "default", "applicationTags": "afo"}
        self.applications[application_id] = {**basics, "state": state, "finalStatus": final, **fields}

    def write_configuration(self, directory: Path, **settings: str) -> None:
        """A Hadoop configuration directory that leads here; `__` in a name stands for a dot."""
        directory.mkdir(exist_ok=True)
        known = {"yarn.resourcemanager.webapp.address": self.address}
        given = {name.replace("__", "."): value for name, value in settings.items()}
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in {**known, **given}.items()
        )
        (directory / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")

    def stop(self) -> None:
        """No answer from now on."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str) -> dict[str, Any] | None:
        """What a request gets; None for what is not there."""
        asked, _, query = path.partition("?")
        parts = asked.removeprefix("/ws/v1/cluster/").split("/")
        asked_for = urllib.parse.parse_qs(query)
        tag, states = asked_for.get("applicationTags", [""])[0], asked_for.get("states", [""])[0].split(",")
        match (method, parts):
            case ("GET", ["nodes"]):
                return {"nodes": {"node": self.nodes}}
            case ("GET", ["scheduler"]):
                return {"scheduler": {"schedulerInfo": {"queueName": "root", "queues": QUEUES}}}
            case ("POST", ["apps", "new-application"]):
                return {
                    "application-id": "application_9_9",
                    "maximum-resource-capability": {"memory": 4096, "vCores": 4},
                }
            case ("GET", ["apps"]):
                found = list(self.applications.values())
                found = [each for each in found if not tag or tag in each["applicationTags"].split(",")]
                return {"apps": {"app": [each for each in found if states == [""] or each["state"] in states]}}
            case ("GET", ["apps", name]) if name in self.applications:
                return {"app": self.applications[name]}
            case ("PUT", ["apps", name, "state"]) if name in self.applications:
                self.applications[name].update(state="KILLED", finalStatus="KILLED", diagnostics="killed by a client")
                return {"state": "KILLED"}
            case _:
                return None


class _Handler(BaseHTTPRequestHandler):
    manager: FakeResourceManager

    def do_GET(self) -> None:
        self._reply()

    def do_PUT(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def _reply(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.manager.answer(self.command, self.path)
        body = json.dumps(answer or {"RemoteException": {"message": f"{self.path} is not found"}}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""
