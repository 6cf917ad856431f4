"""Backups in the API: the bodies of requests, and the records as answers show them."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from interlock.instances.backups import records
from interlock.instances.backups.model import Format, State
from interlock.server.api.instance_models import Parameters
from interlock.server.api.record_models import RecordModel, RequestModel, Text
from interlock.server.api.resource import Resource


class NewBackup(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"format": "directory"}]})

    format: Format = Field("file", description="The format of pg_dump: custom (`file`) or `directory`.")


class Restore(RequestModel):
    """The target of the restore: a new instance (`name`) or a running one (`into`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "orders-copy"}, {"into": "orders"}, {"name": "new", "version": "17"}]}
    )

    name: Text | None = Field(None, description="The name of the new instance.")
    into: Text | None = Field(
        None,
        description="The id or name of a running instance. Objects in the backup replace objects of the same name.",
    )
    dns_name: Text | None = Field(None, description="A host name for the new instance.")
    driver: Text | None = Field(
        None, description="The driver of the new instance; by default the driver of the instance that was backed up."
    )
    version: Text | int | None = Field(
        None, description="PostgreSQL's major version; by default the version of the instance that was backed up."
    )
    storage: Text | int | None = Field(None, description="The size of the new instance: 10Gi, 500MB, or bytes.")
    parameters: Parameters = Field(default_factory=dict, description="PostgreSQL's settings in the new instance.")
    tags: dict[str, str] = Field(default_factory=dict, description="Your own labels; lists can be filtered by them.")


class Backup(RecordModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "4f1d7c52-0c8b-4a0e-9b39-6f5f7c2b8a10",
                    "instance": "0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55",
                    "instance_name": "orders",
                    "format": "file",
                    "state": "made",
                    "revision": 2,
                    "path": "orders/20260131T120000Z-4f1d7c52-0c8b-4a0e-9b39-6f5f7c2b8a10.1/archive.dump",
                    "size_bytes": 48213,
                    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                    "server_version": "17.5",
                    "error": None,
                    "orchestration": "backup-4f1d7c52-0c8b-4a0e-9b39-6f5f7c2b8a10-make-1f2e3d4c",
                    "working": False,
                    "created_at": "2026-01-31T12:00:00Z",
                    "created_by": "key:5d0c2a7b91e4",
                    "updated_at": "2026-01-31T12:00:04Z",
                    "made_at": "2026-01-31T12:00:01Z",
                    "verified_at": None,
                    "deleted_at": None,
                }
            ]
        }
    )

    instance: str = Field(description="The id of the instance that was backed up.")
    instance_name: str
    format: Format
    state: State
    path: str | None = Field(description="The path inside the backup directory; null until the backup is made.")
    size_bytes: int | None
    sha256: str | None
    server_version: str | None
    made_at: datetime | None
    verified_at: datetime | None


class BackupPage(BaseModel):
    items: list[Backup]
    next: str | None = Field(description="Send it as `after` to read the next page; null on the last page.")


BACKUPS: Resource[records.BackupRecord, Backup] = Resource(lambda control: control.backups, Backup)
