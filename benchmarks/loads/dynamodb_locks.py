"""python-dynamodb-lock, with its defaults: a heartbeat every five seconds, a lease of thirty."""

import uuid
from urllib.parse import parse_qs, urlsplit

import boto3  # type: ignore[import-not-found] # in the peers' environment
from python_dynamodb_lock.python_dynamodb_lock import (  # type: ignore[import-not-found] # as above
    DynamoDBLockClient,
)

from benchmarks.loads.protocol import Settings
from benchmarks.loads.threads import serve_cycles


class OneLock:
    def __init__(self, client: DynamoDBLockClient, name: str) -> None:
        self._client = client
        self._name = name

    def acquire(self) -> None:
        self._lock = self._client.acquire_lock(self._name)

    def release(self) -> None:
        self._lock.release()


def main(settings: Settings) -> None:
    query = parse_qs(urlsplit(settings["url"]).query)
    where = {"region_name": query["region"][0], "endpoint_url": query["endpoint"][0]}
    table = f"peer-{uuid.uuid4().hex}"
    low_level = boto3.client("dynamodb", **where)
    low_level.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("lock_key", "sort_key")],
        KeySchema=[
            {"AttributeName": "lock_key", "KeyType": "HASH"},
            {"AttributeName": "sort_key", "KeyType": "RANGE"},
        ],
    )
    low_level.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    client = DynamoDBLockClient(boto3.resource("dynamodb", **where), table_name=table)
    try:
        serve_cycles(lambda worker: OneLock(client, f"cycle-{worker}"), settings["workers"])
    finally:
        client.close()
