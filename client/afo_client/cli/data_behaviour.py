"""`afo data behaviour`: synthetic histories of users, for models that read sequences."""

import click
import msgspec

from afo.data.synthetic.behaviour import BehaviourParameters, BehaviourSpec, write_behaviour
from afo.errors import DataError, UsageError
from afo_client.cli.options import examples
from afo_client.terminal.console import print_json, print_result, say

_POSITIVE = click.IntRange(min=1)
_DEFAULT = BehaviourParameters()


@click.command(
    short_help="Write synthetic histories of users.",
    epilog=examples("afo data behaviour build/behaviour --train 100000 --eval 30000"),
)
@click.argument("directory")
@click.option("--train", default=_DEFAULT.train, show_default=True, type=_POSITIVE, help="Training records.")
@click.option(
    "--eval", "evaluation", default=_DEFAULT.eval, show_default=True, type=_POSITIVE, help="Evaluation records."
)
@click.option("--train-files", default=_DEFAULT.train_files, show_default=True, type=_POSITIVE, help="Files to write.")
@click.option("--eval-files", default=_DEFAULT.eval_files, show_default=True, type=_POSITIVE, help="Files to write.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of users, items and records."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def behaviour(
    directory: str, train: int, evaluation: int, train_files: int, eval_files: int, seed: int, as_json: bool
) -> None:
    """Write clicks that depend on each user's history into DIRECTORY, with a known best AUC.

    Repeating it does nothing.
    """
    try:
        parameters = BehaviourParameters(
            train=train,
            eval=evaluation,
            train_files=train_files,
            eval_files=eval_files,
            spec=BehaviourSpec(seed=seed),
        )
    except DataError as error:
        raise UsageError(str(error)) from error
    answer = write_behaviour(directory, parameters)
    if as_json:
        print_json({"directory": directory, **msgspec.to_builtins(answer)})
    else:
        say(f"{directory}: {train:,} training and {evaluation:,} evaluation records")
        print_result(f"best reachable: auc {answer.auc:.4f}  log loss {answer.log_loss:.4f}")
