"""`internal.bridge_config`: a getter and a setter for each flag of the bridge."""

from __future__ import annotations

import pytest
import torch

import habana_frameworks.torch.internal.bridge_config as bc
from device import flags
from device.buckets import dynamic_shapes


@pytest.fixture(autouse=True)
def values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_values", dict(flags._values))


def test_every_flag_has_both() -> None:
    for variable in flags.bridge_variables():
        for verb in ("get", "set"):
            function = getattr(bc, f"{verb}_{variable.name.lower()}")
            assert function.__name__ == f"{verb}_{variable.name.lower()}"


def test_values_have_the_flags_type() -> None:
    assert bc.get_pt_hpu_lazy_mode() == 1
    assert bc.get_pt_hpu_gpu_migration() is False
    assert bc.get_pt_hpu_max_compound_op_size() == 2**63 - 1
    assert bc.get_pt_hpu_graph_dump_prefix() == ".graph_dumps"


def test_dynamic_shapes_follow_their_flag_and_the_flag_follows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_on", "_closed"):  # other tests of this process may have switched them, or captured a graph
        monkeypatch.setattr(dynamic_shapes, name, False)
    assert not torch.hpu.get_dynamic_shape_status()
    try:
        bc.set_pt_hpu_enable_refine_dynamic_shapes(True)
        assert torch.hpu.get_dynamic_shape_status()
        torch.hpu.disable_dynamic_shape()
        assert bc.get_pt_hpu_enable_refine_dynamic_shapes() is False
    finally:
        torch.hpu.disable_dynamic_shape()


def test_inference_mode_follows_its_flag() -> None:
    with bc.env_setting("PT_HPU_INFERENCE_MODE", True):
        assert torch.hpu.is_inference_mode_enabled()
    assert not torch.hpu.is_inference_mode_enabled()


def test_a_block_gives_the_value_back_after_an_error() -> None:
    with pytest.raises(KeyError), bc.env_setting("PT_COMPILE_ONLY_MODE", True):
        raise KeyError
    assert bc.get_pt_compile_only_mode() is False


def test_compile_only_compiles_and_runs_nothing() -> None:
    x = torch.ones(4).to("hpu")
    before = torch.hpu.metric_global("graph_compilation").stats()[0][1]
    with bc.env_setting("PT_COMPILE_ONLY_MODE", True):
        (x * 17 - 4).sum().item()
    torch.hpu.synchronize()
    assert torch.hpu.metric_global("graph_compilation").stats()[0][1] == before + 1
    assert x.tolist() == [1, 1, 1, 1]


def test_a_flag_that_is_read_at_the_start_warns() -> None:
    with pytest.warns(UserWarning, match="PT_HPU_LAZY_MODE is read at the start"):
        bc.set_pt_hpu_lazy_mode(0)


def test_mistakes_name_the_flag() -> None:
    with pytest.raises(AttributeError, match="is no flag of the bridge; did you mean PT_HPU_LAZY_MODE"):
        _ = bc.get_pt_hpu_lazy_mdoe
    with pytest.raises(TypeError, match="PT_COMPILE_ONLY_MODE is a flag, of type bool; got 'yes'"):
        bc.set_pt_compile_only_mode("yes")
