"""The server itself: HTTP on a free port of the loopback address, in a thread."""

import asyncio
import copy
import json
import re
import socket
import threading
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from support.kube_api import controllers, statuses
from support.kube_api.node import Node
from support.kube_api.schema import BY_NAME, KINDS, Kind
from support.kube_api.store import Body, Store, Stored

TOKEN = "let-me-in"
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>\w+))?)?"
)
_TERM = re.compile(r"(?P<key>[^=!,\s]+)(?:(?P<operator>==?|!=)(?P<value>[^,]*))?")
_FIRST_LINES = (
    "PostgreSQL init process complete; ready for start up.",
    "database system is ready to accept connections",
)
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass
class FakeCluster:
    store: Store
    node: Node = field(init=False)
    url: str = ""
    refusing: statuses.Refused | None = None
    """A refusal that every request gets."""
    logs: dict[str, list[str]] = field(default_factory=dict)
    commands: list[tuple[str, list[str], str]] = field(default_factory=list)
    """Pod, command and standard input of what was executed."""
    exit_code: int = 0
    refuse_commands: bool = False

    def __post_init__(self) -> None:
        self.node = Node(_Inside(self.store))

    def step(self) -> None:
        controllers.step(self.store)
        self.node.step()

    def kubeconfig(self, path: Path, *, token: str = TOKEN, namespace: str = "default") -> Path:
        context = {"cluster": "test", "user": "test", "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
        }
        path.write_text(json.dumps(config))
        return path

    @property
    def everything_is_allowed(self) -> bool:
        return True

    def new_namespace(self, role: dict[str, Any]) -> str:
        """There are no roles here: every client with the token may do everything."""
        namespace = f"interlock-{uuid.uuid4().hex[:12]}"
        self.store.namespaces.add(namespace)
        return namespace

    async def answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _status(statuses.Refused(401, "Unauthorized", "Unauthorized"))
        if self.refusing is not None:
            return _status(self.refusing)
        self.step()
        try:
            return await self._carry_out(request)
        except statuses.Refused as refused:
            return _status(refused)

    async def _carry_out(self, request: Request) -> Response:
        found = _PATH.fullmatch(request.url.path)
        kind = KINDS.get((found["group"] or "", found["plural"])) if found else None
        if found is None or kind is None:
            raise statuses.Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, name, sub = found["namespace"], found["name"], found["sub"]
        if sub == "log":
            return self._log(self.store.get(kind, namespace, name), request)
        body = json.loads(await request.body() or b"{}")
        manager = request.query_params.get("fieldManager", request.headers.get("user-agent", "unknown").split("/")[0])
        match request.method, name:
            case "GET", None:
                return self._listed(kind, namespace, request)
            case "GET", _:
                return JSONResponse(self.store.get(kind, namespace, name).shown())
            case "POST", None:
                strict = request.query_params.get("fieldValidation") == "Strict"
                return JSONResponse(self.store.create(kind, namespace, body, manager, strict=strict).shown(), 201)
            case "PATCH", _:
                return self._patched(kind, namespace, name, body, request)
            case "DELETE", _:
                return self._deleted(kind, namespace, name, body, request)
        raise statuses.Refused(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )

    def _listed(self, kind: Kind, namespace: str, request: Request) -> Response:
        labels = _selector(request.query_params.get("labelSelector", ""))
        fields = _selector(request.query_params.get("fieldSelector", ""))
        things = [thing.shown() for thing in self.store.all(kind.plural, namespace)]
        items = [
            thing
            for thing in things
            if all(holds(thing["metadata"].get("labels", {}).get(key)) for key, holds in labels)
            and all(holds(_field(thing, key)) for key, holds in fields)
        ]
        metadata = {"resourceVersion": self.store.revision}
        body = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}
        return JSONResponse(body)

    def _patched(self, kind: Kind, namespace: str, name: str, body: Body, request: Request) -> Response:
        kind_of_patch = request.headers["content-type"]
        if kind_of_patch == "application/apply-patch+yaml":
            manager = request.query_params.get("fieldManager")
            if not manager:
                raise statuses.invalid("PatchOptions", "", "fieldManager: Required value: is required for apply patch")
            force = request.query_params.get("force") == "true"
            thing, made = self.store.apply(kind, namespace, name, body, manager, force)
            return JSONResponse(thing.shown(), 201 if made else 200)
        if kind_of_patch != "application/merge-patch+json":
            raise statuses.Refused(415, "UnsupportedMediaType", f"{kind_of_patch} is not supported here")
        thing = self.store.get(kind, namespace, name)
        self.store.merge(thing, body, request.query_params.get("fieldManager", "unknown"))
        return JSONResponse(thing.shown())

    def _deleted(self, kind: Kind, namespace: str, name: str, body: Body, request: Request) -> Response:
        thing = self.store.get(kind, namespace, name)
        wanted = body.get("preconditions", {}).get("uid")
        if wanted and wanted != thing.body["metadata"]["uid"]:
            there = thing.body["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"
            raise statuses.conflict(kind.plural, name, why, kind.group)
        propagation = request.query_params.get("propagationPolicy", "Background")
        grace = request.query_params.get("gracePeriodSeconds")
        self.store.delete(thing, propagation=propagation, grace=int(grace) if grace else None)
        return JSONResponse(thing.shown())

    def _log(self, pod: Stored, request: Request) -> Response:
        name = pod.body["metadata"]["name"]
        if not pod.body.get("status", {}).get("containerStatuses"):
            container = request.query_params.get("container", "")
            raise statuses.bad_request(
                f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            )
        lines = self.logs.setdefault(name, list(_FIRST_LINES))
        tail = int(request.query_params.get("tailLines", len(lines)))
        shown = lines[-tail:] if tail else []
        if request.query_params.get("follow") not in ("true", "True"):
            return PlainTextResponse("".join(line + "\n" for line in shown))

        async def followed() -> AsyncIterator[str]:
            at = len(lines) - len(shown)
            while self.store.find("pods", pod.body["metadata"]["namespace"], name) is pod:
                while at < len(lines):
                    yield lines[at] + "\n"
                    at += 1
                await asyncio.sleep(0.02)

        return StreamingResponse(followed(), media_type="text/plain")

    async def execute(self, socket: WebSocket) -> None:
        found = _PATH.fullmatch(socket.url.path)
        pod = found and self.store.find("pods", found["namespace"], found["name"])
        if not found or not pod or self.refuse_commands or socket.headers.get("authorization") != f"Bearer {TOKEN}":
            await socket.close()
            return
        await socket.accept(subprotocol="v5.channel.k8s.io")
        given = b""
        while (message := await socket.receive_bytes()) != b"\xff\x00":
            given += message[1:]
        command = socket.query_params.getlist("command")
        self.commands.append((found["name"], command, given.decode()))
        ended: Body = {"metadata": {}, "status": "Success"}
        if self.exit_code:
            await socket.send_bytes(b"\x02psql: error: it did not work\n")
            causes = [{"reason": "ExitCode", "message": str(self.exit_code)}]
            message_text = f"command terminated with non-zero exit code: exit status {self.exit_code}"
            ended = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
            ended["message"] = message_text
        await socket.send_bytes(b"\x03" + json.dumps(ended).encode())
        await socket.close()


@contextmanager
def running_fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster(Store("default"))

    async def answer(request: Request) -> Response:
        return await cluster.answer(request)

    routes = [
        WebSocketRoute("/{path:path}", cluster.execute),
        Route("/{path:path}", answer, methods=["GET", *_CHANGES]),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Connections are kept for as long as a test lasts: one that is closed just when it is used again is an error.
        config = uvicorn.Config(
            Starlette(routes=routes), log_config=None, lifespan="off", ws="wsproto", timeout_keep_alive=3600
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="kube-api")
        thread.start()
        try:
            yield cluster
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


class _Inside:
    """The stand-in for machines, inside the server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def things(self, plural: str) -> list[Body]:
        return [copy.deepcopy(thing.body) for thing in self._store.all(plural)]

    def set_status(self, plural: str, thing: Body, status: Body) -> None:
        self._store.set_status(self._live(plural, thing), status)

    def bind(self, pod: Body) -> None:
        live = self._live("pods", pod)
        live.body["spec"]["nodeName"] = "node-1"
        live.body["metadata"]["resourceVersion"] = self._store.revision

    def end(self, pod: Body) -> None:
        self._store.delete(self._live("pods", pod), grace=0)

    def warn(self, thing: Body, reason: str, message: str) -> None:
        metadata = thing["metadata"]
        involved = {"kind": thing["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        event = {
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": {**involved, "namespace": metadata["namespace"]},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self._store.create(BY_NAME["Event"], metadata["namespace"], event, "test")

    def _live(self, plural: str, thing: Body) -> Stored:
        found = self._store.find(plural, thing["metadata"]["namespace"], thing["metadata"]["name"])
        assert found is not None
        return found


def _selector(text: str) -> list[tuple[str, Callable[[str | None], bool]]]:
    """The terms of a selector like `a=b,c!=d,e`."""
    return [_term(found) for found in _TERM.finditer(urllib.parse.unquote(text))]


def _term(found: re.Match[str]) -> tuple[str, Callable[[str | None], bool]]:
    operator, wanted = found["operator"], found["value"]
    if operator is None:
        return found["key"], lambda value: value is not None
    if operator == "!=":
        return found["key"], lambda value: value != wanted
    return found["key"], lambda value: value == wanted


def _field(thing: Body, path: str) -> str | None:
    value: Any = thing
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return None if value is None else str(value)


def _status(refused: statuses.Refused) -> Response:
    return JSONResponse(refused.body, refused.code)
