"""The metadata that a lease may carry."""

from types import MappingProxyType
from typing import Any

import pytest

from interlock import AsyncInterlock, Interlock
from interlock.errors import ConfigurationError

URL = "postgresql://localhost/none"


@pytest.mark.parametrize("metadata", [[1], 3, "zone a", [("zone", "a")], False])
@pytest.mark.parametrize("kind", [AsyncInterlock, Interlock])
def test_metadata_that_is_no_mapping_is_refused(kind: type[AsyncInterlock | Interlock], metadata: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a mapping: give one, such as \{'zone': 'a'\}\."):
        kind(URL).lease("feeds", metadata=metadata)


@pytest.mark.parametrize("metadata", [{"zone": object()}, {"zone": float("nan")}, MappingProxyType({"zone": "a"})])
def test_metadata_that_json_cannot_represent_is_refused(metadata: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        AsyncInterlock(URL).lease("feeds", metadata=metadata)


def test_mappings_are_accepted() -> None:
    AsyncInterlock(URL).lease("feeds", metadata={})
    AsyncInterlock(URL).lease("feeds", metadata={"zone": ["a", 1, None]})
