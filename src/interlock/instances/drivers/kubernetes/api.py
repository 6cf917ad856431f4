"""Requests to the API server, and the translation of its errors. Only this module connects to the server."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import httpx2
from httpx2.websockets import HTTPXWSException
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.core_v1 import Event
from lightkube.types import CascadeType, PatchType

from interlock.errors import (
    BadSpec,
    BeingRemoved,
    ConfigurationError,
    DriverError,
    DriverUnreachable,
    ForeignResource,
    NotSupported,
    OutOfSpace,
)
from interlock.instances.drivers.kubernetes.names import MANAGER
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings

_TEMPORARY = frozenset({408, 410, 429, 500, 502, 503, 504})
_CHANGED_MEANWHILE = "please apply your changes to the latest version"


class Api:
    """A client of one namespace of one API server, for the duration of one operation.

    So a driver belongs to no event loop and has nothing to close, and renewed credentials are read again.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._client = self._new_client()
        self.namespace: str = self._client.namespace
        self.server: str = self._client.config.cluster.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def find(self, kind: Any, name: str) -> Any | None:
        with self._translated(f"{kind.__name__} {name}"):
            try:
                return await self._client.get(kind, name)
            except ApiError as error:
                if not _says_absent(error):
                    raise
                return None

    async def labelled(self, kind: Any, labels: Mapping[str, str | None]) -> list[Any]:
        with self._translated(f"the list of {kind.__name__}s"):
            return [resource async for resource in self._client.list(kind, labels=dict(labels))]

    async def warnings(self, uid: str) -> list[Any]:
        kind: Any = Event
        with self._translated("the list of events"):
            fields: dict[str, Any] = {"involvedObject.uid": uid, "type": "Warning"}
            return [event async for event in self._client.list(kind, fields=fields)]

    async def create(self, resource: Any) -> Any | None:
        """Create an object. Returns None if an object with its name exists; the server decides that."""
        try:
            with self._translated(_label(resource)):
                return await self._client.create(resource)
        except ForeignResource:
            return None

    async def ensure(self, resource: Any, existing: Any | None) -> None:
        """Create an object, or change `existing` to it; a later object with the same name is not changed."""
        if existing is not None:
            resource.metadata.uid = existing.metadata.uid
        with self._translated(_label(resource), known=existing is not None):
            # Existing objects are forced, because Interlock owns their fields. New ones are not: if another client
            # creates the object at the same time, its selector differs, and that is a conflict.
            await self._client.apply(resource, force=existing is not None)

    async def change(self, existing: Any, change: Mapping[str, Any], *, only_if_unchanged: bool = False) -> None:
        """Change these fields of exactly this object."""
        which = {"uid": existing.metadata.uid}
        if only_if_unchanged:
            which["resourceVersion"] = existing.metadata.resourceVersion
        patch = {**change, "metadata": {**change.get("metadata", {}), **which}}
        kind, name = type(existing), existing.metadata.name
        with self._translated(_label(existing), known=True):
            await self._client.patch(kind, name, patch, patch_type=PatchType.MERGE)

    async def delete(self, existing: Any, *, foreground: bool = False) -> None:
        """Delete an object. It is no error if it is gone already."""
        kind, name = type(existing), existing.metadata.name
        cascade = CascadeType.FOREGROUND if foreground else CascadeType.BACKGROUND
        with self._translated(_label(existing), known=True):
            try:
                await self._client.delete(kind, name, cascade=cascade)
            except ApiError as error:
                if not _says_absent(error):
                    raise

    async def run(self, pod: str, container: str, command: Sequence[str], *, given: str) -> tuple[int, str]:
        """Run a command in a pod. Returns its exit status and its stderr."""
        with self._translated(f"Pod {pod}"):
            answer = await self._client.exec(
                pod,
                container=container,
                command=command,
                stdin=given,
                stdout=True,
                stderr=True,
                timeout=self._settings.timeout * 3,
            )
        return answer.exit_code, str(answer.stderr)

    async def log(self, pod: str, container: str, *, lines: int, follow: bool) -> AsyncIterator[str]:
        with self._translated(f"the log of Pod {pod}"):
            # The first request never follows, because lightkube cannot read the text of an error from a stream.
            existing = [
                line async for line in self._client.log(pod, container=container, tail_lines=lines, newlines=False)
            ]
            if not follow:
                for line in existing:
                    yield line
                return
            async for line in self._client.log(pod, container=container, tail_lines=lines, follow=True, newlines=False):
                yield line

    def _new_client(self) -> AsyncClient:
        settings = self._settings
        try:
            config = KubeConfig.from_file(settings.kubeconfig) if settings.kubeconfig else KubeConfig.from_env()
            return AsyncClient(
                config=config.get(settings.context),
                namespace=settings.namespace,
                timeout=httpx2.Timeout(settings.timeout),
                field_manager=MANAGER,
            )
        except Exception as error:  # lightkube raises errors of many types here
            raise ConfigurationError(
                f"The kubeconfig cannot be used ({_reason(error)}): name a file with a cluster, a user and a context."
            ) from error

    @contextmanager
    def _translated(self, what: str, *, known: bool = False) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise self._error(error, what, known) from error
        except ConfigError as error:
            raise ConfigurationError(
                f"The login of the kubeconfig does not work ({_reason(error)}): check it with `kubectl get pods`."
            ) from error
        except HTTPXWSException as error:
            raise DriverUnreachable(
                f"No command can be run in {what} in namespace {self.namespace} ({_reason(error)}): check that its "
                "node can be reached, and that the role allows pods/exec."
            ) from error
        except httpx2.HTTPError as error:
            raise DriverUnreachable(
                f"The Kubernetes API server at {self.server} does not answer ({_reason(error)}): "
                "check the address and the network, and that the server runs."
            ) from error

    def _error(self, error: ApiError, what: str, known: bool) -> DriverError | ConfigurationError:
        status = error.status
        code, said = status.code or 0, (status.message or str(error)).rstrip(".")
        where = f"{what} in namespace {self.namespace}"
        if code == 404 and status.details and status.details.kind == "namespaces":
            return ConfigurationError(f"There is no namespace {self.namespace}: create it, or name another namespace.")
        if code == 403 and "exceeded quota" in said:
            return OutOfSpace(
                f"The quota of namespace {self.namespace} is used up ({said}): raise the quota, or delete objects."
            )
        if code == 403 and "support resize" in said:
            return NotSupported(f"The storage class of {where} cannot grow volumes: create a new instance.")
        if code in (401, 403):
            return DriverUnreachable(f"Kubernetes denies access to {where} ({said}): grant the role that is needed.")
        if code == 500 and "not declared in schema" in said:
            return ConfigurationError(f"This Kubernetes is too old ({said}): upgrade it to 1.27 or newer.")
        if code == 400 and "waiting to start" in said:
            return DriverError(f"Kubernetes has no output for {where} yet ({said}): wait until the pod runs.")
        if known and (code in (404, 409, 410) or "metadata.uid" in said):
            return BeingRemoved(f"{where} was changed or removed in the meantime ({said}): try again.")
        # Other clients change quota objects at the same time too.
        if code in _TEMPORARY or (code == 409 and _CHANGED_MEANWHILE in said):
            return DriverUnreachable(f"The Kubernetes API server at {self.server} is not ready ({said}): try again.")
        if code == 404 and status.details and status.details.name:
            return BeingRemoved(f"{where} was removed in the meantime ({said}): try again.")
        if code == 409:
            return ForeignResource(f"{where} exists and is not Interlock's ({said}): delete or rename it.")
        return BadSpec(f"Kubernetes refuses {where} ({said}): change the request.")


def _says_absent(error: ApiError) -> bool:
    details = error.status.details
    return error.status.code == 404 and (details is None or details.kind != "namespaces")


def _label(resource: Any) -> str:
    return f"{type(resource).__name__} {resource.metadata.name}"


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return str(response or error) or type(error).__name__
