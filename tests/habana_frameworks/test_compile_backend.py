"""`torch.compile(backend="hpu_backend")`: what is compiled, into how many recipes, and what runs beside them."""

from __future__ import annotations

import pytest

EAGER = {"PT_HPU_LAZY_MODE": "0"}

PRELUDE = """
    import torch, torch.nn as nn, torch.nn.functional as F
    import habana_frameworks.torch as ht
    from habana_frameworks.torch.hpu.metrics import metric_global
    from device.card import current_card

    def compilations():
        torch.hpu.synchronize()
        return dict(metric_global("graph_compilation").stats())["TotalNumber"]

    def rows():
        return current_card().journal.compilation_rows()

    def compiled(function, **options):
        torch._dynamo.reset()
        return torch.compile(function, backend="hpu_backend", **options)

    def leaves(values):
        return [value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]

    def as_on_cpu(function, *arguments, **options):
        on_card, on_cpu = ([a.to(d) if d == "hpu" else a.clone() for a in arguments] for d in ("hpu", "cpu"))
        got, wanted = compiled(function, **options)(*on_card), function(*on_cpu)
        for one, other in zip(leaves(got) + on_card, leaves(wanted) + on_cpu, strict=True):
            assert one.stride() == other.stride(), (one.stride(), other.stride())
            assert torch.allclose(one.cpu(), other, atol=1e-6), (one, other)
    """


def test_lazy_mode_has_no_such_backend_and_says_where_it_is(script) -> None:
    script(
        """
        import pytest, torch
        import habana_frameworks.torch
        assert "hpu_backend" not in torch._dynamo.list_backends(exclude_tags=())
        with pytest.raises(Exception, match="hpu_backend.*PT_HPU_LAZY_MODE=0"):
            torch.compile(lambda x: x + 1, backend="hpu_backend")(torch.ones(2, device="hpu"))
        with pytest.raises(Exception, match="Invalid backend: 'no_such'"):
            torch.compile(lambda x: x + 1, backend="no_such")
        """
    )


def test_a_constant_of_the_trace_reaches_its_cluster(script) -> None:
    script(PRELUDE + "as_on_cpu(lambda a: a * torch.tensor([1.0, 2.0, 3.0]).to(a.device), torch.randn(2, 3))", **EAGER)


def test_programs_give_what_they_give_on_the_cpu(script) -> None:
    script(
        PRELUDE
        + """
    x, y = torch.randn(4, 6), torch.randn(6, 4)

    def in_place(a):
        a.add_(1)
        turned = a.t()
        turned.mul_(2)
        return turned, a.view(-1)[2:5]

    as_on_cpu(in_place, x)
    as_on_cpu(lambda a: (a.view(-1), a, a[1:]), x)
    as_on_cpu(lambda a: (a.t() * 2).reshape(-1), x)
    as_on_cpu(lambda a: a.transpose(1, 2) * 0.5, torch.ones(2, 4, 4, 16))  # its result keeps the order in memory
    as_on_cpu(lambda a: (a * 2).nonzero().float() + 1, x)
    as_on_cpu(lambda a: torch.linalg.inv(a @ a.t() + 5 * torch.eye(4, device=a.device)) * 2, x)
    as_on_cpu(lambda a: a + a.cpu().sum().to(a.device), x)
    as_on_cpu(lambda a: (torch.sort(a, 1), a.topk(2), a.argmax(1), a.split(3)), x)
    as_on_cpu(lambda a: (a // 2, a % 3, a.bool()), torch.arange(6))
    as_on_cpu(lambda a: torch.where(a > 0, a, torch.zeros((), device=a.device)), x)
    as_on_cpu(lambda w, i: F.embedding(i, w), x, torch.tensor([[0, 2], [1, 3]]))
    as_on_cpu(lambda a: torch.zeros_like(a).scatter_(1, torch.zeros(4, 6, dtype=torch.long, device=a.device), a), x)
    as_on_cpu(lambda a: a * 2, torch.randn(0, 3), fullgraph=True)
    as_on_cpu(lambda a, b: a * 2, x, y, mode="reduce-overhead")
        """,
        **EAGER,
    )


def test_a_program_is_one_recipe_with_the_users_line_and_later_calls_record_nothing(script) -> None:
    script(
        PRELUDE
        + """
    from device.cluster import Cluster
    recorded = []
    record = Cluster._record
    Cluster._record = lambda self, *arguments: recorded.append(1) or record(self, *arguments)

    def function(a, b):
        c = torch.relu(a @ b)
        return (c * 2).sum(1)

    run = compiled(function)
    a, b = torch.randn(4, 6), torch.randn(6, 3)
    for step in range(3):
        assert torch.allclose(run((a + step).to("hpu"), b.to("hpu")).cpu(), function(a + step, b), atol=1e-5)
    assert compilations() == 1 and len(recorded) == 1
    (row,) = rows()
    assert row["cause"] == "first graph" and "torch.compile inference" in row["detail"], row
    assert row["where"].startswith("script.py:"), row
    assert current_card().recipes.graphs.hits == 2
    # other inputs of the same layout are the same recipe, another layout is another one
    run(b.t().to("hpu").contiguous()[:, :].t(), torch.randn(3, 2).to("hpu"))
    assert compilations() == 2
        """,
        **EAGER,
    )


def test_a_program_holds_none_of_the_tensors_that_it_was_called_with(script) -> None:
    script(
        PRELUDE
        + """
    import gc, weakref

    def calls(function, size):
        x = torch.ones(size, device="hpu", requires_grad=True)
        result = function(x)
        result.sum().backward()
        gone = [weakref.ref(tensor) for tensor in (x, result)]
        del x, result
        gc.collect()
        return [reference() for reference in gone]

    f = compiled(lambda x: (x * 2).sin(), dynamic=False)
    for size in (1000, 1000, 3000):
        assert calls(f, size) == [None, None], size
    """,
        **EAGER,
    )


def test_what_cannot_be_in_a_recipe_runs_between_recipes(script) -> None:
    script(
        PRELUDE
        + """
    from habana_frameworks.torch.utils.debug.dynamo_utils import FxGraphAnalyzer
    x = torch.tensor([[4.0, 1.0], [1.0, 3.0]]).to("hpu")

    def function(a):
        return torch.linalg.inv(a * 2) + (a + 1)

    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        compiled(function)(x)
    (counts,) = analyzer.get_ops_summary()
    assert counts["torch.ops.aten.linalg_inv_ex.default"].eager_count == 1, counts
    assert counts["torch.ops.aten.mul.Tensor"].graph_count == 1
    assert counts["torch.ops.aten.add.Tensor"].graph_count == 2
    assert analyzer.get_partition_num() == 2 and compilations() == 2

    import pytest
    from habana_frameworks.torch.dynamo.compile_backend.config import configuration_flags
    configuration_flags["use_eager_fallback"] = False
    with pytest.raises(Exception, match="linalg_inv_ex.*use_eager_fallback"):
        compiled(function)(x)
    assert compiled(function, options={"use_eager_fallback": True})(x).shape == (2, 2)
    configuration_flags["use_eager_fallback"] = True

    def reads(a):
        b = a * 2
        if b.sum().item() > 0:
            b = b + 1
        return b * 3

    run = compiled(reads)
    assert run(torch.ones(2).to("hpu")).tolist() == [9, 9] and run(-torch.ones(2).to("hpu")).tolist() == [-6, -6]
    assert sum(torch._dynamo.utils.counters["graph_break"].values()) >= 1

    before = compilations()
    compiled(function, options={"use_compiled_recipes": False})(x)
    assert compilations() == before
        """,
        **EAGER,
    )


def test_sizes_and_numbers_that_change(script) -> None:
    script(
        PRELUDE
        + """
    def function(a, b):
        return torch.softmax(a @ b, -1), a.shape[0] * 2

    def sizes(*rows, **options):
        run = compiled(function, **options)
        b = torch.randn(6, 4)
        for number in rows:
            a = torch.randn(number, 6)
            got, wanted = run(a.to("hpu"), b.to("hpu")), function(a, b)
            assert torch.allclose(got[0].cpu(), wanted[0], atol=1e-6) and got[1] == wanted[1]
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]

    torch._dynamo.utils.counters.clear()
    assert sizes(3, 4, 5, 7) == 2  # the first one static, then one for all
    torch._dynamo.utils.counters.clear()
    assert sizes(3, 4, 5, dynamic=False) == 3
    torch._dynamo.utils.counters.clear()
    assert sizes(3, 4, 5, dynamic=True) == 1
    before = compilations()
    sizes(3, 4, 5, dynamic=True)  # the same recipes again, and at most a tighter one for a range that is used often
    assert all("tighter" in row["cause"] for row in rows()[before:]), rows()[before:]

    torch._dynamo.utils.counters.clear()
    run = compiled(lambda a: a.sum(1))
    for number in (3, 5, 8):
        a = torch.ones(number, 2, device="hpu")
        torch._dynamo.mark_dynamic(a, 0)
        assert run(a).tolist() == [2] * number
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1

    scale = compiled(lambda a, s: a * s)
    counts = []
    for s in (0.5, 0.25, 0.125, 0.75):
        assert scale(torch.ones(2, device="hpu"), s).tolist() == [s, s]
        counts.append(compilations())
    assert counts[1] == counts[2] == counts[3], counts
        """,
        **EAGER,
    )


def test_other_backends_options_and_export(script) -> None:
    script(
        PRELUDE
        + """
    import os, pytest
    x = torch.ones(2, device="hpu")
    for name in ("eager", "aot_eager", "aot_hpu_training_backend", "aot_hpu_inference_backend"):
        torch._dynamo.reset()
        assert torch.compile(lambda a: a * 2 + 1, backend=name)(x).tolist() == [3, 3]
    assert "hpu_backend" in torch._dynamo.list_backends(exclude_tags=())
    torch._dynamo.reset()
    with pytest.raises(Exception, match='does not generate code for hpu.*backend="hpu_backend"'):
        torch.compile(lambda a: a * 2)(x)
    with pytest.raises(Exception, match="'use_magic'.*use_eager_fallback"):
        compiled(lambda a: a * 2, options={"use_magic": True})(x)

    from torch._dynamo.device_interface import get_interface_for_device
    for name in ("hpu", "hpu:0"):
        interface = get_interface_for_device(name)
        assert interface.device_count() == 8 and interface.current_device() == 0 and interface.is_available()

    layer = nn.Linear(4, 4).to("hpu")
    exported = torch.export.export(layer, (torch.ones(2, 4, device="hpu"),)).module()
    assert torch.equal(exported(torch.ones(2, 4, device="hpu")).cpu(), layer(torch.ones(2, 4, device="hpu")).cpu())

    os.environ["PT_HPU_DISALLOW_TORCH_COMPILE"] = "1"
    with pytest.raises(Exception, match="PT_HPU_DISALLOW_TORCH_COMPILE"):
        compiled(lambda a: a * 2)(x)
        """,
        **EAGER,
    )


@pytest.mark.slow
@pytest.mark.parametrize("value", ["magic", "2"])
def test_a_bad_switch_in_the_environment_is_named(script, value: str) -> None:
    variable = "PT_HPU_COMPILE_DECOMPOSITION_MODE" if value == "magic" else "PT_HPU_USE_EAGER_FALLBACK"
    done = script(
        "import habana_frameworks.torch.dynamo.compile_backend.config", check=False, **EAGER, **{variable: value}
    )
    assert done.returncode != 0 and f"{variable}='{value}'" in done.stderr
