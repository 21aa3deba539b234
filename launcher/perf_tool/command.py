"""`habana_perf_tool`: the command line."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..console_script import run
from ..messages import UserError
from .printing import TAG, as_json, lines
from .stream import events
from .summary import summarize
from .tracks import Tracks

NAME = "habana_perf_tool"

EPILOG = """\b
Reads what the profiler writes (HABANA_PROFILE=1, hl-prof-config) and what
torch.profiler exports, plain or compressed by gzip, of any size.
\b
The verdict: host-bound where the host has more work than the HPU, both
without compilation, so that the HPU waits for it; HPU-bound otherwise.
Missed fusions: elementwise kernels of up to 0.1 ms that follow each other on
the TPC within a recipe. hltv shows the trace itself."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--trace", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The trace, JSON.")
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="How many nodes and missed fusions to name."
)
@click.option("--json", "as_object", is_flag=True, help="Print the figures as JSON.")
def command(trace: Path, top: int, as_object: bool) -> None:
    """Tell where the time of a trace went, what to do about it, and whether host or HPU is the bottleneck."""
    tracks = Tracks()
    for event in events(trace):
        tracks.take(event)
    summary = summarize(tracks)
    if summary is None:
        raise UserError(
            f"--trace {trace}: has no events of a device; profile with HABANA_PROFILE=1 and --hw-trace on, or with"
            " ProfilerActivity.HPU"
        )
    if as_object:
        click.echo(json.dumps(as_json(summary, top), indent=2))
        return
    for line in lines(summary, top):
        click.echo(f"{TAG}{line}".rstrip())


def main() -> None:
    """Console script."""
    run(command, NAME)
