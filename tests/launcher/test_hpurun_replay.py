"""`hpurun replay`: a report's run on another card, printed side by side, and its answers to mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from collectives.roce.network import Network
from collectives.roce.place import Place
from device.compiler.compile import place
from device.compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from device.description import configs_dir
from device.network import Transfer
from device.run_log import RunLog
from device.spec import CardSpec, load_card
from device.timeline import Timeline
from hpucluster.joint_replay import pattern_of
from hpucluster.replay import compare
from hpucluster.report import FORMAT, unused_card
from hpucluster.run_logs import ReplayError, records_of, share_logs
from launcher import replay

GAUDI2, GAUDI3 = load_card("gaudi2"), load_card("gaudi3")
SIZE = 8192
GEMM = Program(
    (
        EngineNode(
            engine=Engine.MME,
            name="mm_0",
            kernel="gemm_bf16",
            kind="gemm",
            dtype="BFloat16",
            shape=(1, SIZE, SIZE, SIZE),
            operations=2.0 * SIZE**3,
            reads=(Access(0, 2 * SIZE**2), Access(1, 2 * SIZE**2)),
            writes=(Access(2, 2 * SIZE**2),),
            sources=(0,),
            where="train.py:7",
        ),
    ),
    tuple(ProgramBuffer(2 * SIZE**2, resident=number < 2, live=True) for number in range(3)),
    1,
)

NBYTES = 2**20


class Rank:
    """One rank's run, without the others: what they would make it wait is not in its log."""

    def __init__(self, spec: CardSpec = GAUDI2) -> None:
        self.log = RunLog()
        self.timeline = Timeline(spec, log=self.log)
        recipe = place(GEMM, spec, "graph_0", "graph_0")
        self.log.learn("graph_0", GEMM)
        self.timeline.learn("graph_0", recipe.seconds)
        self.timeline.compile("graph_0", recipe.compile_seconds)

    def work(self, launches: int = 1) -> Rank:
        for _ in range(launches):
            self.timeline.hand_over()
            self.timeline.launch("graph_0")
        return self

    def arrive(self, operation: str, *ranks: int) -> Rank:
        self.log.add(("arrive", operation, NBYTES, "0", ranks, 0, ()))
        return self

    def fail(self, operation: str, *ranks: int) -> Rank:
        self.log.add(("failed", operation, "0", ranks))
        return self

    def miss(self, operation: str, count: int, *ranks: int) -> Rank:
        self.log.add(("missed", operation, count, "0", ranks))
        return self

    def finish(self, operation: str, nbytes: int, *ranks: int) -> Rank:
        now = self.timeline.now
        self.timeline.collective(Transfer(operation, nbytes, "0", ranks, now, now, now, now))
        return self

    def end_step(self) -> Rank:
        self.log.end_step()
        return self

    def record(self, rank: int, peak: int = 10**9) -> dict[str, Any]:
        """The rank's record in a report."""
        card = unused_card(self.timeline.spec.name, rank)
        memory = {"limit": 10**11, "in_use": 0, "peak": peak, "workspace": 0}
        log = self.log.document(self.timeline.spec, launch_thread=True)
        return {"rank": rank, "used": True, **card, "memory": memory, "log": log}


def report_of(*cards: dict[str, Any]) -> dict[str, Any]:
    shared, logs = share_logs(cards)
    document = {"format": FORMAT, "run": {"target": "train.py", "network": None}, "cards": shared, "logs": logs}
    return json.loads(json.dumps(document))


def trained(steps: int = 5, peak: int = 10**9) -> dict[str, Any]:
    rank = Rank()
    for _ in range(steps):
        rank.work(4).end_step()
    return report_of(rank.record(0, peak))


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`invoke(report, *arguments)` writes the report as run.json and replays it."""
    monkeypatch.chdir(tmp_path)

    def run(report: Any, *arguments: str) -> Result:
        if report is not None:
            Path("run.json").write_text(report if isinstance(report, str) else json.dumps(report))
        return CliRunner().invoke(replay.command, ["run.json", *arguments])

    return run


def assert_one_line(result: Result, *texts: str) -> None:
    assert result.exit_code == 2, result.output
    lines = [line for line in result.output.splitlines() if line]
    assert len(lines) == 1, result.output
    assert lines[0].startswith("hpurun: ")
    for text in texts:
        assert text in lines[0]


class TestComparison:
    def test_the_same_card_is_the_same(self) -> None:
        comparison = compare(trained(), GAUDI2)
        assert comparison["recorded"] == comparison["replayed"]
        assert comparison["ratios"][0]["total"] == 1.0

    def test_another_card(self) -> None:
        comparison = compare(trained(), GAUDI3)
        assert comparison["cards"] == ["gaudi2", "gaudi3"]
        seconds = [place(GEMM, card, "", "").seconds for card in (GAUDI2, GAUDI3)]
        recorded, replayed = comparison["recorded"][0], comparison["replayed"][0]
        assert recorded["device_seconds"] == pytest.approx(20 * seconds[0])
        assert replayed["device_seconds"] == pytest.approx(20 * seconds[1])
        assert comparison["ratios"][0]["device"] == pytest.approx(seconds[0] / seconds[1])
        assert recorded["steps"] == replayed["steps"] == 5
        assert replayed["steps_per_second"] > recorded["steps_per_second"] > 0
        assert replayed["memory"] == {"peak": 10**9, "limit": GAUDI3.hbm.pool_bytes, "fits": True}

    def test_the_longest_nodes(self) -> None:
        (node,) = compare(trained(), GAUDI3)["nodes"]
        assert (node["kernel"], node["engine"], node["where"]) == ("gemm_bf16", "MME", "train.py:7")
        assert node["seconds"][0] > node["seconds"][1]
        assert node["bound"] == ["compute", "compute"]

    def test_equal_logs_are_kept_once(self) -> None:
        report = report_of(*(Rank().work().record(rank) for rank in range(8)))
        assert len(report["logs"]) == 1
        assert {card["log"] for card in report["cards"]} == {0}
        assert len(records_of(report, FORMAT)) == 8


class TestCollectives:
    def seconds(self, pattern: str, nbytes: int, cards: int, card: CardSpec = GAUDI2) -> float:
        network = Network.of_environment(card, cards)
        return network.group([Place(0, module) for module in range(cards)]).seconds(pattern, nbytes)

    def test_it_begins_with_the_last_rank(self) -> None:
        ranks = range(4)
        report = report_of(
            *(Rank().work(1 + rank).finish("all_reduce", 2**25, 0, 1, 2, 3).end_step().record(rank) for rank in ranks)
        )
        for card in (GAUDI2, GAUDI3):
            sides = compare(report, card)["replayed"]
            ends = [side["time"]["total"] for side in sides]
            assert len(set(ends)) == 1
            arrivals = [Rank(card).work(1 + rank).timeline.streams[0] for rank in ranks]
            duration = self.seconds("all_reduce", 2**25, 4, card)
            assert ends[0] == pytest.approx(arrivals[3] + duration)
            for rank in ranks:
                collectives = sides[rank]["collectives"]
                assert collectives["waited"] == pytest.approx(arrivals[3] - arrivals[rank])
                assert collectives["seconds"] == pytest.approx(duration)
                assert (collectives["count"], collectives["bytes"]) == (1, 2**25)

    def test_one_that_was_begun_early_hides_behind_work(self) -> None:
        group = (0, 1)

        def rank(number: int) -> dict[str, Any]:
            run = Rank().work().arrive("all_gather_into_tensor", *group).work(8)
            return run.finish("all_gather_into_tensor", 2**20, *group).record(number)

        report = report_of(rank(0), rank(1))
        side = compare(report, GAUDI2)["replayed"][0]
        assert side["time"]["total"] == pytest.approx(Rank().work(9).timeline.now)
        assert side["collectives"]["seconds"] == pytest.approx(self.seconds("all_gather", 2**20, 2))

    def test_messages_that_cross(self) -> None:
        """Both send before they receive, and wait in that order."""

        def rank(number: int) -> dict[str, Any]:
            run = Rank().work(1 + number).arrive("send", 0, 1).arrive("recv", 0, 1)
            return run.finish("send", 2**20, 0, 1).finish("recv", 2**20, 0, 1).record(number)

        comparison = compare(report_of(rank(0), rank(1)), GAUDI2)
        assert comparison["unmatched"] == 0
        last = Rank().work(2).timeline.now
        totals = [side["time"]["total"] for side in comparison["replayed"]]
        assert totals == [pytest.approx(last + self.seconds("send_recv", 2**20, 2))] * 2

    def test_groups_of_some_ranks(self) -> None:
        def rank(number: int) -> dict[str, Any]:
            run = Rank().work(1 + number)
            if number < 2:
                run.finish("all_reduce", 2**20, 0, 1)
            return run.finish("barrier", 0, 0, 1, 2).record(number)

        comparison = compare(report_of(*map(rank, range(3))), GAUDI2)
        assert comparison["unmatched"] == 0
        assert len({side["time"]["total"] for side in comparison["replayed"]}) == 1

    def test_a_rank_whose_log_ends_early_holds_up_nobody(self) -> None:
        short = Rank().work().finish("all_reduce", 1024, 0, 1)
        long = Rank().work().finish("all_reduce", 1024, 0, 1).work().finish("all_reduce", 1024, 0, 1)
        comparison = compare(report_of(short.record(0), long.record(1)), GAUDI2)
        assert comparison["unmatched"] == 1
        assert comparison["replayed"][1]["collectives"]["count"] == 2

    def test_one_in_which_a_card_had_no_part_is_over_without_it(self) -> None:
        """A barrier before rank 1 used its card: its first collective is the group's second."""
        early = Rank().finish("barrier", 0, 0, 1).work(3).finish("all_reduce", NBYTES, 0, 1)
        late = Rank().miss("barrier", 1, 0, 1).work(1).finish("all_reduce", NBYTES, 0, 1)
        comparison = compare(report_of(early.record(0), late.record(1)), GAUDI2)
        assert comparison["unmatched"] == 0
        first, second = comparison["replayed"]
        assert first["time"]["total"] == second["time"]["total"]
        assert (first["collectives"]["count"], second["collectives"]["count"]) == (2, 1)
        assert second["collectives"]["waited_for"][0]["rank"] == 0 and not first["collectives"]["waited_for"]

    def test_one_that_failed_takes_no_time_and_no_place(self) -> None:
        def rank(number: int, fails: bool) -> dict[str, Any]:
            run = Rank().work(1 + number)
            if fails:
                run.arrive("all_reduce", 0, 1).fail("all_reduce", 0, 1)
            return run.work().finish("all_reduce", NBYTES, 0, 1).record(number)

        with_failure, without = (
            compare(report_of(rank(0, fails), rank(1, fails)), GAUDI2)["replayed"] for fails in (True, False)
        )
        for one, other in zip(with_failure, without, strict=True):
            assert one["collectives"]["count"] == 1
            assert one["collectives"]["seconds"] == pytest.approx(other["collectives"]["seconds"])
            assert one["time"]["total"] == pytest.approx(other["time"]["total"] + GAUDI2.host.collective_s, rel=1e-3)

    def test_a_failure_of_nothing_is_a_damaged_log(self) -> None:
        with pytest.raises(ReplayError, match="all_reduce of group 0 fails before it begins"):
            compare(report_of(Rank().fail("all_reduce", 0, 1).record(0)), GAUDI2)

    def test_a_rank_without_a_log_is_in_time(self) -> None:
        unused = {"rank": 1, "used": False, **unused_card("gaudi2", 1)}
        comparison = compare(report_of(Rank().finish("barrier", 0, 0, 1).record(0), unused), GAUDI2)
        assert comparison["unmatched"] == 0
        assert len(comparison["replayed"]) == 1

    @pytest.mark.parametrize(
        ("operation", "pattern"),
        [
            ("all_reduce_coalesced", "all_reduce"),
            ("all_gather_into_tensor", "all_gather"),
            ("reduce_scatter_tensor", "reduce_scatter"),
            ("reduce", "reduce"),
            ("all_to_all_single", "all_to_all"),
            ("recv", "send_recv"),
        ],
    )
    def test_patterns_of_operations(self, operation: str, pattern: str) -> None:
        assert pattern_of(operation) == pattern

    def test_an_unknown_operation(self) -> None:
        with pytest.raises(ReplayError, match="'teleport'"):
            compare(report_of(Rank().finish("teleport", 1, 0, 1).record(0)), GAUDI2)


class TestCommand:
    def test_it_prints_both_sides(self, invoke: Callable[..., Result]) -> None:
        result = invoke(trained(), "--card", "gaudi3", "--report", "out.json")
        assert result.exit_code == 0, result.output
        lines = {line.split("  ")[0].strip(): line.split() for line in result.output.splitlines() if line}
        assert "gaudi2 as recorded, gaudi3 replayed" in result.output
        for row in ("step", "steps per s", "total", "device", "compile", "host %", "peak memory", "of"):
            assert row in lines, result.output
        assert any(line.startswith("gemm_bf16") and line.rstrip().endswith("train.py:7") for line in
                   result.output.splitlines())  # fmt: skip
        assert "rank" not in lines
        written = json.loads(Path("out.json").read_text())
        assert written["cards"] == ["gaudi2", "gaudi3"]
        assert written["ratios"][0]["device"] > 3

    def test_many_ranks_have_a_row_each(self, invoke: Callable[..., Result]) -> None:
        report = report_of(*(Rank().work(1 + rank).end_step().record(rank) for rank in range(8)))
        result = invoke(report, "--card", "gaudi3")
        assert "of rank 7" in result.output
        rows = [line.split() for line in result.output.splitlines()]
        assert [row[0] for row in rows if row and row[0].isdigit()] == [str(rank) for rank in range(8)]

    def test_a_run_that_does_not_fit(self, invoke: Callable[..., Result]) -> None:
        result = invoke(trained(peak=60 * 2**30), "--card", "gaudi")
        assert result.exit_code == 0, result.output
        assert "Does not fit: rank 0 held 60.0 GB, and a gaudi has" in result.output

    def test_a_card_of_ones_own(self, invoke: Callable[..., Result], tmp_path: Path) -> None:
        text = (configs_dir() / "cards" / "gaudi2.toml").read_text()
        (tmp_path / "mine.toml").write_text(text.replace('name = "gaudi2"', 'name = "mine"', 1))
        result = invoke(trained(), "--card", "mine.toml")
        assert result.exit_code == 0, result.output
        assert "gaudi2 as recorded, mine replayed" in result.output

    @pytest.mark.parametrize(
        ("report", "texts"),
        [
            (None, ("run.json: cannot be read: No such file",)),
            ("{", ("run.json is no report, or a damaged one",)),
            ("[]", ("cannot be replayed: it is no report of hpurun",)),
            ({"format": 99, "cards": []}, ("its format is 99",)),
            ({"format": FORMAT, "cards": []}, ("it holds no log",)),
            ({"format": FORMAT, "cards": [{"rank": 0, "log": None}]}, ("it holds no log",)),
            ({"format": FORMAT, "cards": [{"rank": 0, "log": 3}], "logs": []}, ("the record of card 0 is damaged",)),
            ({"format": FORMAT, "cards": [{"rank": 0, "log": 0}], "logs": ["{}"]}, ("the log of card 0 is damaged",)),
            ({"format": FORMAT, "cards": [7]}, ("the record of card 0 is damaged",)),
            (
                {"format": FORMAT, "cards": [{"rank": "0", "log": 0}], "logs": ["{}"]},
                ("its rank is '0' and its log 0",),
            ),
            ({"format": FORMAT, "cards": [{"rank": 0, "log": -1}], "logs": ["{}"]}, ("its rank is 0 and its log -1",)),
        ],
        ids=[
            "missing",
            "truncated",
            "list",
            "format",
            "empty",
            "no log",
            "no such log",
            "empty log",
            "no record",
            "rank",
            "log",
        ],
    )
    def test_a_report_that_cannot_be_replayed(
        self, invoke: Callable[..., Result], report: Any, texts: tuple[str, ...]
    ) -> None:
        assert_one_line(invoke(report, "--card", "gaudi3"), *texts)

    def test_bad_options(self, invoke: Callable[..., Result], tmp_path: Path) -> None:
        assert_one_line(invoke(trained(), "--card", "gaudi9"), "--card gaudi9", "gaudi, gaudi2, gaudi3")
        assert_one_line(invoke(trained(), "--card", "none.toml"), "none.toml cannot be read")
        assert_one_line(invoke(trained(), "--card", "gaudi3", "--report", "no/where.json"), "there is no folder")

    def test_a_network_too_small(self, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
        everyone = tuple(range(9))
        report = report_of(*(Rank().finish("barrier", 0, *everyone).record(rank) for rank in everyone))
        monkeypatch.setenv("HPUCLUSTER_FABRIC", "")  # what the option sets ends with the test
        assert_one_line(invoke(report, "--fabric", "one-box"), "9 ranks", "need 2 boxes", "one-box has 1")

    def test_a_log_that_lost_a_program(self, invoke: Callable[..., Result]) -> None:
        report = trained()
        log = json.loads(report["logs"][0])
        log["recipes"]["programs"].clear()
        report["logs"] = [json.dumps(log)]
        assert_one_line(invoke(report, "--card", "gaudi3"), "graph_0 is launched, and there is no program of it")


class TestSubcommand:
    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "launcher.hpurun", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_replay_as_first_argument(self, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text(json.dumps(trained()))
        done = self.run(tmp_path, "replay", "run.json", "--card", "gaudi3")
        assert done.returncode == 0, done.stderr
        assert "gaudi3 replayed" in done.stdout
        missing = self.run(tmp_path, "replay", "run.json")
        assert missing.returncode == 2
        assert "--card" in missing.stderr
        assert "Traceback" not in missing.stderr

    def test_a_script_of_that_name_runs(self, tmp_path: Path) -> None:
        (tmp_path / "replay").write_text("print(")
        done = self.run(tmp_path, "replay", "run.json")
        assert done.returncode == 1
        assert "SyntaxError" in done.stderr


def test_other_links_between_the_cards(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """A port of rank 1 down: two of its three to each rank are left to rank 0, and everybody's collective is slower."""
    report = report_of(*(Rank().finish("all_reduce", 2**28, 0, 1).record(rank) for rank in range(2)))
    report["run"]["network"] = Network.of_environment(GAUDI2, 2).to_plain()
    monkeypatch.setenv("HPUCLUSTER_LINKS", "")
    result = invoke(report, "--links", "1:13=down", "--report", "out.json")
    monkeypatch.delenv("HPUCLUSTER_LINKS")
    assert result.exit_code == 0, result.output
    ratios = [entry["collectives"] for entry in json.loads(Path("out.json").read_text())["ratios"]]
    assert ratios == [pytest.approx(2 / 3, rel=1e-3)] * 2
    assert_one_line(invoke(report), "--card, --fabric, --links or --algorithm")
    monkeypatch.setenv("HPUCLUSTER_FABRIC", "")
    assert_one_line(invoke(report, "--fabric", "nowhere"), "nowhere")
