"""Whole jobs with a real Ray: what a script finds, and where its output goes.

Starting Ray takes seconds, so jobs are shared: one of two ranks and one of a single rank serve many tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .hpurun_process import environment, hpurun, lines_of, write

pytestmark = pytest.mark.slow


@dataclass
class Run:
    """A job that has ended."""

    folder: Path
    status: int
    out: str
    err: str

    def found(self, rank: int | None = None) -> dict[str, Any]:
        """What the script printed about its surroundings, as JSON behind `FOUND`."""
        lines = self.out.splitlines() if rank is None else lines_of(self.out, rank)
        (line,) = [line for line in lines if line.startswith("FOUND ")]
        return json.loads(line.removeprefix("FOUND "))


# ---- two ranks

PAIR = """
    import json, os, subprocess, sys, time

    rank = int(os.environ["RANK"])
    found = {"environ": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "path": sys.path[0]}
    found["helper"] = __import__("helper").__file__
    found["nice"] = os.nice(0)
    print("FOUND " + json.dumps(found))
    print("part ", end=""); print("of a line")
    print("on stderr", file=sys.stderr)
    subprocess.run(["sh", "-c", "echo from a shell; echo shell error > /dev/stderr"])
    os.write(1, b"from native code\\n")
    for percent in range(0, 101, 5):
        sys.stderr.write(f"\\r{percent} percent")
    sys.stderr.write("\\n")
    for line in range(300):
        print(f"{rank} line {line}")
    time.sleep(1.2)
    print("last words without a line end", end="")
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A job on modules 2 and 5, in another folder than the script's."""
    folder = tmp_path_factory.mktemp("pair")
    write(folder, "sub/train.py", PAIR)
    write(folder, "sub/helper.py", "")
    result = hpurun(
        folder,
        "--report",
        "run.json",
        "sub/train.py",
        "--lr",
        "0.5",
        HABANA_VISIBLE_DEVICES="2,5",
        RAY_ADDRESS="192.0.2.77:6379",
        HPUCLUSTER_TIMINGS="timings.json",
        ODD="\udcff",
    )
    return Run(folder, result.returncode, result.stdout, result.stderr)


def test_pair_succeeds(pair: Run) -> None:
    assert pair.status == 0, pair.out + pair.err


@pytest.mark.parametrize("rank", [0, 1])
def test_environment_tells_the_rank_its_place(pair: Run, rank: int) -> None:
    environ = pair.found(rank)["environ"]
    place = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "HLS_MODULE_ID": "25"[rank],
        "HABANA_VISIBLE_MODULES": "2,5",
        "HABANA_VISIBLE_DEVICES": "2,5",
        "MASTER_ADDR": "127.0.0.1",
        "HPUCLUSTER_CARD": "gaudi2",
        "HPUCLUSTER_NUMERICS": "on",
        "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // 2)),
    }
    assert {name: environ.get(name) for name in place} == place
    assert environ["MASTER_PORT"] == pair.found(0)["environ"]["MASTER_PORT"]


def test_environment_is_the_caller_s_otherwise(pair: Run) -> None:
    ours = {"LOCAL_WORLD_SIZE", "PWD", "OLDPWD", "_", "SHLVL"}
    environ = pair.found(0)["environ"]
    caller = environment(RAY_ADDRESS="192.0.2.77:6379", ODD="\udcff")
    assert {name: environ[name] for name in caller if name not in ours} == {
        name: value for name, value in caller.items() if name not in ours
    }
    added = set(environ) - set(caller) - ours
    assert added == {
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "HLS_MODULE_ID",
        "HPUCLUSTER_BOX",
        "HABANA_VISIBLE_DEVICES",
        "HABANA_VISIBLE_MODULES",
        "HPUCLUSTER_CARD",
        "HPUCLUSTER_NUMERICS",
        "HPUCLUSTER_HOST_TIME",
        "HPUCLUSTER_TIMINGS",
        "HPUCLUSTER_JOB_ID",
        "OMP_NUM_THREADS",
    }


def test_arguments_folder_and_path(pair: Run) -> None:
    found = pair.found(1)
    assert found["argv"] == ["sub/train.py", "--lr", "0.5"]
    assert found["cwd"] == str(pair.folder)
    assert found["path"] == str(pair.folder / "sub")
    assert found["helper"] == str(pair.folder / "sub" / "helper.py")
    assert found["nice"] == os.nice(0)


@pytest.mark.parametrize("rank", [0, 1])
def test_output_comes_prefixed_line_by_line(pair: Run, rank: int) -> None:
    lines = lines_of(pair.out, rank)
    assert lines[1:4] == ["part of a line", "from a shell", "from native code"]
    assert lines[4:-1] == [f"{rank} line {line}" for line in range(300)]
    assert lines[-1] == "last words without a line end"
    assert lines_of(pair.err, rank) == ["on stderr", "shell error", "0 percent", "100 percent"]


def test_progress_is_told_in_plain_lines(pair: Run) -> None:
    own = [line for line in pair.err.splitlines() if not line.startswith("[rank ")]
    assert own[0] == "hpurun: starting 2 gaudi2 cards: Ray ..."
    assert own[1].startswith("hpurun: 2 gaudi2 cards ready after ")
    assert len(own) == 2


def test_table_and_report_have_a_row_per_card(pair: Run) -> None:
    rows = [line.split()[:2] for line in pair.out.splitlines() if line[:4].strip().isdigit()]
    assert rows == [["0", "2"], ["1", "5"]]
    report = json.loads((pair.folder / "run.json").read_text())
    assert [(card["rank"], card["module"]) for card in report["cards"]] == [(0, 2), (1, 5)]
    assert report["run"]["target"] == "sub/train.py" and report["run"]["exit_status"] == 0


def test_start_up_phases_are_timed(pair: Run) -> None:
    timings = json.loads((pair.folder / "timings.json").read_text())
    assert list(timings) == ["ray", "cards", "script", "end"]
    assert all(seconds > 0 for seconds in timings.values())


# ---- a single rank

SINGLE = """
    import atexit, concurrent.futures, inspect, json, logging, multiprocessing, os, pickle
    import signal, sys, threading, time
    import device, hpucluster, launcher

    class Point:
        pass

    def child(queue):
        queue.put([__name__, Point.__module__, os.environ["RANK"], sys.argv[1:], device.__file__])

    if __name__ == "__main__":
        found = {"child": {}, "names": [device.__file__, hpucluster.__file__, launcher.__file__]}
        found["pickle"] = type(pickle.loads(pickle.dumps(Point()))) is Point
        found["source"] = inspect.getsource(Point)
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            found["child"][method] = [*queue.get(timeout=60), process.join() or process.exitcode]
        found["signals"] = [signal.getsignal(signal.SIGINT) is signal.default_int_handler]
        found["signals"] += [signal.getsignal(signal.SIGTERM) is signal.SIG_DFL]
        found["signals"] += [not signal.pthread_sigmask(signal.SIG_BLOCK, [])]
        found["thread"] = threading.current_thread() is threading.main_thread()
        found["hooks"] = [sys.excepthook is sys.__excepthook__, not logging.getLogger().handlers]
        found["stdin"] = sys.stdin.read()
        found["orig_argv"] = sys.orig_argv[1:]
        print("FOUND " + json.dumps(found))
        atexit.register(print, "at exit")
        threading.Thread(target=lambda: (time.sleep(0.3), print("thread ended"))).start()
        concurrent.futures.ThreadPoolExecutor(1).submit(print, "pool ran")
"""


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A job of one rank whose folder has modules with this project's names."""
    folder = tmp_path_factory.mktemp("single")
    write(folder, "train.py", SINGLE)
    for name in ("device", "hpucluster", "launcher"):
        write(folder, f"{name}.py", "theirs = True\n")
    result = hpurun(folder, "--cards", "1", "train.py", "x", stdin="from the caller", OMP_NUM_THREADS="1")
    return Run(folder, result.returncode, result.stdout, result.stderr)


def test_single_succeeds(single: Run) -> None:
    assert single.status == 0, single.out + single.err


def test_single_rank_writes_without_prefix_and_reads_the_caller_s_input(single: Run) -> None:
    assert single.out.startswith("FOUND ")
    assert single.found()["stdin"] == "from the caller"


def test_main_module_pickles_and_has_its_source(single: Run) -> None:
    assert single.found()["pickle"]
    assert single.found()["source"] == "class Point:\n    pass\n"


@pytest.mark.parametrize(
    ("method", "name"), [("fork", "__main__"), ("spawn", "__mp_main__"), ("forkserver", "__mp_main__")]
)
def test_multiprocessing_works(single: Run, method: str, name: str) -> None:
    theirs = str(single.folder / "device.py")
    assert single.found()["child"][method] == [name, name, "0", ["x"], theirs, 0]


def test_process_is_like_a_plain_python_process(single: Run) -> None:
    found = single.found()
    assert all(found["signals"]) and all(found["hooks"]) and found["thread"]
    assert found["orig_argv"] == ["train.py", "x"]


def test_script_finds_its_own_modules_of_our_names(single: Run) -> None:
    names = [str(single.folder / f"{name}.py") for name in ("device", "hpucluster", "launcher")]
    assert single.found()["names"] == names


def test_process_ends_as_python_does(single: Run) -> None:
    lines = single.out.splitlines()
    assert sorted(lines[1:3]) == ["pool ran", "thread ended"]
    assert lines[3] == "at exit"


# ---- modules


def test_module_runs_as_with_python_m(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    code = """
        import sys
        print(__name__, __spec__.name, __package__, sys.argv[1:], sys.path[0])
        print(sys.argv[0])
        raise RuntimeError("from a module")
    """
    path = write(tmp_path, "package/job.py", code)
    result = hpurun(tmp_path, "--cards", "1", "-m", "package.job", "--cards", "3")
    python = subprocess.run(
        [sys.executable, "-m", "package.job", "--cards", "3"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == python.returncode == 1
    assert result.stdout == python.stdout
    assert str(path) in result.stdout
    assert python.stderr in result.stderr
    assert "hpurun: rank 0 (gaudi2, module 0) failed: RuntimeError: from a module" in result.stderr
