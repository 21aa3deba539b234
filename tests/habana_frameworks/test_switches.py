"""Switches that a program turns: inference, determinism, attention, autocast; constants; old tensor constructors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import habana_frameworks.torch.core as htcore
from device import flags
from device.errors import ConfigurationError
from habana_frameworks.torch.core.quantization import _check_params_as_const, _mark_params_as_const

hpu = torch.hpu


@pytest.fixture(autouse=True)
def values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_values", dict(flags._values))


def test_setting_up_for_inference_fuses_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    model[1].running_mean.uniform_()
    image = torch.randn(1, 1, 5, 5)
    wanted = model(image)
    fused = htcore.hpu_set_inference_env(model)
    assert capsys.readouterr().out.startswith("\033[31mWARNING: weight sharing")
    assert isinstance(fused[1], torch.nn.Identity) and isinstance(model[1], torch.nn.BatchNorm2d)
    assert hpu.is_inference_mode_enabled() and hpu.is_matmul3d_2d_reshape_enabled()
    fused = fused.to("hpu")
    htcore.hpu_inference_initialize(fused)
    with torch.no_grad():
        assert torch.allclose(fused(image.to("hpu")).cpu(), wanted, atol=1e-5)
    htcore.hpu_teardown_inference_env()
    assert not hpu.is_inference_mode_enabled() and not hpu.is_matmul3d_2d_reshape_enabled()


@pytest.mark.parametrize("training", [True, False])
def test_a_model_that_cannot_be_fused_is_refused(training: bool) -> None:
    model = torch.nn.Linear(1, 1).train(training)
    with pytest.raises(RuntimeError, match="only a model for inference" if training else "is on hpu:0"):
        htcore.hpu_set_env(model if training else model.to("hpu"))
    htcore.hpu_reset_env()


def test_older_and_newer_names_are_the_same() -> None:
    assert htcore.hpu_set_env is htcore.hpu_inference_set_env is htcore.hpu_set_inference_env
    assert htcore.hpu_reset_env is htcore.hpu_inference_reset_env is htcore.hpu_teardown_inference_env


def test_parameters_are_marked_by_name() -> None:
    model = torch.nn.Linear(2, 2).to("hpu")
    model.register_buffer("scale", torch.ones(1, device="hpu"))
    with pytest.raises(RuntimeError, match="weight is not marked as constant"):
        _check_params_as_const(model)
    _mark_params_as_const(model, only_scales=True)
    _check_params_as_const(model, only_scales=True)
    htcore.hpu_inference_initialize(model)
    _check_params_as_const(model)
    htcore.hpu_teardown_inference_env()


def test_constants_are_written_when_a_graph_uses_them(tmp_path: Path) -> None:
    hpu.enable_const_section_serialization(tmp_path / "constants", True, True)
    try:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).to("hpu")
        htcore.hpu_inference_initialize(model)
        with torch.no_grad():
            model(torch.randn(2, 3).to("hpu")).cpu()
        assert len(list((tmp_path / "constants" / "0").iterdir())) == 4
    finally:
        hpu.disable_const_section_serialization()
        htcore.hpu_teardown_inference_env()
    with pytest.raises(ConfigurationError, match="constants cannot be written to /proc/none"):
        hpu.enable_const_section_serialization("/proc/none")


def test_ranges_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ranges"
    model = torch.nn.Linear(1, 1).to("hpu")
    path.write_text("net/linear -1 2.5\n\nother -3 4\n")
    flags.set("PT_INFERENCE_RANGE_FILE", str(path))
    htcore.hpu_inference_initialize(model)
    path.write_text("linear -1 much\n")
    with pytest.raises(ConfigurationError, match="line 1: 'linear -1 much' is not of the form"):
        htcore.hpu_inference_initialize(model)
    flags.set("PT_INFERENCE_RANGE_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        htcore.hpu_inference_initialize(model)
    htcore.hpu_teardown_inference_env()


def test_attention_recomputes_unless_a_block_says_otherwise() -> None:
    assert hpu.recompute_sdp_enabled()
    with hpu.sdp_kernel(enable_recompute=False):
        assert not hpu.recompute_sdp_enabled()
    assert hpu.recompute_sdp_enabled()


def test_determinism_is_pytorchs_own() -> None:
    with pytest.warns(UserWarning, match="setDeterministic is deprecated"):
        hpu.setDeterministic(True)
    with pytest.warns(UserWarning, match="getDeterministic is deprecated"):
        assert hpu.getDeterministic() and torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)


def test_autocast_of_hpu() -> None:
    assert not hpu.is_autocast_hpu_enabled() and hpu.get_autocast_hpu_dtype() == torch.bfloat16
    with torch.autocast("hpu", dtype=torch.float16):
        assert hpu.is_autocast_hpu_enabled() and hpu.get_autocast_hpu_dtype() == torch.float16
    hpu.set_autocast_hpu_enabled(True)
    assert torch.is_autocast_enabled("hpu")
    hpu.set_autocast_hpu_enabled(False)


def test_debugging_of_streams_is_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_ENABLE_HABANA_STREAMASYNC", "1")
    hpu.set_sync_debug_mode(False)
    assert hpu.get_sync_debug_mode() == 0


def test_old_tensor_constructors() -> None:
    for name, dtype in (("FloatTensor", torch.float32), ("LongTensor", torch.int64), ("BoolTensor", torch.bool)):
        make = getattr(hpu, name)
        tensor = make([1, 0, 1])
        assert tensor.dtype == dtype and tensor.device.type == "hpu" and tensor.cpu().tolist() == [1, 0, 1]
        assert tuple(make(2, 3).shape) == tuple(make(torch.Size([2, 3])).shape) == (2, 3)
        assert make().numel() == 0
        assert isinstance(tensor, make) and not isinstance(tensor.cpu(), make) and not isinstance(tensor.half(), make)
        with pytest.raises(RuntimeError, match="legacy constructor expects device type: hpu"):
            make([1], device="cpu")
        with pytest.raises(RuntimeError, match="legacy constructor expects dtype"):
            make([1], dtype=torch.int8)


def test_streams_by_number() -> None:
    stream = hpu.Stream()
    same = hpu.Stream(stream_id=stream.stream_id, device_index=0, device_type=20)
    assert same == stream and hpu.get_stream_info(same) == (torch.device("hpu", 0), stream.stream_id)
    hpu._set_stream_by_id(stream.stream_id, 0, 20)
    assert hpu.current_stream() == stream
    hpu.set_stream(hpu.default_stream())
    hpu.set_stream(None)
    assert hpu.current_stream() == hpu.default_stream()
    hpu.record_stream(torch.ones(1, device="hpu"), stream)
    with pytest.raises(ValueError, match="is no stream of this process's card"):
        hpu._set_stream_by_id(1, 3, 20)
    with pytest.raises(TypeError, match="is no stream of the card"):
        hpu.set_stream("stream")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Stream has no argument 'stream_number'"):
        hpu.Stream(stream_number=3)


def test_old_names_of_memory_warn() -> None:
    with pytest.warns(FutureWarning, match="memory_cached"):
        assert hpu.memory_cached() == hpu.memory_reserved()
    with pytest.warns(FutureWarning, match="max_memory_cached"):
        assert hpu.max_memory_cached() == hpu.max_memory_reserved()


def test_bad_indexes() -> None:
    for call in (hpu.utilization, hpu.memory_cached, hpu.get_device_properties, hpu.get_device_capability):
        with pytest.raises(AssertionError, match="Invalid device id 8"):
            call(8)
    with pytest.raises(AssertionError):
        hpu.can_device_access_peer(2, 2)
    with pytest.raises(ValueError, match="Expected a hpu device"):
        hpu.memory_allocated("cpu")


def test_utilization_is_a_share_of_modelled_time() -> None:
    assert 0 <= hpu.utilization() <= 100
