"""`afo doctor`."""

import click
import msgspec

from afo.site.config import load_config
from afo_client.doctor.check_result import Finding
from afo_client.doctor.checks import cluster_checks, local_checks
from afo_client.terminal.console import print_json, print_result

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(help="Check this machine, and with --cluster the cluster of HADOOP_CONF_DIR; say what to do.")
@click.option("--cluster", is_flag=True, help="Ask HDFS and YARN too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(cluster: bool, as_json: bool) -> int:
    """Print a line a finding; the exit code is that of the first failure."""
    findings: list[Finding] = []
    for checks in [local_checks(load_config()), cluster_checks()] if cluster else [local_checks(load_config())]:
        for finding in checks:
            findings.append(finding)
            if not as_json:
                level = click.style(f"{finding.level:4}", fg=_COLOURS[finding.level])
                print_result(_line(finding), head=level)
    code = next((finding.code for finding in findings if finding.level == "fail"), 0)
    if as_json:
        print_json({"findings": msgspec.to_builtins(findings), "exit_code": code})
    return code


def _line(finding: Finding) -> str:
    advice = f"\n     → {finding.advice}" if finding.advice else ""
    return f" {finding.name}: {finding.text}{advice}"
