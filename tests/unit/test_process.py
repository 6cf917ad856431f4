"""A forked child knows that it is one."""

import os

from interlock import process
from support.forks import in_child


def test_a_child_has_a_number_of_its_own_and_the_parent_keeps_its() -> None:
    before = process.pid
    assert in_child(lambda: process.pid == os.getpid() != before)
    assert process.pid == before == os.getpid()
