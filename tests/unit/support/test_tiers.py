"""The tests that run by default, with --all, and in a share."""

import pytest

TESTS = """
    import pytest

    def test_quick():
        pass

    @pytest.mark.exhaustive
    def test_exhaustive():
        pass

    @pytest.mark.exhaustive(beyond=2)
    @pytest.mark.parametrize("number", range(5))
    def test_cases(number):
        pass

    @pytest.mark.parametrize("engine", ["one", pytest.param("two", marks=pytest.mark.exhaustive)])
    def test_engines(engine):
        pass
"""
CONFTEST = """
    from support import tiers

    def pytest_addoption(parser):
        tiers.add_options(parser)

    def pytest_collection_modifyitems(config, items):
        tiers.select(config, items)
"""
QUICK = {"test_quick", "test_cases[0]", "test_cases[1]", "test_engines[one]"}
EXHAUSTIVE = {"test_exhaustive", "test_cases[2]", "test_cases[3]", "test_cases[4]", "test_engines[two]"}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    lines = (
        "[pytest]",
        "addopts = --strict-markers",
        "asyncio_default_fixture_loop_scope = function",
        "markers = exhaustive(beyond=0): of the exhaustive tier",
    )
    pytester.makeini("\n".join(lines))
    return pytester


def ran(suite: pytest.Pytester, *options: str) -> set[str]:
    result = suite.runpytest_inprocess("-v", *options)
    return {line.split("::")[1].split()[0] for line in result.outlines if " PASSED" in line}


def test_without_an_option_the_quick_tier_runs(suite: pytest.Pytester) -> None:
    assert ran(suite) == QUICK


def test_all_runs_both_tiers(suite: pytest.Pytester) -> None:
    assert ran(suite, "--all") == QUICK | EXHAUSTIVE


@pytest.mark.parametrize(("options", "whole"), [((), EXHAUSTIVE), (("--all",), QUICK | EXHAUSTIVE)])
def test_the_shares_are_all_tests_and_no_test_is_in_two(
    suite: pytest.Pytester, options: tuple[str, ...], whole: set[str]
) -> None:
    shares = [ran(suite, *options, "--share", f"{place}/3") for place in (1, 2, 3)]
    assert set().union(*shares) == whole
    assert sum(map(len, shares)) == len(whole)


def test_long_tests_are_spread_evenly_over_the_shares(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(12))
        @pytest.mark.exhaustive
        def test_short(number):
            pass

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.timeout(900)
        @pytest.mark.exhaustive
        def test_long(number):
            pass
    """)
    for place in (1, 2, 3):
        [long] = [test for test in ran(suite, "--share", f"{place}/3") if test.startswith("test_long")]
        assert long


@pytest.mark.parametrize("share", ["0/5", "6/5", "1", "a/b", "1/0"])
def test_an_invalid_share_is_refused(suite: pytest.Pytester, share: str) -> None:
    result = suite.runpytest_inprocess("--share", share)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*has to look like 2/5.*"])
