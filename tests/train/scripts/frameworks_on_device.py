"""Trains a small network with the trainer of another library, and writes a hash of the result."""

import hashlib
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et

framework, where = sys.argv[1:3]
POINTS = torch.randn(48, 4, generator=torch.Generator().manual_seed(1))
LABELS = POINTS[:, :3].argmax(1)
DATA = TensorDataset(POINTS, LABELS)
torch.manual_seed(0)
job = et.init("consistent")
network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
seen: list[torch.device] = []
evaluated: list[float] = []


def with_transformers() -> None:
    import transformers

    from elastane.train.hf import ElasticTrainer

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            seen.append(x.device)
            logits = self.body(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    rows = [{"x": point, "labels": label} for point, label in zip(POINTS, LABELS, strict=True)]
    arguments = transformers.TrainingArguments(
        output_dir=str(job.run / "hf"),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
    )
    trainer = ElasticTrainer(Net(), arguments, job=job, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert trainer.args.device == trainer.accelerator.device == job.device
    evaluated.extend(entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry)


def with_lightning() -> None:
    import lightning

    from elastane.train.lightning import ElasticStrategy

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            seen.append(batch[0].device)
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: list[torch.Tensor]) -> None:
            seen.append(batch[0].device)
            evaluated.append(float(F.cross_entropy(self.net(batch[0]), batch[1])))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        strategy=ElasticStrategy(job),
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), job.loader(DATA, 8), DataLoader(DATA, batch_size=16))


def with_accelerate() -> None:
    from elastane.train.accelerate import Accelerator

    accelerator = Accelerator(job=job)
    assert accelerator.device == job.device
    model = network.to(accelerator.device)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader, test = DataLoader(DATA, batch_size=8, shuffle=True), DataLoader(DATA, batch_size=16)
    model, opt, loader, test = accelerator.prepare(model, opt, loader, test)
    for _ in job.epochs(2):
        for x, y in loader:
            seen.append(x.device)
            opt.zero_grad()
            accelerator.backward(F.cross_entropy(model(x), y))
            opt.step()
        model.eval()
        with torch.no_grad():
            for x, y in test:
                seen.append(x.device)
                evaluated.append(float(F.cross_entropy(model(x), y)))
        model.train()
        assert len(test) == 3
        assert test.batch_size == 16
    accelerator.end_training()


{"hf": with_transformers, "lightning": with_lightning, "accelerate": with_accelerate}[framework]()
assert {device.type for device in seen} == {where}, set(seen)
assert job.step == 12
digest = hashlib.sha256(repr([round(value, 5) for value in evaluated]).encode())
for tensor in network.state_dict().values():
    digest.update(tensor.cpu().numpy().tobytes())
(job.run / "result").write_text(f"{digest.hexdigest()} {len(evaluated)}")
