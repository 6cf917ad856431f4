"""`/openapi.json` is valid and complete, and its examples are accepted by the application."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from pydantic import BaseModel

from interlock.server.api import (
    backup_models,
    backups,
    bulk,
    credential,
    drift,
    events,
    facts,
    instance_models,
    instances,
)

MODULES = (backup_models, backups, bulk, credential, drift, events, facts, instance_models, instances)
MODELS = [
    model
    for module in MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
]


def operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in app.openapi()["paths"].items():
        for method, route in methods.items():
            yield path, method, route


def test_it_is_valid(app: FastAPI) -> None:
    validate(app.openapi())


def test_every_route_has_a_summary_and_lists_its_problems(app: FastAPI) -> None:
    for path, method, route in operations(app):
        if path.startswith("/api/"):
            assert route["summary"][0].isupper(), path
            assert route["security"] == [{"key": []}], path
            assert {"401", "422", "503", "default"} <= set(route["responses"]), path
            assert ("404" in route["responses"]) == ("{" in path), path
            assert ("409" in route["responses"]) == (method != "get"), path
            for status, answer in route["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)


def test_every_body_has_an_example(app: FastAPI) -> None:
    schemas = app.openapi()["components"]["schemas"]
    for path, _, route in operations(app):
        if "requestBody" in route:
            named = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert schemas[named]["examples"], path


def test_every_reference_leads_to_a_schema(app: FastAPI) -> None:
    described = app.openapi()
    assert set(re.findall(r"'#/components/schemas/(\w+)'", str(described))) <= set(described["components"]["schemas"])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_example_is_accepted_by_its_own_model(model: type[BaseModel]) -> None:
    for example in model.model_json_schema().get("examples", []):
        taken = model.model_validate(example)
        assert taken.model_dump(mode="json", exclude_unset=True) == example
