"""Modules of the user's own with our names: theirs is what their script imports, and ours works on."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = ["device", "launcher", "collectives", "configs", "hpucluster"]

SCRIPT = """
import sys
{imports}
import {name}
assert {name}.MINE == "theirs", {name}
import torch
assert (torch.ones(3, device="hpu") + 1).sum().item() == 6
import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_global
import {name} as again
assert again is {name} and again.MINE == "theirs"
w = torch.nn.Parameter(torch.ones(2, device="hpu"))
(w * w).sum().backward()
htcore.mark_step()
assert w.grad.tolist() == [2, 2]
import importlib
importlib.reload({name})
print("fine")
"""


# A folder without __init__.py that is imported before PyTorch loses to any installed package: that is Python's rule.
CASES = [
    ("", "module"),
    ("import torch", "module"),
    ("import torch", "package"),
    ("import torch", "folder"),
    ("import habana_frameworks.torch", "package"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("imports", "kind"), CASES)
def test_theirs_wins(script, tmp_path: Path, name: str, kind: str, imports: str) -> None:
    if kind == "module":
        (tmp_path / f"{name}.py").write_text("MINE = 'theirs'\n")
    elif kind == "package":
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("from .inner import MINE\n")
        (tmp_path / name / "inner.py").write_text("MINE = 'theirs'\n")
    else:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text("MINE = 'theirs'\n")
    code = SCRIPT.format(name=name, imports=imports)
    if kind == "folder":
        code = code.replace(f"import {name}\n", f"import {name}.part\n", 1).replace(f"{name}.MINE", f"{name}.part.MINE")
        code = code.replace(
            f"import {name} as again\nassert again is {name} and again.MINE",
            f"import {name}.part as again\nassert again.MINE",
        )
        code = code.replace(f"importlib.reload({name})", "pass")
    assert script(code, fresh=imports != "import torch").stdout == "fine\n"


def test_a_folder_of_data_hides_nothing(script, tmp_path: Path) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "notes.txt").write_text("no Python here")
    script("import torch, device.card; torch.ones(1, device='hpu').item(); assert device.card.current_card()")


def test_ours_can_be_imported_where_the_user_has_none(script) -> None:
    script(
        """
        import torch
        from device.card import current_card
        import device, device.card
        assert current_card() is None
        torch.ones(1, device="hpu").item()
        assert device.card.current_card() is current_card() is not None
        """
    )


@pytest.mark.parametrize("name", ["device.card", "device.backend.native", "collectives", "hpucluster.report"])
def test_ours_may_be_imported_before_torch(fresh_script, name: str) -> None:
    fresh_script(
        f"""
        import {name}
        import torch
        assert (torch.ones(3, device="hpu") + 1).sum().item() == 6
        assert torch.hpu.memory_allocated() > 0
        """
    )


def test_a_checkout_of_ours_on_the_path_is_not_the_users(script, tmp_path: Path) -> None:
    (tmp_path / "checkout" / "habana_frameworks").mkdir(parents=True)
    (tmp_path / "checkout" / "habana_frameworks" / "_shield.py").write_text("")
    (tmp_path / "checkout" / "device").mkdir()
    (tmp_path / "checkout" / "device" / "__init__.py").write_text("")
    script(
        """
        import sys, torch
        sys.path.append("checkout")
        torch.ones(1, device="hpu").item()
        from device.card import current_card
        assert current_card() is not None
        """
    )


def test_a_path_that_is_added_later(script, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "device.py").write_text("MINE = 'theirs'\n")
    script(
        """
        import sys, torch
        torch.ones(1, device="hpu").item()
        sys.path.insert(0, "src")
        import device
        assert device.MINE == "theirs"
        """
    )


def test_spawned_processes_and_loader_workers(fresh_script, tmp_path: Path) -> None:
    (tmp_path / "device.py").write_text(
        "import torch\ndef work(x): return float((torch.ones(x, device='hpu') * 2).sum())\n"
    )
    done = fresh_script(
        """
        import torch, device
        if __name__ == "__main__":
            with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(device.work, [2, 3]))
        """
    )
    assert done.stdout == "[4.0, 6.0]\n"
