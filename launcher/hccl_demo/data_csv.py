"""The files of `--data_csv`: what went into a rank and what came out, one element a line."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from .inputs import CHUNK
from .job import Job


def write(job: Job, kind: str, tensor: torch.Tensor) -> None:
    """Append an hpu tensor of shape [elements] to this rank's file; `kind` is "input" or "output"."""
    settings = job.settings
    moment = time.strftime("%Y-%m-%d_%H%M")
    path = Path(settings.data_csv) / f"HCCL_demo_{settings.test}_{kind}_{job.rank}_{moment}.csv"
    with path.open("a", encoding="ascii") as file:
        for low in range(0, tensor.numel(), CHUNK):
            # Few values come again and again: each is written as text once.
            values, places = np.unique(tensor[low : low + CHUNK].cpu().float().numpy(), return_inverse=True)
            texts = np.array([f"{value:g}\n" for value in values.tolist()], dtype=object)
            file.write("".join(texts[places]))
