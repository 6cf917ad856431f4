import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from interlock.embedded import Binaries, Cluster
from interlock.errors import ConfigurationError, TlsUnavailable
from interlock.tls.self_signed import self_signed

MakeCluster = Callable[..., Cluster]

SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])

needs_tls = pytest.mark.usefixtures("_tls")


@pytest.fixture
def _tls(binaries: Binaries) -> None:
    if not binaries.has_tls:
        pytest.skip("these binaries are built without TLS")


def password_of(cluster: Cluster) -> str:
    return (cluster.root / "password").read_text()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def speaks_tls(url: str, authority: Path) -> bool:
    with psycopg.connect(url, sslmode="verify-full", sslrootcert=str(authority)) as connection:
        row = connection.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
        return row == (True,)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_wrong_password_is_refused(make_cluster: MakeCluster, tcp: bool) -> None:
    cluster = make_cluster(port="free")
    cluster.start()

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(cluster.url(tcp=tcp).replace(password_of(cluster), "guess"))


def test_secrets_are_for_their_owner_only(cluster: Cluster) -> None:
    cluster.start()

    assert mode_of(cluster.root / "password") == 0o600
    assert mode_of(cluster.root / "postgresql.log") == 0o600
    assert mode_of(cluster.root / "run") == 0o700
    assert mode_of(cluster.root / "data") == 0o700


def recording_binaries(binaries: Binaries, place: Path) -> tuple[Binaries, Path]:
    """Binaries that write down their arguments and environment before they do their work."""
    record = place / "record"
    record.touch()
    record.chmod(0o666)
    bin_dir = place / "bin"
    bin_dir.mkdir()
    bin_dir.chmod(0o755)
    for name in ("postgres", "initdb"):
        script = bin_dir / name
        script.write_text(f'#!/bin/sh\n(echo {name} "$@"; env) >>{record}\nexec {binaries.bin_dir / name} "$@"\n')
        script.chmod(0o755)
    return replace(binaries, bin_dir=bin_dir), record


def test_the_password_is_in_no_argument_environment_or_log(
    place: Path, binaries: Binaries, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMEBODYS_SECRET", "sesame")
    caplog.set_level(logging.DEBUG)
    recording, record = recording_binaries(binaries, place)
    cluster = Cluster(place / "cluster", binaries=recording)
    with cluster.shared():
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(cluster.url("no_such_database"))
        password = password_of(cluster)

    told = record.read_text()
    assert "initdb --pgdata" in told
    assert "postgres -D" in told
    assert password not in told
    assert "sesame" not in told
    assert password not in (cluster.root / "postgresql.log").read_text()
    assert not any(password in str(vars(entry)) for entry in caplog.records)


@needs_tls
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_client_can_verify_the_certificate_over_tcp(make_cluster: MakeCluster, host: str) -> None:
    cluster = make_cluster(port="free", tls=True)
    cluster.start()

    assert speaks_tls(cluster.url(tcp=True).replace("127.0.0.1", host), cluster.certificate_file)
    assert mode_of(cluster.root / "server.pem") == 0o600


@needs_tls
def test_a_new_certificate_is_served_without_a_restart(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free")
    cluster.start()
    pid, old = cluster.pid(), cluster.root.parent / "old.crt"
    old.write_bytes(cluster.certificate_file.read_bytes())

    cluster.use_certificate(*self_signed())

    assert cluster.pid() == pid
    assert speaks_tls(cluster.url(tcp=True), cluster.certificate_file)
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        speaks_tls(cluster.url(tcp=True), old)


@needs_tls
def test_a_certificate_without_its_key_changes_nothing(cluster: Cluster) -> None:
    before = (cluster.root / "server.pem").read_bytes()

    with pytest.raises(ConfigurationError):
        cluster.use_certificate(self_signed()[0], self_signed()[1])

    assert (cluster.root / "server.pem").read_bytes() == before


@needs_tls
def test_a_cluster_that_was_started_without_tls_says_so(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free", tls=False)
    cluster.start()

    before = (cluster.root / "server.pem").read_bytes()

    with pytest.raises(TlsUnavailable, match="started without TLS"):
        cluster.use_certificate(*self_signed())

    assert (cluster.root / "server.pem").read_bytes() == before


@needs_tls
def test_a_cluster_goes_back_to_the_certificate_that_it_made_itself(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free")
    cluster.start()
    cluster.use_certificate(*self_signed())
    own = cluster.root / "server-own.pem"
    assert mode_of(own) == 0o600
    assert not own.read_bytes().endswith(cluster.certificate_file.read_bytes())

    cluster.use_own_certificate()

    assert own.read_bytes().endswith(cluster.certificate_file.read_bytes())
    assert speaks_tls(cluster.url(tcp=True), cluster.certificate_file)


def test_insisting_on_tls_fails_on_binaries_without_it(place: Path, binaries: Binaries) -> None:
    cluster = Cluster(place / "cluster", binaries=replace(binaries, has_tls=False), tls=True)

    with pytest.raises(TlsUnavailable, match="built without TLS"):
        cluster.create()

    assert not (place / "cluster" / "data").exists()


def test_binaries_without_tls_serve_without_it_unless_tls_is_required(cluster: Cluster, binaries: Binaries) -> None:
    plain = Cluster(cluster.root, binaries=replace(binaries, has_tls=False))
    plain.start()

    with psycopg.connect(plain.url()) as connection:
        assert connection.execute("show ssl").fetchone() == ("off",)


@needs_tls
def test_a_strict_client_trusts_the_self_signed_certificate(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free")
    cluster.start()
    context = ssl.create_default_context(cafile=os.fspath(cluster.certificate_file))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = urlsplit(cluster.url(tcp=True)).port

    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(SSL_REQUEST)
        assert plain.recv(1) == b"S"
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.version() == "TLSv1.3"
