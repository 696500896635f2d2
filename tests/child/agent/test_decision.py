"""What a Child does next, without a Child."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from afo.rpc.messages import Directive
from afo_child.agent.decision import (
    MAX_RESTARTS,
    Action,
    BackOff,
    Fill,
    Leave,
    Report,
    Reserve,
    Situation,
    Start,
    Stop,
    decide,
    exit_code,
    newest,
)

OWN = "here:1"


def directive(action: str, generation: int = 2, ps: tuple[str, ...] = (OWN, "there:2")) -> Directive:
    return Directive(action=action, generation=generation, ps=ps)  # type: ignore[arg-type]


WORKER, PS = Situation(listens=False), Situation(listens=True)
PROGRAM = Situation(listens=True, program=True, reserved=2, address=OWN)
EVALUATOR = Situation(listens=False, program=True)


@pytest.mark.parametrize(
    ("wanted", "now", "expected"),
    [
        ("wait", WORKER, ()),
        ("run", WORKER, (Start(2),)),
        ("end", WORKER, (Leave(0),)),
        ("wait", structs.replace(WORKER, running=1), (Stop(),)),
        ("wait", structs.replace(WORKER, running=2), ()),
        ("run", structs.replace(WORKER, running=1), (Stop(), Start(2))),
        ("run", structs.replace(WORKER, running=2), ()),
        ("end", structs.replace(WORKER, running=2), (Stop(), Leave(0))),
        ("run", structs.replace(WORKER, ended=1, code=1), (Start(2),)),
        ("run", structs.replace(WORKER, ended=2, code=0), (Report(leaves=True), Leave(0))),
        ("wait", structs.replace(WORKER, ended=2, code=-9), (Report(),)),
        ("run", structs.replace(WORKER, ended=2, code=-9, reported=True), (Leave(137),)),
        ("run", structs.replace(WORKER, ended=2, code=-9, reported=True, stays=True), ()),
        ("run", structs.replace(WORKER, ended=2, code=-9, reported=True, stays=True, called=True), (Start(2),)),
        ("wait", structs.replace(WORKER, ended=2, code=-9, reported=True, stays=True, called=True), ()),
        ("end", structs.replace(WORKER, ended=2, code=-9, reported=True, stays=True), (Leave(0),)),
        ("run", structs.replace(WORKER, ended=2, code=75), (BackOff(),)),
        ("run", structs.replace(WORKER, backing_off=True), ()),
        ("run", structs.replace(WORKER, ended=1, code=75, restarts=MAX_RESTARTS), (Start(2),)),
        (
            "run", structs.replace(WORKER, ended=2, code=75, restarts=MAX_RESTARTS),
            (Report("restarts_exhausted", leaves=True), Leave(75)),
        ),
        ("wait", PS, (Reserve(2),)),
        ("wait", structs.replace(PS, reserved=2, address=OWN), ()),
        ("wait", structs.replace(PS, reserved=1, address=OWN, running=1), (Stop(), Reserve(2))),
        ("run", structs.replace(PS, reserved=2, address=OWN), (Start(2),)),
        ("run", structs.replace(PS, reserved=2, address="elsewhere:3"), ()),
        ("run", PS, (Reserve(2),)),
        ("run", structs.replace(PS, reserved=2, address=OWN, ended=2, code=75), (Report(),)),
        ("wait", structs.replace(PS, reserved=1, ended=1, code=-9, reported=True, stays=True), (Reserve(2),)),
        ("run", PROGRAM, (Fill(2),)),
        ("run", structs.replace(PROGRAM, filled=2, copying=True), ()),
        ("run", structs.replace(PROGRAM, filled=2), (Start(2),)),
        ("wait", structs.replace(PROGRAM, reserved=1, running=1), (Stop(),)),
        ("wait", structs.replace(PROGRAM, reserved=1, copying=True), ()),
        ("wait", structs.replace(PROGRAM, reserved=1), (Reserve(2),)),
        ("end", structs.replace(PROGRAM, running=2, copying=True), (Stop(), Leave(0))),
        ("run", structs.replace(PROGRAM, ended=2, code=0, copying=True), ()),
        ("run", structs.replace(PROGRAM, ended=2, code=0), (Report(leaves=True), Leave(0))),
        ("run", structs.replace(PROGRAM, ended=2, code=1, copying=True), (Report(),)),
        ("run", structs.replace(PROGRAM, ended=2, code=75), (Report(),)),
        ("run", structs.replace(PROGRAM, ended=2, code=1, reported=True, stays=True), ()),
        ("wait", structs.replace(PROGRAM, ended=1, code=1, reported=True, reserved=1), (Reserve(2),)),
        ("run", structs.replace(PROGRAM, ended=2, code=-9, reported=True), (Leave(137),)),
        ("run", EVALUATOR, (Fill(2),)),
        ("run", structs.replace(EVALUATOR, filled=2), (Start(2),)),
    ],
)  # fmt: skip
def test_table(wanted: str, now: Situation, expected: tuple[Action, ...]) -> None:
    assert decide(directive(wanted), now) == expected


situations = st.builds(
    Situation,
    listens=st.booleans(),
    running=st.none() | st.integers(1, 3),
    ended=st.none(),
    reserved=st.none() | st.integers(1, 3),
    address=st.sampled_from([OWN, "elsewhere:3"]),
    restarts=st.integers(0, MAX_RESTARTS),
    backing_off=st.booleans(),
    program=st.booleans(),
    copying=st.booleans(),
    filled=st.none() | st.integers(1, 3),
) | st.builds(
    Situation, listens=st.booleans(), ended=st.integers(1, 3), code=st.sampled_from([0, 1, 75, -9]),
    restarts=st.integers(0, MAX_RESTARTS), stays=st.booleans(), reported=st.booleans(), program=st.booleans(),
)  # fmt: skip


def after(now: Situation, action: Action) -> Situation:
    """What an action makes of a situation."""
    match action:
        case Stop():
            return structs.replace(now, running=None)
        case Reserve(generation):
            return structs.replace(now, reserved=generation, address=OWN)
        case Start(generation):
            return structs.replace(now, running=generation, ended=None)
        case Fill(generation):
            return structs.replace(now, filled=generation)
        case Report():
            return structs.replace(now, reported=True)
        case BackOff():
            return structs.replace(now, ended=None, restarts=now.restarts + 1, backing_off=True)
    return now


@given(st.sampled_from(["wait", "run", "end"]), st.integers(1, 3), situations)
def test_comes_to_rest_with_never_two_processes(action: str, generation: int, now: Situation) -> None:
    wanted = directive(action, generation)
    for _ in range(5):
        actions = decide(wanted, now)
        for one in actions:
            if isinstance(one, Leave):
                assert now.running is None
                return
            if isinstance(one, Start):
                assert now.running is None, "a second process beside a running one"
                assert not now.program or now.filled == generation, "started with what another generation left"
                assert not now.listens or (now.reserved == generation and now.address in wanted.ps)
            now = after(now, one)
        if not actions:
            break
    else:
        pytest.fail(f"does not come to rest: {actions}")
    assert now.running is None or now.running >= generation


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["wait", "run", "end"]))
def test_only_the_newest_generation_is_obeyed(current: int, received: int, action: str) -> None:
    known, heard = directive("run", current), directive(action, received)
    assert newest(known, heard) == (known if received < current and action != "end" else heard)


@pytest.mark.parametrize(
    ("wanted", "now", "expected"),
    [
        ("wait", structs.replace(WORKER, running=1), ()),
        ("run", structs.replace(WORKER, running=3), ()),
        ("wait", WORKER, ()),
        ("run", WORKER, (Start(4),)),
        ("end", structs.replace(WORKER, running=1), (Stop(), Leave(0))),
        ("wait", structs.replace(WORKER, ended=1, code=-9), (Report(),)),
        ("run", structs.replace(WORKER, ended=1, code=-9, reported=True, stays=True), ()),
        ("run", structs.replace(WORKER, ended=1, code=-9, reported=True, stays=True, called=True), (Start(4),)),
        ("run", structs.replace(WORKER, ended=1, code=75), (BackOff(),)),
        ("run", structs.replace(WORKER, ended=2, code=0), (Report(leaves=True), Leave(0))),
    ],
)
def test_a_client_of_the_servers_outlives_generations_and_starts_again_when_called_for(
    wanted: str, now: Situation, expected: tuple[Action, ...]
) -> None:
    assert decide(structs.replace(directive(wanted, generation=4), since=1), now) == expected


@pytest.mark.parametrize(("code", "own"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_codes_are_those_of_a_shell(code: int, own: int) -> None:
    assert exit_code(code) == own


@pytest.mark.parametrize(
    ("wanted", "now", "expected"),
    [
        ("wait", structs.replace(PS, running=2, reserved=2, address=OWN), ()),
        ("run", structs.replace(PS, running=2, reserved=2, address=OWN), ()),
        ("run", structs.replace(PS, running=1, reserved=1, address=OWN), (Stop(), Reserve(4))),
        ("wait", structs.replace(PS, ended=2, code=-9, reserved=2, address=OWN), (Report(),)),
        ("end", structs.replace(PS, running=2, reserved=2, address=OWN), (Stop(), Leave(0))),
    ],
)
def test_a_server_that_holds_its_variables_outlives_its_generation(
    wanted: str, now: Situation, expected: tuple[Action, ...]
) -> None:
    assert decide(structs.replace(directive(wanted, generation=4), since=2), now) == expected
