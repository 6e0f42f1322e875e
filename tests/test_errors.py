"""Errors that a user can mend."""

import pickle

from indigo_cli.errors import DataError, RecipeError, UsageError


def test_faults_cross_processes() -> None:
    error = RecipeError([UsageError("a", where="r:1", fix="b"), DataError("c")])
    assert pickle.loads(pickle.dumps(error)).render() == error.render()
