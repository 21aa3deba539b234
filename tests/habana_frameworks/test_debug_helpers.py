"""`utils.debug` and `utils.experimental`: figures of the card, log lines, dynamic shapes on disk."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

import habana_frameworks.torch.core as htcore
import habana_frameworks.torch.utils.debug as htdebug
import habana_frameworks.torch.utils.experimental as htexp
from device import flags
from device.errors import ConfigurationError
from device.loggers import FILE, loggers
from habana_frameworks.torch.utils import _debug_C


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(loggers, "_levels", None)
    monkeypatch.setattr(flags, "_values", dict(flags._values))
    monkeypatch.setenv("HABANA_LOGS", str(tmp_path))
    monkeypatch.delenv("ID", raising=False)
    return tmp_path


def test_levels_from_python() -> None:
    assert not _debug_C.is_log_python_enabled(htdebug.logger.get_log_level("info"))
    for level in ("info", "trace", "critical"):
        htdebug.enable_logging("LOG_LEVEL_ALL", level)
        assert _debug_C.is_log_python_enabled(htdebug.logger.get_log_level(level))
    assert all(0 <= level < 6 for level in _debug_C.get_pt_logging_levels().values())


def test_a_logger_formats_writes_and_keeps(logs: Path) -> None:
    logger = htdebug.Logger("PART")
    logger.set_store_data(True)
    logger.info("a {} c {}", 1, None)
    logger.info("%d of %s", 3, "x")
    logger.info(1, [2])
    assert logger.data == ["[PART] a 1 c None", "[PART] 3 of x", "[PART] 1, [2]"]
    assert not (logs / FILE).exists()
    htdebug.enable_logging("LOG_LEVEL_PT_PYTHON", "info")
    logger.info("written")
    assert "[PART] written" in (logs / FILE).read_text()


def test_dumps_write_what_the_card_holds(logs: Path) -> None:
    htdebug.enable_logging("LOG_LEVEL_ALL_PT", "info")
    held = torch.ones(300, 7, device="hpu")
    htcore.mark_step()
    names = [name for name in htdebug.__all__ if name.startswith(("_dump_", "_memstat_"))]
    for name in names:
        function = getattr(htdebug, name)
        function(*(["a message"] if inspect.signature(function).parameters else []))
    text = (logs / FILE).read_text()
    for part in ("a message", "InUse", "[300, 7]", "recipes in memory", "buckets", "sizes so far", "memory reporter"):
        assert part in text, part
    del held


def test_marks_of_memory_are_written_for_debugging_only(logs: Path) -> None:
    assert htdebug._mem_log("before") is False
    htdebug.enable_logging("LOG_LEVEL_PT_MEMLOG", "debug")
    assert htdebug._mem_log("after") is True
    assert "after: used " in (logs / FILE).read_text()


def test_lines_of_a_program(logs: Path) -> None:
    htdebug.enable_logging("LOG_LEVEL_ALL", "trace")
    htdebug._hb_print("one")
    htdebug._hg_print("two")
    htdebug._towl_configure(True)
    htdebug._towl_print("three")
    lines = (logs / FILE).read_text().splitlines()
    written = [line.partition("[PT_")[2] for line in lines if line.endswith(("one", "two", "three"))]
    assert [line.split()[0] for line in written] == ["CUSTOM", "HPUGRAPH", "TOWL"]


def test_switches_of_passes_are_remembered() -> None:
    for name in (name for name in htdebug.__all__ if name.startswith("_enable_")):
        getattr(htdebug, name)(True)
    assert not htdebug._is_enabled_weight_permute_pass()
    assert htdebug._is_enabled_synapse_layout_handling()
    assert not htdebug._is_enabled_lazy_collectives()


def test_tensors_have_an_address_and_a_size() -> None:
    tensor = torch.ones(5, device="hpu")
    assert htdebug.get_tensor_info(tensor) == (tensor.data_ptr(), 20)
    assert htdebug.get_tensor_info(tensor[2:]) == (tensor.data_ptr(), 20)
    assert htdebug.get_tensor_info(torch.ones(5)) is None
    assert htexp._data_ptr(tensor) == tensor.data_ptr()
    assert htexp._data_ptr(torch.ones(0, device="hpu")) == htexp._data_ptr(torch.ones(2)) == 0


def test_fallbacks_are_counted_by_operator() -> None:
    before = htdebug._get_fallback_op_count()
    torch.linalg.eigvalsh(torch.eye(2, device="hpu"))
    after = htdebug._get_fallback_op_count()
    assert sum(after.values()) == sum(before.values()) + 1


def test_the_card_has_a_type() -> None:
    assert htexp._get_device_type() == htexp.synDeviceType.synDeviceGaudi2
    assert str(htexp._get_device_type()) == "synDeviceType.synDeviceGaudi2"
    assert htexp._is_fp16_supported()
    assert (htexp._compute_stream(), htexp._set_profiler_tracer_memory(0)) == (0, 0)


def test_ranges_of_dynamic_shapes_survive_on_disk(script, tmp_path: Path) -> None:
    code = """
        import sys, torch, habana_frameworks.torch.core as htcore, habana_frameworks.torch.utils.debug as htdebug
        from habana_frameworks.torch.hpu.metrics import metric_global
        path, begin = sys.argv[1], sys.argv[2] == "begin"
        torch.hpu.enable_dynamic_shape()
        if not begin:
            htdebug.load_ds_checkpoint(path)
        for size in (4, 5, 6, 7) if begin else (6,):
            (torch.ones(size, 3).to("hpu") * 2).sum().item()
        torch.hpu.synchronize()
        print(dict(metric_global("graph_compilation").stats())["TotalNumber"])
        if begin:
            htdebug.save_ds_checkpoint(path)
            htdebug.clear_dynamic_bucket_recipe_info()
            (torch.ones(5, 3).to("hpu") * 2).sum().item()
            torch.hpu.synchronize()
            print(dict(metric_global("graph_compilation").stats())["TotalNumber"])
        """
    path = str(tmp_path / "buckets")
    assert script(code, path, "begin").stdout.split() == ["2", "3"]  # the first sizes, their range; all anew
    assert script(code, path, "again").stdout.split() == ["0"]  # the range is there


def test_a_file_without_ranges_is_refused(tmp_path: Path) -> None:
    for name, content in (("none", None), ("text", "no JSON"), ("other", '{"version": 9}')):
        path = tmp_path / name
        if content is not None:
            path.write_text(content)
        with pytest.raises(ConfigurationError, match=name):
            htdebug.load_ds_checkpoint(str(path))


def test_dump_and_terminate(script, tmp_path: Path) -> None:
    done = script(
        """
        import torch, habana_frameworks.torch
        from habana_frameworks.torch.utils.debug import dump_device_state_and_terminate
        torch.ones(2, device="hpu")
        dump_device_state_and_terminate("loss is NaN")
        """,
        check=False,
        HABANA_LOGS=str(tmp_path),
    )
    assert done.returncode == 1 and "loss is NaN; the card's state is in" in done.stderr
    assert (tmp_path / "dfa_api.txt").read_text().startswith("loss is NaN\n{")
