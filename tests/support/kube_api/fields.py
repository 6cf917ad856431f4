"""The ownership of fields in server-side apply.

A path is a tuple of elements, written as in `managedFields`: ``f:name`` for a field, ``k:{…}`` for the item of a list
that has keys, ``v:…`` for the item of a set. A set of fields holds the paths of leaves, and of items themselves.
"""

import copy
import json
from typing import Any

from support.kube_api.schema import field_type, merging

Path = tuple[str, ...]

# These fields identify the object, and have no owner.
_NOT_OWNED = {
    *((f"f:{name}",) for name in ("apiVersion", "kind", "status", "metadata")),
    *(
        ("f:metadata", f"f:{name}")
        for name in ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    ),
    *(("f:metadata", f"f:{name}") for name in ("deletionTimestamp", "deletionGracePeriodSeconds")),
}


def owned_fields(value: dict[str, Any], model: Any) -> dict[Path, Any]:
    """Every leaf of an object, with its value."""
    found: dict[Path, Any] = {}
    _collect(value, model, (), found)
    return {
        path: leaf for path, leaf in found.items() if path[:1] not in _NOT_OWNED - {("f:metadata",)} and not _meta(path)
    }


def _meta(path: Path) -> bool:
    return path in _NOT_OWNED or path[:2] in _NOT_OWNED


def _collect(value: Any, model: Any, path: Path, found: dict[Path, Any]) -> None:
    if not isinstance(value, dict) or not value:
        found[path] = value
        return
    for name, inner in value.items():
        if inner is None:
            continue
        context = (*path, f"f:{name}")
        how = merging(model, name, inner)
        below = field_type(model, name)
        if how == "atomic":
            found[context] = inner
        elif how == "set":
            found.update({(*context, f"v:{json.dumps(item)}"): item for item in inner})
        elif isinstance(how, tuple):
            for item in inner:
                element = (*context, _key(item, how))
                found[element] = None
                _collect(item, below, element, found)
        else:
            _collect(inner, below, context, found)


def merged(live: Any, given: Any, model: Any) -> Any:
    """`live` merged with `given`."""
    if not isinstance(live, dict) or not isinstance(given, dict):
        return copy.deepcopy(given)
    result = dict(live)
    for name, value in given.items():
        how = merging(model, name, value)
        if name not in live or how == "atomic":
            result[name] = copy.deepcopy(value)
        elif how == "set":
            result[name] = [*value, *(item for item in live[name] if item not in value)]
        elif isinstance(how, tuple):
            result[name] = _merged_items(live[name], value, how, field_type(model, name))
        else:
            result[name] = merged(live[name], value, field_type(model, name))
    return result


def _merged_items(live: list[Any], given: list[Any], keys: tuple[str, ...], model: Any) -> list[Any]:
    there = {_key(item, keys): item for item in live}
    wanted = {_key(item, keys): merged(there.get(_key(item, keys), {}), item, model) for item in given}
    return [*wanted.values(), *(item for key, item in there.items() if key not in wanted)]


def without(value: dict[str, Any], paths: set[Path], kept: set[Path], model: Any) -> dict[str, Any]:
    """`value` without the leaves at `paths`, and without empty parents that are not in `kept`."""
    result = copy.deepcopy(value)
    for path in sorted(paths, key=len):  # an item before the fields that it is known by
        if not any(other[: len(path)] == path for other in kept):
            _remove(result, path)
            for length in range(len(path) - 1, 0, -1):
                if not any(other[:length] == path[:length] for other in kept):
                    _remove(result, path[:length], only_empty=True)
    return result


def _remove(value: Any, path: Path, *, only_empty: bool = False) -> None:
    *before, last = path
    for element in before:
        value = _step(value, element)
        if value is None:
            return
    inner = _step(value, last)
    if inner is None or (only_empty and inner not in ({}, [])):
        return
    if isinstance(value, list):
        value.remove(inner)
    else:
        del value[last[2:]]


def _step(value: Any, element: str) -> Any:
    kind, name = element[:2], element[2:]
    if kind == "f:":
        return value.get(name) if isinstance(value, dict) else None
    if kind == "v:":
        return next((item for item in value if json.dumps(item) == name), None)
    key = json.loads(name)
    return next((item for item in value if all(item.get(field) == wanted for field, wanted in key.items())), None)


def _key(item: dict[str, Any], keys: tuple[str, ...]) -> str:
    values = {name: item.get(name, "TCP" if name == "protocol" else None) for name in sorted(keys)}
    return "k:" + json.dumps(
        {name: value for name, value in values.items() if value is not None}, separators=(",", ":")
    )


def as_fields_v1(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        if path[-1].startswith("k:"):
            node["."] = {}
    return tree
