"""`hl-smi`: shows the cards of this machine, and what its processes do on them."""

from __future__ import annotations

import signal
import sys
from typing import Any

import click

from habana_frameworks import _shield

from ..messages import NO_ROOM, USAGE_STATUS, readable, unwritable

EPILOG = """\b
Examples:
  hl-smi                                     table of cards and processes
  hl-smi -l 2                                the same every two seconds
  hl-smi -Q index,module_id,name,memory.used -f csv,noheader
  hl-smi -q -d MEMORY,PROCESSES -i 0         parts of one card's details
  hl-smi -n link -i 0000:19:00.0 -P 8,22,23  ports that leave the box
  hl-smi topo -c -N                          processors near to each card
\b
The cards are emulated. Those that a process of this machine holds, whoever's
it is, show what it does; without any, an idle box is shown. Utilization,
power and temperature are modelled, and those of late.
\b
Memory in use is what the driver has given away: a process takes its whole
pool at once, as on real cards. What its tensors hold of it stands in the
table of processes, and in the fields memory.allocated and memory.peak.
\b
Environment variables:
  HPUCLUSTER_CARD         kind of the idle box: gaudi, gaudi2 (default), gaudi3
  HPUCLUSTER_SOFTWARE     release of the software, default 1.19.0
  HPUCLUSTER_FABRIC,
  HPUCLUSTER_LINKS        network of the cards that no process group has,
                          see docs/fabric.md
  HABANA_VISIBLE_DEVICES  show these cards only, as in a container
  HPUCLUSTER_CARD_RECORDS folder in which processes tell of their cards,
                          default /dev/shm/hpucluster-cards
\b
Exit status: 0; 2 for a mistake on the command line; 130 after Ctrl-C."""


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    subcommand_metavar="[topo [-c] [-N]]",
)
@click.option("-v", "--version", is_flag=True, help="Version of this tool.")
@click.option("-L", "--list-aips", is_flag=True, help="All that is known of each card.")
@click.option("-q", "--query", is_flag=True, help="The same; -d chooses parts.")
@click.option(
    "-d",
    "--display",
    metavar="TYPES",
    help="With -q: PRODUCT, BUS, FAN, MEMORY, TEMPERATURE, POWER, CLOCK, NET, ROW_REPLACEMENT, UTILIZATION, PROCESSES.",
)
@click.option("-Q", "--query-aip", metavar="FIELDS", help="These fields of each card; an unknown one lists all.")
@click.option("-f", "--format", metavar="csv[,noheader][,nounits]", help="With -Q: how they are written.")
@click.option("-i", "--device", metavar="BUSID|INDEX", help="This card only.")
@click.option(
    "-l", "--loop", is_flag=False, flag_value="5", metavar="[SECONDS]", help="Report again and again, every 5 s."
)
@click.option("-n", "--nic", type=click.Choice(["ports", "link", "stats"]), help="Network ports: kind, state, faults.")
@click.option("-P", "--ports", metavar="PORTS", help="With -n: these ports, such as 0,1,8.")
@click.option("--fw-versions", "--fw-version", is_flag=True, help="Versions of the firmware.")
@click.option("-r", "--reset-aip", is_flag=True, help="Not for emulated cards.")
@click.option("-p", "--power-max", metavar="WATTS", help="Not for emulated cards.")
@click.option("-D", "--debug", is_flag=True, help="Tell where the cards are read from.")
@click.pass_context
def command(ctx: click.Context, **options: Any) -> None:
    """Show the Gaudi cards of this machine and what its processes do on them."""
    ctx.obj = options
    if ctx.invoked_subcommand is None:
        _run(options)


@command.command()
@click.option("-c", "--cpu-affinity", is_flag=True, help="Processors near to each card.")
@click.option("-N", "--numa-affinity", is_flag=True, help="Memory near to each card.")
@click.pass_context
def topo(ctx: click.Context, **options: Any) -> None:
    """Which processors and memory are near to each card."""
    _run({**ctx.obj, **options, "topology": True})


def _run(options: dict[str, Any]) -> None:
    session = _shield.load("launcher.hl_smi.session")
    with readable(sys.stdout):
        session.run(session.Request(**options))


def main() -> None:
    """Console script."""
    try:
        sys.exit(command.main(prog_name="hl-smi", standalone_mode=False))
    except click.UsageError as error:
        _complain(f"{error.format_message()} See hl-smi --help.", error.exit_code)
    except click.ClickException as error:
        _complain(error.format_message(), error.exit_code)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _complain(unwritable(error), USAGE_STATUS)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)


def _complain(text: str, status: int) -> None:
    with readable(sys.stderr):
        print(f"hl-smi: {text}", file=sys.stderr, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
