"""A small GPT-2, from scratch, on generated text: Hugging Face's Trainer with workers that come and go.

pip install transformers accelerate
elastane train --workers 2 --resize 3:10s --chaos kill:20s --preload transformers examples/hf_trainer.py
python examples/hf_trainer.py
"""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

import elastane.train as et
from elastane.train.hf import ElasticTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--sequences", type=int, default=1024)
parser.add_argument("--output", default="runs/hf")
parser.add_argument("--mode", default=None, help="fixed, adaptive or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()


class Counting(Dataset):
    """Sequences that count in steps of one to seven, modulo 64: easy to learn, and nothing to download."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(64, (size, 1), generator=generator)
        steps = torch.randint(1, 8, (size, 1), generator=generator)
        self.rows = (starts + steps * torch.arange(24)) % 64

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


job = et.init(options.mode, seed=options.seed)
torch.manual_seed(options.seed)
size = {"n_positions": 24, "n_embd": 64, "n_layer": 2, "n_head": 2}
shape = GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **size)
trainer = ElasticTrainer(
    GPT2LMHeadModel(shape),
    TrainingArguments(
        output_dir=options.output,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        learning_rate=2e-3,
        logging_steps=10,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    ),
    job=job,
    max_batch_size=256,
    train_dataset=Counting(options.sequences, 1),
    eval_dataset=Counting(128, 2),
)
trainer.train()
trainer.save_model()
job.print(f"loss {trainer.evaluate()['eval_loss']:.3f} after {job.step} steps")
