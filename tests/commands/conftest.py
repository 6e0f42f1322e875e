"""The toy task, once for all tests of this folder."""

import pytest

from tests.tiny import Tiny, make_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A toy corpus and a run trained on it; tests must not change them."""
    return make_tiny(tmp_path_factory.mktemp("tiny"))
