"""What `hccl_demo` prints, to the letter: scripts that read the real program's output must read this one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from launcher.hccl_demo.correctness import SHOWN_MISMATCHES, Verdict, compare
from launcher.hccl_demo.inputs import reduced_value, truncated, value
from launcher.hccl_demo.job import Job
from launcher.hccl_demo.model import Model
from launcher.hccl_demo.printing import Figures, benchmark_block, csv_row, processing_line, summary
from launcher.hccl_demo.scale_validation import stages, verdict
from launcher.hccl_demo.settings import Settings

FIGURES = Figures("hcclAllReduce", 33554432, 1.75, 33554432 / 147.5e9, 0.000228)


def test_the_block_of_bandwidths() -> None:
    assert benchmark_block(Settings(test="all_reduce"), FIGURES) == (
        "#########################################################################################\n"
        "[BENCHMARK] hcclAllReduce(dataSize=33554432, count=8388608, dtype=float, iterations=1000)\n"
        "[BENCHMARK]     NW Bandwidth   : 258.125000 GB/s\n"
        "[BENCHMARK]     Algo Bandwidth : 147.500000 GB/s\n"
        "#########################################################################################\n"
    )


def test_the_block_of_latencies() -> None:
    block = benchmark_block(Settings(measure="latency", data_type="bfloat16", loop=10), FIGURES)
    assert block.splitlines()[1:4] == [
        "[BENCHMARK] hcclAllReduce(dataSize=33554432, count=16777216, dtype=bfloat16, iterations=10)",
        "[BENCHMARK]     Host Latency   : 0.227488 ms",
        "[BENCHMARK]     Device Latency : 0.228000 ms",
    ]


def test_the_table_of_a_range() -> None:
    assert processing_line(FIGURES) == "Processing data_size 33554432\n"
    lines = summary(Settings(test="all_reduce", loop=1), [FIGURES]).splitlines()
    assert lines[:5] == [
        "",
        "################################################",
        "[BANDWIDTH SUMMARY REPORT]",
        "(src!=dst, collective=all_reduce, iterations=1)",
        "",
    ]
    cells = [[line[at : at + 18].rstrip() for at in range(0, len(line), 18)] for line in lines[5:]]
    assert cells == [
        ["size", "count", "type", "redop", "time", "algoBW", "nw_bw"],
        ["(B)", "(elements)", "", "", "(ms)", "(GB/s)", "(GB/s)"],
        ["33554432", "8388608", "float", "sum", "0.227488 ms", "147.500000 GB/s", "258.125000 GB/s"],
    ]
    latencies = summary(Settings(measure="latency"), [FIGURES])
    assert "[LATENCY SUMMARY REPORT]" in latencies and "Host Latency      Device Latency" in latencies


def test_a_row_of_results() -> None:
    row = "all_reduce,3,float,33554432,1000,258.125000 GB/s,147.500000 GB/s\n"
    assert csv_row(Settings(test="all_reduce"), 3, FIGURES) == row
    row = "reduce,0,float,33554432,1000,0.227488 ms,0.228000 ms\n"
    assert csv_row(Settings(test="reduce", measure="latency"), 0, FIGURES) == row


def test_inputs_differ_between_ranks_and_cells() -> None:
    assert value(3, 8, np.arange(15)).tolist() == [*range(3, 107, 8), 3, 11]
    assert reduced_value(range(8), "sum", np.array([0, 1, 13])).tolist() == [28, 92, 28]
    assert reduced_value((1, 5), "max", np.arange(2)).tolist() == [5, 7]
    assert truncated(torch.tensor([257.9])).item() == 256.0  # not 258, the nearest


@pytest.mark.parametrize(("data_type", "is_wrong"), [("float", True), ("bfloat16", False)])
def test_floats_must_be_equal_and_bfloat16_nearly(data_type: str, is_wrong: bool) -> None:
    job = Job(Settings(nranks=2, data_type=data_type), 1, 1, None, "0")
    found = Verdict()
    compare(job, np.array([100.0, 200.0]), np.array([100.0, 200.5]), 10, found)
    assert bool(found.wrong) == is_wrong
    if is_wrong:
        assert found.lines[0].startswith("index=11, expectedValue=200, value=200.5, thisRankId=1, tolerance=0,")


def test_what_is_not_a_number_is_wrong_and_few_are_shown() -> None:
    found = Verdict()
    job = Job(Settings(nranks=2, data_type="bfloat16"), 0, 0, None, "0")
    compare(job, np.zeros(100), np.full(100, np.nan), 0, found)
    assert found.wrong == 100 and len(found.lines) == SHOWN_MISMATCHES


def test_pairs_that_are_too_slow_are_named() -> None:
    rates = {(0, 1): 37.0e9, (1, 0): 35.0e9}
    assert verdict("ScaleUp", list(rates), rates, 37.5e9) == (
        "ScaleUp - Expected 37.500000 GB/s\n"
        "1-->0: Test failed, Actual BW does not meet the expectation (35.000000 GB/s - 93% of expected BW)\n",
        False,
    )
    fine = "Test passed. The BW between all nodes meets the expectations"
    assert verdict("ScaleUp", [(0, 1)], rates, 37.5e9)[0].splitlines()[1] == fine


def test_the_model_knows_the_messages_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two boxes of two cards: what leaves one card twice takes twice as long, and who waits for it keeps its pace."""
    for name in ("FABRIC", "LINKS", "ALGORITHM"):
        monkeypatch.delenv(f"HPUCLUSTER_{name}", raising=False)
    monkeypatch.setenv("HPUCLUSTER_CARDS_PER_BOX", "2")

    def figures(*pairs: tuple[int, int]) -> dict[int, Figures]:
        return Model(Settings(test="send_recv", nranks=4, ranks_list=pairs)).figures(1 << 25)

    inside, across = figures((0, 1))[1], figures((0, 2))[2]
    assert (inside.call, inside.factor) == ("hcclSendRecv_rank_1", 1.0)
    assert inside.host_s == inside.device_s < across.host_s
    assert {rank: one.host_s / across.host_s for rank, one in figures((0, 2), (0, 3)).items()} == {
        2: pytest.approx(2, rel=0.01),
        3: pytest.approx(2, rel=0.01),
    }
    crowd = figures((0, 2), (1, 2))[2]
    assert (crowd.factor, crowd.host_s) == (2.0, pytest.approx(2 * across.host_s, rel=0.01))
    waits = figures((0, 1), (2, 1), (3, 2))  # 3 to 2 takes the cable in the box, and 2 is busy as long as 1
    assert waits[1].host_s == waits[2].host_s == pytest.approx(across.host_s, rel=1e-9)


@pytest.mark.parametrize(
    ("card", "fabric", "expected"), (("gaudi3", "", 75.0e9), ("gaudi", "hls1h", 10 * 12.5e9 * 0.856))
)
def test_what_a_pair_is_expected_to_reach(
    monkeypatch: pytest.MonkeyPatch, card: str, fabric: str, expected: float
) -> None:
    """Three ports of 200 Gb/s each; ten of 100 Gb/s to a switch, of which some of the rate is left."""
    for name, text in (("CARD", card), ("FABRIC", fabric), ("LINKS", ""), ("ALGORITHM", ""), ("CARDS_PER_BOX", "")):
        monkeypatch.setenv(f"HPUCLUSTER_{name}", text)
    settings = Settings(test="scale_validation", nranks=4, ranks_per_node=4, scaleup_group_size=4)
    assert stages(settings)[0][2] == pytest.approx(expected)
    assert Model(settings).scale_validation(1 << 25)[1]
