"""`afo config`."""

from collections.abc import Iterator

import click
import msgspec

from afo.formats.yaml_tree import Document, Value
from afo.site.config import Config, load_config
from afo_client.terminal.console import print_json, print_result, table


@click.command(help="Show the effective configuration and its origins.")
@click.option("--show-origin", is_flag=True, help="Say who set each value.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, origins included.")
def command(show_origin: bool, as_json: bool) -> None:
    """Print what holds after flags, environment and file."""
    config = load_config()
    if as_json:
        fields = {name: {"value": value, "origin": origin} for name, value, origin in _rows(config)}
        print_json({"config": fields})
    elif show_origin:
        print_result(table(("NAME", "VALUE", "ORIGIN"), _rows(config)))
    else:
        print_result("\n".join(f"{name}: {value}" for name, value, _ in _rows(config)))


def _rows(config: Config) -> list[tuple[str, str, str]]:
    settings = {"runtime": config.runtime, "jobs_root.local": config.local_root, "jobs_root.yarn": config.yarn_root}
    if config.history_directory.value:
        settings["history.directory"] = config.history_directory
    rows = [(name, setting.value, setting.origin) for name, setting in settings.items()]
    return [*rows, *_leaves(config.site, "defaults"), *_leaves(config.site, "limits"), *_history(config)]


def _history(config: Config) -> Iterator[tuple[str, str, str]]:
    return (row for row in _leaves(config.site, "history") if row[0] != "history.directory")


def _leaves(document: Document, *steps: str) -> Iterator[tuple[str, str, str]]:
    """Every value below a key of the site's file, as it was written."""
    value: Value = document.value
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(document, *steps, key)
    elif value is not None:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield ".".join(steps), text, document.place(steps)
