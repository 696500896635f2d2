"""The next action of a Child: a pure function of what the AM wants and of what is the case."""

from msgspec import Struct

from afo.protocol.train_task import EXIT_RESTART
from afo.rpc.messages import Directive

#: Starts in place within one generation after the process asked for them (exit code 75).
MAX_RESTARTS = 10


class Situation(Struct, frozen=True, kw_only=True):
    """What is the case. Generations are None where there is nothing of the kind."""

    #: It has an address: a parameter server, or a task of a program.
    listens: bool
    #: It runs a user's program.
    program: bool = False
    #: Generation of the process that runs.
    running: int | None = None
    #: Generation and exit code (or -signal) of the process that ended by itself and was not replaced.
    ended: int | None = None
    code: int = 0
    #: Generation that the held address belongs to, and that address.
    reserved: int | None = None
    address: str = ""
    #: Starts in place already made in the generation of `ended`.
    restarts: int = 0
    #: The pause before such a start is not over.
    backing_off: bool = False
    #: Of a program: generation that the model directory was filled for, None before the first; a copy is under way.
    filled: int | None = None
    copying: bool = False
    #: The AM was told of the process's end; it lets the Child keep its container; it calls for another start.
    reported: bool = False
    stays: bool = False
    called: bool = False


class Stop(Struct, frozen=True):
    """End the process and all it started."""


class Reserve(Struct, frozen=True):
    """Give up the held port and hold a new one for this generation."""

    generation: int


class Fill(Struct, frozen=True):
    """Bring the model directory to what was saved last, for this generation."""

    generation: int


class Start(Struct, frozen=True):
    """Start the process of this generation."""

    generation: int


class BackOff(Struct, frozen=True):
    """Count a start in place and wait a moment before it."""


class Report(Struct, frozen=True):
    """Tell the AM how the process ended, and that this Child leaves if it does.

    `cause` overrides what the end itself looks like.
    """

    cause: str = ""
    leaves: bool = False


class Leave(Struct, frozen=True):
    """End this Child with an exit code."""

    code: int


Action = Stop | Reserve | Fill | Start | BackOff | Report | Leave


def newest(current: Directive, received: Directive) -> Directive:
    """The directive to obey: an older generation than the one known is the word of an AM that has been replaced."""
    if received.action != "end" and received.generation < current.generation:
        return current
    return received


def decide(directive: Directive, now: Situation) -> tuple[Action, ...]:
    """The actions that lead from `now` to what `directive` wants; empty when that is so already."""
    generation, oldest = directive.generation, directive.oldest
    if directive.action == "end":
        return ((Stop(),) if now.running is not None else ()) + (Leave(0),)
    if now.ended is not None and now.ended >= oldest and not now.called:
        return _after_end(now)
    if now.running is not None and now.running >= oldest:
        return ()
    if now.program and (now.running is not None or now.copying):
        # What it leaves is saved before its new address lets the next generation form, and start from that.
        return () if now.running is None else (Stop(),)
    stop = () if now.running is None else (Stop(),)
    if now.listens and now.reserved != generation:
        return (*stop, Reserve(generation))
    has_place = not now.listens or now.address in directive.addresses
    if directive.action != "run" or now.backing_off or not has_place:
        return stop
    if now.program and now.filled != generation:
        return (Fill(generation),)
    return (*stop, Start(generation))


def exit_code(code: int) -> int:
    """The Child's own exit code for its process's: as a shell has it, 128 + signal."""
    return code if code >= 0 else 128 - code


def _after_end(now: Situation) -> tuple[Action, ...]:
    """The process of the present generation is over."""
    if now.code == 0:  # a program has succeeded once its model is saved
        return () if now.copying else (Report(leaves=True), Leave(0))
    if now.code == EXIT_RESTART and not now.listens and not now.program:
        exhausted = now.restarts >= MAX_RESTARTS
        return (Report("restarts_exhausted", leaves=True), Leave(EXIT_RESTART)) if exhausted else (BackOff(),)
    if not now.reported:
        return (Report(),)
    return () if now.stays else (Leave(exit_code(now.code)),)
