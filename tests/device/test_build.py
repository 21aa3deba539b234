"""The native bridge: built on first use, kept, and never in the way of programs that do not use the card."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from device.backend import native


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH without any compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("sh", "uname", "ls"):
        found = shutil.which(program)
        if found:
            (folder / program).symlink_to(found)
    return str(folder)


def test_a_program_without_the_card_builds_nothing_and_sees_plain_pytorch(fresh_script, tmp_path: Path) -> None:
    fresh_script(
        """
        import torch
        assert hasattr(torch, "hpu")
        assert torch.accelerator.current_accelerator() is None or torch.accelerator.current_accelerator().type != "hpu"
        assert (torch.ones(2) + 1).tolist() == [2, 2]
        """,
        HPUCLUSTER_CACHE=str(tmp_path / "cache"),
    )
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def quick_compiler(tmp_path: Path) -> str:
    """A compiler that has compiled this before: it makes empty objects, and links them to the bridge of this session,
    which the real compiler has built from the same sources.
    """
    path = tmp_path / "quick-c++"
    path.write_text(f"""#!{sys.executable} -S
import shutil, sys
target = sys.argv[sys.argv.index("-o") + 1]
if "-shared" in sys.argv:
    shutil.copy({str(native.ensure_built())!r}, target)
else:
    open(target, "w").close()
""")
    path.chmod(0o755)
    return str(path)


def test_the_first_use_builds_and_the_second_finds_it(fresh_script, tmp_path: Path, quick_compiler: str) -> None:
    code = """
        import torch
        place = torch.device("hpu")  # made before there is a bridge
        model = torch.nn.Linear(2, 2).to(place)
        model(torch.ones(3, 2).to(place)).sum().backward()
        assert model.weight.grad.device == torch.device("hpu", 0)
        assert torch.accelerator.current_accelerator().type == "hpu"
        assert torch.zeros(2, device=place).tolist() == [0, 0]
        """
    first = fresh_script(code, HPUCLUSTER_CACHE=str(tmp_path / "cache"), CXX=quick_compiler, timeout=280)
    assert "building the hpu bridge" in first.stderr
    assert list((tmp_path / "cache").glob("*/_bridge.so"))
    assert "building" not in fresh_script(code, HPUCLUSTER_CACHE=str(tmp_path / "cache")).stderr


def test_without_a_compiler_the_message_says_what_to_install(fresh_script, tmp_path: Path, bare_path: str) -> None:
    environ = {"HPUCLUSTER_CACHE": str(tmp_path / "cache"), "PATH": bare_path}
    done = fresh_script("import torch; torch.ones(1, device='hpu')", check=False, **environ)
    assert done.returncode != 0
    assert "neither g++ nor clang++ was found" in done.stderr and "apt-get install g++" in done.stderr
    fresh_script("import torch, habana_frameworks.torch; assert not torch.hpu.is_available()", **environ)


def test_a_compiler_that_does_not_exist_is_named(fresh_script, tmp_path: Path, bare_path: str) -> None:
    done = fresh_script(
        "import torch; torch.ones(1, device='hpu')",
        check=False,
        HPUCLUSTER_CACHE=str(tmp_path / "cache"),
        PATH=bare_path,
        CXX="my-c++",
    )
    assert "CXX='my-c++' is not a program" in done.stderr


def test_a_cache_that_cannot_be_written_is_named(fresh_script, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fresh_script(
        "import torch; torch.ones(1, device='hpu')", check=False, HPUCLUSTER_CACHE=str(tmp_path / "file")
    )
    assert done.returncode != 0
    assert "Set HPUCLUSTER_CACHE to a folder that can be written" in done.stderr


def test_the_key_follows_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = native.build_key()
    copy = tmp_path / "csrc"
    shutil.copytree(native.SOURCES, copy)
    monkeypatch.setattr(native, "SOURCES", copy)
    assert native.build_key() == before
    (copy / "block.h").write_text((copy / "block.h").read_text() + "\n")
    assert native.build_key() != before


def test_environments_with_the_same_pytorch_share_a_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    before = native.build_key()
    monkeypatch.setattr(native.torch, "__file__", "/another/environment/torch/__init__.py")
    assert native.build_key() == before
    monkeypatch.setattr(native.torch.version, "git_version", "another build of the same release")
    assert native.build_key() != before


def test_a_bridge_finds_the_pytorch_that_is_loaded(fresh_script, tmp_path: Path) -> None:
    """Whatever folder it was built for: no search path in it leads to a PyTorch."""
    built = native.ensure_built()
    elsewhere = tmp_path / built.parent.name / built.name
    elsewhere.parent.mkdir()
    shutil.copy(built, elsewhere)
    assert b"/torch/lib\0" not in elsewhere.read_bytes()
    fresh_script(
        f"""
        from pathlib import Path
        import torch
        assert (torch.ones(2, device="hpu") + 1).tolist() == [2, 2]
        assert {str(elsewhere)!r} in Path("/proc/self/maps").read_text()
        """,
        HPUCLUSTER_CACHE=str(tmp_path),
    )
