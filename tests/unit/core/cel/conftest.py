"""What an evaluation did must not be counted in the tests after it."""

from collections.abc import Iterator

import pytest

from drabridge.core.cel import work


@pytest.fixture(autouse=True)
def no_work_goes_on() -> Iterator[None]:
    yield
    work._CURRENT.set(None)
