"""Instances in the format of the API's answers."""

from typing import Any

RUNNING: dict[str, Any] = {
    "id": "5b0c2f0e-0000-4000-8000-000000000001",
    "name": "mydb",
    "dns_name": "mydb.example.com",
    "driver": "local",
    "version": "17",
    "storage_bytes": 10 * 2**30,
    "parameters": {"work_mem": "8MB"},
    "tags": {"team": "shop"},
    "state": "running",
    "revision": 4,
    "health": "healthy",
    "connection": {
        "host": "127.0.0.1",
        "port": 15432,
        "user": "mydb",
        "database": "mydb",
        "ca": "-----BEGIN CERTIFICATE-----",
        "sslmode": "verify-full",
    },
    "error": None,
    "orchestration": "instance-5b0c-create-1",
    "working": False,
    "created_at": "2031-01-01T12:00:00Z",
    "updated_at": "2031-01-01T12:00:02.5Z",
    "deleted_at": None,
}
CREATING = RUNNING | {
    "state": "creating",
    "health": "unknown",
    "connection": None,
    "working": True,
    "updated_at": "2031-01-01T12:00:00Z",
}
FAILED = CREATING | {
    "state": "failed",
    "working": False,
    "error": {"code": "out_of_space", "message": "The disk is full: make room."},
}
DELETED = RUNNING | {"state": "deleted", "health": "unknown", "deleted_at": "2031-01-01T13:00:00Z"}


def happening(kind: str, second: float, detail: str = "") -> dict[str, Any]:
    return {"kind": kind, "recorded_at": f"2031-01-01T12:00:{second:09.6f}Z", "detail": detail}
