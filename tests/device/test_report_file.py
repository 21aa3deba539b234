"""HPUCLUSTER_REPORT: the report of a process that no hpurun has started."""

from __future__ import annotations

import json
from pathlib import Path

from device.report_file import rank_of

from ..conftest import Script

SCRIPT = """
    import os, torch
    if {use}:
        (torch.ones(3, device="hpu") * 2).cpu()
    os.chdir("/")
"""


def test_a_process_that_held_a_card_leaves_its_report(script: Script, tmp_path: Path) -> None:
    script(SCRIPT.format(use=True), HPUCLUSTER_REPORT="reports", RANK="1")
    (path,) = (tmp_path / "reports").iterdir()
    assert path.name == "rank1.json"
    report = json.loads(path.read_text())
    assert report["rank"] == 1 and report["graphs_compiled"] == 1
    assert report["memory"]["peak"] > 0 and report["time"]["total"] > 0


def test_the_rank_is_what_the_launcher_has_told() -> None:
    assert rank_of({"OMPI_COMM_WORLD_RANK": "3"}) == 3
    assert rank_of({"PMI_RANK": "2"}) == 2
    assert rank_of({}) == 0


def test_a_process_without_a_card_leaves_nothing(script: Script, tmp_path: Path) -> None:
    script(SCRIPT.format(use=False), HPUCLUSTER_REPORT=str(tmp_path / "reports"))
    assert not (tmp_path / "reports").exists()


def test_a_folder_that_cannot_be_made_is_told_before_the_card_is_used(script: Script, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = script(SCRIPT.format(use=True), HPUCLUSTER_REPORT=str(tmp_path / "file"), check=False)
    assert done.returncode == 1
    assert f"HPUCLUSTER_REPORT='{tmp_path}/file' cannot be made a folder" in done.stderr


def test_a_process_that_is_killed_leaves_what_it_had_done(script: Script, tmp_path: Path) -> None:
    done = script(
        """
        import os, signal, time, torch
        import device.report_file
        device.report_file.PERIOD = 0.01
        (torch.ones(3, device="hpu") * 2).cpu()
        while not os.path.exists("reports/rank0.json"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        HPUCLUSTER_REPORT="reports",
        check=False,
    )
    assert done.returncode != 0
    assert json.loads((tmp_path / "reports/rank0.json").read_text())["graphs_compiled"] == 1
