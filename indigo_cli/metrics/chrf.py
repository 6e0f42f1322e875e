"""chrF2, 0 to 100, by sacreBLEU: character n-grams up to 6, no word n-grams, recall counted twice."""

from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions
from indigo_cli.metrics.sacre import SacreAdapter


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return corpus chrF; characters need no tokeniser, so `tokenize` changes nothing."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreAdapter(CHRF(), title="chrF2", higher_is_better=True)
