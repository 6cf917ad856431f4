"""Instances in the API: the bodies of requests, and the records as answers show them."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from interlock.aggregate.record import Record
from interlock.errors import InterlockError
from interlock.instances import records
from interlock.instances.model import Health, State
from interlock.names import dns_label
from interlock.server.api.record_models import RecordModel, RequestModel, Text
from interlock.server.api.resource import Resource
from interlock.tls.sslmode import Mode, sslmode

Parameters = dict[str, str | bool | int | float]


class NewInstance(RequestModel):
    """An instance to create."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "shop"},
                {
                    "name": "orders",
                    "dns_name": "orders.example.com",
                    "driver": "local",
                    "version": "17",
                    "storage": "10Gi",
                    "parameters": {"max_connections": 50, "log_min_duration_statement": "250ms"},
                    "tags": {"team": "shop"},
                },
            ]
        }
    )

    name: Text = Field(description="A DNS label. It is also the name of the owner role and of the database.")
    dns_name: Text | None = Field(None, description="A host name for the instance.")
    driver: Text | None = Field(None, description="The driver; by default the server's setting `driver`.")
    version: Text | int | None = Field(None, description="PostgreSQL's major version; by default the newest.")
    storage: Text | int | None = Field(None, description="The size: 10Gi, 500MB, or bytes.")
    parameters: Parameters = Field(default_factory=dict, description="PostgreSQL's settings.")
    tags: dict[str, str] = Field(default_factory=dict, description="Your own labels; lists can be filtered by them.")


class NewParameters(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"parameters": {"work_mem": "16MB"}}]})

    parameters: Parameters = Field(description="All parameters. A parameter that is left out returns to its default.")


class NewStorage(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"storage": "20Gi"}]})

    storage: Text | int = Field(description="The new size: 20Gi, 500GB, or bytes.")


class Connection(BaseModel):
    """The address of the instance, and how clients verify its TLS certificate. The password has a route of its own."""

    host: str
    port: int
    user: str
    database: str
    ca: str | None = Field(description="The CA certificate (PEM) that verifies the server's certificate.")
    sslmode: Mode = Field(
        description="The strictest verification that succeeds. It is verify-ca if the instance made its certificate "
        "itself and the certificate does not name the host: such a certificate cannot name a load balancer's address."
    )


class Instance(RecordModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55",
                    "name": "orders",
                    "dns_name": "orders.example.com",
                    "driver": "local",
                    "version": "17",
                    "storage_bytes": 10737418240,
                    "parameters": {"max_connections": "50"},
                    "tags": {"team": "shop"},
                    "state": "running",
                    "revision": 4,
                    "health": "healthy",
                    "connection": {
                        "host": "127.0.0.1",
                        "port": 15432,
                        "user": "orders",
                        "database": "orders",
                        "ca": "-----BEGIN CERTIFICATE-----\n…",
                        "sslmode": "verify-full",
                    },
                    "error": None,
                    "orchestration": "instance-0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55-create-1f2e3d4c",
                    "working": False,
                    "created_at": "2026-01-31T12:00:00Z",
                    "created_by": "key:5d0c2a7b91e4",
                    "updated_at": "2026-01-31T12:00:04Z",
                    "deleted_at": None,
                }
            ]
        }
    )

    name: str
    dns_name: str | None
    driver: str
    version: str | None
    storage_bytes: int | None
    parameters: dict[str, str]
    tags: dict[str, str]
    state: State
    health: Health
    connection: Connection | None

    @classmethod
    def of(cls, record: Record, **more: Any) -> Self:
        assert isinstance(record, records.InstanceRecord)
        return super().of(record, connection=_connection(record), **more)


def _connection(record: records.InstanceRecord) -> Connection | None:
    if (endpoint := record.endpoint) is None:
        return None
    return Connection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        database=endpoint.database,
        ca=endpoint.ca,
        sslmode=sslmode(endpoint.host, endpoint.ca),
    )


class InstancePage(BaseModel):
    items: list[Instance]
    next: str | None = Field(description="Send it as `after` to read the next page; null on the last page.")


def _normalized(id_or_name: str) -> str:
    """Returns the name or id as it is stored: in lower case, and a name in ASCII."""
    try:
        return dns_label(id_or_name)
    except InterlockError:
        return id_or_name.lower()


INSTANCES: Resource[records.InstanceRecord, Instance] = Resource(
    lambda control: control.instances, Instance, _normalized
)
