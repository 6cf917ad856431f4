"""ZooKeeper, one server, with its defaults: every transaction is synced."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.equipment import SERVERS, ZOOKEEPER_JAR, which
from benchmarks.servers.process import free_port, running

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@contextmanager
def zookeeper(directory: Path) -> Iterator[str]:
    """Yields its address in the form for kazoo."""
    port = free_port()
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "zoo.cfg"
    settings.write_text(
        f"tickTime=2000\ndataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n"
    )
    java = which(SERVERS["zookeeper"].program) or "java"
    command = [java, "-Xmx512m", "-cp", str(ZOOKEEPER_JAR), _MAIN, str(settings)]
    with running(command, directory, port):
        yield f"127.0.0.1:{port}"
