"""The metrics API: names, shapes, units, and when an event becomes visible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import habana_frameworks.torch.core as htcore
from device.errors import ConfigurationError
from habana_frameworks.torch.hpu.metrics import (
    MetricDumpFormat,
    MetricNotFound,
    metric_global,
    metric_localcontext,
    metrics_dump,
)


def total(metric) -> int:
    return int(dict(metric.stats())["TotalNumber"])


def one(size: int) -> None:
    """A graph of its own for each size."""
    (torch.rand(size).to("hpu") * 2 + 1).cpu()


def test_an_unknown_name() -> None:
    assert metric_global("nonsense") is None
    with pytest.raises(MetricNotFound, match="nonsense"), metric_localcontext("nonsense"):
        pass


def test_shape_and_units_of_the_statistics() -> None:
    with metric_localcontext("graph_compilation") as metric:
        assert metric.stats() == [("TotalNumber", 0), ("TotalTime", 0), ("AvgTime", 0)]
        one(101)
        one(102)
    (_, number), (_, time), (_, average) = metric.stats()
    assert (type(number), type(time), type(average)) == (int, int, float)
    assert number == 2
    assert average == time / 2
    assert 100_000 < average < 1_000_000  # microseconds
    assert metric.name() == "graph_compilation"


@pytest.mark.parametrize("name", ["graph_compilation", "cpu_fallback", "memory_defragmentation"])
def test_zeros_at_the_start(name: str) -> None:
    with metric_localcontext(name) as metric:
        assert metric.stats()[0] == ("TotalNumber", 0)


def test_tags_are_in_fixed_order() -> None:
    tags = {
        "graph_compilation": ["TotalNumber", "TotalTime", "AvgTime"],
        "cpu_fallback": ["TotalNumber", "FallbackOps"],
        "memory_defragmentation": ["TotalNumber", "TotalSuccessful", "AvgTime", "MaxTime"],
    }
    for name, wanted in tags.items():
        metric = metric_global(name)
        assert metric is not None
        assert [tag for tag, _ in metric.stats()] == wanted


def test_contexts_nest_and_stop() -> None:
    metric = metric_global("graph_compilation")
    assert metric is not None
    before = total(metric)
    with metric_localcontext("graph_compilation") as outer:
        for _ in range(10):
            one(111)
        with metric_localcontext("graph_compilation") as inner:
            for size in (112, 113, 114):
                one(size)
        one(115)
    one(116)
    assert (total(outer), total(inner), total(metric) - before) == (5, 3, 6)


def test_reset_start_and_stop() -> None:
    with metric_localcontext("graph_compilation") as metric:
        one(121)
        metric.reset()
        assert total(metric) == 0
        metric.stop()
        one(122)
        assert total(metric) == 0
        metric.start()
        metric.start()
        one(123)
        assert total(metric) == 1


def test_a_compilation_is_visible_at_the_next_join() -> None:
    torch.hpu.synchronize()
    with metric_localcontext("graph_compilation") as metric:
        x = torch.ones(131).to("hpu")
        y = x * 2
        htcore.mark_step()
        assert total(metric) == 0  # still on the launch thread
        htcore.mark_step()
        assert total(metric) == 0  # an empty mark joins nothing
        z = y + 1
        htcore.mark_step()
        assert total(metric) == 1  # the second launch waited for the first
        assert z.cpu().sum().item() == 131 * 3
        assert total(metric) == 2


@pytest.mark.parametrize(
    "join",
    [
        lambda t: t.sum().item(),
        lambda t: t.cpu(),
        lambda t: torch.hpu.synchronize(),
        lambda t: torch.hpu.Event().synchronize(),
        lambda t: torch.hpu.current_stream().synchronize(),
        lambda t: htcore.mark_step(sync=True),
        lambda t: torch.accelerator.synchronize(),
    ],
    ids=["item", "copy", "synchronize", "event", "stream", "mark_step(sync)", "accelerator"],
)
def test_joins(join, request: pytest.FixtureRequest) -> None:
    torch.hpu.synchronize()
    size = 140 + abs(hash(request.node.name)) % 100_000
    with metric_localcontext("graph_compilation") as metric:
        y = torch.ones(size).to("hpu") * 2
        htcore.mark_step()
        assert total(metric) == 0
        join(y)
        assert total(metric) >= 1


def test_fallbacks_are_counted_by_name() -> None:
    with metric_localcontext("cpu_fallback") as metric:
        torch.linalg.eigvalsh(torch.eye(2).to("hpu"))
        (torch.ones(3).to("hpu") * 2).cpu()
    number, ops = dict(metric.stats())["TotalNumber"], dict(metric.stats())["FallbackOps"]
    assert number == sum(ops.values()) == 1
    assert any("eig" in name for name in ops)


CACHE = """
import torch
from habana_frameworks.torch.hpu.metrics import metric_global
{prelude}
for _ in range(10):
    (torch.rand(11).to("hpu") * 2 + 1).cpu()
metric = metric_global("recipe_cache")
print(None if metric is None else dict(metric.stats()))
"""


def test_the_cache_metric_has_to_be_asked_for(script) -> None:
    assert script(CACHE.format(prelude="")).stdout == "None\n"
    stats = eval(script(CACHE.format(prelude=""), PT_HPU_ENABLE_CACHE_METRICS="1").stdout)
    assert list(stats) == ["TotalHit", "RecipeHit", "TotalMiss", "RecipeMiss"]
    assert (stats["TotalHit"], stats["TotalMiss"]) == (9, 1)
    assert set(stats["RecipeHit"].values()) == {9}


def test_recipe_details(script) -> None:
    done = script(
        """
        import os, torch
        from habana_frameworks.torch.hpu.metrics import metric_global
        (torch.rand(3).to("hpu") * 2).cpu()
        metric = metric_global("graph_compilation")
        assert "recipe" not in dict(metric.stats())
        os.environ["PT_HPU_METRICS_GC_DETAILS"] = "1"  # any time is early enough
        (name, duration), = dict(metric.stats())["recipe"]
        assert name.startswith(".graph_dumps/") and duration == dict(metric.stats())["TotalTime"]
        metric.reset()
        assert dict(metric.stats())["TotalNumber"] == 0 and len(dict(metric.stats())["recipe"]) == 1
        """
    )
    assert done.returncode == 0


WORK = """
import sys, torch
import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metrics_dump
for n in (3, 4, 5):
    x = torch.rand(n).to("hpu") * 2 + 1
    htcore.mark_step()
    x.cpu()
"""


def read(path: Path) -> list[dict]:
    records: list[dict] = json.loads(path.read_text())
    return records


class TestFile:
    def test_at_exit(self, script, tmp_path: Path) -> None:
        script(WORK, PT_HPU_METRICS_FILE=str(tmp_path / "new" / "m.json"), PT_HPU_ENABLE_CACHE_METRICS="1")
        records = read(tmp_path / "new" / "m.json")
        names = ["graph_compilation", "cpu_fallback", "memory_defragmentation", "recipe_cache"]
        assert [record["metric_name"] for record in records] == names
        assert list(records[0]) == ["metric_name", "triggered_by", "generated_on", "statistics"]
        assert {record["triggered_by"] for record in records} == {"process_exit"}
        assert records[0]["statistics"]["TotalNumber"] == 3

    def test_at_each_change(self, script, tmp_path: Path) -> None:
        script(
            WORK,
            PT_HPU_METRICS_FILE=str(tmp_path / "m.json"),
            PT_HPU_METRICS_DUMP_TRIGGERS="metric_change,process_exit",
        )
        triggers = [record["triggered_by"] for record in read(tmp_path / "m.json")]
        assert triggers == ["metric_change"] * 3 + ["process_exit"] * 3

    def test_at_each_step_mark(self, script, tmp_path: Path) -> None:
        script(WORK, PT_HPU_METRICS_FILE=str(tmp_path / "m.json"), PT_HPU_METRICS_DUMP_TRIGGERS="mark_step")
        records = read(tmp_path / "m.json")
        assert [record["triggered_by"] for record in records] == ["mark_step"] * 9
        assert [r["statistics"]["TotalNumber"] for r in records if r["metric_name"] == "graph_compilation"] == [0, 1, 2]

    def test_of_a_rank(self, script, tmp_path: Path) -> None:
        for name, wanted in (("a.json", "a-rank0.json"), ("a", "a-rank0"), ("a.txt.json", "a.txt-rank0.json")):
            script(WORK, PT_HPU_METRICS_FILE=str(tmp_path / name), RANK="0")
            assert (tmp_path / wanted).exists()

    def test_never_overwrites(self, script, tmp_path: Path) -> None:
        for _ in range(3):
            script(WORK, PT_HPU_METRICS_FILE=str(tmp_path / "m.json"))
        assert sorted(path.name for path in tmp_path.glob("m*")) == ["m.json", "m.json.1", "m.json.2"]

    def test_without_a_card_there_is_none(self, script, tmp_path: Path) -> None:
        script("import habana_frameworks.torch", PT_HPU_METRICS_FILE=str(tmp_path / "m.json"))
        assert not (tmp_path / "m.json").exists()

    def test_as_text(self, script, tmp_path: Path) -> None:
        script(WORK, PT_HPU_METRICS_FILE=str(tmp_path / "m.txt"), PT_HPU_METRICS_FILE_FORMAT="text")
        lines = (tmp_path / "m.txt").read_text().splitlines()
        assert lines[:2] == ["Metric name: graph_compilation", "Triggered by: process_exit"]
        assert lines[2].startswith("Generated on: ")
        assert lines[3:5] == ["Statistics:", "\tTotalNumber: 3"]

    def test_on_demand(self, tmp_path: Path) -> None:
        metrics_dump(str(tmp_path / "m.json"))
        assert {record["triggered_by"] for record in read(tmp_path / "m.json")} == {"user"}
        metrics_dump(str(tmp_path / "m.txt"), MetricDumpFormat.text)
        assert (tmp_path / "m.txt").read_text().startswith("Metric name: ")

    def test_a_format_may_be_given_by_its_name(self, tmp_path: Path) -> None:
        metrics_dump(str(tmp_path / "m.json"), "json")
        assert len(read(tmp_path / "m.json")) >= 3
        metrics_dump(str(tmp_path / "m.txt"), "text")
        assert (tmp_path / "m.txt").read_text().startswith("Metric name: ")
        with pytest.raises(ConfigurationError, match="'yaml'; the formats are json, text"):
            metrics_dump(str(tmp_path / "m.yaml"), "yaml")

    def test_newer_releases_know_two_triggers(self, script, tmp_path: Path) -> None:
        done = script(
            WORK,
            check=False,
            PT_HPU_METRICS_FILE=str(tmp_path / "m.json"),
            PT_HPU_METRICS_DUMP_TRIGGERS="mark_step",
            HPUCLUSTER_SOFTWARE="1.22.0",
        )
        assert done.returncode != 0 and "KeyError: 'mark_step'" in done.stderr
