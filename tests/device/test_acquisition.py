"""A card is held by one process at a time, until that process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from device.acquisition import take
from device.errors import ConfigurationError

HOLDER = "import sys; from device.acquisition import take; print(take('gaudi2'), flush=True); sys.stdin.read()"
MINE = "import habana_frameworks.torch as ht, torch; torch.hpu.get_device_name(); print(torch.ones(1).to('hpu').item())"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a machine of its own: nobody holds a card yet."""
    monkeypatch.setenv("HPUCLUSTER_CARD_RECORDS", str(tmp_path / "cards"))
    monkeypatch.delenv("HPUCLUSTER_SHARED_CARDS", raising=False)
    for name in ("HLS_MODULE_ID", "LOCAL_RANK", "HABANA_VISIBLE_MODULES", "HABANA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return dict(os.environ)


class Holder:
    """A process that takes a card and keeps it. `module`: which one it got; None where it got none."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            env={**environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.module = int(line) if line else None

    def end(self, how: signal.Signals = signal.SIGTERM) -> str:
        """Ends the process and returns what it said."""
        self._process.send_signal(how)
        return self._process.communicate()[1]


@pytest.fixture
def holder(machine: dict[str, str]) -> Iterator[Holder]:
    process = Holder(machine)
    yield process
    process.end()


def test_processes_take_different_cards(holder: Holder, machine: dict[str, str]) -> None:
    assert holder.module == 0
    second = Holder(machine)
    assert second.module == 1
    second.end()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_card_is_free_again_when_its_holder_has_ended(
    holder: Holder, machine: dict[str, str], how: signal.Signals
) -> None:
    named = {**machine, "HLS_MODULE_ID": "0"}
    refused = Holder(named)
    assert refused.module is None
    assert "[Device already acquired] Device acquire failed." in refused.end()
    holder.end(how)
    again = Holder(named)
    assert again.module == 0
    again.end()


def test_a_rank_with_a_list_of_modules_gets_its_own_or_none(holder: Holder, machine: dict[str, str]) -> None:
    environ = {**machine, "HABANA_VISIBLE_MODULES": "0,3", "LOCAL_RANK": "0"}
    assert Holder(environ).module is None
    second = Holder({**environ, "LOCAL_RANK": "1"})
    assert second.module == 3
    second.end()


def test_a_machine_without_a_free_card_refuses(holder: Holder, machine: dict[str, str]) -> None:
    refused = Holder({**machine, "HABANA_VISIBLE_DEVICES": "0"})
    assert refused.module is None
    said = refused.end()
    assert "Device acquire failed." in said
    assert "HPUCLUSTER_SHARED_CARDS=1" in said


def test_the_cards_of_jobs_and_of_boxes_are_different_ones(holder: Holder, machine: dict[str, str]) -> None:
    assert holder.module == 0
    apart = ("HPUCLUSTER_JOB_ID", "HPUCLUSTER_MACHINE", "HPUCLUSTER_BOX", "HPUCLUSTER_SHARED_CARDS")
    for own in ({name: "1"} for name in apart):
        other = Holder({**machine, **own, "HLS_MODULE_ID": "0"})
        assert other.module == 0
        other.end()


def test_without_a_visible_card_none_is_taken(machine: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no card is visible"):
        take("gaudi2", {"HABANA_VISIBLE_DEVICES": "none"})


def test_counting_leaves_the_card_free_and_asking_its_name_takes_it(script, machine: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    one = {"HABANA_VISIBLE_DEVICES": "0", "HPUCLUSTER_SHARED_CARDS": "0"}
    done = script(
        f"""
        import os, subprocess, sys
        import torch, habana_frameworks.torch

        def other():
            return subprocess.run([sys.executable, "-c", {MINE!r}], capture_output=True, text=True)

        assert torch.hpu.device_count() == 1 and torch.hpu.is_available()
        first = other()
        assert first.returncode == 0, first.stderr
        torch.hpu.get_device_name()
        second = other()
        assert second.returncode != 0
        print(second.stderr)
        """,
        **one,
    )
    assert "Device acquire failed" in done.stdout
    assert "every card that this process may use is held" in done.stdout
