"""The fixtures and hooks of all tests, imported for the tests of the tools."""

from tests.conftest import (  # noqa: F401 - pytest finds them here
    _nobodys_settings,
    captures,
    pytest_configure,
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
