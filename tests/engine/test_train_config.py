"""The [train] section: combinations that cannot be are faults of the recipe, with key and place."""

import re

import pytest

from indigo_cli.engine.train_config import TrainConfig
from indigo_cli.errors import RecipeError
from indigo_cli.metrics import METRICS
from tests.tiny import Tiny


def test_which_way_a_figure_points() -> None:
    ways = {name: TrainConfig(best_by=name, validate_decode=1).higher_is_better for name in METRICS}
    assert {name for name, higher in ways.items() if not higher} == {"ter", "repetition"}
    assert {"bleu", "chrf", "ribes", "exact", "rouge1", "rouge2", "rougeL", "length"} <= ways.keys()
    assert not TrainConfig().higher_is_better


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.best_by=bleu"], "needs sentences to score.*hint: set validate_decode"),
        (["train.best_by=blue", "train.validate_decode=5"], "there is no 'blue'.*did you mean `bleu`"),
        (["train.keep_best=0"], "train.keep_best must be"),
        (["train.patience=-1"], "train.patience must be"),
        (["train.validate_decode=1.5"], "train.validate_decode must be"),
        (["train.validate_beam=0"], "train.validate_beam must be"),
        (["train.spike_factor=-1"], "train.spike_factor must be"),
        (["train.tensorboard=maybe"], "train.tensorboard must be"),
        (["train.max_steps=0", "train.patience=3"], "some limit is needed"),
        (["train.schedule=linear", "train.max_steps=0", "train.max_epochs=3"], "ends at max_steps"),
    ],
)
def test_faults(tiny: Tiny, settings: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        tiny.recipe(*settings)
    assert re.search(message, caught.value.render(), re.DOTALL)
    assert caught.value.exit_code == 2
