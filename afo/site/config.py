"""Site configuration: what an administrator or a user sets once. Flag > environment > file > built in.

The file is `afo-site.yaml` in `$AFO_CONF_DIR`, else in `/etc/afo`; without one the built-in values hold.
"""

import getpass
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from afo.errors import NotFound, PermissionDenied, UsageError
from afo.formats.yaml_file import convert
from afo.formats.yaml_tree import Document, read_yaml
from afo.hadoop import auth_to_local, conf, delegation_tokens, kerberos
from afo.job import Section
from afo.job.layering import KEY as DEFAULTS
from afo.job.layering import Layer
from afo.job.paths import check_job_id
from afo.site.history import HistorySite
from afo.site.limits import NO_LIMITS, Limits

FILE_NAME = "afo-site.yaml"
NO_FILE = Document("", None)
SYSTEM_DIR = Path("/etc/afo")
RuntimeName = Literal["local", "yarn"]
RUNTIMES: tuple[RuntimeName, ...] = ("local", "yarn")


class JobsRoots(Section, frozen=True):
    """Directories of all jobs, a directory a job inside; `{user}` stands for the user's name."""

    local: Annotated[str, Meta(description="Of jobs on this machine.")] = ""
    yarn: Annotated[str, Meta(description="Of jobs on YARN; every node must see it.")] = ""


class Site(Section, frozen=True):
    """The content of `afo-site.yaml`."""

    defaults: Annotated[
        dict[str, Any], Meta(description="Keys of a job file, which hold where a job and its defaults say nothing.")
    ] = field(default_factory=dict)
    limits: Limits = Limits()

    runtime: Annotated[Literal["", "local", "yarn"], Meta(description="Where jobs run when nothing else says.")] = ""
    jobs_root: JobsRoots = JobsRoots()
    history: HistorySite = HistorySite()

    def __post_init__(self) -> None:
        for key in {"name", DEFAULTS} & self.defaults.keys():
            raise ValueError(f"`defaults` cannot have the key `{key}`; each job says that itself")


@dataclass(frozen=True)
class Setting:
    """A value and who set it."""

    value: str
    origin: str


NO_HISTORY = HistorySite()
NOT_SET = Setting("", "built in")


@dataclass(frozen=True)
class Config:
    """What holds for one command. `state_dir` is the user's own (secrets, the last job); mode 0700."""

    site_file: str
    runtime: Setting
    local_root: Setting
    yarn_root: Setting
    state_dir: Path
    limits: Limits = NO_LIMITS
    history: HistorySite = NO_HISTORY
    #: Of `afo history start`; '' for the directory of the runtime's jobs.
    history_directory: Setting = NOT_SET
    #: The file's tree, which knows the lines.
    site: Document = NO_FILE

    @property
    def defaults(self) -> Layer | None:
        """What holds below every job file."""
        tree = self.site.value
        if not isinstance(tree, dict) or not tree.get(DEFAULTS):
            return None
        return Layer(self.site.subdocument(DEFAULTS), os.path.dirname(os.path.abspath(self.site_file)))

    def jobs_root(self, runtime: str) -> str:
        """Directory of all jobs of a runtime. Raises `NotFound` when there is no cluster to hold it."""
        setting = self.yarn_root if runtime == "yarn" else self.local_root
        if not setting.value:
            raise NotFound(
                "no Hadoop cluster is configured, so there is no place for jobs on YARN; set HADOOP_CONF_DIR, "
                f"or jobs_root.yarn in {FILE_NAME}, or AFO_JOBS_ROOT, or use --runtime local"
            )
        return setting.value

    def root_of(self, job_id: str) -> str:
        """Directory of all jobs where this one lies."""
        return self.jobs_root(runtime_of(job_id))


def runtime_of(job_id: str) -> RuntimeName:
    """The runtime that gave out this id."""
    return "yarn" if check_job_id(job_id).startswith("application_") else "local"


def load_config(runtime: str | None = None) -> Config:
    """Read file and environment. `runtime` is the flag's value. Raises `SpecError`, `UsageError`, `NotFound`."""
    document, site = _site()
    path = document.name
    state_dir = Path(os.environ.get("AFO_STATE_DIR") or Path.home() / ".afo")
    return Config(
        site_file=path,
        runtime=_runtime(runtime, path, site),
        local_root=_root(site.jobs_root.local, f"{path}", str(state_dir / "jobs")),
        yarn_root=_root(site.jobs_root.yarn, f"{path}", _cluster_root()),
        state_dir=state_dir,
        limits=site.limits,
        history=site.history,
        history_directory=_history_directory(site.history.directory, path),
        site=document,
    )


def user_name() -> str:
    """Whose jobs these are, as Hadoop understands it: of the Kerberos ticket, else `$HADOOP_USER_NAME`, else ours.

    YARN tells a container, which has tokens and no ticket, its user as the system's.
    """
    if conf.demands_kerberos():
        return getpass.getuser() if os.environ.get(delegation_tokens.LOCATION) else _user_of_ticket()
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _user_of_ticket() -> str:
    """Jobs on this machine need no ticket, unless their files are in that HDFS; which says so then."""
    try:
        return user_of(kerberos.ticket().principal)
    except PermissionDenied:
        return getpass.getuser()


def user_of(principal: str) -> str:
    """Whom Hadoop takes a principal for, by the rules in core-site.xml; its first part where they make nobody of it.

    Raises `SpecError` for rules that cannot be read, `PermissionDenied` without Kerberos' library.
    """
    rules = conf.setting(auth_to_local.PROPERTY) or ""
    mechanism = conf.setting(auth_to_local.MECHANISM) or "hadoop"
    found = auth_to_local.user(principal, rules, kerberos.default_realm(), mechanism)
    return found or principal.partition("@")[0].partition("/")[0]


def _site() -> tuple[Document, Site]:
    named = os.environ.get("AFO_CONF_DIR")
    path = Path(named or SYSTEM_DIR) / FILE_NAME
    try:
        document = read_yaml(path)
        return document, convert(document, Site)
    except NotFound as error:
        if named:
            raise NotFound(
                f"AFO_CONF_DIR is {named}, but {path} does not exist; create it or unset AFO_CONF_DIR"
            ) from error
        return NO_FILE, Site()


def _runtime(flag: str | None, path: str, site: Site) -> Setting:
    if flag:
        return Setting(flag, "flag --runtime")
    if named := os.environ.get("AFO_RUNTIME"):
        if named not in RUNTIMES:
            raise UsageError(f"AFO_RUNTIME is {named!r}; allowed: {', '.join(RUNTIMES)}")
        return Setting(named, "environment AFO_RUNTIME")
    if site.runtime:
        return Setting(site.runtime, path)
    directory = conf.conf_dir()
    if directory and conf.setting("fs.defaultFS"):
        return Setting("yarn", f"built in, as {directory} configures a cluster")
    return Setting("local", "built in, as no Hadoop configuration is found")


def _root(of_site: str, path: str, built_in: str) -> Setting:
    named = os.environ.get("AFO_JOBS_ROOT")
    text, origin = (
        (named, "environment AFO_JOBS_ROOT") if named else (of_site, path) if of_site else (built_in, "built in")
    )
    return Setting(os.path.expanduser(text.replace("{user}", user_name())), origin)


def _history_directory(of_site: str, path: str) -> Setting:
    if named := os.environ.get("AFO_HISTORY_DIR"):
        return Setting(named, "environment AFO_HISTORY_DIR")
    return Setting(of_site.replace("{user}", user_name()), path if of_site else "built in")


def _cluster_root() -> str:
    base = conf.setting("fs.defaultFS")
    return f"{base.rstrip('/')}/user/{{user}}/.afo/jobs" if base else ""
