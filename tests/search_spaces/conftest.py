"""The paper's expansion, made once for all tests that look at it."""

import pytest

from search_spaces.expand import Expansion, expand
from search_spaces.space import load_space


@pytest.fixture(scope="session")
def paper() -> Expansion:
    return expand(load_space("paper"))
