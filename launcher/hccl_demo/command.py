"""`hccl_demo`: the command line."""

from __future__ import annotations

from typing import Any

import click

from habana_frameworks import _shield

from ..console_script import run
from .catalogue import DATA_TYPES, MEASURES, REDUCTIONS, TESTS
from .checks import Request
from .manual import TEXT
from .voice import Voice

NAME = "hccl_demo"
MPI = ("--mpi", "-mpi")

EPILOG = """\b
Examples:
  hccl_demo --nranks 8 --test all_reduce --size 32m
  hccl_demo --nranks 8 --test all_gather --size_range 32b 1m --loop 10
  hccl_demo --nranks 8 --test reduce --test_root 3 --measure latency
  hccl_demo --nranks 8 --test all_reduce --custom_comm 0,1,5
  hccl_demo -mpi -np 8 --test all2all        mpirun starts the ranks
  mpirun -np 8 hccl_demo -mpi --test all2all the same
  hccl_demo --model --nranks 512 --test all_reduce --size 1G
\b
Two machines, eight cards each; one line on either:
  HCCL_COMM_ID=10.0.0.1:5555 hccl_demo --nranks 16 --node_id 0 --test broadcast
  HCCL_COMM_ID=10.0.0.1:5555 hccl_demo --nranks 16 --node_id 1 --test broadcast
\b
Bandwidths and latencies are modelled, and the same on every machine; data is
moved for real once, to check every element. Under -mpi, options that are not
ours go to mpirun.
\b
Exit status: 0; 1 where a rank failed or a result is wrong; 2 for a mistake on
the command line; 130 after Ctrl-C."""


class _Command(click.Command):
    """Under -mpi, what is no option of ours belongs to mpirun."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not any(name in args for name in MPI):
            return super().parse_args(ctx, args)
        values = {
            name: 0 if parameter.is_flag else parameter.nargs
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in parameter.opts
        }
        own: list[str] = []
        others: list[str] = []
        while args:
            name, is_joined, _ = args[0].partition("=")
            count = 1 if name not in values or is_joined else 1 + values[name]
            (own if name in values else others).extend(args[:count])
            args = args[count:]
        ctx.meta["mpi_arguments"] = tuple(others)
        return super().parse_args(ctx, own)


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.option("--clean", "-clean", is_flag=True, help="Remove the csv files that earlier runs left here, then run.")
@click.option("--list_tests", "-list", is_flag=True, help="List the tests.")
@click.option(
    "--timeout",
    type=click.IntRange(min=0),
    default=0,
    metavar="MINUTES",
    help="End a test that takes longer; 0: never.",
)
@click.option("--doc", is_flag=True, help="Tell more than this help does.")
@click.option("--nranks", type=int, help="Number of ranks of the whole job.")
@click.option("--ranks_per_node", type=int, help="Ranks of one box. Default: its visible cards.")
@click.option("--scaleup_group_size", type=int, help="Ranks that scale up together. Default: --ranks_per_node.")
@click.option("--node_id", type=int, help="Which box this is, from 0 on.")
@click.option(*MPI, "mpi", is_flag=True, help="Start the ranks by mpirun, or be one of them.")
@click.option("--test", type=click.Choice(list(TESTS)), default="broadcast", show_default=True, help="What to run.")
@click.option(
    "--measure",
    type=click.Choice(MEASURES),
    default="bw",
    show_default=True,
    help="Bandwidth of a loop back to back, or latency one by one.",
)
@click.option(
    "--size",
    default="33554432",
    show_default=True,
    metavar="N",
    help="Bytes of one rank's input; also with B, K, M or G.",
)
@click.option("--size_range", nargs=2, metavar="MIN MAX", help="A table of sizes from MIN to MAX: --size_range 32B 1M.")
@click.option(
    "--size_range_inc",
    type=click.IntRange(1, 62),
    default=1,
    metavar="M",
    help="Each size of it is 2^M times the one before.  [default: 1]",
)
@click.option("--loop", type=click.IntRange(min=1), default=1000, show_default=True, help="Iterations.")
@click.option("--test_root", type=int, default=0, show_default=True, help="Root of broadcast and reduce.")
@click.option(
    "--ranks_list", default="", metavar="A,B,...", help="send_recv: from A to B, and so on in pairs: 0,8,1,8."
)
@click.option(
    "--data_type", type=click.Choice(list(DATA_TYPES)), default="float", show_default=True, help="Of an element."
)
@click.option("--custom_comm", default="", metavar="RANKS", help="A communicator of these ranks only: 0,1,8,9.")
@click.option("--same_buffers", is_flag=True, help="One input and one output for all iterations. It is always so here.")
@click.option("--no_correctness", is_flag=True, help="Do not check the results.")
@click.option(
    "--reduction_op", type=click.Choice(REDUCTIONS), default="sum", show_default=True, help="Of the reductions."
)
@click.option(
    "--scaleout_bw",
    default="",
    metavar="N",
    help="scale_validation: expected bytes per second between boxes; K, M and G are powers of 1000.",
)
@click.option("--result_csv", default="", metavar="FILE", help="Add results to this file, a row for each size.")
@click.option("--data_csv", "-data_csv", default="", metavar="FOLDER", help="Write each rank's input and output there.")
@click.option(
    "--ignore_mpi_errors", "-ignore_mpi_errors", is_flag=True, help="Silence mpirun's warnings about devices."
)
@click.option("--no_color", "-no_color", is_flag=True, help="No colours on a terminal.")
@click.option("--model", is_flag=True, help="Only calculate: no ranks, any number of them. Not in the real program.")
@click.option(
    "--card",
    default="",
    envvar="HPUCLUSTER_CARD",
    metavar="gaudi|gaudi2|gaudi3|FILE",
    help="Kind of card. Not in the real program.  [default: gaudi2]",
)
@click.option(
    "--fabric",
    default="",
    envvar="HPUCLUSTER_FABRIC",
    metavar="NAME|FILE",
    help="What joins the boxes. Not in the real program.",
)
@click.option(
    "--algorithm",
    default="",
    envvar="HPUCLUSTER_ALGORITHM",
    metavar="NAME",
    help="How collectives are done. Not in the real program.",
)
@click.option(
    "--links",
    default="",
    envvar="HPUCLUSTER_LINKS",
    metavar="STATES",
    help="Links that are down or slow. Not in the real program.",
)
@click.pass_context
def command(ctx: click.Context, doc: bool, **options: Any) -> int:
    """Measure HCCL's collectives on emulated Gaudi cards, as the program of that name does on real ones."""
    if doc:
        click.echo(TEXT)
        return 0
    request = Request(doc=doc, mpi_arguments=ctx.meta.get("mpi_arguments", ()), **options)
    if request.list_tests:
        Voice(not request.no_color).tests(request)
        return 0
    # Loaded here, not above: it brings PyTorch, and --help should not wait for that.
    status: int = _shield.load("launcher.hccl_demo.session").run(request)
    return status


def main() -> None:
    """Console script."""
    run(command, NAME)


if __name__ == "__main__":
    main()
