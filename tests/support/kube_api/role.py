"""The role of the driver, as docs/reference/kubernetes.md prints it."""

import re
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "kubernetes.md"


def documented_role() -> dict[str, Any]:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    role: dict[str, Any] = yaml.safe_load(found[1])
    return role
