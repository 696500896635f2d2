"""What control groups and the machine say of memory."""

from pathlib import Path

import pytest

from afo.process import memory


def test_memory_limit_and_kills_of_both_kinds_of_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_CGROUP_ROOT", tmp_path)
    for path, text in {
        "a/memory.max": "1073741824\n",
        "a/memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\n",
        "memory/b/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "c/memory.max": "max\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert (memory.memory_limit("0::/a\n"), memory.memory_kills("0::/a\n")) == (1 << 30, 2)
    assert (memory.memory_limit("4:memory:/b\n"), memory.memory_kills("4:memory:/b\n")) == (None, 3)
    assert (memory.memory_limit("0::/c\n"), memory.memory_kills("0::/nowhere\n")) == (None, 0)


def test_what_is_available_is_what_the_machine_has_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal:       4096 kB\nMemFree:         100 kB\nMemAvailable:    2048 kB\n")
    monkeypatch.setattr(memory, "_MACHINE", machine)
    monkeypatch.setattr(memory, "memory_limit", lambda: None)
    assert memory.available_memory() == 2 << 20
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 20)
    assert memory.available_memory() == 1 << 20
