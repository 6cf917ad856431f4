import os
import pwd
from types import SimpleNamespace

import pytest

from interlock.embedded.accounts import account_for
from interlock.errors import ConfigurationError

USERS = {"root": 0, "postgres": 101, "nobody": 65534}


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The users of this machine, which is root's just now; a test may remove some."""
    users = dict(USERS)

    def entry(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_name=name, pw_uid=users[name], pw_gid=users[name])

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", entry)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry({uid: name for name, uid in users.items()}[uid]))
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry(name) for name in users])
    return users


def test_root_runs_it_as_postgres(users: dict[str, int]) -> None:
    assert account_for().name == "postgres"


def test_root_runs_it_as_nobody_where_there_is_no_postgres(users: dict[str, int]) -> None:
    del users["postgres"]

    assert account_for().name == "nobody"


def test_root_runs_it_as_the_given_user(users: dict[str, int]) -> None:
    assert account_for("nobody").name == "nobody"


def test_an_unknown_user_is_named_in_the_error(users: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="carol"):
        account_for("carol")


def test_it_is_never_run_as_root(users: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="refuses to run as root"):
        account_for("root")


def test_a_machine_without_any_fitting_user_says_so(users: dict[str, int]) -> None:
    del users["postgres"], users["nobody"]

    with pytest.raises(ConfigurationError, match="neither"):
        account_for()


def test_another_user_than_root_runs_it_as_itself(users: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)

    account = account_for()

    assert (account.name, account.switch_user, account.switch_groups) == ("nobody", None, None)


def test_another_user_than_root_cannot_switch_users(users: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)

    with pytest.raises(ConfigurationError, match="Only root"):
        account_for("postgres")
