"""Model servers and what they serve, as text for people."""

from collections.abc import Iterator

from afo.model_servers.served_state import Canary, Mirror, ModelServerState, ServedModel, ServedVersion
from afo_client.terminal.console import iso, size_text, span_text, table

HEAD = ("SERVER", "MODEL", "VERSION", "STATE", "STEP", "AGE", "LAYERS", "SHARED", "QPS", "P50", "P99", "CORE-MS")
_VERSION_HEAD = (*HEAD[2:], "LOADED", "ERRORS")


def version_rows(server: ModelServerState, now: float) -> Iterator[tuple[str, ...]]:
    """A row for each version; one for a model without any. AGE is that of the newest gradient."""
    for model in server.models:
        for version in model.versions or (None,):
            cells = ("",) * len(HEAD[2:]) if version is None else _cells(model, version, now)
            yield server.name, model.name, *cells


def model_text(server: ModelServerState, model: ServedModel, now: float) -> str:
    """All that is known of a model."""
    lines = [_line(f"{model.name} on {server.name or 'a server'} (process {server.pid}), {model.base_path}")]
    lines.append(f"  {_answering(model)}")
    if model.canary is not None:
        lines.append(_line(f"  canary: {_canary(model.canary, now)}"))
    if model.split:
        lines.append(_line("  split: " + ", ".join(f"{label} {share:g}%" for label, share in model.split.items())))
    if model.mirror is not None:
        lines.append(_line(f"  mirror: {_mirror(model.mirror)}"))
    for rejected in model.rejected:
        at = f" at {iso(rejected.at)}" if rejected.at else ""
        lines.append(_line(f"  rejected: version {rejected.version}{at}: {rejected.reason}"))
    rows = [
        (*_cells(model, version, now), (iso(version.loaded_at) or "")[:19], str(version.errors))
        for version in model.versions
    ]
    if rows:
        lines.append(table(_VERSION_HEAD, rows))
    if model.unlisted:
        lines.append(f"{model.unlisted:,} more versions wait")
    lines += [_line(f"version {version.version}: {version.message}") for version in model.versions if version.message]
    return "\n".join(lines)


def _answering(model: ServedModel) -> str:
    """The version that answers, and whether that is the pinned one."""
    lost = "" if model.lost_pin is None else f"; version {model.lost_pin} is pinned, and is not there"
    if model.serving_version is None:
        return f"no version answers{lost}"
    return f"serving version {model.serving_version}{lost or (', pinned' if model.pinned else '')}"


def _line(text: str) -> str:
    """Without the ends of lines that a server's words may have: they would look like lines of this program."""
    return text.replace("\n", " ")


def _cells(model: ServedModel, version: ServedVersion, now: float) -> tuple[str, ...]:
    return (
        str(version.version), _state(model, version), _number(version.step),
        "" if version.newest_gradient is None else span_text(max(0.0, now - version.newest_gradient)),
        _number(version.layers), "" if version.shared_table_bytes is None else size_text(version.shared_table_bytes),
        f"{version.requests_per_second:.1f}", _milliseconds(version.p50_ms), _milliseconds(version.p99_ms),
        _milliseconds(version.core_ms),
    )  # fmt: skip


def _state(model: ServedModel, version: ServedVersion) -> str:
    if model.canary is not None and model.canary.version == version.version:
        return f"{version.state}, canary {model.canary.traffic_percent:g}%"
    if model.serving_version == version.version:
        return f"{version.state}, {'pinned' if model.pinned and model.lost_pin is None else 'serving'}"
    return f"{version.state}, REJECTED" if model.is_rejected(version.version) else version.state


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _canary(of: Canary, now: float) -> str:
    measured = {"error rate": of.error_rate, "latency ratio": of.latency_ratio, "PSI of scores": of.score_psi}
    since = f" for {span_text(max(0.0, now - of.since))}" if of.since else ""
    duration = "" if of.duration_seconds is None else f" of {span_text(of.duration_seconds)}"
    least = "" if of.min_requests is None else f" of at least {of.min_requests:,}"
    facts = [f"{name} {value:.4g}" for name, value in measured.items() if value is not None]
    answered = f"{of.requests:,} requests{least}"
    text = ", ".join((f"version {of.version}, {of.traffic_percent:g}%{since}{duration}", answered, *facts))
    return f"{text}; it waits: {of.waits}" if of.waits else text


def _mirror(of: Mirror) -> str:
    psi = "" if of.score_psi is None else f", PSI of scores {of.score_psi:.4g}"
    return f"{of.label} {of.percent:g}%, {of.requests:,} requests, {of.dropped:,} dropped, {of.errors:,} errors{psi}"
