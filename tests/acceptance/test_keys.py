"""`interlock key` creates, lists and revokes keys, without a server."""

import json
import re

from support.postgres import execute
from support.programs import interlock


def test_a_key_is_printed_once_then_listed_by_its_name_and_revoked(interlock_url: str) -> None:
    made = interlock("key", "create", "a colleague's laptop", url=interlock_url)
    assert (made.returncode, made.stderr) == (0, "")
    key = made.stdout.strip()
    assert re.fullmatch(r"ilk_[\w-]{43}", key)
    assert key not in str(execute(interlock_url, "SELECT api_key::text FROM interlock.api_key"))

    listed = interlock("key", "list", url=interlock_url).stdout
    assert "a colleague's laptop" in listed
    assert "never used" in listed
    assert key not in listed
    [one] = json.loads(interlock("key", "list", "--json", url=interlock_url).stdout)
    assert (one["name"], one["last_used_at"], one["revoked_at"]) == ("a colleague's laptop", None, None)

    revoked = interlock("key", "revoke", one["id"], url=interlock_url)
    assert (revoked.returncode, "revoked" in revoked.stdout) == (0, True)
    [after] = json.loads(interlock("key", "list", "--json", url=interlock_url).stdout)
    assert after["revoked_at"]
    again = json.loads(interlock("key", "revoke", one["id"], "--json", url=interlock_url).stdout)
    assert again == after


def test_an_unknown_key_cannot_be_revoked(interlock_url: str) -> None:
    done = interlock("key", "revoke", "nothing", url=interlock_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no key 'nothing'" in done.stderr


def test_an_invalid_name_and_a_database_without_keys_are_explained(interlock_url: str, database_url: str) -> None:
    assert interlock("key", "create", "", url=interlock_url).returncode == 65
    done = interlock("key", "list", url=database_url)
    assert (done.returncode, "interlock schema apply" in done.stderr) == (78, True)
