"""Every compilation has its cause and the user's line."""

from __future__ import annotations

import json
from typing import Any

import pytest

HEAD = """
import json, torch
import torch.nn.functional as F
import habana_frameworks.torch.core as htcore
from device.card import current_card

def report():
    torch.hpu.synchronize()
    print(json.dumps(current_card().report()))
"""


@pytest.fixture
def report(script):
    def run(body: str, **environ: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(script(HEAD + body + "\nreport()\n", **environ).stdout.splitlines()[-1])
        return result

    return run


def line_of(body: str, text: str) -> str:
    lines = (HEAD + body).splitlines()
    return f"script.py:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def test_a_changed_batch_size_points_at_the_first_layer(report) -> None:
    body = """
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for size in (16, 16, 16, 12, 16):
    optimizer.zero_grad()
    hidden = model(torch.ones(size, 8).to("hpu"))  # here
    hidden.sum().backward()
    optimizer.step()
    htcore.mark_step()
"""
    found = report(body)
    assert found["graphs_compiled"] == 2  # SGD without momentum keeps no state
    first, second = found["compilations"]
    assert first["cause"] == "first graph"
    assert second["cause"] == "size of dimension 0 of mat1 changed in addmm"
    assert second["detail"] == "(16, 8) -> (12, 8)"
    assert second["where"] == line_of(body, "# here")
    assert found["causes"] == [{"cause": second["cause"], "where": second["where"], "count": 1}]
    assert found["recompilations"] == 1


def test_a_constant_in_a_slice_points_at_the_slice(report) -> None:
    body = """
x = torch.arange(24.).reshape(4, 6).to("hpu")
for column in range(3):
    y = (x[:, column] * 3).sum()  # here
    htcore.mark_step()
"""
    found = report(body)
    assert [entry["cause"] for entry in found["compilations"]] == ["first graph"] + [
        "storage offset of self changed in mul"
    ] * 2
    assert {entry["where"] for entry in found["compilations"]} == {line_of(body, "# here")}


def test_a_dtype(report) -> None:
    found = report("""
for dtype in (torch.float32, torch.bfloat16):
    x = torch.ones(4, dtype=dtype).to("hpu")
    y = x.relu()
    z = y.relu()
    htcore.mark_step()
""")
    assert found["compilations"][1]["cause"] == "dtype of self changed in relu"
    assert found["compilations"][1]["detail"] == "Float -> BFloat16"


def test_a_tensor_kept_alive(report) -> None:
    body = """
kept = []
for keep in (False, True):
    x = torch.ones(4).to("hpu")
    middle = x.relu()
    last = middle.sigmoid().tanh()  # here
    if not keep: del middle
    htcore.mark_step()
"""
    found = report(body)
    assert found["compilations"][1]["cause"] == "a tensor is kept alive across the flush"
    assert found["compilations"][1]["detail"] == "result of relu"


def test_a_backward_operator_points_at_the_backward_call(report) -> None:
    body = """
w = torch.ones(4, device="hpu", requires_grad=True)
torch.hpu.synchronize()
loss = (w * 2).sum()
htcore.mark_step()
loss.backward()  # here
htcore.mark_step()
"""
    assert report(body)["compilations"][-1]["where"] == line_of(body, "# here")


def test_a_result_whose_shape_depends_on_data(report) -> None:
    body = """
for values in ([1., -1., 2.], [1., -1., -2.], [3., 3., -1.]):
    x = torch.tensor(values).to("hpu")
    x.masked_select(x > 0)  # here
"""
    found = report(body)
    dynamic = [entry for entry in found["compilations"] if entry["detail"] == "aten::masked_select"]
    assert [entry["cause"] for entry in dynamic] == ["first graph", "result's shape depends on data"]
    assert dynamic[1]["where"] == line_of(body, "# here")


def test_steps_and_their_modelled_time(report) -> None:
    found = report("""
w = torch.nn.Parameter(torch.ones(4, device="hpu"))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    (w * w).sum().backward()
    optimizer.step()
    htcore.mark_step()
""")
    assert (found["steps"], found["step_source"]) == (6, "optimizer")
    assert 0 < found["time"]["step"] < found["time"]["total"] / 6


def test_an_operator_the_card_lacks_is_counted(report) -> None:
    found = report("""
a = torch.tensor([[2., 1.], [1., 3.]])
assert torch.allclose(torch.linalg.eigvalsh(a.to("hpu")).cpu(), torch.linalg.eigvalsh(a))
(torch.ones(3).to("hpu") * 2).cpu()
""")
    assert found["cpu_fallback"]["total"] == 1
    assert list(found["cpu_fallback"]["ops"]) == ["_linalg_eigh.eigenvalues"]


def test_an_operator_can_be_placed_on_the_host(report) -> None:
    found = report('(torch.ones(3).to("hpu").sigmoid()).cpu()', PT_HPU_PLACE_ON_CPU="sigmoid")
    assert found["cpu_fallback"]["total"] == 1


@pytest.mark.parametrize(("allowed", "total"), [("", 1), ("_linalg_eigh", 1), ("none", None), ("sigmoid", None)])
def test_where_the_fallback_is_limited_an_operator_that_the_card_lacks_is_an_error(
    script, allowed: str, total: int | None
) -> None:  # type: ignore[no-untyped-def]
    done = script(
        """
        import torch, habana_frameworks.torch.core
        from device.card import current_card
        try:
            torch.linalg.eigvalsh(torch.eye(2).to("hpu"))
        except RuntimeError as error:
            print(error)
        print(torch.ones(2).to("hpu").sum().item(), current_card().report()["cpu_fallback"]["total"])
        """,
        PT_HPU_PLACE_ON_CPU=allowed,
    )
    if total is None:
        assert "aten::_linalg_eigh.eigenvalues is not an operator of the card" in done.stdout
        assert f"PT_HPU_PLACE_ON_CPU='{allowed}'" in done.stdout
    assert done.stdout.splitlines()[-1] == f"2.0 {total or 0}"
