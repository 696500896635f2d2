"""Jobs on YARN, as its ResourceManager sees them."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from afo.errors import PermissionDenied
from afo.hadoop import conf
from afo.protocol.am_config import AmConfig
from afo.site.config import user_name
from afo.yarn import resource_manager
from afo.yarn.submission import TAG, mark_tag
from afo_client.runtimes.application import Application
from afo_client.runtimes.yarn import submit
from afo_client.runtimes.yarn.staging import remove_private


class YarnJobs:
    """Asks the ResourceManager of $HADOOP_CONF_DIR; raises what `afo.yarn.resource_manager` raises."""

    @cached_property
    def _manager(self) -> resource_manager.ResourceManager:
        return resource_manager.from_configuration(user_name())

    def check(self, config: AmConfig, schema: str) -> None:
        """Its files and tags will do for YARN; the cluster has the queue, and a node for every container."""
        submit.check_plan(submit.make_plan(config, schema=schema))

    def submit(self, config: AmConfig, schema: str, secret: str, tell: Callable[[str], None]) -> str:
        """Submit the application, and publish the job for those who look before its Application Master runs."""
        plan = submit.make_plan(config, schema=schema)
        submission = submit.submit(plan, secret)
        tell(submit.sent_text(submission.files))
        submit.publish(plan.config, submission.application_id)
        return submission.application_id

    def dry_run(self, config: AmConfig, schema: str) -> dict[str, Any]:
        """The application's submission context, checked against the cluster."""
        return submit.dry_run(submit.make_plan(config, schema=schema))

    def application(self, job_id: str) -> Application:
        """One application."""
        return _application(self._manager.application(job_id))

    def applications(self) -> list[Application]:
        """Those that bear our tag and that YARN still remembers."""
        return [_application(application) for application in self._manager.applications(TAG)]

    def find_marked(self, mark: str) -> str | None:
        """By its tag."""
        return next((application.id for application in self._manager.applications(mark_tag(mark))), None)

    def kill(self, job_id: str) -> None:
        """End the application, and remove what it keeps in HDFS for itself alone."""
        try:
            self._manager.kill(job_id)
        except PermissionDenied:
            # With Kerberos, a web interface that knows nobody takes no orders; by RPC everybody is known.
            if not conf.demands_kerberos():
                raise
            from afo_client.runtimes.yarn import skein_driver  # slow to import

            skein_driver.kill(job_id)
        remove_private(job_id, self._manager.application(job_id).user)


def _application(found: resource_manager.Application) -> Application:
    # An application that failed to start is FAILED with final status FAILED; one that finished has its own verdict.
    final = (found.final_status if found.state == "FINISHED" else found.state) if found.over else ""
    return Application(
        job_id=found.id,
        state=found.state,
        final=final,
        diagnostics=found.diagnostics.strip(),
        name=found.name,
        user=found.user,
        queue=found.queue,
        started=found.started_ms / 1000,
        ended=found.finished_ms / 1000,
        core_hours=found.vcore_seconds / 3600,
        memory_gb_hours=found.memory_seconds / 1024 / 3600,
        am_log=found.am_logs,
    )
