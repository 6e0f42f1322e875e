"""`kill -9` of whole commands at random instants: three kills; `benchmarks/kill.py` makes 80 of the same."""

import pytest

from tests.kill_commands import Killer


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Killer:
    return Killer(tmp_path_factory.mktemp("kill"), seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["preprocess, 2 workers", "reorder", "train"])
def test_a_kill_leaves_nothing_half_and_changes_nothing_in_the_end(killer: Killer, name: str) -> None:
    """Nor does a worker outlive the process that was killed."""
    tally = killer.kill(name, 1)
    assert tally.faults == []
    assert (tally.kills, tally.half, tally.differing, tally.children) == (1, 0, 0, 0)
