"""A tiny directory of measured profiles, made up but in the real layout."""

from __future__ import annotations

from pathlib import Path

import pytest


def write_profiles(root: Path, app: str = "toy") -> Path:
    directory = root / app
    directory.mkdir(parents=True)
    rows = ["placement,local_bsz,step_time,sync_time"]
    for placement in ("1", "2", "3", "4", "11", "12", "22", "44"):
        workers = sum(map(int, placement))
        for local in (8, 16, 32, 64):
            gradient = 0.05 + 0.002 * local
            sync = 0.0 if workers == 1 else 0.02 * len(placement) + 0.001 * workers
            rows.append(f"{placement},{local},{gradient + sync},{sync}")
    (directory / "placements.csv").write_text("\n".join(rows) + "\n")
    rows = ["num_nodes,num_replicas,local_bsz,step_time,sync_time"]
    for nodes in (4, 8, 16):
        for per_node in (1, 4):
            for local in (8, 64):
                gradient, sync = 0.05 + 0.002 * local, 0.1 + 0.002 * nodes * per_node
                rows.append(f"{nodes},{nodes * per_node},{local},{gradient + sync},{sync}")
    (directory / "scalability.csv").write_text("\n".join(rows) + "\n")
    for batch in (32, 64, 128, 256):
        gain = (1.0 + 500 / 32) / (1.0 + 500 / batch)
        rows = ["progress,iteration,metric,grad_sqr,grad_var"]
        rows += [f"{100 * e},{round(100 * e / gain)},{0.5 + e / 50},1.0,{500 / 32}" for e in range(1, 11)]
        (directory / f"validation-{batch}.csv").write_text("\n".join(rows) + "\n")
    return directory


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    write_profiles(tmp_path / "profiles")
    return tmp_path / "profiles"
