"""LoRA on a small Llama: bf16, gradient checkpointing, the adapter saved and loaded into a fresh base model."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

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


def base_model() -> LlamaForCausalLM:
    set_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def main() -> None:
    adapter = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=16,
        lora_alpha=64,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"],
    )
    model = get_peft_model(base_model(), adapter)
    before = {name: value.clone() for name, value in model.named_parameters() if not value.requires_grad}
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=60,
        save_strategy="no",
        per_device_train_batch_size=16,
        learning_rate=1e-2,
        bf16=True,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        logging_steps=5,
        report_to="none",
        ddp_find_unused_parameters=False,
    )
    trainer = Trainer(model, arguments, train_dataset=Counting(960), eval_dataset=Counting(32))
    trainer.train()
    assert trainer.args.device.type == "hpu"
    for name, value in model.named_parameters():
        assert name not in before or torch.equal(value.cpu(), before[name]), f"{name} of the base model has changed"
    if not trainer.is_world_process_zero():
        return
    model.save_pretrained("adapter")
    loaded = PeftModel.from_pretrained(base_model(), "adapter").to("hpu").eval()
    batch = torch.stack([Counting(4)[row]["input_ids"] for row in range(4)]).to("hpu")
    with torch.no_grad(), torch.autocast("hpu", dtype=torch.bfloat16):
        difference = (loaded(input_ids=batch).logits - model.eval()(input_ids=batch).logits).abs().max().item()
    assert difference < 1e-4, f"the loaded adapter gives other values: {difference}"
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    Path(os.environ["LOSSES"]).write_text("\n".join(map(str, losses)) + "\n")


if __name__ == "__main__":
    main()
