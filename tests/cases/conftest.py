"""What several kinds of cases share."""

from pathlib import Path

import pytest

from tests.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
