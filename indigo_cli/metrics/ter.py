"""TER, 0 to 100 and above, less is better, by sacreBLEU: lower case, words between spaces, Tercom's shifts."""

from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions
from indigo_cli.metrics.sacre import SacreAdapter


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return corpus TER with sacreBLEU's defaults; it has a tokeniser of its own, so `tokenize` changes nothing."""
    from sacrebleu.metrics.ter import TER

    return SacreAdapter(TER(), title="TER", higher_is_better=False)
