"""The smaller modules: events, utilisation, observers, timers, old names, and what refuses."""

from __future__ import annotations

import os
import time

import pytest
import torch

import habana_frameworks.torch.core as htcore
import torch_hpu
from habana_frameworks.torch import media_pyt_bridge
from habana_frameworks.torch.core import quantize_pt2e, quantizer
from habana_frameworks.torch.core.observer import AbsMaxObserver, SimpleAbsMaxObserver
from habana_frameworks.torch.hw_utilization_metric import HWUtilizationMetrics, Usage
from habana_frameworks.torch.utils import distributed_utils, library_loader
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
from habana_frameworks.torch.utils.internal import Timer, lazy_only


def test_events_are_delivered_at_once_or_kept_until_asked_for() -> None:
    dispatcher = EventDispatcher.instance()
    at_once, kept = [], []
    called = dispatcher.subscribe(EventId.CUSTOM_EVENT, lambda stamp, parameters: at_once.append(parameters))
    queued = dispatcher.subscribe(EventId.CUSTOM_EVENT)
    dispatcher.publish(EventId.CUSTOM_EVENT, {"n": 1})
    dispatcher.publish(EventId.CUSTOM_EVENT, {"n": 2})
    assert at_once == [{"n": 1}, {"n": 2}] and kept == []
    dispatcher.process(queued, kept.append)
    dispatcher.process(queued, kept.append)
    assert kept == at_once
    dispatcher.unsubscribe(called)
    dispatcher.unsubscribe(queued)
    dispatcher.publish(EventId.CUSTOM_EVENT, {"n": 3})
    assert len(at_once) == 2
    with pytest.raises(ValueError, match="is no handle of a subscription without a listener"):
        dispatcher.process(queued, kept.append)
    with pytest.raises(TypeError, match="is no EventId"):
        dispatcher.subscribe("GRAPH_COMPILATION")  # type: ignore[arg-type]


def test_utilisation_of_a_part_of_a_run() -> None:
    metrics = HWUtilizationMetrics()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        metrics.get_usage()
    a = torch.randn(512, 512).to("hpu")
    for _ in range(3):
        (a @ a).sum().item()  # compiles
    metrics.start()
    (a @ a).sum().item()
    metrics.stop()
    usage = metrics.get_usage()
    assert isinstance(usage, Usage) and 0 < usage.esync <= usage.hl_smi <= 100
    time.sleep(0.01)
    assert metrics.get_usage() == usage  # real time is none of its affair
    metrics.resume()
    metrics.display_usage()
    metrics.stop()
    with pytest.raises(RuntimeError, match="nothing is being measured"):
        metrics.stop()


@pytest.mark.parametrize("kind", [AbsMaxObserver, SimpleAbsMaxObserver])
def test_scales_are_powers_of_two_that_the_card_has(kind: type[AbsMaxObserver]) -> None:
    for largest, scale in ((3.0, 2.0**-4), (200.0, 1.0), (4000.0, 16.0), (1e9, 16.0), (1e-9, 2.0**-8)):
        observer = kind(quant_min=-240, quant_max=240)
        observer(torch.tensor([0.5 * largest, -largest]))
        assert [value.item() for value in observer.calculate_qparams()] == [scale, 0]
    observer = kind(dtype=torch.float8_e5m2, quant_min=-240, quant_max=240, backoff_margin=2)
    observer(torch.tensor([1000.0]).to("hpu").cpu())
    assert observer.calculate_qparams()[0].item() == 1.0
    observer.reset_observer_state()
    assert observer.min_val.item() == float("inf")


def test_observers_refuse_what_they_cannot() -> None:
    for options in ({"dtype": torch.int8}, {"reduce_range": True}, {"is_dynamic": True}):
        with pytest.raises(NotImplementedError, match="AbsMaxObserver does not support"):
            AbsMaxObserver(**options)
    with pytest.raises(ValueError, match="symmetric range"):
        AbsMaxObserver(quant_min=-1, quant_max=2)


def test_what_pytorch_has_given_up_says_so() -> None:
    for refusing in (
        quantizer.habana_quantizer,
        lambda: quantizer.habana_quant_config_symmetric(torch.float8_e4m3fn),
        lambda: quantize_pt2e.prepare_pt2e(None, None),
        lambda: media_pyt_bridge.CreatePytMediaProxy(0),
    ):
        with pytest.raises(NotImplementedError, match=r"Use|instead"):
            refusing()


def test_old_names_warn_and_work() -> None:
    with pytest.warns(UserWarning, match=r"use habana_frameworks\.torch\.hpu\.device_count"):
        assert torch_hpu.device_count() == torch.hpu.device_count()
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch_hpu.is_available() and torch_hpu.get_device_name() == "GAUDI2"
    with pytest.warns(UserWarning, match="distributed_utils"):
        assert distributed_utils.initialize_distributed_hpu() == (1, -1, -1)


def test_availability_is_what_hl_smi_answers(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not library_loader.is_habana_available()
    tool = tmp_path / "hl-smi"
    tool.write_text("#!/bin/sh\necho Habanalabs hl-smi version\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    assert library_loader.is_habana_available()
    library_loader.load_habana_module()
    library_loader.load_habana_profiler()


def test_timers_measure_a_block() -> None:
    timer = Timer()
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = timer.elapsed
    with timer:
        pass
    assert timer.elapsed >= 0


def test_lazy_only_functions_give_nothing_back() -> None:
    calls = []
    assert lazy_only(calls.append)(3) is None
    assert calls == [3]
    assert htcore.mark_step() is None


def test_received_messages_can_be_saved_and_taken_again(script, tmp_path) -> None:
    code = """
        import torch, torch.distributed as dist
        dist.get_rank = lambda: 0
        dist.irecv = lambda tensor, src=None, group=None, tag=0: tensor.fill_(src)
        import habana_frameworks.torch
        for source in (5, 6, 7):
            tensor = torch.zeros(2).to("hpu")
            dist.irecv(tensor, source)
            print(int(tensor[0]), end=" ")
        """
    alone = {"fresh": True, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "P2P_DUMMY_MODE_PATH": f"{tmp_path}/"}
    saved = script(code, P2P_DUMMY_MODE_PHASE="1", **alone)
    assert saved.stdout == "5 6 7 "
    (tmp_path / "0_2.pt").unlink()
    taken = script(code.replace("(5, 6, 7)", "(1, 1, 1)"), P2P_DUMMY_MODE_PHASE="2", **alone)
    assert taken.stdout == "5 6 5 "  # after the last the first again
    bad = script(code, P2P_DUMMY_MODE_PHASE="3", check=False, **alone)
    assert "P2P_DUMMY_MODE_PHASE='3' is no phase" in bad.stderr
