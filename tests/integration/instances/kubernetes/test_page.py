"""The example of docs/how-to/kubernetes.md runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.kube_api.role import PAGE
from support.kube_api.server import FakeCluster


async def test_the_example_runs(
    fake_cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.store.namespaces.add("databases")
    monkeypatch.setenv("KUBECONFIG", str(fake_cluster.kubeconfig(tmp_path / "kubeconfig")))
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    namespace: dict[str, Any] = {}
    exec(found[1], namespace)  # noqa: S102

    await namespace["make"]("5b0c")

    assert "state='starting'" in capsys.readouterr().out
    assert await namespace["driver"].ids() == {"5b0c": "shop"}
