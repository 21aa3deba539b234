"""What to do about where the time went. Each piece of advice follows from one figure and says which."""

from __future__ import annotations

from collections.abc import Iterator

from .summary import Summary

LARGE_SHARE = 0.10
"""Share of the time from which something is worth a recommendation."""
LOW_OVERLAP = 0.20
LOW_LOWER_PRECISION = 0.50


def advice(summary: Summary) -> list[str]:
    """Recommendations, the most rewarding first."""
    if not summary.has_kernels:
        return ["The HPU computed nothing: is what the model computes read, or kept until the step is marked?"]
    return [*_host(summary), *_device(summary)] or [
        "No figure stands out; a larger batch may still use the card better."
    ]


def _host(summary: Summary) -> Iterator[str]:
    whole = summary.span or 1.0
    if summary.host_bound:
        if summary.eager > summary.launch + summary.graph_build:
            yield "Operators are launched one by one: use lazy mode (PT_HPU_LAZY_MODE=1), which launches whole graphs."
        yield (
            "The host cannot keep the HPU busy: capture the step as an HPU graph (torch.hpu.HPUGraph, torch.hpu.graph,"
            " or torch.hpu.wrap_in_hpu_graph), whose replay launches it without building it."
        )
        yield "Raise the batch size: the host's work does not grow with it."
        yield "Read values (.item(), print, .cpu()) less often: each makes the host wait and the HPU idle afterwards."
    if summary.compile_time > LARGE_SHARE * whole:
        yield (
            f"Compilation takes {_ms(summary.compile_time)}: keep shapes constant (pad, drop_last=True), let shapes be"
            " refined (torch.hpu.enable_dynamic_shape()), and keep recipes on disk (PT_HPU_RECIPE_CACHE_CONFIG)."
        )
    if summary.data_loader > LARGE_SHARE * whole:
        yield f"The data loader takes {_ms(summary.data_loader)}: raise num_workers, or prepare the data ahead."
    if summary.input_time > LARGE_SHARE * whole:
        yield (
            f"Bringing inputs to the card takes {_ms(summary.input_time)}: use pin_memory=True in the loader and"
            " .to('hpu', non_blocking=True)."
        )


def _device(summary: Summary) -> Iterator[str]:
    mme, tpc = summary.steady_engines["MME"], summary.steady_engines["TPC"]
    if summary.lower_precision is not None and summary.lower_precision < LOW_LOWER_PRECISION:
        yield "Most of the MME's time is in 32 bits: use torch.autocast('hpu', dtype=torch.bfloat16)."
    if tpc > mme and summary.share(tpc) > LARGE_SHARE:
        yield (
            "The TPC has more to do than the MME: use forms that compute in one kernel what the model does in several"
            " (scaled_dot_product_attention, rms_norm, optimizers with fused=True), and bf16, which halves the bytes."
        )
    if summary.overlap is not None and summary.overlap < LOW_OVERLAP and min(mme, tpc) > LARGE_SHARE * summary.steady:
        yield (
            f"MME and TPC overlap for {100 * summary.overlap:.0f} % of the lesser one's time: larger tensors let the"
            " compiler slice and pipeline them."
        )
    if summary.exposed_network > LARGE_SHARE * summary.steady:
        yield (
            f"The network takes {_ms(summary.exposed_network)} in which no engine computes: let gradients be reduced"
            " during backward (DistributedDataParallel, larger bucket_cap_mb), or accumulate over several steps."
        )
    saving = sum(chain.saving for chain in summary.chains)
    if saving > LARGE_SHARE * tpc:
        yield f"Fusing the chains above would save up to {_ms(saving)} of the TPC: write them as one expression."


def _ms(us: float) -> str:
    return f"{us / 1000:.3f} ms"
