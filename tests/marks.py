"""Which cases of a parametrised test `make check` runs, too."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest


def quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Return all cases, all but the first ones marked slow."""
    rest = iter(cases)
    return [*islice(rest, count), *(pytest.param(case, marks=pytest.mark.slow) for case in rest)]
