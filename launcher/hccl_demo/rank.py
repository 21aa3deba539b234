"""One rank of `hccl_demo`: what the real program does in C++. It is told everything by its environment."""

from __future__ import annotations

import os
import sys
import traceback

import torch.distributed as dist

from collectives.errors import CollectiveError

from ..messages import USAGE_STATUS, UserError, silence
from . import all_pairs, correctness, data_csv
from .catalogue import SCALE_VALIDATION, SEND_RECV
from .checks import check_members
from .inputs import fill
from .job import Job, join, own_rank, take_place
from .measure import timed
from .printing import Figures, benchmark_block, csv_row, pairs_line, processing_line, summary
from .send_recv import Pairs, Swap
from .settings import from_environment
from .sizes import each_size
from .workload import Collective, Workload

FAILED = 1
"""Exit status of a rank that could not do its test, or whose results are wrong."""


class DemoError(RuntimeError):
    """The test has failed; the message says how."""


def run() -> int:
    """Do what the environment says. Returns the exit status."""
    settings = from_environment(os.environ)
    rank = own_rank(settings, os.environ)
    if settings.mpi:
        # Only now is it known how many there are.
        try:
            check_members(settings)
        except UserError as error:
            if rank == 0:
                print(f"hccl_demo: {error}", file=sys.stderr, flush=True)
            return USAGE_STATUS
    take_place(settings, rank)
    if rank == settings.comm_root:
        if settings.mpi:
            tell("MPI enabled. Make sure that HCCL demo is launched with mpirun.\n")
        tell("Running HCCL Demo :: HCCL on emulated Gaudi cards, in modelled time\n")
    try:
        job = join(settings, rank)
        if job is None:
            tell(f"HCCL demo process id ({rank}) will not participate in the custom communicator\n")
        else:
            _run_sizes(job)
        dist.destroy_process_group()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        silence(sys.stdout)
        return FAILED
    except Exception as error:
        is_plain = isinstance(error, (DemoError, CollectiveError, OSError))
        if not is_plain and not getattr(error, "names_the_remedy", False):
            traceback.print_exc()
        tell(f"HCCL demo error: {error}\n")
        return FAILED
    return 0


def tell(text: str) -> None:
    """Print at once and in one piece: the ranks share standard output."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _run_sizes(job: Job) -> None:
    settings = job.settings
    if settings.custom_comm and settings.comm_root != settings.root and job.is_root:
        tell(f"While building a new custom communicator, the root rank is automatically set to {settings.comm_root}.\n")
    rows: list[Figures] = []
    wrong = 0
    for size in each_size(settings.size_min, settings.size_max, settings.size_inc):
        if settings.test == SCALE_VALIDATION:
            wrong += _validate_scale(job, size)
            continue
        if settings.ranks_list and job.is_root:
            tell(pairs_line(settings))
        wrong += _run_size(job, size, rows)
    if settings.is_range:
        _tell_in_order(job, [], summary(settings, rows) if rows else "")
    if wrong:
        is_slow = settings.test == SCALE_VALIDATION
        what = (
            "Scale validation has failed on bandwidth."
            if is_slow
            else "Collective operation has failed on correctness."
        )
        raise DemoError(what)


def _run_size(job: Job, size: int, rows: list[Figures]) -> int:
    """One size; returns how many elements of this rank are wrong."""
    settings = job.settings
    workload = workload_of(job, size)
    host, device = timed(job, workload.issue)
    verdict = correctness.Verdict()
    if settings.check_correctness:
        fill(workload.source, job.rank, job.ranks)
        if settings.data_csv:
            data_csv.write(job, "input", workload.source)
        workload.issue()
        verdict = correctness.verify(job, workload, size)
        if settings.data_csv:
            data_csv.write(job, "output", workload.output)
    block = row = ""
    if workload.is_described:
        figures = Figures(workload.call, size, workload.factor, host, device)
        rows.append(figures)
        block = processing_line(figures) if settings.is_range else benchmark_block(settings, figures)
        if settings.result_csv:
            row = csv_row(settings, job.rank, figures)
    _tell_in_order(job, verdict.lines, block, row)
    return verdict.wrong


def workload_of(job: Job, size: int) -> Workload:
    """What this rank does for `size` bytes."""
    if job.settings.test != SEND_RECV:
        return Collective(job, size)
    return Pairs(job, size) if job.settings.ranks_list else Swap(job, size)


def _validate_scale(job: Job, size: int) -> int:
    """One size; at the root, 1 where a pair is too slow."""
    text, is_fine = all_pairs.validate(job, size)
    _tell_in_order(job, [], text if job.is_root else "")
    return int(job.is_root and not is_fine)


def _tell_in_order(job: Job, checks: list[str], block: str = "", row: str = "") -> None:
    """Print what all ranks have to say: checks first, then blocks, each in the order of ranks; and write the rows.

    The first rank of each machine does it for those there.
    """
    told = [
        (place, words)
        for place, (node, *words) in enumerate(job.gather((job.node, checks, block, row)))
        if node == job.node
    ]
    if told[0][0] != job.place:
        return
    lines = [f"{line}\n" for _, (lines, _, _) in told for line in lines]
    tell("".join(lines) + "".join(block for _, (_, block, _) in told))
    rows = "".join(row for _, (_, _, row) in told)
    if rows:
        with open(job.settings.result_csv, "a", encoding="ascii") as file:
            file.write(rows)


def main() -> None:
    """A rank in a process of its own, as mpirun starts it."""
    sys.exit(run())


if __name__ == "__main__":
    main()
