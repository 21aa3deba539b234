"""Fit the efficiencies in the card files to published measurements.

    python benchmarks/calibrate.py [ROWS.csv] [--write | --check]

Prints each coefficient with the residuals of the rows that it was fitted to. `--write` puts the coefficients into
`configs/cards/*.toml`, `--check` fails where the files differ from the fit by more than 1 %.

Fitted, all on Gaudi2, the only card with published micro-benchmarks; the others take its figures over for the dtypes
that they have:

    [mme] gemm_efficiency, exposed_load, sustained_share, [device] recipe_s     GEMM and linear rows
    [mme] convolution_efficiency                                                convolution rows
    [compile] base_s, split_s                                                   the tutorial's average compilation times

The tutorial's network has nearly the same number of operators in all its graphs, so `operator_s` cannot be seen
there; it stays as the file has it. The collectives' rows belong to `configs/boxes`, those of MLPerf's warm-up to
`microbench.py`.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from published import DATA, DTYPES, ROWS, Row, modelled, read_rows
from scipy.optimize import least_squares

from device.compiler.cost.compile_time import splits
from device.compiler.cost.mme import mme_dtype
from device.description import configs_dir
from device.spec import CARDS, CardSpec, load_card

Vary = Callable[[CardSpec, Sequence[float]], CardSpec]
TOLERANCE = 0.01
WORST = 0.1199
FP8_EFFICIENCIES = [0.900 + 0.0005 * step for step in range(81)]
RECIPES_US = [8.0, 8.25, 8.5, 8.75, 9.0]  # bf16 alone gives 9.2, and hardly feels the difference
FP8_LOADS = [0.025 * step for step in range(61)]
LONGEST = "32768^3"  # the one product of the table that runs longer than burst_s


def with_mme(spec: CardSpec, dtype: str, **values: float) -> CardSpec:
    """The card with other figures for a dtype of its MME (or for all, where the figure has no dtype)."""
    changes: dict[str, object] = {}
    for name, value in values.items():
        known = getattr(spec.mme, name)
        changes[name] = {**known, dtype: value} if isinstance(known, dict) else value
    return dataclasses.replace(spec, mme=dataclasses.replace(spec.mme, **changes))


def fitted(
    spec: CardSpec,
    rows: Sequence[Row],
    vary: Vary,
    start: Sequence[float],
    upper: Sequence[float],
) -> CardSpec:
    """The card whose varied figures, from 0 to `upper`, give the least sum of log(model / measured)^2."""

    def residuals(values: np.ndarray) -> list[float]:
        card = vary(spec, [float(value) for value in values])
        return [math.log((modelled(row, card) or math.nan) / row.value) for row in rows]

    bounds = (np.full(len(start), 1e-9), upper)
    result = least_squares(residuals, start, bounds=bounds, x_scale=start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    return vary(spec, [float(value) for value in result.x])


def least_median(spec: CardSpec, rows: Sequence[Row], vary: Vary, grid: tuple[Sequence[float], ...]) -> CardSpec:
    """The card of a grid of figures with the least median error of the rows, none of them off by more than `WORST`."""
    best, least = spec, math.inf
    order = list(rows)
    for values in itertools.product(*grid):
        card = vary(spec, values)
        errors = list(itertools.takewhile(lambda error: error <= WORST, (_error(row, card) for row in order)))
        if len(errors) < len(order):
            order.insert(0, order.pop(len(errors)))  # the next cards are likely to fail at the same row
        elif (median := float(np.median(errors))) < least:
            best, least = card, median
    return best


def _error(row: Row, card: CardSpec) -> float:
    """How far the model is from a row, as a share of it."""
    return abs((modelled(row, card) or math.nan) / row.value - 1.0)


def fit_mme(spec: CardSpec, rows: Sequence[Row]) -> CardSpec:
    """Fit the matrix engine: short products of bf16, with what all dtypes share, then fp8, long products, the others.

    The two fp8 tables, scaled per tensor and per row, differ by up to 18 % at the same shape, to which the model has
    one answer. Least squares would follow the rows that disagree; the least median follows those that agree.
    """

    def of(dtype: str, *kinds: str) -> list[Row]:
        return [
            row
            for row in rows
            if row.card == spec.name and row.kind in kinds and mme_dtype(DTYPES[row.precision], spec) == dtype
        ]

    def vary_bf16(card: CardSpec, values: Sequence[float]) -> CardSpec:
        card = with_mme(card, "bfloat16", gemm_efficiency=values[0], exposed_load=values[1])
        return dataclasses.replace(card, device=dataclasses.replace(card.device, recipe_s=values[2] * 1e-6))

    def vary_fp8(card: CardSpec, values: Sequence[float]) -> CardSpec:
        card = with_mme(card, "float8", gemm_efficiency=values[0], exposed_load=values[1])
        return dataclasses.replace(card, device=dataclasses.replace(card.device, recipe_s=values[2] * 1e-6))

    products = {dtype: of(dtype, "gemm MxKxN") for dtype in ("bfloat16", "float8")}
    short = {dtype: [row for row in found if row.shape != LONGEST] for dtype, found in products.items()}
    spec = fitted(spec, short["bfloat16"], vary_bf16, (0.97, 0.5, 10.0), (1.0, 5.0, 50.0))
    for dtype in ("bfloat16", "float8"):
        if dtype == "float8":
            spec = with_mme(spec, dtype, sustained_share=spec.mme.sustained_share["bfloat16"])
            spec = least_median(spec, short[dtype], vary_fp8, (FP8_EFFICIENCIES, FP8_LOADS, RECIPES_US))
        long = [row for row in products[dtype] if row.shape == LONGEST] + of(dtype, "linear")
        spec = fitted(spec, long, _vary_one(dtype, "sustained_share"), (0.85,), (1.0,))
    spec = least_median(spec, products["float8"], vary_fp8, (FP8_EFFICIENCIES, FP8_LOADS, RECIPES_US))
    for dtype in ("float16", "float32"):
        shared = {name: getattr(spec.mme, name)["bfloat16"] for name in ("exposed_load", "sustained_share")}
        spec = with_mme(spec, dtype, **shared)
        spec = fitted(spec, of(dtype, "linear"), _vary_one(dtype, "gemm_efficiency"), (0.8,), (1.0,))
    for dtype in ("bfloat16", "float16", "float32"):
        spec = fitted(spec, of(dtype, "conv"), _vary_one(dtype, "convolution_efficiency"), (0.5,), (1.0,))
    return with_mme(spec, "float8", convolution_efficiency=spec.mme.convolution_efficiency["bfloat16"])


def _vary_one(dtype: str, name: str) -> Vary:
    return lambda card, values: with_mme(card, dtype, **{name: values[0]})


def tutorial_averages(slice_bytes: int) -> list[tuple[str, float, float, float]]:
    """Of each average in the tutorial: its batches, seconds measured, operators and halvings of its recipes on average.

    `data/mnist_tensors.csv` has the tensors of the network's two graphs, the first step's and all later ones', as the
    recorder sees them: bytes, and bytes for each sample of the batch.
    """
    tensors: dict[str, list[tuple[int, int]]] = {"first": [], "steady": []}
    operators = {}
    with (DATA / "mnist_tensors.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            tensors[line["graph"]] += [(int(line["bytes"]), int(line["bytes_per_sample"]))] * int(line["count"])
            operators[line["graph"]] = int(line["operators"])
    found = []
    with (DATA / "mnist_compilations.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            low, _, high = line["batch_sizes"].partition("..")
            graphs = [("first", int(low))]
            graphs += (
                [("steady", batch) for batch in range(int(low) + 1, int(high) + 1)] if high else [("steady", int(low))]
            )
            halvings = [splits((fixed + each * n for fixed, each in tensors[name]), slice_bytes) for name, n in graphs]
            found.append(
                (
                    line["batch_sizes"],
                    float(line["average_us"]) * 1e-6,
                    sum(operators[name] for name, _ in graphs) / len(graphs),
                    sum(halvings) / len(halvings),
                )
            )
    return found


def fit_compile(spec: CardSpec) -> CardSpec:
    """Fit the compiler's time: least squares of the relative errors, which is linear.

    The two figures at which the tutorial ends, for a constant and for a changing batch, weigh twice as much as the way.
    """
    averages = tutorial_averages(spec.compile.slice_bytes)
    weights = [2.0 if batches in ("128", "1..127") else 1.0 for batches, _, _, _ in averages]
    rows, known = [], []
    for weight, (_, seconds, operators, halvings) in zip(weights, averages, strict=True):
        rows.append([weight / seconds, weight * halvings / seconds])
        known.append(weight * (1.0 - operators * spec.compile.operator_s / seconds))
    base, split = (float(value) for value in np.linalg.lstsq(np.array(rows), np.array(known), rcond=None)[0])
    return dataclasses.replace(spec, compile=dataclasses.replace(spec.compile, base_s=base, split_s=split))


def taken_over(spec: CardSpec, source: CardSpec) -> CardSpec:
    """The card with the figures that were fitted on another one. Gaudi's convolutions and its sustained rate stay."""
    for dtype in spec.mme.peak_flops:
        spec = with_mme(
            spec,
            dtype,
            gemm_efficiency=source.mme.gemm_efficiency[dtype],
            exposed_load=source.mme.exposed_load[dtype],
        )
        if spec.name != "gaudi":
            spec = with_mme(
                spec,
                dtype,
                convolution_efficiency=source.mme.convolution_efficiency[dtype],
                sustained_share=source.mme.sustained_share[dtype],
            )
    return dataclasses.replace(
        spec,
        device=dataclasses.replace(spec.device, recipe_s=source.device.recipe_s),
        compile=dataclasses.replace(spec.compile, base_s=source.compile.base_s, split_s=source.compile.split_s),
    )


def coefficients(spec: CardSpec) -> dict[tuple[str, str], dict[str, float] | float]:
    """The fitted figures of a card by table and key, as they stand in the file: four significant digits."""
    found: dict[tuple[str, str], dict[str, float] | float] = {
        ("mme", "gemm_efficiency"): spec.mme.gemm_efficiency,
        ("mme", "exposed_load"): spec.mme.exposed_load,
        ("device", "recipe_s"): spec.device.recipe_s,
        ("compile", "base_s"): spec.compile.base_s,
        ("compile", "split_s"): spec.compile.split_s,
    }
    if spec.name != "gaudi":
        found["mme", "convolution_efficiency"] = spec.mme.convolution_efficiency
        found["mme", "sustained_share"] = spec.mme.sustained_share
    return {
        key: {name: float(f"{item:.4g}") for name, item in value.items()}
        if isinstance(value, dict)
        else float(f"{value:.4g}")
        for key, value in found.items()
    }


SOURCES = {
    "gemm_efficiency": "NAVER Cloud GEMM table (bf16, fp8), HPC test linear (fp16, fp32)",
    "exposed_load": "NAVER Cloud GEMM table (bf16, fp8); fp16, fp32 as bf16",
    "convolution_efficiency": "HPC test conv; fp8 as bf16",
    "sustained_share": "NAVER Cloud GEMM table 32768^3, HPC test linear; fp16, fp32 as bf16",
    "recipe_s": "NAVER Cloud GEMM table: what all products pay",
    "base_s": "developer.habana.ai, recompilation tutorial: MNIST recipes",
    "split_s": "developer.habana.ai, recompilation tutorial: how they grow with the batch",
}


def write(spec: CardSpec, path: Path) -> None:
    """Put the coefficients into a card file, each with its source; all else stays as it is."""
    on = "fitted by benchmarks/calibrate.py" + ("" if spec.name == "gaudi2" else " on Gaudi2")
    found = coefficients(spec)
    lines, table = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            table = line.strip("[] ")
        key = line.partition("=")[0].strip()
        value = found.get((table, key))
        if value is not None:
            text = f"{key} = {_toml(value)}"
            line = f"{text:<38} # {on}: {SOURCES[key]}"
        lines.append(line)
    aside = path.with_suffix(".new")
    aside.write_text("\n".join(lines) + "\n")
    os.replace(aside, path)


def _toml(value: dict[str, float] | float) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {item}" for name, item in value.items()) + " }"
    return re.sub(r"e([+-])0+", r"e\1", repr(value))


def differences(spec: CardSpec, fit: CardSpec) -> list[str]:
    """Where a card file differs from the fit."""
    found = []
    want, have = coefficients(fit), coefficients(spec)
    for (table, key), value in want.items():
        pairs = value.items() if isinstance(value, dict) else [("", value)]
        for name, item in pairs:
            stands = have[table, key]
            old = stands[name] if isinstance(stands, dict) else stands
            if abs(old - item) > TOLERANCE * abs(item):
                found.append(f"{spec.name}: [{table}] {key} {name} is {old}, the fit gives {item}")
    return found


def report(spec: CardSpec, rows: Sequence[Row]) -> None:
    """Print the coefficients and the residuals."""
    for (table, key), value in coefficients(spec).items():
        print(f"[{table}] {key} = {_toml(value)}")
    print(f"\n{'row':44} {'measured':>10} {'model':>10} {'error':>8}")
    for row in rows:
        if row.card == spec.name and row.kind in ("gemm MxKxN", "linear", "conv"):
            value = modelled(row, spec) or math.nan
            name = f"{row.kind.split()[0]} {row.precision} {row.shape}"
            print(f"{name:44} {row.value:10.1f} {value:10.1f} {value / row.value - 1:+8.1%}")
    for batches, measured, operators, halvings in tutorial_averages(spec.compile.slice_bytes):
        value = spec.compile.base_s + operators * spec.compile.operator_s + halvings * spec.compile.split_s
        print(
            f"{'compilation, MNIST, batch ' + batches:44} {measured:10.4f} {value:10.4f} {value / measured - 1:+8.1%}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit the efficiencies in the card files to published measurements.")
    parser.add_argument("rows", nargs="?", type=Path, default=ROWS, help=f"the measurements ({ROWS.name})")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help="put the coefficients into the card files")
    choice.add_argument("--check", action="store_true", help="fail where the card files differ from the fit")
    args = parser.parse_args()
    if not args.rows.is_file():
        parser.error(f"{args.rows} is no file; give a CSV of the form of {ROWS}")
    rows = read_rows(args.rows)
    gaudi2 = fit_mme(fit_compile(load_card("gaudi2")), rows)
    report(gaudi2, rows)
    fits = {name: gaudi2 if name == "gaudi2" else taken_over(load_card(name), gaudi2) for name in CARDS}
    if args.write:
        for name, fit in fits.items():
            write(fit, configs_dir() / "cards" / f"{name}.toml")
    wrong = [line for name, fit in fits.items() for line in differences(load_card(name), fit)]
    print("\n" + ("\n".join(wrong) if wrong else "The card files agree with the fit."))
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
