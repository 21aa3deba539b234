"""`hpu` as a device of PyTorch: places, copies, views, serialization, random numbers, loaders."""

from __future__ import annotations

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def test_names_of_the_device() -> None:
    assert torch.ones(1, device="hpu").device == torch.device("hpu", 0)
    assert torch.device("hpu:3").type == "hpu"
    assert torch.get_device_module("hpu") is torch.hpu
    assert torch.accelerator.current_accelerator() == torch.device("hpu")
    assert torch.accelerator.is_available()
    assert torch.ones(2).hpu().is_hpu
    assert not torch.ones(2).is_hpu
    assert nn.Linear(2, 2).hpu().weight.is_hpu
    with torch.device("hpu"):
        assert nn.Linear(2, 2).weight.is_hpu


def test_repr_shows_values_and_device() -> None:
    assert repr(torch.tensor([1.0, 2.5]).to("hpu")) == "tensor([1.0000, 2.5000], device='hpu:0')"
    assert repr(torch.tensor(3).to("hpu")) == "tensor(3, device='hpu:0')"


def test_in_place_through_views_is_exact() -> None:
    host = torch.arange(24.0).reshape(4, 6)
    card = host.to("hpu")
    for tensor in (host, card):
        tensor.t()[1:3].mul_(2)
        tensor[:, ::2] += 1
        tensor.unfold(1, 2, 2)[0, 1].zero_()
        tensor.view(-1)[3:5] = 7
        tensor.diagonal().add_(100)
        tensor[1:, 2:].transpose(0, 1)[0].copy_(tensor[0, :3])
        tensor.as_strided((2, 2), (7, 1), 3).sub_(0.5)
    assert torch.equal(card.cpu(), host)


def test_masked_and_indexed_assignment_is_exact() -> None:
    x = torch.arange(6.0).to("hpu")
    mask = torch.tensor([1, 0, 1, 0, 0, 1]).bool().to("hpu")
    y = x.clone()
    y[mask] = -1.0
    y[~mask] += 10
    y[torch.tensor([0, 0, 3]).to("hpu")] = 5.0
    y[torch.tensor([1])] = 12.0  # an index on the CPU travels to the card
    assert y.tolist() == [5, 12, -1, 5, 14, -1]


def test_out_variants_resize_and_fill() -> None:
    x = torch.tensor([3.0, 1.0, 2.0]).to("hpu")
    out = torch.empty(0, device="hpu")
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [4, 2, 3]
    values, indices = torch.empty(0, device="hpu"), torch.empty(0, dtype=torch.int64, device="hpu")
    torch.sort(x, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([1, 2, 3], [1, 2, 0])


def test_deepcopy_and_pickle_keep_values_and_sharing() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to("hpu")
    model[1].weight = model[0].weight
    for twin, device in ((copy.deepcopy(model), "hpu"), (pickle.loads(pickle.dumps(model)), "cpu")):
        assert twin[0].weight is twin[1].weight
        assert twin[0].weight.device.type == device  # in lazy mode what is written holds host tensors
        assert torch.equal(twin[0].weight.cpu(), model[0].weight.cpu())


@pytest.mark.parametrize("saved_on", ["hpu", "cpu"])
@pytest.mark.parametrize("location", [None, "cpu", "hpu"])
def test_save_and_load(saved_on: str, location: str | None) -> None:
    base = torch.arange(12.0).reshape(3, 4).to(saved_on)
    file = io.BytesIO()
    torch.save({"base": base, "view": base[1:, 2:], "text": "x"}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=location, weights_only=True)
    assert loaded["base"].device.type == (location or "cpu")  # in lazy mode files hold host tensors
    assert loaded["view"].tolist() == [[6, 7], [10, 11]]
    loaded["base"].zero_()
    assert loaded["view"].tolist() == [[0, 0], [0, 0]]  # still a view


def test_a_file_from_the_card_loads_where_there_is_no_hpu(script, tmp_path: Path) -> None:
    torch.save(torch.ones(3).to("hpu"), tmp_path / "t.pt")
    script(
        "import torch; assert torch.load('t.pt', map_location='cpu').tolist() == [1, 1, 1]",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_saving_does_not_move_the_model(tmp_path: Path) -> None:
    model = nn.Linear(4, 1).to("hpu")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4).to("hpu")).sum().backward()
    optimizer.step()
    before = model.weight.data_ptr()
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, tmp_path / "c.pt")
    assert model.weight.is_hpu and model.weight.data_ptr() == before
    state = torch.load(tmp_path / "c.pt", weights_only=True)
    optimizer.load_state_dict(state["o"])
    assert optimizer.state[model.weight]["exp_avg"].is_hpu


def test_storages_grow_shrink_and_can_be_set() -> None:
    x = torch.arange(4.0).to("hpu")
    y = x * 1
    y.resize_(6)
    assert y[:4].tolist() == [0, 1, 2, 3]
    z = torch.empty(0, device="hpu")
    z.set_(x.untyped_storage(), 1, (2,), (2,))
    assert z.tolist() == [1, 3]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


def test_pinned_memory() -> None:
    assert not torch.ones(3).is_pinned()
    pinned = torch.ones(3).pin_memory()
    assert pinned.is_pinned()
    assert pinned.to("hpu", non_blocking=True).tolist() == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_loader_workers_after_the_card_was_taken(context: str) -> None:
    torch.ones(1).to("hpu")
    data = TensorDataset(torch.arange(37.0))
    loader = DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context=context, pin_memory=True)
    for _ in range(2):
        seen = torch.cat([batch.to("hpu", non_blocking=True).cpu() for (batch,) in loader])
        assert sorted(seen.tolist()) == [float(i) for i in range(37)]


def test_a_tensor_of_the_card_does_not_go_to_another_process() -> None:
    x, model = torch.ones(2, device="hpu"), torch.nn.Linear(2, 1).to("hpu")
    for sent in (x, [x[:1]], {"weight": model.weight}, model, torch.ones(0, device="hpu")):
        with pytest.raises(RuntimeError, match=r"on hpu cannot be sent to another process.* Send tensor\.cpu\(\)"):
            ForkingPickler.dumps(sent)
    assert ForkingPickler.loads(ForkingPickler.dumps(x.cpu())).tolist() == [1, 1]


def test_seeds_repeat_and_leave_the_cpu_generator_alone() -> None:
    torch.manual_seed(7)
    first, host = torch.rand(5, device="hpu").cpu(), torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(3), host)  # as if the card had drawn nothing
    assert torch.equal(torch.rand(5, device="hpu").cpu(), first)
    assert not torch.equal(torch.rand(5, device="hpu").cpu(), first)


def test_dropout_leaves_the_cpu_generator_alone() -> None:
    torch.manual_seed(3)
    host = torch.rand(4)
    torch.manual_seed(3)
    nn.functional.dropout(torch.ones(100).to("hpu"), 0.5).cpu()
    assert torch.equal(torch.rand(4), host)


def test_random_state_is_saved_and_restored() -> None:
    torch.manual_seed(5)
    assert torch.equal(torch.get_rng_state(), torch.hpu.get_rng_state())
    torch.hpu.manual_seed(9)
    assert torch.hpu.initial_seed() == 9
    states = torch.hpu.get_rng_state_all()
    drawn = torch.rand(8, device="hpu").cpu()
    torch.hpu.set_rng_state_all(states)
    assert torch.equal(torch.rand(8, device="hpu").cpu(), drawn)
    before = torch.hpu.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        torch.rand(3, device="hpu").cpu()
    assert torch.equal(torch.hpu.get_rng_state(), before)
    for bad in (lambda: torch.hpu.set_rng_state_all(states * 2), lambda: torch.hpu.get_rng_state(1)):
        with pytest.raises(RuntimeError, match="supports only"):
            bad()


def test_a_generator_of_its_own() -> None:
    generator = torch.Generator(device="hpu").manual_seed(3)
    assert generator.device.type == "hpu"
    first = torch.randn(4, device="hpu", generator=generator).cpu()
    twin = torch.Generator(device="hpu").manual_seed(3)
    assert torch.equal(torch.randn(4, device="hpu", generator=twin).cpu(), first)


def test_a_generator_of_the_cpu_serves_the_card_too() -> None:
    first = torch.empty(4, device="hpu").uniform_(generator=torch.Generator().manual_seed(3)).cpu()
    twin = torch.Generator().manual_seed(3)
    assert torch.equal(torch.empty(4, device="hpu").uniform_(generator=twin).cpu(), first)
    assert not torch.equal(torch.empty(4, device="hpu").uniform_(generator=twin).cpu(), first)


def test_types_that_the_card_refuses(script) -> None:
    with pytest.raises(RuntimeError, match="Complex datatype is not supported on HPU device"):
        torch.zeros(2, dtype=torch.complex64).to("hpu")
    with pytest.raises(RuntimeError, match="Complex datatype is not supported on HPU device"):
        torch.zeros(2, device="hpu").view(torch.complex64)
    parts = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    made = torch.complex(parts[0].to("hpu"), parts[1].to("hpu"))  # stays on the host
    assert made.device.type == "cpu" and torch.equal(made, torch.complex(*parts))
    script(
        """
        import torch
        try: torch.zeros(2, dtype=torch.float16).to("hpu")
        except RuntimeError as error: assert "not supported on Gaudi" in str(error)
        else: raise SystemExit("accepted")
        """,
        HPUCLUSTER_CARD="gaudi",
    )


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_equal_the_cpu(layer: str) -> None:
    torch.manual_seed(0)
    host = getattr(nn, layer)(4, 5, 2)
    card = copy.deepcopy(host).to("hpu")
    x = torch.randn(3, 2, 4)
    wanted, got = host(x)[0], card(x.to("hpu"))[0]
    wanted.pow(2).sum().backward()
    got.pow(2).sum().backward()
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(card.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_user_mistakes_are_pytorchs_own_errors() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.ones(2, 3, device="hpu") @ torch.ones(2, 3, device="hpu")
    with pytest.raises(TypeError, match=r"can't convert hpu:0 device type tensor to numpy"):
        torch.ones(2, device="hpu").numpy()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.ones(2, 3, device="hpu").t().view(6)


def test_losses_do_not_warn_where_the_cpu_does_not(recwarn: pytest.WarningsRecorder) -> None:
    x, y = torch.randn(4, 4).to("hpu"), torch.randn(4, 4).to("hpu")
    for loss in (nn.functional.mse_loss, nn.functional.smooth_l1_loss, nn.functional.huber_loss):
        loss(x, y).item()
    assert [str(warning.message) for warning in recwarn] == []
