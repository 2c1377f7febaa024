"""Small valid input files of every kind that a verb of ``elastane`` reads, with the command that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.inputs import traces

Files = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of input: files, the command line, and which of the files are spoiled (all, if none is named)."""

    name: str
    group: str
    files: Files
    command: tuple[str, ...]
    spoiled: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset({0, 2})
    """Exit codes of a command that read its input and accepted or refused it."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the files to spoil."""
        return self.spoiled or tuple(self.files)


def kinds() -> tuple[Kind, ...]:
    """All of them."""
    return (*_traces(), *_profiles(), *_histories(), *_logs(), *_devices(), *_timings(), *_specs())


def _sim(trace: str, *more: str) -> tuple[str, ...]:
    return ("sim", trace, "--policy", "fifo", "--nodes", "2", "--jobs", "1", "--no-cache", *more)


def _traces() -> Iterator[Kind]:
    for name, text in traces.TRACES.items():
        option = ",steps_per_s=1" if name.startswith("gavel") else ""
        for label, more in (("", ()), (" --skip-bad", ("--skip-bad",))):
            yield Kind(f"{name}{label}", "traces", {"t.trace": text}, _sim(f"t.trace{option}", *more))


def _profiles() -> Iterator[Kind]:
    files = {"w.csv": traces.TRACES["pollux"].replace("cifar10", "toy"), **_measured("profiles/toy")}
    spoiled = tuple(name for name in files if name != "w.csv")
    yield Kind("profile directory", "profiles", files, _sim("w.csv", "--profiles", "profiles"), spoiled)


def _measured(folder: str) -> dict[str, str]:
    """Placements, scalability and validations of one application, made up."""
    shapes = ("1", "2", "4", "11", "22", "44")
    places = [
        f"{shape},{size},{0.05 + 0.002 * size},{0.01 * len(shape)}" for shape in shapes for size in (8, 64)
    ]
    larger = [f"{n},{n * k},{size},0.3,0.1" for n in (4, 8) for k in (1, 4) for size in (8, 64)]
    files = {
        f"{folder}/placements.csv": _table("placement,local_bsz,step_time,sync_time", places),
        f"{folder}/scalability.csv": _table("num_nodes,num_replicas,local_bsz,step_time,sync_time", larger),
    }
    for batch in (32, 256):
        rows = [f"{100 * epoch},{100 * epoch * 32 // batch},0.5,1.0,15.6" for epoch in range(1, 5)]
        files[f"{folder}/validation-{batch}.csv"] = _table("progress,iteration,metric,grad_sqr,grad_var", rows)
    return files


def _histories() -> Iterator[Kind]:
    past = {
        "id": "a@1",
        "signature": {"app": "cifar10", "tenant": "default", "batch": 128, "workers": 2, "types": ["t4"]},
        "timings": {"t4": [[1, 1, 128, 0.1, 0.1, 3], [1, 2, 64, 0.06, 0.08, 2]]},
        "noise": [[0.1, 100.0], [0.9, 900.0]],
        "total_work": 500000.0,
        "restart_s": 30.0,
        "finished_at_s": 3600.0,
    }
    pool = json.dumps({"elastane_history": 1, "experiences": [past, {**past, "id": "b@2"}]}, indent=1)
    files = {"h.json": pool, "w.csv": traces.TRACES["pollux"]}
    yield Kind("history show", "histories", {"h.json": pool}, ("history", "show", "h.json"))
    yield Kind("history build", "histories", {"h.json": pool}, ("history", "build", "h.json", "-o", "out.json"))
    result = json.dumps({"policies": {"fifo": {"per_job": [{"id": "a", "experience": past}] * 2}}}, indent=1)
    yield Kind(
        "history of a result", "histories", {"r.json": result}, ("history", "build", "r.json", "-o", "out.json")
    )
    yield Kind("sim --history", "histories", files, _sim("w.csv", "--history", "h.json"), ("h.json",))


def _logs() -> Iterator[Kind]:
    own = [{"type": "started", "at_s": 1e9, "run": "r", "script": "s.py", "mode": "fast", "workers": 1, "batch": 8,
            "seed": 0}]  # fmt: skip
    own += [
        {"type": "stepped", "at_s": 1e9 + 5 * i, "step": 10 * i, "epoch": 0, "workers": 1, "batch": 8, "steps": 10,
         "step_s": 0.5, "epochs": 2, "fraction": 0.01 * i, "loss": 2.0 / i, "metrics": {"val_loss": 1.0 / i}}
        for i in range(1, 12)
    ]  # fmt: skip
    other = [{"step": 10 * i, "time": 1e9 + 5 * i, "max_steps": 500, "eval_loss": 2 / i} for i in range(1, 12)]
    steps = [f"{i // 4},{10 * i},{1.0 / i},{2.0 / i if i % 4 == 0 else ''}" for i in range(1, 12)]
    state = {"global_step": 40, "max_steps": 100, "epoch": 1.5, "num_train_epochs": 3,
             "log_history": [{"eval_loss": 1 / i, "step": 10 * i, "epoch": i / 4} for i in range(1, 5)]}  # fmt: skip
    said = {"steps": [{"device": "t4", "step_s": {"p05": 0.1, "p50": 0.2, "p95": 0.4}, "kappa": 1.0}]}
    lines, eta = _lines(own), ("predict", "eta")
    early = ("--metric", "val_loss", "--patience", "3")
    yield Kind("eta: own events", "logs", {"events.jsonl": lines}, (*eta, "events.jsonl", "--json"))
    yield Kind("eta: early stopping", "logs", {"run/events.jsonl": lines}, (*eta, "run", *early))
    yield Kind("eta: JSON lines", "logs", {"log.jsonl": _lines(other)}, (*eta, "log.jsonl"))
    yield Kind("eta: Lightning", "logs", {"metrics.csv": _table("epoch,step,train_loss,val_loss", steps)},
               (*eta, "metrics.csv", "--epochs", "5", "--target", "0.01", "--metric", "val_loss"))  # fmt: skip
    yield Kind("eta: HF state", "logs", {"trainer_state.json": json.dumps(state)}, (*eta, "trainer_state.json"))
    yield Kind("eta: HF checkpoints", "logs", {f"out/checkpoint-{n}/trainer_state.json": json.dumps(state)
               for n in (20, 40)}, (*eta, "out"))  # fmt: skip
    yield Kind("eta: prediction", "logs", {"log.jsonl": _lines(other), "p.json": json.dumps(said, indent=1)},
               (*eta, "log.jsonl", "--predicted", "p.json"), ("p.json",))  # fmt: skip


def _devices() -> Iterator[Kind]:
    mine = {"name": "mine", "memory_gb": 80, "bandwidth_gb_per_s": 2000, "peak_tflops": {"fp32": 19.5, "bf16": 312},
            "launch_us": 5, "source": "vendor", "as_of": "2026-01-01", "arch": "ampere", "sms": 108, "clock_mhz": 1410,
            "aliases": ["m1"], "link": {"intra_gb_per_s": 300, "inter_gb_per_s": 25, "latency_us": 5}}  # fmt: skip
    head = "name,memory_gb,bandwidth_gb_per_s,launch_us,sms,clock_mhz,peak_fp32,peak_bf16,source,as_of,arch,aliases"
    table = _table(head, ["mine,80,2000,5,108,1410,19.5,312,vendor,2026-01-01,ampere,m1|m2"] * 2)
    both = json.dumps([mine, {**mine, "name": "other"}], indent=1)
    shown = ("predict", "devices", "--device-file")
    yield Kind("devices: JSON", "devices", {"d.json": both}, (*shown, "d.json"))
    yield Kind("devices: CSV", "devices", {"d.csv": table}, (*shown, "d.csv", "--json"))
    prices = _table(
        "provider,device,gpus,usd_per_hour,source,as_of,billing_granularity_s,min_gpus,spot,restarts_per_day,restart_s",
        ["cloud,t4,1,0.5,list,2026-01-01,1,1,no,,", "cloud,mine,8,20,list,2026-01-01,60,8,yes,2,600"],
    )
    run = ("predict", "run", "benchmarks.inputs.job:job", "--samples", "10k", "--epochs", "2", "--gpus", "1,4")
    yield Kind("prices", "devices", {"p.csv": prices}, (*run, "--device", "t4", "--price-file", "p.csv"))
    step = ("predict", "step", "benchmarks.inputs.job:job", "--device", "local", "--profile", "m.json")
    yield Kind(
        "machine profile", "devices", {"m.json": json.dumps(_machine({**mine, "sms": 0}), indent=1)}, step
    )
    yield Kind(
        "devices: a run", "devices", {"d.json": both}, (*run, "--device", "mine", "--device-file", "d.json")
    )


def _machine(device: dict[str, object]) -> dict[str, object]:
    """What a calibration leaves behind."""
    measured = [
        {"name": "aten::mm", "kind": "matmul", "phase": phase, "flops": 2e3 * i**3, "bytes": 1e3 * i**2,
         "dims": [1, 8 * i, 8 * i, 8 * i], "seconds": 1e-6 * i**2}
        for i in range(1, 9) for phase in ("forward", "backward")
    ]  # fmt: skip
    steps = [{"operators_s": 0.001 * i, "calls": 10 * i, "whole_s": 0.0015 * i} for i in range(1, 5)]
    return {"device": device, "made_at_s": 1e9, "torch": "2.13.0", "threads": 1, "host": "h", "measured": measured,
            "steps": steps, "tick_s": 1e-3, "drift_sd": 0.05, "factors": {"matmul": 1.1}, "version": 2}  # fmt: skip


def _timings() -> Iterator[Kind]:
    dense = [f"{2 ** (i % 6)},{64 * (i % 5 + 1)},{128 * (i % 3 + 1)},{i % 4},{i % 7},{0.1 + 0.01 * i:.3f}"
             for i in range(60)]  # fmt: skip
    product = [
        f"1,{32 * (i % 8 + 1)},{64 * (i % 5 + 1)},{16 * (i % 7 + 1)},{0.1 + 0.01 * i:.3f}" for i in range(60)
    ]
    layer = [f"{2 ** (i % 5)},{16 * (i % 4 + 1)},3,8,16,1,{i % 2},1,{i % 4},{i % 7},{0.2 + 0.01 * i:.3f}"
             for i in range(60)]  # fmt: skip
    heads = {
        "dense": "batchsize,dim_input,dim_output,activation_fct,optimizer,time_ms",
        "product": "b,m,n,k,time_ms",
        "convolution": "batchsize,matsize,kernelsize,channels_in,channels_out,strides,padding,use_bias,"
        "activation_fct,optimizer,time_ms",
    }
    for name, rows in (("dense", dense), ("product", product), ("convolution", layer)):
        files = {f"{name}_t4.csv": _table(heads[name], rows)}
        command = ("predict", "backtest", f"{name}_t4.csv", "--epochs", "1", "--rows", "50", "--no-cards")
        yield Kind(f"timings: {name}", "timings", files, command)


def _specs() -> Iterator[Kind]:
    values = {"command": "python train.py --lr 0.1", "name": "net", "workers": {"min": 1, "max": 8},
              "resources": {"gpus": 1, "cpus": 2, "memory": "8 GB"}, "batch": {"size": 128, "max": 1024}, "epochs": 10,
              "checkpoint": {"every": "10 min", "keep": 2}, "deadline": "8h", "env": {"SEED": "1"},
              "retries": 2}  # fmt: skip
    sections = [f"{name}: {json.dumps(value)}" for name, value in values.items() if not isinstance(value, dict)]
    for name, value in values.items():
        if isinstance(value, dict):
            sections += [f"{name}:", *(f"  {part}: {json.dumps(each)}" for part, each in value.items())]
    script = ["#!/bin/bash", "#SBATCH --job-name=net", "#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1",
              "#SBATCH --gres=gpu:2", "#SBATCH --mem=8G", "#SBATCH --time=02:00:00", "#SBATCH --cpus-per-task=4",
              "srun python train.py --lr 0.1"]  # fmt: skip
    # Nothing listens where these are sent: a spec that is accepted ends with that, exit code 1.
    codes = frozenset({1, 2})
    for label, file, text in (
        ("YAML", "job.yaml", _text(sections)),
        ("JSON", "job.json", json.dumps(values, indent=1)),
        ("#SBATCH", "job.sh", _text(script)),
    ):
        yield Kind(f"spec: {label}", "specs", {file: text}, ("submit", file), codes=codes)


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _table(head: str, rows: list[str]) -> str:
    return _text([head, *rows])


def _lines(documents: Sequence[Mapping[str, object]]) -> str:
    return _text([json.dumps(each) for each in documents])
