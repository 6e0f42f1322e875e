"""Damaged files are read or refused in words, by every reader; `benchmarks/fuzz.py` does the same a thousand times."""

import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.readers import MAKERS
from tests.fuzz.subject import judge

MOST_GROWTH_KIB = 300 << 10
"""So much may the memory of the process grow: the largest file here has 80 KB, some claim terabytes."""


QUICK = ("recipe", "traces", "conllu", "packed")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MAKERS]
)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = MAKERS[name](tmp_path / name)
    monkeypatch.chdir(tmp_path)
    subject.read(subject.folder)  # the valid files; what it imports is no growth
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        outcome = judge(subject, data.draw(subject.damaged))
        assert not outcome.fault, outcome.fault

    check()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KIB
