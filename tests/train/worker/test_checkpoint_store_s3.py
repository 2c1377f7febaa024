"""The protocol of S3, spoken to a server that pretends; skipped where s3fs and moto are not installed.

They are no development dependencies: 60 packages for one file.  ``pip install s3fs 'moto[server]'`` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from elastane.train.errors import TrainError
from elastane.train.worker import checkpoint_store_objects
from elastane.train.worker.checkpoint_store import open_checkpoint_store
from elastane.train.worker.state_codec import pack, unpack

pytest.importorskip("s3fs", reason="needs s3fs")
server = pytest.importorskip("moto.server", reason="needs moto[server]")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import boto3
    import s3fs

    pretend = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    pretend.start()
    host, port = pretend.get_host_and_port()
    credentials = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "of-nobody",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in {**credentials, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(checkpoint_store_objects, "PAUSES_S", ())
    s3fs.S3FileSystem.clear_instance_cache()
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield "s3://bucket/some/prefix"
    pretend.stop()
    s3fs.S3FileSystem.clear_instance_cache()


def test_checkpoints_go_to_s3_and_the_fence_holds_there(bucket: str, tmp_path: Path) -> None:
    first, second = (open_checkpoint_store(tmp_path, {"ELASTANE_CHECKPOINTS": bucket}) for _ in range(2))
    assert first.load() is None
    first.own(1)
    for step in range(4):
        state = pack({"weights": torch.full((300_000,), float(step)), "none": torch.empty(0)})
        first.save(step, state, {"step": step}, 1)
    assert second.highest() == 1
    second.own(2)
    with pytest.raises(TrainError, match=r"a newer generation \(2\) owns this place, s3://bucket/some/prefix"):
        first.save(9, pack({}), {}, 1)
    loaded = second.load()
    assert loaded is not None
    assert loaded.step == loaded.info["step"] == 3
    assert torch.equal(unpack(loaded.packed)["weights"], torch.full((300_000,), 3.0))
    second.save(5, pack({"x": torch.ones(1)}), {}, 2)
    assert second.load().step == 5  # type: ignore[union-attr]


def test_a_bucket_that_is_not_there_is_told_in_one_sentence(bucket: str, tmp_path: Path) -> None:
    store = open_checkpoint_store(
        tmp_path, {"ELASTANE_CHECKPOINTS": bucket.replace("bucket", "missing-bucket")}
    )
    with pytest.raises(
        TrainError, match=r"^cannot claim s3://missing-bucket/some/prefix: .*bucket does not exist$"
    ):
        store.own(1)


def test_a_service_that_is_away_is_told_of_without_a_key(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = open_checkpoint_store(tmp_path, {"ELASTANE_CHECKPOINTS": bucket})
    with pytest.raises(TrainError, match=r"^cannot list s3://bucket/some/prefix: .*127\.0\.0\.1:9") as caught:
        store.highest()
    assert "of-nobody" not in str(caught.value)
