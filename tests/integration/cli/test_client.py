"""Requests to the control plane are repeated where that is safe, and a key is sent to no other server."""

import socket
import time
from pathlib import Path

import pytest

from interlock.cli.server.client import ControlPlane
from interlock.cli.server.location import ServerLocation
from interlock.cli.server.transport import HttpRequest
from interlock.errors import ConfigurationError, KeyRefused, ServerRefused, ServerUnreachable
from interlock.tls.self_signed import self_signed
from support.scripted_server import KEY, LOST, Answer, ScriptedServer, problem, scripted_server

LATER = problem(503, "starting", "This replica is still starting: ask again in a moment.")


def client_for(*urls: str) -> tuple[ControlPlane, list[str], list[float]]:
    messages: list[str] = []
    pauses: list[float] = []
    return (
        ControlPlane(ServerLocation(lambda: urls, KEY), notify=messages.append, pause=pauses.append),
        messages,
        pauses,
    )


def free_address() -> str:
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{once.getsockname()[1]}"


def test_a_change_whose_answer_was_lost_is_sent_again_under_the_same_key(script: ScriptedServer) -> None:
    script.answers("POST /instances", LOST, {"name": "mydb"})
    server, _, _ = client_for(script.url)
    assert server.change("POST", "/instances", {"name": "mydb"}) == {"name": "mydb"}
    first, second = (one.headers["Idempotency-Key"] for one in script.asked)
    assert first == second
    server.change("POST", "/instances", {"name": "mydb"})
    assert script.asked[2].headers["Idempotency-Key"] != first


def test_a_request_is_not_sent_a_third_time(script: ScriptedServer) -> None:
    script.answers("POST /instances", LOST)
    server, _, _ = client_for(script.url)
    with pytest.raises(ServerUnreachable, match=f"No control plane answers at {script.url}"):
        server.change("POST", "/instances", {})
    assert len(script.asked) == 2


def test_the_client_waits_for_a_server_that_starts_and_notifies_once(script: ScriptedServer) -> None:
    script.answers("DELETE /instances/mydb", LATER, LATER, {"state": "deleting"})
    server, messages, pauses = client_for(script.url)
    assert server.change("DELETE", "/instances/mydb") == {"state": "deleting"}
    assert messages == ["This replica is still starting: ask again in a moment. Waiting for the control plane."]
    assert pauses == [1.0, 1.0]
    assert len({one.headers["Idempotency-Key"] for one in script.asked}) == 1


def test_the_client_waits_while_the_same_request_is_being_carried_out(script: ScriptedServer) -> None:
    under_way = Answer({"title": "Conflict"}, 409, {"Retry-After": "2"})
    script.answers("POST /instances", under_way, {"name": "mydb"})
    server, _, pauses = client_for(script.url)
    assert server.change("POST", "/instances", {}) == {"name": "mydb"}
    assert pauses == [2.0]


def test_a_refusal_is_not_repeated(script: ScriptedServer) -> None:
    script.answers("POST /instances", problem(409, "name_taken", "The name 'mydb' belongs to another."))
    server, _, _ = client_for(script.url)
    with pytest.raises(ServerRefused, match="belongs to another") as refused:
        server.change("POST", "/instances", {})
    assert (refused.value.code, refused.value.exit_status, len(script.asked)) == ("name_taken", 73, 1)


def test_another_replica_gets_the_request_if_one_does_not_answer(script: ScriptedServer) -> None:
    script.answers("GET /instances", {"items": []})
    server, _, _ = client_for(free_address(), script.url)
    assert server.get("/instances") == {"items": []}


def test_a_refused_key_is_an_error(script: ScriptedServer) -> None:
    script.answers("GET /instances", problem(401, "key_wrong", "This key is not known here."))
    server, _, _ = client_for(script.url)
    with pytest.raises(KeyRefused, match="does not accept this key"):
        server.get("/instances")
    assert script.asked[0].headers["Authorization"] == f"Bearer {KEY}"


def test_nothing_is_repeated_after_the_deadline(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    script.answers("GET /instances", LATER)
    server, _, pauses = client_for(script.url)
    with pytest.raises(ServerUnreachable, match="still starting"):
        server.within(time.monotonic() - 1).get("/instances")
    assert pauses == []

    given: list[tuple[float, float | None]] = []

    def silent(url: str, request: HttpRequest, timeout: float, read_timeout: float | None) -> None:
        given.append((timeout, read_timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr("interlock.cli.server.client.send", silent)
    with pytest.raises(ServerUnreachable, match="timed out"):
        server.within(time.monotonic() - 1).get("/instances")
    assert given == [(5.0, 5.0)]
    with pytest.raises(ServerUnreachable, match="timed out"):
        server.get("/instances")
    assert given[1:] == [(30.0, 30.0)] * 2


def test_no_server_answers() -> None:
    url = free_address()
    server, _, _ = client_for(url)
    with pytest.raises(ServerUnreachable, match=rf"No control plane answers at {url} \(Connection refused\)"):
        server.get("/instances")


def test_no_server_runs() -> None:
    server, _, _ = client_for()
    with pytest.raises(ServerUnreachable, match="start `interlock up`"):
        server.get("/instances")


def test_a_server_of_another_program_is_recognised(script: ScriptedServer) -> None:
    script.answers("GET /instances", Answer(b"<html>Welcome to nginx!</html>", 404))
    server, _, _ = client_for(script.url)
    with pytest.raises(ServerUnreachable, match="not Interlock's control plane"):
        server.get("/instances")
    script.answers("GET /instances", Answer(b"<html>Welcome to nginx!</html>", 200))
    with pytest.raises(ServerUnreachable, match="not Interlock's control plane"):
        server.get("/instances")


def test_a_redirect_is_not_followed(script: ScriptedServer) -> None:
    script.answers("GET /instances", Answer({}, 307, {"Location": f"{script.url}/api/v1/elsewhere"}))
    server, _, _ = client_for(script.url)
    with pytest.raises(ServerUnreachable, match="status 307"):
        server.get("/instances")
    assert script.lines() == ["GET /instances"]


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8080", "ftp://host", "http://", "http://me:secret@host", "http://host:port", "http://[::1"),
        *("http://a..b", f"http://{'a' * 64}.example.com"),
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    server, _, _ = client_for(url)
    with pytest.raises(ConfigurationError, match="write it like https://") as refused:
        server.get("/instances")
    assert "secret" not in str(refused.value)


def test_a_server_with_an_untrusted_certificate_gets_no_key(tmp_path: Path) -> None:
    certificate, key = self_signed(["localhost"])
    (tmp_path / "pem").write_bytes(key + b"\n" + certificate)
    with scripted_server(tmp_path / "pem") as script:
        server, _, _ = client_for(script.url)
        with pytest.raises(ServerUnreachable, match=r"self.signed certificate"):
            server.get("/instances")
    assert script.asked == []


def test_a_server_with_a_trusted_certificate_gets_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = self_signed(["localhost"])
    (tmp_path / "pem").write_bytes(key + b"\n" + certificate)
    (tmp_path / "ca").write_bytes(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
    with scripted_server(tmp_path / "pem") as script:
        script.answers("GET /instances", {"items": []})
        server, _, _ = client_for(script.url)
        assert server.get("/instances") == {"items": []}


def test_https_to_a_server_that_speaks_http_is_explained(script: ScriptedServer) -> None:
    server, _, _ = client_for(script.url.replace("http:", "https:"))
    with pytest.raises(ServerUnreachable, match=r"the server speaks http and not https"):
        server.get("/instances")


def test_lines_arrive_one_by_one(script: ScriptedServer) -> None:
    script.answers("GET /instances/mydb/logs", Answer(b"one\ntwo \xff\r\nthree"))
    server, _, _ = client_for(script.url)
    assert list(server.lines("/instances/mydb/logs", lines=3, follow=None)) == ["one", "two \ufffd", "three"]
    assert script.asked[0].query == {"lines": ["3"]}


def test_an_interrupted_stream_of_lines_raises_an_error(script: ScriptedServer) -> None:
    in_chunks = {"Transfer-Encoding": "chunked"}
    script.answers("GET /instances/mydb/logs", Answer(b"8\r\none\ntwo\n\r\n0\r\n\r\n", headers=in_chunks))
    server, _, _ = client_for(script.url)
    assert list(server.lines("/instances/mydb/logs")) == ["one", "two"]
    script.answers("GET /instances/mydb/logs", Answer(b"8\r\none\ntwo\n\r\n", headers=in_chunks))
    lines = server.lines("/instances/mydb/logs")
    assert (next(lines), next(lines)) == ("one", "two")
    with pytest.raises(ServerUnreachable, match=r"was lost \(the answer ended in the middle\): try again"):
        next(lines)
