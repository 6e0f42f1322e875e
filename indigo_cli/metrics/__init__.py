"""Scores of text: `METRICS` maps a recipe's name to the builder of a metric (see `metric.py` for what one offers).

A builder takes the evaluation tokeniser and `MetricOptions` by keyword, and ignores what it has no use for. sacreBLEU
is imported by the builders, not here: it takes 0.3 s, and commands that never score read this table's names.
"""

from collections.abc import Callable, Sequence

from indigo_cli.core.settings import did_you_mean
from indigo_cli.errors import UsageError
from indigo_cli.metrics import bleu, chrf, exact_match, length, repetition, ribes, rouge, ter
from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions

METRICS: dict[str, Callable[..., Metric]] = {
    "bleu": bleu.build,
    "chrf": chrf.build,
    "ter": ter.build,
    "ribes": ribes.build,
    "exact": exact_match.build,
    "rouge1": rouge.build_rouge1,
    "rouge2": rouge.build_rouge2,
    "rougeL": rouge.build_rouge_l,
    "repetition": repetition.build,
    "length": length.build,
}

READS_WISH = frozenset({"length"})
"""Those that look at the length that was wanted of a line."""
PLANNED = ("meteor", "cider", "ast_exact")


def build_sentence_metric(name: str, *, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return the metric that scores single lines, on the same statistics: BLEU with effective order, others as ever."""
    if name == "bleu":
        return bleu.build(tokenize=tokenize, effective_order=True)
    return METRICS[name](tokenize=tokenize, options=options)


def build_metrics(names: Sequence[str], *, tokenize: str, options: MetricOptions = USUAL) -> dict[str, Metric]:
    """Return the named metrics in the order given, each once.

    Args:
        tokenize: What `choose_tokenizer` returned.
        options: Settings of single metrics.
    Raises: UsageError for a name that is unknown or not in this version, if there is none, or a package is missing.
    """
    available = f"available: {', '.join(METRICS)}"
    if not names:
        raise UsageError("no metric to compute", where="evaluate.metrics", fix=available)
    for name in names:
        if name in METRICS:
            continue
        if name in PLANNED:
            raise UsageError(f"metric {name!r} is not in this version", where="evaluate.metrics", fix=available)
        hint = f"{did_you_mean(name.lower(), METRICS)} {available}".strip()
        raise UsageError(f"unknown metric {name!r}", where="evaluate.metrics", fix=hint)
    return {name: METRICS[name](tokenize=tokenize, options=options) for name in names}
