"""A small GPT-2 learns to count with the `Trainer` of transformers: bf16, gradient accumulation, a checkpoint halfway
from which a second `Trainer` goes on, evaluation, and `generate()`."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

WORDS, LENGTH = 32, 16


class Counting(torch.utils.data.Dataset):
    """Rows of `LENGTH` numbers that follow each other modulo `WORDS`."""

    def __init__(self, rows: int) -> None:
        starts = torch.randint(WORDS, (rows, 1), generator=torch.Generator().manual_seed(rows))
        self.rows = (starts + torch.arange(LENGTH)) % WORDS

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def make_trainer(steps: int) -> Trainer:
    set_seed(0)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=steps,
        save_steps=20,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
        lr_scheduler_type="constant",
        bf16=True,
        logging_steps=4,
        report_to="none",
        ddp_find_unused_parameters=False,
    )
    return Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Counting(512), eval_dataset=Counting(20))


def main() -> None:
    make_trainer(20).train()
    trainer = make_trainer(40)
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))
    assert trainer.state.global_step == 40 and trainer.args.device.type == "hpu"
    figures = trainer.evaluate()
    assert figures["eval_loss"] < 3, figures
    rows = Counting(20)  # no multiple of the batches of all cards: none may be lost or stand twice
    labels = trainer.predict(rows).label_ids
    assert labels.tolist() == rows.rows.tolist()
    weight = trainer.model.transformer.wte.weight.detach().reshape(1, -1)
    weights = trainer.accelerator.gather(weight)
    assert len(weights) == trainer.accelerator.num_processes and (weights == weights[0]).all()
    if trainer.is_world_process_zero():
        prompt = torch.tensor([[3, 4, 5, 6]], device="hpu")
        print("generated:", trainer.model.generate(prompt, max_new_tokens=8, do_sample=False).tolist())
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        Path(os.environ["LOSSES"]).write_text("\n".join(map(str, losses)) + "\n")


if __name__ == "__main__":
    main()
