"""A Trainer run by test_hf.py: [--unfreeze] OUTPUT FOUND [STEPS]."""

from __future__ import annotations

import sys

import torch
from phases import UNFROZEN, Phases
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

import elastane.train as et
from elastane.train.hf import ElasticTrainer

frozen = "--unfreeze" in sys.argv
output, found, *rest = (word for word in sys.argv[1:] if word != "--unfreeze")
torch.manual_seed(3)
rows = [{"input_ids": torch.randint(2, 20, (6,)), "labels": torch.tensor(i % 2)} for i in range(37)]
job = et.init("consistent", virtual=4)
phases = Phases(job, int(rest[0]) if rest else None)


class Watch(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if state.global_step == UNFROZEN:
            model.bert.encoder.requires_grad_(True)

    def on_step_end(self, args, state, control, **_):
        assert state.global_step == job.step
        control.should_training_stop = phases.stepped()


shape = BertConfig(
    vocab_size=20,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=8,
)
model = BertForSequenceClassification(shape)
model.bert.encoder.requires_grad_(not frozen)
trainer = ElasticTrainer(
    model,
    TrainingArguments(
        output_dir=output,
        max_steps=100_000,
        learning_rate=5e-3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=10,
        logging_steps=3,
        eval_strategy="steps",
        eval_steps=7,
        save_strategy="steps",
        save_steps=20,
        save_total_limit=1,
        report_to=[],
        use_cpu=job.device.type == "cpu",
    ),
    job=job,
    train_dataset=rows,
    eval_dataset=rows[:8],
    callbacks=[Watch()],
    # A Trainer's own optimizer would have only what is not frozen now.
    optimizers=(torch.optim.AdamW(model.parameters(), lr=5e-3) if frozen else None, None),
)
trainer.train()
logs = trainer.state.log_history
evaluated = [entry["step"] for entry in logs if "eval_loss" in entry]
phases.write(found, trainer.model, evaluated=evaluated, epoch=trainer.state.epoch, rows=len(rows))
