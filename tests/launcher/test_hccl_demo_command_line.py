"""`hccl_demo`: its options, the sizes they take, its one-line answers to mistakes, its call of mpirun."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.hccl_demo import mpirun
from launcher.hccl_demo.catalogue import TESTS
from launcher.hccl_demo.command import main
from launcher.hccl_demo.pairing import partners, scale_out_pairs, scale_up_pairs
from launcher.hccl_demo.settings import Settings, from_environment, rank_environment, to_environment
from launcher.hccl_demo.sizes import each_size, parse_size

Show = Callable[..., str]
MARKS = ("HCCL_", "HPUCLUSTER_", "HABANA_", "OMPI_", "PMIX_")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable chooses anything, and none stays."""
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if not k.startswith(MARKS)})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """`show("-list")`: what that prints. `status` is what it must end with; where that is 2, the line that it says."""

    def run(*arguments: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["hccl_demo", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == status, err
        if status != 2:
            assert not err
            return out
        assert not out and err.count("\n") == 1 and err.startswith("hccl_demo: ")
        return err.removeprefix("hccl_demo: ").strip()

    return run


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("33554432", 33554432),
        ("33554432b", 33554432),
        ("32m", 33554432),
        ("32M", 33554432),
        ("1.5k", 1536),
        ("2G", 2**31),
    ],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_bandwidths_have_units_of_1000() -> None:
    assert parse_size("37.5G", kilo=1000) == 37_500_000_000


@pytest.mark.parametrize("text", ["", "m", "-1", "0", "1.5", "12x", "5t", "1e999g", "nan"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_a_range_of_sizes_has_both_ends() -> None:
    assert list(each_size(32, 256, 1)) == [32, 64, 128, 256]
    assert list(each_size(32, 255, 2)) == [32, 128]


def test_list_and_doc(show: Show) -> None:
    for option in ("-list", "--list_tests"):
        assert show(option).split("Tests list:\n")[1] == "\n".join(TESTS) + "\n\nExiting HCCL demo with code: 0\n"
    for option in ("-h", "--help", "--doc"):
        assert "all_reduce" in show(option)


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    ((), "--nranks is missing"),
    (("--nranks", "1"), "--nranks 1: one rank has nobody to talk to; use two or more"),
    (("--nranks", "0"), "--nranks 0: use two or more"),
    (("--nranks", "two"), "'two' is not a valid integer"),
    (("--nranks", "8", "--test", "allreduce"), "'allreduce' is not one of 'broadcast', 'all_reduce'"),
    (("--nranks", "8", "--measure", "time"), "'time' is not one of 'bw', 'latency'"),
    (("--nranks", "8", "--data_type", "half"), "'half' is not one of 'float', 'bfloat16'"),
    (("--nranks", "8", "--reduction_op", "avg"), "'avg' is not one of 'sum', 'min', 'max'"),
    (("--nranks", "8", "--loop", "0"), "0 is not in the range x>=1"),
    (("--nranks", "8", "--size", "32q"), "--size: '32q' is not a size"),
    (("--nranks", "8", "--size", "3"), "3 bytes are less than --test broadcast needs: 4"),
    (("--nranks", "8", "--size", "28", "--test", "all2all"), "needs: 32, an element for each of 8 ranks"),
    (("--nranks", "8", "--size_range", "1m", "1k"), "--size_range 1m 1k: the first size must not be more"),
    (("--nranks", "8", "--size_range", "1m"), "'--size_range' requires 2 arguments"),
    (("--nranks", "8", "--test_root", "8"), "--test_root: there is no rank 8; ranks go from 0 to 7"),
    (("--nranks", "8", "--custom_comm", "0,9"), "--custom_comm: there is no rank 9"),
    (("--nranks", "8", "--custom_comm", "0;1"), "--custom_comm 0;1: is not a list of ranks"),
    (("--nranks", "8", "--custom_comm", "3"), "--custom_comm 3: one rank has nobody to talk to"),
    (("--nranks", "8", "--custom_comm", "0,1", "--test", "send_recv"), "--custom_comm: not for --test send_recv"),
    (("--nranks", "8", "--ranks_list", "0,1", "--test", "reduce"), "--ranks_list: only for --test send_recv"),
    (("--nranks", "8", "--ranks_list", "0,1,2", "--test", "send_recv"), "has no receiver for its last sender"),
    (("--nranks", "8", "--ranks_list", "1,1", "--test", "send_recv"), "rank 1 cannot send to itself"),
    (("--nranks", "16"), "--node_id is missing: 16 ranks at 8 per node are 2 nodes"),
    (("--nranks", "16", "--node_id", "2"), "--node_id 2: 16 ranks need 2 nodes, 0 to 1"),
    (("--nranks", "16", "--node_id", "1"), "HCCL_COMM_ID is not set, so the nodes cannot meet"),
    (("--nranks", "8", "--ranks_per_node", "9"), "--ranks_per_node 9: a box has 8 cards"),
    (("--nranks", "8", "--scaleup_group_size", "9"), "--scaleup_group_size 9: use 1 to 8"),
    (("--nranks", "8", "--result_csv", "no/such.csv"), "--result_csv no/such.csv: there is no folder"),
    (("--nranks", "8", "--data_csv", "no"), "--data_csv no: there is no folder"),
    (("--nranks", "8", "--data_csv", ".", "--no_correctness"), "with --no_correctness there is no data"),
    (("--nranks", "8", "--size", "1000g"), "GiB of this machine's memory"),
    (("--nranks", "8", "--card", "gaudi9"), "unknown card 'gaudi9'"),
    (("--nranks", "8", "--fabric", "token-ring"), "unknown fabric 'token-ring'"),
    (("--nranks", "8", "--algorithm", "magic"), "'magic' is not an algorithm"),
    (("--nranks", "8", "-np", "8"), "No such option"),
    (("-mpi", "--nranks", "8"), "--nranks: not with -mpi"),
    (("-mpi", "--model"), "--model: starts no ranks; leave -mpi out"),
    (("-mpi", "--hostfile", "hosts"), "HCCL_COMM_ID"),
    (("--nranks", "64", "--model", "--test", "scale_validation"), "needs --scaleout_bw, such as 37.5G"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: " ".join(value) if value else "none")
def test_a_mistake_is_told_in_one_line(
    show: Show, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setattr(mpirun.shutil, "which", lambda name: f"/bin/{name}")  # type: ignore[attr-defined]
    assert words in show(*arguments, status=2)


@pytest.mark.parametrize("address", ["127.0.0.1", "5555", "127.0.0.1:port", "127.0.0.1:70000"])
def test_an_address_without_a_port_is_refused(show: Show, address: str) -> None:
    os.environ["HCCL_COMM_ID"] = address
    assert show("--nranks", "8", status=2) == f"HCCL_COMM_ID={address}: is not <IP:PORT>; for example 127.0.0.1:5555"


def test_an_address_of_another_machine_cannot_be_node_0s(show: Show) -> None:
    os.environ["HCCL_COMM_ID"] = "192.0.2.77:5555"
    assert "node 0 cannot listen there" in show("--nranks", "8", status=2)


def test_visible_cards_are_the_ranks_per_node(show: Show) -> None:
    os.environ["HABANA_VISIBLE_DEVICES"] = "2,5"
    assert "4 ranks at 2 per node are 2 nodes" in show("--nranks", "4", status=2)
    os.environ["HABANA_VISIBLE_DEVICES"] = "none"
    assert "no card is visible" in show("--nranks", "4", status=2)


def test_mpirun_is_needed_and_takes_what_is_not_ours(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun.shutil, "which", lambda name: None)  # type: ignore[attr-defined]
    assert "there is no mpirun on the path" in show("-mpi", "-np", "8", status=2)
    monkeypatch.setattr(mpirun.shutil, "which", lambda name: "/bin/echo")  # type: ignore[attr-defined]
    shown = show("--test", "all2all", "-mpi", "-np", "8", "--loop", "7", "--map-by", "core")
    line = shown.split("HCCL mpi command line:\n")[1].splitlines()[0]
    assert line.startswith("/bin/echo -np 8 --map-by core -x HCCL_DEMO_TEST=all2all -x HCCL_DEMO_MEASURE=bw ")
    assert " -x HCCL_DEMO_TEST_LOOP=7 " in line and " -x HCCL_DEMO_MPI_REQUESTED=1 " in line
    assert " -x HCCL_COMM_ID=127.0.0.1:" in line


def test_a_rank_is_told_by_the_real_programs_variables() -> None:
    settings = Settings(test="send_recv", ranks_list=((0, 1), (2, 1)), nranks=4, check_correctness=False, loop=3)
    environ = rank_environment(settings, 2)
    assert environ["HCCL_DEMO_TEST"] == "send_recv" and environ["HCCL_DEMO_TEST_SIZE"] == "33554432"
    assert environ["HCCL_RANKS_LIST"] == "0,1,2,1" and environ["HCCL_DEMO_CHECK_CORRECTNESS"] == "0"
    assert (environ["HCCL_RANK"], environ["HCCL_NRANKS"], environ["HCCL_RANKS_PER_NODE"]) == ("2", "4", "8")
    assert from_environment(environ) == settings
    ranged = Settings(size_min=32, size_max=1024, size_inc=2, custom_comm=(0, 3), root=3, nranks=4, scaleout_bw=5)
    assert from_environment(rank_environment(ranged, 0)) == ranged
    assert from_environment({}) == Settings()


def test_under_mpi_the_number_of_ranks_is_openmpis() -> None:
    told = to_environment(Settings(mpi=True)) | {"OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    found = from_environment(told)
    assert (found.nranks, found.ranks_per_node, found.scaleup_group_size) == (16, 4, 4)


def test_partners_of_send_recv() -> None:
    box = Settings(nranks=5)
    assert [partners(box, rank) for rank in range(5)] == [(1, 1), (0, 0), (3, 3), (2, 2), (4, 4)]
    boxes = Settings(nranks=24)
    assert partners(boxes, 3) == (19, 11) and partners(boxes, 19) == (11, 3)


def test_pairs_of_scale_validation() -> None:
    settings = Settings(nranks=4, ranks_per_node=2, scaleup_group_size=2)
    assert list(scale_up_pairs(settings)) == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert list(scale_out_pairs(settings)) == [(0, 2), (1, 3), (2, 0), (3, 1)]
