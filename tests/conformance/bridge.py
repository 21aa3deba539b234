"""Runs the open bridge's own Python tests against this project and writes the table of figures.

    python tests/conformance/bridge.py --checkout DIR --suite any_mode --mode lazy

DIR is a checkout of the open bridge (Apache-2.0, version 1.19). Its `tests/pytest_working` is copied beside the
results, outside the repository, and run there as it is, some files a process. The outcome of each case is written
before the next one begins: a case that ends the process is recorded as a crash and the rest goes on; what has run already is
not run again unless `--again` says so. `--table` writes `docs/conformance.md` from the outcomes in `--results`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import bridge_table
from bridge_outcomes import SUITES, Outcomes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TESTS = Path("tests") / "pytest_working"
RECORDER = "bridge_recorder"
# What a process may take: a case that wants more fails by itself, and takes nothing else along.
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, help="a checkout of the open bridge, version 1.19")
    parser.add_argument("--suite", choices=SUITES, action="append", help="which folder of its tests; may be repeated")
    parser.add_argument("--mode", choices=("lazy", "eager", "compile"), default="lazy")
    parser.add_argument("--files", default="test_*.py", help="only files whose names match this pattern")
    parser.add_argument("--results", type=Path, default=Path("bridge_results"), help="folder of copies and outcomes")
    parser.add_argument("--shard", type=int, default=10, help="files that run in one process")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a file may take")
    parser.add_argument("--case-timeout", type=float, default=120, help="seconds that one case may take")
    parser.add_argument("--again", choices=("failed", "all"), help="forget these outcomes of the chosen files first")
    parser.add_argument("--table", action="store_true", help="write the tables of docs/conformance.md")
    options = parser.parse_args()
    if options.suite and not (options.checkout and (options.checkout / TESTS).is_dir()):
        parser.error(f"--checkout {options.checkout}: no {TESTS} there; fetch the open bridge 1.19 first")
    if not options.suite and not options.table:
        parser.error("nothing to do; name a --suite, or --table")
    return options


def copy_of_tests(checkout: Path, results: Path) -> Path:
    copy = results / TESTS.name
    if not copy.exists():
        shutil.copytree(checkout / TESTS, copy)
    return copy


def environment(outcomes: Path, options: argparse.Namespace) -> dict[str, str]:
    paths = [str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "HABANA_LOGS": str(options.results.resolve() / "habana_logs"),
        "CONFORMANCE_OUTCOMES": str(outcomes.resolve()),
        "CONFORMANCE_MODE": options.mode,
        "PT_HPU_LAZY_MODE": "1" if options.mode == "lazy" else "0",
    }


def command(suite: str, options: argparse.Namespace) -> list[str]:
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", RECORDER, "-p", "no:cacheprovider", "--tb=short"]
    arguments += ["--continue-on-collection-errors"]
    # From the folder above the cases have the names that the suite's own list of cases to skip has.
    arguments += [f"--timeout={options.case_timeout}", "--rootdir=.."]
    # The suite's conftest leaves out what lies outside the folders of a mode.
    return arguments + (["--noconftest"] if suite == "top" else [f"--mode={options.mode}", "--dut=gaudi2"])


def run_once(arguments: list[str], folder: Path, environ: dict[str, str], log: Path, limit: float) -> tuple[int, bool]:
    """One pytest process: its exit status, and whether it was ended because the time was up."""
    with log.open("w") as output:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
        )
        late = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # ranks that a case started, too
        return process.wait(), late


def run_shard(suite: str, files: list[Path], options: argparse.Namespace, copy: Path) -> None:
    folder = options.results / f"{suite}-{options.mode}"
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = {file: Outcomes(folder / f"{file.stem}.jsonl") for file in files}
    if options.again:
        for of_file in outcomes.values():
            of_file.forget(only_failed=options.again == "failed")
    environ = environment(folder, options)
    arguments = command(suite, options)
    ends = time.monotonic() + options.timeout * len(files)
    while files and (left := ends - time.monotonic()) > 0:
        log = folder / f"{files[0].stem}.log"
        status, late = run_once(
            [*arguments, *(str(file.relative_to(copy)) for file in files)], copy, environ, log, left
        )
        if status in (0, 1, 2, 5):  # all passed; some failed; not to be collected; nothing left
            break
        what = "the shard's time was up" if late else f"the process ended with status {status}"
        message = f"{what}\n{log.read_text(errors='replace')[-1000:]}"
        begun = [(of_file, case) for of_file in outcomes.values() if (case := of_file.unfinished())]
        if begun:
            for of_file, case in begun:
                of_file.add(case, "timed out" if late else "crashed", message)
        else:  # before any case: without that file, then
            outcomes[files[0]].add(files[0].name, "crashed", message)
            files = files[1:]
    for file, of_file in outcomes.items():
        print(f"{suite} {options.mode} {file.stem} {json.dumps(of_file.counts())}", flush=True)


def files_of(suite: str, copy: Path, pattern: str) -> list[Path]:
    return sorted(copy.glob(pattern) if suite == "top" else (copy / suite).rglob(pattern))


def main() -> int:
    options = arguments()
    for suite in options.suite or []:
        copy = copy_of_tests(options.checkout, options.results.resolve())
        files = files_of(suite, copy, options.files)
        for first in range(0, len(files), options.shard):
            run_shard(suite, files[first : first + options.shard], options, copy)
    if options.table:
        bridge_table.write(options.results, ROOT / "docs" / "conformance.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
