"""A real API server, if there is one.

KUBEBUILDER_ASSETS names a directory with kube-apiserver and kube-controller-manager (etcd there or on PATH): they
are started on free ports. INTERLOCK_TEST_KUBECONFIG names a cluster that runs already, with machines of its own.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client as httpx_client  # noqa: N813 # it makes one
from lightkube.config.client_adapter import ConnectionParams

from support.kube_api.node import Body, Node
from support.kube_api.server import TOKEN
from support.waiting import eventually

_ADMIN = "everything"
_CONTROLLERS = "statefulset-controller,garbage-collector-controller,persistentvolumeclaim-protection-controller"
_QUIET = ("--v=0",)


class Http:
    """Plain HTTP requests, without a client library between the test and the server."""

    def __init__(self, kubeconfig: Path) -> None:
        config = KubeConfig.from_file(kubeconfig).get()
        assert config is not None
        self._client = httpx_client(config, ConnectionParams())

    def __call__(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, path, content=content, headers={"Content-Type": kind})
        return answer.status_code, answer.json()

    def close(self) -> None:
        self._client.close()


@dataclass
class RealCluster:
    """`url` is None for a cluster that the test did not start. Its `node` is None too: it has machines of its own."""

    admin: Path
    http: Http
    url: str | None = None
    node: Node | None = None
    namespaces: list[str] = field(default_factory=list)

    def kubeconfig(self, path: Path, *, token: str = TOKEN, namespace: str = "default") -> Path:
        if self.url is None:
            return self.admin
        return _written(path, self.url, token, namespace)

    @property
    def everything_is_allowed(self) -> bool:
        """The operator of the cluster gave a kubeconfig."""
        return self.url is None

    def new_namespace(self, role: dict[str, Any]) -> str:
        """Create a namespace with a token for the driver, which has only the permissions in `role`."""
        namespace = f"interlock-{uuid.uuid4().hex[:12]}"
        self._made("/api/v1/namespaces", {"metadata": {"name": namespace}})
        rules = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        group = "rbac.authorization.k8s.io"
        self._made(f"{rules}/roles", {**role, "metadata": {"name": "interlock"}})
        self._made(
            f"{rules}/rolebindings",
            {
                "metadata": {"name": "interlock"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "interlock"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "interlock"}],
            },
        )
        self.namespaces.append(namespace)
        return namespace

    def _made(self, path: str, body: Body) -> None:
        status, said = self.http("POST", path, body)
        assert status == 201, said


def at_hand() -> bool:
    return any(os.environ.get(name) for name in ("KUBEBUILDER_ASSETS", "INTERLOCK_TEST_KUBECONFIG"))


@contextmanager
def running_real(directory: Path) -> Iterator[RealCluster]:
    with contextlib.ExitStack() as stack:
        given = os.environ.get("INTERLOCK_TEST_KUBECONFIG")
        url = None if given else _start(stack, directory)
        admin = Path(given) if given else directory / "admin.json"
        http = Http(admin)
        stack.callback(http.close)
        eventually(lambda: _is_ready(http), within=120)
        cluster = RealCluster(admin, http, url)
        if url is not None:
            cluster.node = Node(_Outside(http, cluster.namespaces), pace=1)
            stack.enter_context(_turning(cluster.node))
        yield cluster
        for namespace in cluster.namespaces:
            http("DELETE", f"/api/v1/namespaces/{namespace}")


def _written(path: Path, url: str, token: str, namespace: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
    }
    path.write_text(json.dumps(config))
    return path


def _start(stack: contextlib.ExitStack, directory: Path) -> str:
    assets = Path(os.environ["KUBEBUILDER_ASSETS"])
    etcd, peer, port, manager = _free_ports(4)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    secret = directory / "accounts.key"
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*pem))
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{_ADMIN},admin,1,"system:masters"\n{TOKEN},interlock,2\n')
    database = f"http://127.0.0.1:{etcd}"
    stack.enter_context(
        _program(
            directory / "etcd.log",
            assets / "etcd" if (assets / "etcd").exists() else Path(shutil.which("etcd") or "etcd"),
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={database}",
            f"--advertise-client-urls={database}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )
    )
    stack.enter_context(
        _program(
            directory / "apiserver.log",
            assets / "kube-apiserver",
            f"--etcd-servers={database}",
            f"--cert-dir={directory}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={secret}",
            f"--service-account-signing-key-file={secret}",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            *_QUIET,
        )
    )
    url = f"https://127.0.0.1:{port}"
    config = _written(directory / "admin.json", url, _ADMIN, "default")
    stack.enter_context(
        _program(
            directory / "manager.log",
            assets / "kube-controller-manager",
            f"--kubeconfig={config}",
            f"--controllers={_CONTROLLERS}",
            "--bind-address=127.0.0.1",
            f"--secure-port={manager}",
            "--leader-elect=false",
            *_QUIET,
        )
    )
    return url


@contextmanager
def _program(log: Path, *command: str | Path) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _is_ready(http: Http) -> bool:
    try:
        return http("GET", "/api/v1/namespaces/default")[0] == 200
    except (httpx2.TransportError, ValueError):
        return False


@contextmanager
def _turning(node: Node) -> Iterator[None]:
    """Run the stand-in for machines as long as the server runs."""
    done = threading.Event()

    def turn() -> None:
        while not done.wait(0.1):
            node.step()

    thread = threading.Thread(target=turn, name="node")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Outside:
    """The stand-in for machines, on the other side of HTTP."""

    def __init__(self, http: Http, namespaces: list[str]) -> None:
        self._http, self._namespaces = http, namespaces

    def things(self, plural: str) -> list[Body]:
        kinds = {"pods": "Pod", "persistentvolumeclaims": "PersistentVolumeClaim", "services": "Service"}
        found = [self._http("GET", f"/api/v1/namespaces/{one}/{plural}")[1]["items"] for one in self._namespaces]
        return [{**item, "kind": kinds[plural]} for items in found for item in items]

    def set_status(self, plural: str, thing: Body, status: Body) -> None:
        kind = "application/merge-patch+json"
        self._http("PATCH", f"{self._path(plural, thing)}/status", {"status": status}, kind=kind)

    def bind(self, pod: Body) -> None:
        target = {"target": {"kind": "Node", "name": "node-1"}, "metadata": {"name": pod["metadata"]["name"]}}
        self._http("POST", f"{self._path('pods', pod)}/binding", target)

    def end(self, pod: Body) -> None:
        self._http("DELETE", f"{self._path('pods', pod)}?gracePeriodSeconds=0")

    def warn(self, thing: Body, reason: str, message: str) -> None:
        metadata = thing["metadata"]
        involved = {"kind": thing["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        event = {
            "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:8]}"},
            "involvedObject": {**involved, "namespace": metadata["namespace"]},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self._http("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)

    @staticmethod
    def _path(plural: str, thing: Body) -> str:
        return f"/api/v1/namespaces/{thing['metadata']['namespace']}/{plural}/{thing['metadata']['name']}"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
