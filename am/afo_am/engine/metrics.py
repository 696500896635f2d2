"""The job in Prometheus' text format, for as long as this Application Master lives."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import structs
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from afo.process.hosts import host_port
from afo.rpc.messages import StatusReply, TaskStatus
from afo_am.engine.metrics_server import MetricsServer


class JobMetrics(Collector):
    """Made of a status at each question, so that nothing is counted twice. Labels are roles, tasks, states, metrics."""

    def __init__(self, status: Callable[[], StatusReply]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """All numbers."""
        status = self._status()
        return (*_of_job(status), *_of_tasks(status.tasks))


@contextmanager
def serve_metrics(status: Callable[[], StatusReply], host: str) -> Iterator[str]:
    """The address, `host:port`, where `/metrics` is answered meanwhile. Raises `OSError`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobMetrics(status))
    server = MetricsServer(make_wsgi_app(registry), host)
    server.start()
    try:
        yield host_port(host, server.port)
    finally:
        server.stop()


def _of_job(status: StatusReply) -> Iterator[Metric]:
    gauges = {
        "step": ("Steps of the model.", status.step),
        "samples_per_second": ("Samples of all workers in the last seconds.", status.samples_per_s),
        "input_wait_ratio": ("Share of the step time that training waited for input.", status.input_wait),
        "progress_ratio": ("Share of the job's steps that are made.", status.progress),
        "seconds_left": ("Until the last step, at the pace of the last minutes.", status.seconds_left),
        "loss": ("Of the last step that was reported.", status.loss),
        "generation": ("Grows when the training goes back to a checkpoint.", status.generation),
        "files_done": ("Passes over training files that were applied.", status.splits_done),
        "files": ("Passes over training files in all.", status.splits_total),
    }
    for name, (words, value) in gauges.items():
        if value is not None:
            yield GaugeMetricFamily(f"afo_job_{name}", words, value=value)
    yield CounterMetricFamily("afo_job_samples", "Samples applied, undone ones included.", value=status.samples)
    yield CounterMetricFamily("afo_job_restarts", "Task restarts.", value=status.restarts)
    words = "Of the checkpoint to be exported; before it is decided, of the last evaluation."
    metrics = GaugeMetricFamily("afo_job_metric", words, labels=["metric"])
    for name, value in status.metrics.items():
        metrics.add_metric([name], value)
    yield metrics


def _of_tasks(tasks: Iterable[TaskStatus]) -> Iterator[Metric]:
    tasks = list(tasks)
    states = GaugeMetricFamily("afo_tasks", "Tasks by role and state.", labels=["role", "state"])
    for role, state in sorted({(status.task.role, status.state) for status in tasks}):
        number = sum((status.task.role, status.state) == (role, state) for status in tasks)
        states.add_metric([role, state], number)
    yield states
    memory = GaugeMetricFamily("afo_task_memory_bytes", "Memory in use.", labels=["task"])
    counters = {
        "cpu_seconds": CounterMetricFamily("afo_task_cpu_seconds", "Of all cores.", labels=["task"]),
        "read_bytes": CounterMetricFamily("afo_task_read_bytes", "From disks.", labels=["task"]),
        "written_bytes": CounterMetricFamily("afo_task_written_bytes", "To disks.", labels=["task"]),
        "samples": CounterMetricFamily("afo_task_samples", "Of its present process.", labels=["task"]),
        "input_wait": CounterMetricFamily(
            "afo_task_input_wait_seconds",
            "Of its present process, by what bounds input.",
            labels=["task", "bound"],
        ),
    }
    for status in tasks:
        name, used = [str(status.task)], status.usage
        memory.add_metric(name, used.rss)
        counters["cpu_seconds"].add_metric(name, used.cpu_s)
        counters["read_bytes"].add_metric(name, used.read_bytes)
        counters["written_bytes"].add_metric(name, used.written_bytes)
        if status.progress is not None:
            counters["samples"].add_metric(name, status.progress.samples)
            for bound, seconds in structs.asdict(status.progress.input_wait).items():
                counters["input_wait"].add_metric([*name, bound], seconds)
    yield memory
    yield from counters.values()
