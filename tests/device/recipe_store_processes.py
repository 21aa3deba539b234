"""Many ranks and jobs on one cache folder at once, some of them killed: run as `recipe_store_processes.py FOLDER`.

Each of 20 rounds starts eight processes, four of each of two jobs (or eight of one), which ask for the same recipes,
make those that they do not get and keep them. Some are killed at a random moment. Checked: whoever finishes got every
recipe as it should be and made none twice; in a job alone on a full cache nobody makes any; with delete_on_init
everybody makes all; and after each round a further process reads every file without complaint. Prints figures as JSON.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from device.compiler.compile import place
from device.compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from device.compiler.recipe import Recipe
from device.recipe_store import RecipeStore, open_store, read_store_settings
from device.spec import load_card

CARD = load_card("gaudi2")
ROUNDS = 20
PROCESSES = 8
SIGNATURES = [f"graph{number}" for number in range(24)]


@functools.cache
def made(signature: str) -> Recipe:
    """The recipe of a signature."""
    size = 100 + SIGNATURES.index(signature)
    nodes = tuple(
        EngineNode(
            Engine.TPC,
            f"add_{number}",
            "add",
            "elementwise",
            "Float",
            (size,),
            float(size),
            (Access(0, size),),
            (Access(0, size),),
            (number,),
            "train.py:1",
        )
        for number in range(40)
    )
    program = Program(nodes, (ProgramBuffer(size, True, True),), len(nodes))
    return place(program, CARD, f"graph_{signature}", signature)


def opened(folder: Path, job: str, delete: bool, on_nfs: bool = False) -> RecipeStore:
    config = f"{folder},{delete},1024,{on_nfs}"
    environ = {"PT_HPU_RECIPE_CACHE_CONFIG": config, "WORLD_SIZE": "8", "HPUCLUSTER_JOB_ID": job}
    store = open_store(read_store_settings(environ), CARD, "1.19.0", environ)
    assert store is not None
    return store


def rank(folder: Path, job: str, delete: bool, on_nfs: bool, seed: int, results: int) -> None:
    """One rank's run: all signatures three times, in an order of its own. Tells how often it made which."""
    order = random.Random(seed)
    store = opened(folder, job, delete, on_nfs)
    compiled: Counter[str] = Counter()
    memory: dict[str, Recipe] = {}  # another job may empty the folder at any time
    for _ in range(3):
        for signature in order.sample(SIGNATURES, len(SIGNATURES)):
            recipe = store.get(signature) or memory.get(signature)
            if recipe is None:
                recipe = made(signature)
                compiled[signature] += 1
                store.put(recipe)
            assert recipe == made(signature), signature
            memory[signature] = recipe
    os.write(results, (json.dumps(compiled) + "\n").encode())


def start(*arguments: object) -> int:
    """A process that runs a rank. Its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        rank(*arguments)  # type: ignore[arg-type]
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    folder = Path(sys.argv[1])
    chance = random.Random(1)
    finished = killed = most = 0
    for signature in SIGNATURES:
        made(signature)  # before the processes, which have them then
    for number in range(ROUNDS):
        delete = number % 4 == 3
        jobs = [f"{number}-a", f"{number}-b"] if number % 3 == 1 else [f"{number}-a"]
        reader, writer = os.pipe()
        pids = [
            start(folder, jobs[i % len(jobs)], delete, number % 2 == 1, PROCESSES * number + i, writer)
            for i in range(PROCESSES)
        ]
        os.close(writer)
        for pid in chance.sample(pids, number % 4):
            time.sleep(chance.uniform(0.0, 0.03))
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            _, status = os.waitpid(pid, 0)
            assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, f"round {number}: a rank failed"
            killed += os.WIFSIGNALED(status)
        with os.fdopen(reader) as file:
            counts = [Counter(json.loads(line)) for line in file]
        finished += len(counts)
        most = max([most, *(max(count.values(), default=0) for count in counts)])
        was_full = number % 4 == 2 and len(jobs) == 1
        for count in counts:
            if delete and len(jobs) == 1:
                assert len(count) == len(SIGNATURES), f"round {number}: emptied at the start, yet served"
            if was_full:
                assert not count, f"round {number}: compiled what was there: {count}"
        later = opened(folder, f"{number}-later", delete=False)
        for signature in SIGNATURES:
            recipe = later.get(signature)
            may_be_gone = delete and len(jobs) == 2  # each job may have emptied the folder last
            assert recipe == made(signature) or (recipe is None and may_be_gone), f"round {number}: {signature}"
    figures = {"rounds": ROUNDS, "finished": finished, "killed": killed}
    print(json.dumps({**figures, "most_compilations_of_one_recipe_by_one_rank": most}))


if __name__ == "__main__":
    main()
