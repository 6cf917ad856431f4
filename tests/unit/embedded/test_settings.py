import pytest

from interlock.embedded.settings import RESERVED, as_list_item, check_settings, render, time_zone_settings
from interlock.errors import ConfigurationError


def test_quotes_and_backslashes_in_a_value_cannot_end_it() -> None:
    assert "search_path = 'it''s \\\\'''\n" in render({"search_path": "it's \\'"})


@pytest.mark.parametrize("value", ["on\nfsync = off", "on\r", "\0"])
def test_a_value_with_a_control_character_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="control character"):
        check_settings({"work_mem": value})


@pytest.mark.parametrize("name", ["", "work mem", "work_mem = 1\nport", "work-mem", "a.b.c", "ünicode", "1st"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name"):
        check_settings({name: "1"})


@pytest.mark.parametrize("name", [*sorted(RESERVED), "Listen_Addresses", "INCLUDE"])
def test_a_reserved_setting_is_refused_however_it_is_spelt(name: str) -> None:
    with pytest.raises(ConfigurationError, match="set by Interlock itself"):
        check_settings({name: "x"})


def test_settings_of_extensions_are_accepted() -> None:
    assert check_settings({"pg_stat_statements.Max": "10"}) == {"pg_stat_statements.max": "10"}


def test_a_path_in_a_list_keeps_its_commas_and_quotes() -> None:
    assert as_list_item('/a, "b"') == '"/a, ""b"""'


def test_without_a_time_zone_database_the_server_gets_the_one_zone_it_knows() -> None:
    assert time_zone_settings(zones_known=False) == {"timezone": "GMT", "log_timezone": "GMT"}
