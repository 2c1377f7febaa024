"""A strict check of manifests against what Kubernetes and KubeRay take: any field that is not named here is an error.

The fields of a RayCluster are those of ``rayclusters.ray.io``, version v1, as in KubeRay's repository
(helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml at 017710c025a86af5225c0e68cd78fb06e2918296, which is
generated from its Go types); of pods, services and claims those that the same file takes over from Kubernetes core/v1.
Written down here is the part that may be used in ``deploy``; KubeRay has more.

A dictionary is an object, and a name in it that ends with ``!`` is required; ``[x]`` is a list of x, ``{"*": x}`` a
mapping of names to x, a set what may be said, a function a test of a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def quantity(value: Any) -> bool:
    """An amount of a resource, such as 4, "500m" or "16Gi"."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (isinstance(value, str) and _QUANTITY.fullmatch(value) is not None)


def text(value: Any) -> bool:
    """A string; a number without quotes is none."""
    return isinstance(value, str)


def name(value: Any) -> bool:
    """A name that an object may have."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def integer(value: Any) -> bool:
    """A whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def truth(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def port(value: Any) -> bool:
    """A port of TCP."""
    return integer(value) and 0 < value < 65536


WORDS = {"*": text}
METADATA = {"name!": name, "namespace": name, "labels": WORDS, "annotations": WORDS}
RESOURCES = {"requests": {"*": quantity}, "limits": {"*": quantity}}
ENV = {
    "name!": text,
    "value": text,
    "valueFrom": {
        "fieldRef": {"apiVersion": text, "fieldPath!": text},
        "secretKeyRef": {"name": name, "key!": text, "optional": truth},
    },
}
MOUNT = {"name!": name, "mountPath!": text, "readOnly": truth, "subPath": text}
CONTAINER = {
    "name!": name,
    "image": text,
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "command": [text],
    "args": [text],
    "workingDir": text,
    "env": [ENV],
    "ports": [{"name": name, "containerPort!": port, "protocol": {"TCP", "UDP", "SCTP"}}],
    "resources": RESOURCES,
    "volumeMounts": [MOUNT],
}
POD = {
    "containers!": [CONTAINER],
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "terminationGracePeriodSeconds": integer,
    "securityContext": {"runAsUser": integer, "runAsGroup": integer, "fsGroup": integer, "runAsNonRoot": truth},
    "nodeSelector": WORDS,
    "serviceAccountName": name,
    "tolerations": [
        {
            "key": text,
            "operator": {"Exists", "Equal"},
            "value": text,
            "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"},
        }
    ],
    "volumes": [
        {
            "name!": name,
            "persistentVolumeClaim": {"claimName!": name, "readOnly": truth},
            "emptyDir": {"medium": text, "sizeLimit": quantity},
            "secret": {"secretName": name, "defaultMode": integer},
        }
    ],
}
TEMPLATE = {"metadata": {key.rstrip("!"): kind for key, kind in METADATA.items()}, "spec": POD}
SERVICE_SPEC = {
    "type": {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
    "clusterIP": text,
    "selector": WORDS,
    "ports": [
        {
            "name": name,
            "port!": port,
            "targetPort": lambda value: port(value) or name(value),
            "nodePort": port,
            "protocol": {"TCP", "UDP", "SCTP"},
        }
    ],
    "publishNotReadyAddresses": truth,
}
HEAD_GROUP = {
    "enableIngress": truth,
    "headService": {"metadata": METADATA, "spec": SERVICE_SPEC},
    "labels": WORDS,
    "rayStartParams": WORDS,
    "resources": WORDS,
    "serviceType": text,
    "template!": TEMPLATE,
}
WORKER_GROUP = {
    "groupName!": text,
    "idleTimeoutSeconds": integer,
    "labels": WORDS,
    "maxReplicas!": integer,
    "minReplicas!": integer,
    "numOfHosts": integer,
    "rayStartParams": WORDS,
    "replicas": integer,
    "resources": WORDS,
    "scaleStrategy": {"workersToDelete": [text]},
    "suspend": truth,
    "template!": TEMPLATE,
}
RAY_CLUSTER_SPEC = {
    "authOptions": {"enableK8sTokenAuth": truth, "mode": {"disabled", "token"}},
    "autoscalerOptions": {
        "env": [ENV],
        "idleTimeoutSeconds": integer,
        "image": text,
        "imagePullPolicy": text,
        "resources": RESOURCES,
        "upscalingMode": {"Default", "Aggressive", "Conservative"},
        "version": {"v1", "v2"},
        "volumeMounts": [MOUNT],
    },
    "enableInTreeAutoscaling": truth,
    "gcsFaultToleranceOptions": {"externalStorageNamespace": text, "redisAddress!": text},
    "headGroupSpec!": HEAD_GROUP,
    "headServiceAnnotations": WORDS,
    "managedBy": text,
    "rayVersion": text,
    "suspend": truth,
    "ttlSecondsAfterIdle": integer,
    "upgradeStrategy": {"type": {"Recreate", "None"}},
    "workerGroupSpecs": [WORKER_GROUP],
}
CLAIM_SPEC = {
    "accessModes": [{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}],
    "resources": RESOURCES,
    "storageClassName": text,
    "volumeMode": {"Filesystem", "Block"},
}
KINDS = {
    ("ray.io/v1", "RayCluster"): RAY_CLUSTER_SPEC,
    ("v1", "Service"): SERVICE_SPEC,
    ("v1", "PersistentVolumeClaim"): CLAIM_SPEC,
}


def problems(manifest: Any) -> list[str]:
    """Everything that is wrong with one manifest, with the place of each."""
    if not isinstance(manifest, dict):
        return ["a manifest is an object"]
    kind = (manifest.get("apiVersion"), manifest.get("kind"))
    if kind not in KINDS:
        return [f"apiVersion and kind are {kind}, of which nothing is known here"]
    shape = {"apiVersion!": text, "kind!": text, "metadata!": METADATA, "spec!": KINDS[kind]}
    return list(_wrong(manifest, shape, ""))


def _wrong(value: Any, shape: Any, place: str) -> Iterator[str]:
    if isinstance(shape, dict):
        yield from _wrong_object(value, shape, place)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{place}: is no list"
            return
        for number, item in enumerate(value):
            yield from _wrong(item, shape[0], f"{place}[{number}]")
    elif isinstance(shape, set):
        if not (isinstance(value, str) and value in shape):
            yield f"{place}: {value!r} is none of {sorted(shape)}"
    elif not shape(value):
        yield f"{place}: {value!r} is no {getattr(shape, '__name__', 'good value')}"


def _wrong_object(value: Any, shape: dict[str, Any], place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: is no object"
        return
    fields = {key.rstrip("!"): kind for key, kind in shape.items()}
    for key in (key[:-1] for key in shape if key.endswith("!")):
        if key not in value:
            yield f"{place}.{key}: is missing"
    for key, item in value.items():
        if "*" in fields and isinstance(key, str):
            yield from _wrong(item, fields["*"], f"{place}.{key}")
        elif key in fields:
            yield from _wrong(item, fields[key], f"{place}.{key}")
        else:
            yield f"{place}.{key}: is unknown"
