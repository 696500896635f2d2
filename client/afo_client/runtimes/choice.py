"""The runtime of a name."""

from afo.site.config import Config, RuntimeName
from afo_client.runtimes.application import ClientRuntime


def runtime_for(name: RuntimeName, config: Config) -> ClientRuntime:
    """The runtime of this name; nothing is connected before the first call."""
    if name == "yarn":
        from afo_client.runtimes.yarn.yarn_jobs import YarnJobs

        return YarnJobs()
    from afo_client.runtimes.local.local_jobs import LocalJobs

    return LocalJobs(config)
