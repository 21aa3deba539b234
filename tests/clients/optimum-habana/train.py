"""A small GPT-2 learns to count with `GaudiTrainer`; the command line says with which of its features."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments
from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, set_seed

WORDS, LENGTH = 32, 16
TABLE = 2**15  # words that never come: the model is large enough to be seen in a log that is rounded to 0.01 GB


class Counting(torch.utils.data.Dataset):
    """Rows of `LENGTH` numbers that follow each other modulo `WORDS`."""

    def __init__(self, rows: int) -> None:
        starts = torch.randint(WORDS, (rows, 1), generator=torch.Generator().manual_seed(rows))
        self.rows = (starts + torch.arange(LENGTH)) % WORDS

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main() -> None:
    (arguments,) = HfArgumentParser(GaudiTrainingArguments).parse_args_into_dataclasses()
    adapt_transformers_to_gaudi()
    set_seed(0)
    config = GPT2Config(
        vocab_size=TABLE, n_positions=LENGTH, n_embd=128, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    gaudi_config = GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True, use_torch_autocast=True)
    trainer = GaudiTrainer(
        GPT2LMHeadModel(config),
        gaudi_config=gaudi_config,
        args=arguments,
        train_dataset=Counting(300),
        eval_dataset=Counting(42),  # the last batch has to be filled up
    )
    figures = trainer.train().metrics
    assert figures["train_samples_per_second"] > 0, figures
    figures = trainer.evaluate()
    assert figures["eval_loss"] < 3, figures
    if trainer.is_world_process_zero():
        print(figures)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        Path(os.environ["LOSSES"]).write_text("\n".join(map(str, losses)) + "\n")


if __name__ == "__main__":
    main()
