"""The manifests for KubeRay: fields that its operator takes, and parts that agree with each other."""

from __future__ import annotations

import copy
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version
from typer.testing import CliRunner

from elastane.cli.main import app
from elastane.engines.ray.machines import OLDEST
from elastane.engines.ray.pools import PoolSpec, parse_pool
from engines.ray.kubernetes_schema import problems

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = sorted((DEPLOY / "kuberay").glob("*.yaml"))


def manifests() -> list[dict[str, Any]]:
    return [each for path in FILES for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


def cluster() -> dict[str, Any]:
    [found] = of_kind("RayCluster")
    return found


def head() -> dict[str, Any]:
    [container] = cluster()["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    return container


def words_of_up() -> list[str]:
    """The options with which the head pod runs ``elastane up``."""
    [script] = head()["args"]
    [line] = [
        line for line in script.replace("\\\n", " ").splitlines() if line.strip().startswith("elastane up")
    ]
    return shlex.split(line)[2:]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_field_is_one_that_kubernetes_or_kuberay_knows(path: Path) -> None:
    found = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert found
    assert [problem for each in found for problem in problems(each)] == []


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All mappings of fields within a manifest; those of free names (labels, resources) are left out."""
    if isinstance(value, list):
        for item in value:
            yield from objects(item)
    elif isinstance(value, dict):
        yield value
        for key, item in value.items():
            if key not in {"labels", "annotations", "selector", "limits", "requests", "rayStartParams"}:
                yield from objects(item)


def test_a_field_that_nobody_knows_is_found_wherever_it_stands() -> None:
    tried = 0
    for number in range(len(list(objects(cluster())))):
        spoiled = copy.deepcopy(cluster())
        list(objects(spoiled))[number]["replicaz"] = 1
        assert [problem for problem in problems(spoiled) if "replicaz: is unknown" in problem]
        tried += 1
    assert tried > 40


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("authOptions", "mode"), "tokens", "none of ['disabled', 'token']"),
        (("autoscalerOptions", "version"), "v3", "none of ['v1', 'v2']"),
        (("rayVersion",), 2.6, "is no text"),
        (("workerGroupSpecs", 0, "maxReplicas"), "4", "is no integer"),
        (("headGroupSpec", "rayStartParams", "num-cpus"), 0, "is no text"),
        (
            ("workerGroupSpecs", 0, "template", "spec", "containers", 0, "resources", "limits", "cpu"),
            "four",
            "no quantity",
        ),
        (("workerGroupSpecs", 0, "template", "spec", "containers"), {}, "is no list"),
    ],
)
def test_a_value_of_another_kind_is_found(path: tuple[Any, ...], value: Any, problem: str) -> None:
    spoiled = copy.deepcopy(cluster())
    place = spoiled["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert any(problem in each for each in problems(spoiled))


def test_what_is_required_is_missed() -> None:
    spoiled = copy.deepcopy(cluster())
    del spoiled["spec"]["workerGroupSpecs"][1]["groupName"]
    assert problems(spoiled) == [".spec.workerGroupSpecs[1].groupName: is missing"]


def test_the_cluster_asks_for_tokens_and_for_the_second_autoscaler() -> None:
    spec = cluster()["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["autoscalerOptions"]["version"] == "v2"
    assert tuple(Version(spec["rayVersion"]).release[:2]) >= OLDEST
    assert "--insecure" not in words_of_up()


def test_the_head_pod_runs_words_that_elastane_up_takes() -> None:
    help_text = CliRunner().invoke(app, ["up", "--help"]).output
    for word in words_of_up():
        assert re.search(rf"^ +(-\w, )?{re.escape(word.partition('=')[0])}\b", help_text, re.MULTILINE), word
    assert "--engine=ray" in words_of_up()
    assert any(each["containerPort"] == 7077 for each in head()["ports"])
    assert "--listen=0.0.0.0:7077" in words_of_up()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_head_pods_script_is_one_that_bash_reads() -> None:
    [script] = head()["args"]
    assert head()["command"] == ["/bin/bash", "-c"]
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def pools() -> list[PoolSpec]:
    return [parse_pool(word.partition("=")[2]) for word in words_of_up() if word.startswith("--pool=")]


def test_every_pool_is_a_worker_group_whose_pods_it_fits_into() -> None:
    groups = {each["groupName"]: each for each in cluster()["spec"]["workerGroupSpecs"]}
    assert sorted(groups) == sorted(spec.name for spec in pools())
    for spec in pools():
        group = groups[spec.name]
        [container] = group["template"]["spec"]["containers"]
        limits = container["resources"]["limits"]
        assert spec.cpus <= int(limits["cpu"])
        assert spec.gpus == int(limits.get("nvidia.com/gpu", 0))
        assert (spec.least, spec.most) == (group["minReplicas"], group["maxReplicas"])
    assert cluster()["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_volumes_are_claimed_and_what_is_mounted_is_a_volume() -> None:
    claims = {
        each["metadata"]["name"]: each["spec"]["accessModes"] for each in of_kind("PersistentVolumeClaim")
    }
    spec = cluster()["spec"]
    pods = [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    for pod in pods:
        volumes = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]}
        assert set(volumes.values()) <= set(claims)
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    mounts = {mount["name"]: mount["mountPath"] for mount in head()["volumeMounts"]}
    environment = {each["name"]: each.get("value") for each in head()["env"]}
    assert environment["ELASTANE_HOME"] == mounts["home"]
    assert f"--checkpoints={mounts['checkpoints']}" in words_of_up()
    # The home belongs to one pod; checkpoints are for all.
    assert claims == {"elastane-home": ["ReadWriteOnce"], "elastane-checkpoints": ["ReadWriteMany"]}


def test_the_service_leads_to_the_head_pod() -> None:
    [service] = of_kind("Service")
    assert service["spec"]["selector"] == {
        "ray.io/cluster": cluster()["metadata"]["name"],
        "ray.io/node-type": "head",
    }
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [7077]


def test_all_pods_have_one_image_and_the_container_file_its_version_of_ray() -> None:
    text = yaml.safe_dump(cluster())
    assert len(set(re.findall(r"image: (\S+)", text))) == 1
    base = re.search(
        r"^ARG BASE=rayproject/ray:([\d.]+)-", (DEPLOY / "Containerfile").read_text(), re.MULTILINE
    )
    assert base is not None
    assert base[1] == cluster()["spec"]["rayVersion"]
