"""Published measurements, and what the model says to each: shared by `calibrate.py` and `microbench.py`.

The rows of `data/microbench_calibration.csv` are facts of others, with their sources. Where a row has no shape, it is
that of the public script that measured it:

    linear, conv   "HPC test" of the same author: two products, 131071 x 4096 by 4096 x 16384 and back; a convolution of
                   4 x 512 x 512 x 512 by 512 filters of 3 x 3 and a copy of its result. 50 steps, a mark_step after
                   each, no warm-up, so that the first compilation counts; a TFLOP there is 2^40 operations.
    gemm           NAVER Cloud's script: one product between two events, in an HPU graph or a lazy step.

One product a recipe: node_cost + `device.recipe_s`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from collectives.roce.box import load_box
from collectives.roce.network import Network, default_fabric
from collectives.roce.place import Place
from collectives.roce.topology import load_fabric
from device.compiler.cost import compile_seconds, node_cost
from device.compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from device.graph.ir import ITEM_BYTES
from device.spec import CardSpec

DATA = Path(__file__).resolve().parent / "data"
ROWS = DATA / "microbench_calibration.csv"

DTYPES = {
    "bf16": "BFloat16",
    "fp16": "Half",
    "fp32": "Float",
    "fp8 per-tensor": "Float8_e4m3fn",
    "fp8 row-wise": "Float8_e4m3fn",
}
STEPS = 50  # of the HPC test
TEBI, TERA = 2.0**40, 1e12


@dataclass(frozen=True)
class Row:
    """One published figure."""

    source: str
    card: str
    cards: str
    kind: str
    precision: str
    shape: str
    metric: str
    value: float
    unit: str
    note: str


def read_rows(path: Path = ROWS) -> list[Row]:
    """The rows of a file in the form of `data/microbench_calibration.csv`."""
    with path.open(newline="") as file:
        return [
            Row(
                line["source"],
                line["card"].lower().replace("gaudi1", "gaudi"),
                line["n_cards"],
                line["kind"],
                line["precision"],
                line["shape_or_bytes"],
                line["metric"],
                float(line["value"]),
                line["unit"],
                line["note"],
            )
            for line in csv.DictReader(file)
        ]


def gemm_shape(text: str) -> tuple[int, int, int]:
    """(m, k, n) of "16384x8192x1280" or "4096^3"."""
    if text.endswith("^3"):
        return (int(text[:-2]),) * 3
    m, k, n = (int(part) for part in text.split("x"))
    return m, k, n


def product(
    m: int, n: int, k: int, dtype: str, kind: str = "gemm", factors: tuple[int, int] | None = None
) -> EngineNode:
    """An engine node for a product (m, k) by (k, n), or a convolution that equals it and reads `factors` elements."""
    item = ITEM_BYTES[dtype]
    first, second = factors if factors is not None else (m * k, k * n)
    return EngineNode(
        engine=Engine.MME,
        name=kind,
        kernel=kind,
        kind=kind,
        dtype=dtype,
        shape=(1, m, n, k),
        operations=2.0 * m * n * k,
        reads=(Access(0, first * item), Access(1, second * item)),
        writes=(Access(2, m * n * (2 if item == 1 else item)),),  # fp8 products give bf16
        sources=(0,),
        where="",
    )


def copy(elements: int, dtype: str) -> EngineNode:
    """An engine node that copies a tensor."""
    nbytes = elements * ITEM_BYTES[dtype]
    accesses = (Access(0, nbytes),), (Access(1, nbytes),)
    return EngineNode(Engine.DMA, "copy", "copy", "copy", dtype, (elements,), 0.0, *accesses, (0,), "")


def gemm(shape: str, precision: str, spec: CardSpec) -> float:
    """Modelled TFLOP/s of one product."""
    m, k, n = gemm_shape(shape)
    node = product(m, n, k, DTYPES[precision])
    return node.operations / (node_cost(node, spec).seconds + spec.device.recipe_s) / TERA


def hpc_test(kind: str, precision: str, spec: CardSpec) -> float:
    """Modelled result of the HPC test, "linear" or "conv", in its unit."""
    dtype = DTYPES[precision]
    item = ITEM_BYTES[dtype]
    if kind == "linear":
        rows, inner, outer = 131071, 4096, 4 * 4096
        nodes = [product(rows, outer, inner, dtype), product(rows, inner, outer, dtype)]
        tensors = (rows * inner, inner * outer, outer * inner, rows * outer, rows * inner)
    else:
        pixels, channels, kernel = 4 * 512 * 512, 512, 9
        factors = (pixels * channels, channels * channels * kernel)
        convolution = product(pixels, channels, channels * kernel, dtype, "convolution", factors)
        nodes = [convolution, copy(pixels * channels, dtype)]
        tensors = (pixels * channels, channels * channels * kernel, pixels * channels, pixels * channels)
    program = Program(tuple(nodes), tuple(ProgramBuffer(size * item, True, True) for size in tensors), len(nodes))
    step = sum(node_cost(node, spec).seconds for node in nodes) + spec.device.recipe_s
    operations = sum(node.operations for node in nodes if node.engine is Engine.MME)
    return STEPS * operations / (compile_seconds(program, spec) + STEPS * step) / TEBI


def all_reduce(row: Row, spec: CardSpec) -> float:
    """Modelled bandwidth of an all_reduce in GB/s: of the algorithm, or of the network, 2 (n - 1) / n times that."""
    cards, nbytes = int(row.cards), int(row.shape)
    if spec.name == "gaudi":  # the only row: four cards of one server, taken to be an HLS-1H
        fabric = load_fabric("hls1h")
        box = load_box(fabric.box)
    else:
        box = load_box(spec.box)
        fabric = default_fabric(box, 1)
    group = Network(box, fabric, box.cards).group([Place(0, module) for module in range(cards)])
    algorithm = nbytes / group.seconds("all_reduce", nbytes) / 1e9
    return algorithm * 2 * (cards - 1) / cards if row.metric == "NW bandwidth" else algorithm


def modelled(row: Row, spec: CardSpec) -> float | None:
    """What the model says to a row, in its unit, or None where it has no like."""
    if row.kind == "gemm MxKxN":
        return gemm(row.shape, row.precision, spec)
    if row.kind in ("linear", "conv"):
        return hpc_test(row.kind, row.precision, spec)
    if row.kind == "all_reduce":
        return all_reduce(row, spec)
    if row.kind == "send_recv pair":
        return load_box(spec.box).pair_rate / 1e9
    if row.kind == "all2all":
        return load_box(spec.box).scale_out_rate / 1e9
    return None
