"""`hpurun`: runs a Python training script on emulated Gaudi cards, one process per card."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click
from click.core import ParameterSource

from habana_frameworks import _shield
from launcher.environment_help import print_environment, tell_unknown
from launcher.network_options import network_options, to_environment

DEFAULT_METRICS_PORT = 41611

EPILOG = """\b
Examples:
  hpurun --cards 8 train.py --epochs 2      eight ranks, one per card of a box
  hpurun --cards 1 train.py                 one card, output as without hpurun
  hpurun --card gaudi3 -m my.package.train  other cards; a module as script
  HABANA_VISIBLE_DEVICES=2,5 hpurun t.py    two ranks, on modules 2 and 5
  hpurun --cards 16 train.py                two boxes, joined by a leaf switch
  hpurun --report run.json train.py         the closing table as JSON
  hpurun replay run.json --card gaudi3      that run on another card; see
                                            hpurun replay --help
\b
The script runs unmodified: import habana_frameworks.torch, device "hpu",
backend "hccl". Each rank finds in its environment RANK, LOCAL_RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT, HLS_MODULE_ID, HABANA_VISIBLE_MODULES.
\b
Environment variables:
  HABANA_VISIBLE_DEVICES  cards to use: all (default), indexes such as 0,1,5,
                          or none
  PT_HPU_LAZY_MODE        1 (default): lazy graphs; 0: eager mode
  OMP_NUM_THREADS         CPU threads of each rank; default: cores / ranks
  HPUCLUSTER_CARD         default of --card
  HPUCLUSTER_NUMERICS     default of --numerics
  HPUCLUSTER_HOST_TIME    default of --host-time
  HPUCLUSTER_FABRIC, HPUCLUSTER_LINKS, HPUCLUSTER_ALGORITHM
                          defaults of --fabric, --links and --algorithm
  HPUCLUSTER_CARDS_PER_BOX
                          ranks in each box; default: as many as it holds
  hpurun --env-help       lists these and those of the Gaudi software
  HPUCLUSTER_TIMINGS      file for the seconds of each start-up phase, as JSON
\b
Exit status: that of the first rank that fails (128 + signal where it was
killed); 2 for a mistake on the command line; 130 after Ctrl-C. A rank that
fails ends the others within seconds.
\b
At the end stands a table with a row per card: steps, graphs compiled,
recompilations, recipe cache hits, peak memory, modelled time of a step, steps
per second, and where the time went: host, compilation, device, collectives.
Below it the most frequent causes of recompilation with their source lines."""


class ScriptCommand(click.Command):
    """A command whose options end at the script, or at `-m module`: what follows belongs to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments as python's own command line does, then parse the launcher's part."""
        with_value = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not parameter.is_flag
            for name in parameter.opts
        }
        end = 0
        while end < len(args) and args[end].startswith("-") and args[end] not in ("-m", "--"):
            end += 2 if args[end] in with_value else 1
        if args[end : end + 1] == ["-m"]:
            ctx.meta["module"] = True
            args = [*args[:end], "--", *args[end + 1 :]]
        return super().parse_args(ctx, args)


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.option(
    "--cards",
    type=int,
    metavar="N",
    help="Number of ranks, one per card. Default: all visible cards. More than a box holds: several boxes.",
)
@click.option(
    "--card",
    default="gaudi2",
    show_default=True,
    envvar="HPUCLUSTER_CARD",
    metavar="gaudi|gaudi2|gaudi3",
    help="Kind of card.",
)
@click.option(
    "--numerics",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    envvar="HPUCLUSTER_NUMERICS",
    help="on: tensors hold real values; off: shapes, time and memory only.",
)
@click.option(
    "--host-time",
    type=click.Choice(["modelled", "measured"]),
    default="modelled",
    show_default=True,
    envvar="HPUCLUSTER_HOST_TIME",
    help="measured: add the time that the script's own code takes on this machine; not reproducible.",
)
@network_options
@click.option(
    "--env-help",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_environment,
    help="List the environment variables of the Gaudi software, what each does here, and its value now.",
)
@click.option("--report", metavar="FILE.json", help="Write the closing table, and more, as JSON.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_METRICS_PORT,
    show_default=True,
    metavar="PORT",
    help="Serve Prometheus metrics on this port of the loopback interface while the job runs; 0: do not.",
)
@click.argument("target", metavar="script.py|-m module", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[args]...")
@click.pass_context
def command(
    ctx: click.Context, target: str | None, arguments: tuple[str, ...], metrics_port: int, **options: Any
) -> int:
    """Run a Python training script on emulated Intel Gaudi cards: one rank, one process, one card each.

    The script trains with real numbers; hpurun tells what the real cards would do: graphs compiled and why,
    memory, and how long a step takes.
    """
    # Loaded here, not above: Ray takes half a second to load, and --help should not wait for it.
    session = _shield.load("launcher.session")
    if target is None:
        raise click.UsageError("no script: give the path of a Python file, or -m with a module's name.", ctx)
    tell_unknown()
    environment = to_environment(options)
    request = session.Request(
        target=target,
        is_module=ctx.meta.get("module", False),
        arguments=list(arguments),
        metrics_port=metrics_port,
        metrics_port_chosen=ctx.get_parameter_source("metrics_port") is not ParameterSource.DEFAULT,
        **options,
    )
    status: int = session.run(request, {**_ENVIRON, **environment}, _SCRIPTS_PATH)
    return status


_ENVIRON = dict(os.environ)
"""The caller's environment, before Ray adds to it."""

_SCRIPTS_PATH = list(sys.path) if getattr(sys.flags, "safe_path", False) else sys.path[1:]
"""`sys.path` as it was at the start, without this program's own folder: what the script's path continues
with.
"""


REPLAY = "replay"
"""As the first argument, and where no script has that name, it stands for `launcher.replay`."""


def main() -> None:
    """Console script."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == [REPLAY] and not os.path.exists(REPLAY):
            # Loaded here, not above: a run does not need it.
            sys.exit(_shield.load("launcher.replay").main(arguments[1:]))
        sys.exit(command.main(arguments, prog_name="hpurun", standalone_mode=False))
    except click.UsageError as error:
        print(f"hpurun: {error.format_message()} See hpurun --help.", file=sys.stderr)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
