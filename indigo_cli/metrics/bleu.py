"""BLEU, 0 to 100, by sacreBLEU."""

from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions
from indigo_cli.metrics.sacre import SacreAdapter


def build(*, tokenize: str, options: MetricOptions = USUAL, effective_order: bool = False) -> Metric:
    """Return corpus BLEU; `effective_order` is for scores of single lines, and the signature says so (`eff:yes`).

    Without it a perfect line of fewer than four tokens scores 0, which is right for a corpus only.
    """
    from sacrebleu.metrics.bleu import BLEU

    # force: assess.py warns of tokenised text itself, from the first line on (sacreBLEU waits for a hundred)
    return SacreAdapter(
        BLEU(tokenize=tokenize, effective_order=effective_order, force=True), title="BLEU", higher_is_better=True
    )
