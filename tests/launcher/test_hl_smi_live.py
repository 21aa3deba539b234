"""A script that uses its card is seen by `hl-smi` while it runs, and not afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from device.card_records import FOLDER_VARIABLE, CardPorts, held_cards

ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPT = """
import sys
import torch
import torch.distributed as dist
import habana_frameworks.torch.core as htcore

torch.hpu.device_count()
print("asked", flush=True)
sys.stdin.readline()
dist.init_process_group("hccl", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
dist.barrier()
held = torch.zeros(2**20, device="hpu") + 1
htcore.mark_step()
print("used", flush=True)
sys.stdin.readline()
"""


LINKS = "0.6:8=down,0.6:22=0.5,0.7:13=down"


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_a_script_is_seen_while_it_holds_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cards"))
    (tmp_path / "train.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "train.py", str(tmp_path / "store")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLS_MODULE_ID": "6", "HPUCLUSTER_LINKS": LINKS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        assert process.stdout.readline() == "asked\n"
        assert held_cards() == [], "asking does not take the card"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "used\n"
        (record,) = held_cards()
        assert (record.module, record.process.pid, record.kind.name) == (6, process.pid, "gaudi2")
        # 7:13 is the far end of a cable of card 6.
        assert record.ports == CardPorts(24, [8, 22, 23], [8, 13])
        assert record.command.endswith(" train.py")
        if end == "killed":
            process.kill()
    assert held_cards() == []
    assert list((tmp_path / "cards").iterdir()) == []
