"""Scripts written for CUDA run on the card once the migration is on, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import Script

TRAINING = """
    import torch, torch.nn as nn

    assert torch.cuda.is_available() and torch.cuda.device_count() == torch.hpu.device_count()
    torch.cuda.set_device(0); torch.cuda.manual_seed_all(1); torch.backends.cudnn.benchmark = True
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    inputs = torch.linspace(-1, 1, 32).reshape(8, 4).to(device, non_blocking=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            output = model(inputs)
            assert output.dtype == torch.bfloat16
            loss = (output.float() - inputs.sum(1, keepdim=True)).pow(2).mean()
        scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
        losses.append(loss.item())
    torch.cuda.synchronize(); torch.cuda.empty_cache()
    assert losses[-1] < losses[0] / 2 and inputs.is_cuda and inputs.device.type == "hpu"
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() > 0
"""


def test_cuda_is_absent_until_the_migration_is_asked_for(script: Script) -> None:
    script("import torch, habana_frameworks.torch; assert not torch.cuda.is_available()")


@pytest.mark.parametrize("how", ["variable", "import"])
def test_a_training_script_for_cuda_runs(script: Script, tmp_path: Path, how: str) -> None:
    """By the variable alone, or by the import at its top; what is mapped goes to the log."""
    start = (
        "import habana_frameworks.torch.core" if how == "variable" else "import habana_frameworks.torch.gpu_migration"
    )
    script(
        f"    {start}\n" + TRAINING,
        HABANA_LOGS=str(tmp_path),
        GPU_MIGRATION_LOG_LEVEL="3",
        **({"PT_HPU_GPU_MIGRATION": "1"} if how == "variable" else {}),
    )
    (log,) = (tmp_path / "gpu_migration_logs").glob("gpu_migration_*.log")
    lines = log.read_text().splitlines()
    assert any("script.py:" in line and "torch.cuda.synchronize -> torch.hpu.synchronize" in line for line in lines)
    assert not any("/torch/nn/" in line for line in lines)


def test_a_pytorch_built_for_cuda_is_no_news_to_the_script(script: Script) -> None:
    """Such a build has kernels of its own under the key CUDA: they give way without a warning."""
    script(
        """
        import warnings
        import torch

        library = torch.library.Library("aten", "IMPL")
        for name in ("empty.memory_format", "empty_strided"):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
                library.impl(name, lambda *arguments, **options: None, "CUDA")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import habana_frameworks.torch.gpu_migration
        assert not [str(warning.message) for warning in caught], caught
        made = torch.ops.aten.empty.memory_format([2], device=torch._C._nn._parse_to("cuda")[0])
        assert made.device.type == "hpu"
        """
    )


def test_every_way_to_name_a_cuda_device_means_the_card(script: Script, tmp_path: Path) -> None:
    script(
        """
        import torch, habana_frameworks.torch.gpu_migration
        makers = [
            lambda: torch.ones(2, device="cuda"), lambda: torch.tensor([1, 2], device="cuda:0"),
            lambda: torch.zeros(2).to("cuda"), lambda: torch.zeros(2).cuda(), lambda: torch.zeros(2).cuda(1),
            lambda: torch.zeros(2).to(device="cuda", dtype=torch.half), lambda: torch.as_tensor([1.0], device="cuda"),
            lambda: torch.zeros(2).new_ones(2, device="cuda"), lambda: torch.full((2,), 1.0, device="cuda:3"),
            lambda: torch.tril_indices(3, 3, device="cuda"), lambda: torch.cuda.FloatTensor([1, 2]),
            lambda: torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda"),
            lambda: torch.nn.Linear(2, 2, device="cuda").weight, lambda: torch.nn.Linear(2, 2).to("cuda").weight,
        ]
        for make in makers:
            assert make().device == torch.device("hpu", 0), make
        with torch.device("cuda"):
            assert torch.zeros(1).is_cuda
        assert torch.device("cpu").type == "cpu" and isinstance(torch.zeros(1).device, torch.device)
        on_card = torch.ones(2, device="cuda")
        assert on_card.to("cuda") is on_card
        torch.save({"w": on_card}, "w.pt")
        assert torch.load("w.pt", map_location="cuda")["w"].is_cuda
        graph, buffer = torch.cuda.CUDAGraph(), torch.ones(2, device="cuda")
        with torch.cuda.graph(graph):
            doubled = buffer * 2
        buffer.fill_(3)
        graph.replay()
        assert doubled.tolist() == [6, 6]
        assert torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())(torch.ones(3, 2)).shape == (3, 2)
        """
    )


def test_old_tensor_types_mean_the_card(script: Script) -> None:
    script(
        """
        import torch, habana_frameworks.torch.gpu_migration

        images, kind = torch.ones(2, 3), torch.cuda.FloatTensor
        for moved in (images.type(kind), images.int().type("torch.cuda.FloatTensor"), kind(2, 3).fill_(1)):
            assert moved.is_cuda and moved.dtype == torch.float32 and moved.tolist() == images.tolist()
            assert isinstance(moved, kind)
        assert images.type(torch.cuda.HalfTensor).dtype == torch.float16
        assert images.type(torch.int64).device.type == "cpu" and images.type() == "torch.FloatTensor"
        """
    )


def test_stand_ins_for_packages_that_only_cuda_has(script: Script) -> None:
    script(
        """
        import torch, habana_frameworks.torch.gpu_migration
        import apex, pynvml
        from apex.normalization import FusedLayerNorm
        from apex.optimizers import FusedAdam
        weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
        optimizer = FusedAdam([weight], lr=0.5)
        (weight * weight).sum().backward()
        optimizer.step()
        assert (weight < 1).all() and FusedLayerNorm is torch.nn.LayerNorm
        pynvml.nvmlInit()
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
        assert memory.used + memory.free == memory.total and 0 <= pynvml.nvmlDeviceGetUtilizationRates(0).gpu <= 100
        try:
            apex.amp.initialize(None)
            raise SystemExit("accepted")
        except NotImplementedError as error:
            assert "torch.autocast" in str(error)
        """
    )


def test_float16_becomes_bfloat16_on_request(script: Script) -> None:
    script(
        """
        import torch, habana_frameworks.torch.gpu_migration
        with torch.autocast("cuda", dtype=torch.float16):
            assert torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).dtype == torch.bfloat16
        assert torch.ones(1).cuda().half().dtype == torch.bfloat16
        """,
        PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION="1",
    )


def test_a_bad_log_level_is_named(script: Script) -> None:
    done = script("import habana_frameworks.torch.gpu_migration", check=False, GPU_MIGRATION_LOG_LEVEL="9")
    assert done.returncode != 0
    assert "GPU_MIGRATION_LOG_LEVEL=9" in done.stderr
