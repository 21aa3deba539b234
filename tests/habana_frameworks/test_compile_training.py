"""Training with `hpu_backend`: forward and backward as recipes, optimizers, random numbers, autocast, several cards."""

from __future__ import annotations

import pytest

from .test_compile_backend import EAGER, PRELUDE

NET = (
    PRELUDE
    + """
    class Net(nn.Module):
        def __init__(self, dropout=0.0):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.drop = nn.Dropout(dropout)
            self.out = nn.Linear(4 * 6 * 6, 3)

        def forward(self, x):
            x = F.relu(self.norm(self.conv(x)))
            return self.out(self.drop(torch.flatten(x, 1)))

    def train(device, how=lambda model: model, dropout=0.0, steps=4, precision=None):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Net(dropout).to(device)
        run = how(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        generator, losses = torch.Generator().manual_seed(1), []
        torch.manual_seed(2)
        for _ in range(steps):
            x = torch.randn(8, 1, 8, 8, generator=generator).to(device)
            y = torch.randint(3, (8,), generator=generator).to(device)
            optimizer.zero_grad()
            with torch.autocast(device, dtype=precision, enabled=precision is not None):
                loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [value.detach().float().cpu() for value in model.state_dict().values()]

    def same(got, wanted, tolerance):
        assert torch.allclose(torch.tensor(got[0]), torch.tensor(wanted[0]), atol=tolerance), (got[0], wanted[0])
        assert all(torch.allclose(one, other, atol=tolerance) for one, other in zip(got[1], wanted[1], strict=True))

    on_card = lambda model: torch.compile(model, backend="hpu_backend")
    """
)


def test_a_training_step_is_one_recipe_forward_and_one_backward(script) -> None:
    script(
        NET
        + """
    got = train("hpu", on_card)
    assert compilations() == 2
    assert [row["detail"].split("torch.compile ")[1].split()[0] for row in rows()] == ["forward", "backward"]
    assert all(row["where"].startswith("script.py:") for row in rows())
    same(got, train("cpu"), 1e-5)
    # the same masks, drawn in the same order, as one operator after another draws them
    assert train("hpu", on_card, dropout=0.4)[0] == train("hpu", dropout=0.4)[0]
    same(train("hpu", on_card, precision=torch.bfloat16), train("hpu", precision=torch.bfloat16), 2e-2)
        """,
        **EAGER,
    )


@pytest.mark.slow
def test_a_compiled_optimizer_does_not_compile_again_when_the_learning_rate_changes(script) -> None:
    script(
        NET
        + """
    def steps(device, make, how):
        torch._dynamo.reset()
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(5).to(device)) for _ in range(3)]
        optimizer = make(parameters)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        step, counts = how(optimizer.step), []
        for number in range(6):
            for place, parameter in enumerate(parameters):
                parameter.grad = torch.full((5,), 0.1 * (number + place + 1)).to(device)
            step()
            schedule.step()
            counts.append(compilations())
        return [parameter.detach().cpu() for parameter in parameters], counts

    for make in (
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    ):
        got, counts = steps("hpu", make, on_card)
        assert counts[2:] == [counts[2]] * 4, counts
        wanted, _ = steps("cpu", make, lambda step: step)
        assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(got, wanted, strict=True))
        """,
        **EAGER,
    )


@pytest.mark.slow
def test_backward_compiled_as_it_runs(script) -> None:
    script(
        NET
        + """
    from habana_frameworks.torch.dynamo.compile_backend.experimental import enable_compiled_autograd
    wanted = train("cpu", steps=2)
    torch._dynamo.reset = lambda reset=torch._dynamo.reset: None  # it would end compiled autograd, too
    enable_compiled_autograd()
    same(train("hpu", on_card, steps=2), wanted, 1e-5)
    assert any("inference" in row["detail"] or "forward" in row["detail"] for row in rows()) and compilations() >= 2
        """,
        **EAGER,
    )


@pytest.mark.slow
def test_data_parallel_sharded_and_functional_collectives_on_two_cards(script) -> None:
    script(
        """
        import os, subprocess, sys
        code = '''
        import torch, torch.nn as nn, torch.distributed as dist
        import habana_frameworks.torch.distributed.hccl
        import torch.distributed._functional_collectives as functional
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

            def forward(self, x):
                return self.b(self.a(x).relu())

        dist.init_process_group("hccl")
        rank = dist.get_rank()

        def losses(make):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = make(Net().to("hpu"))
            optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
            for step in range(4):
                loss = model(torch.full((2, 8), 0.1 * (rank + 1) * (step + 1)).to("hpu")).pow(2).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return torch.tensor(found)

        def compiled(model):
            return torch.compile(model, backend="hpu_backend")

        def sharded(model):
            fully_shard(model.a), fully_shard(model.b), fully_shard(model)
            return compiled(model)

        wanted = losses(DistributedDataParallel)
        for make in (
            lambda model: compiled(DistributedDataParallel(model)),
            lambda model: DistributedDataParallel(compiled(model)),
            sharded,
        ):
            assert torch.allclose(losses(make), wanted, atol=1e-5)

        def lowered(x):
            y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
            return y + (x + 1) * (x + 1)

        def broken(x):
            y = x * 2
            dist.all_reduce(y)
            return y + 1

        ones = torch.ones(3, device="hpu")
        assert torch.compile(lowered, backend="hpu_backend", fullgraph=True)(ones).tolist() == [8, 8, 8]
        assert torch.compile(broken, backend="hpu_backend")(ones).tolist() == [5, 5, 5]
        dist.destroy_process_group()
        '''
        import textwrap
        open("ranks.py", "w").write(textwrap.dedent(code))
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "ranks.py"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        """,
        **EAGER,
    )
