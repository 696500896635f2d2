"""A chief that has nothing to read while others train."""

from types import SimpleNamespace
from typing import Any

import pytest

from afo.train.worker import Worker

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("is_chief", "seen"), [(True, [120]), (False, [])])
def test_it_saves_after_the_steps_of_the_others(
    monkeypatch: pytest.MonkeyPatch, is_chief: bool, seen: list[int]
) -> None:
    saved: list[int] = []
    chief = SimpleNamespace(is_save_due=lambda _: False, after_step=lambda progress: saved.append(progress.step))
    worker: Any = object.__new__(Worker)
    vars(worker).update(
        _setup=SimpleNamespace(job=SimpleNamespace(train=SimpleNamespace(early_stop=None))),
        _steps=SimpleNamespace(drain=lambda: iter(())), _applying_s=0.0, _step=0, _last_step=None,
        _records=SimpleNamespace(read_step=lambda: 120), _chief=chief if is_chief else None,
    )  # fmt: skip
    monkeypatch.setattr(Worker, "_progress", lambda self, _: SimpleNamespace(step=self._step))
    monkeypatch.setattr(Worker, "_report", lambda *_: None)
    nothing_to_read: Any = SimpleNamespace(get=lambda _: None)
    assert worker._another_step(nothing_to_read)
    assert saved == seen
