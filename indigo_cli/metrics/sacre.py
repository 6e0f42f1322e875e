"""sacreBLEU's metrics behind our protocol: the one place that knows its insides.

sacreBLEU offers per-line statistics only through two methods with a leading underscore, the same two that its own
significance tests live on since 2.0. They are used here and nowhere else; the tests hold the result against the public
`corpus_score`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from indigo_cli.metrics.metric import NO_PARTS

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric


class SacreAdapter:
    """One configured sacreBLEU metric object as statistics + score + signature."""

    decimals = 2
    needs_reference = False
    parts = NO_PARTS

    def __init__(self, scorer: "SacreMetric", *, title: str, higher_is_better: bool) -> None:
        self._scorer = scorer
        self.title = title
        self.higher_is_better = higher_is_better

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return sacreBLEU's statistics of one line, best reference or closest length already chosen by it."""
        rows: list[list[float]] = self._scorer._extract_corpus_statistics([hypothesis], [[line] for line in references])
        return rows[0]

    def score(self, total: Sequence[float]) -> float:
        """Return sacreBLEU's score of summed statistics."""
        result: Any = self._scorer._compute_score_from_stats(list(total))
        return float(result.score)

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return sacreBLEU's own signature, as `sacrebleu --confidence` prints it."""
        settings = {**vars(self._scorer), "num_refs": num_references, "n_bootstrap": resamples, "seed": seed}
        return str(self._scorer._SIGNATURE_TYPE(settings).format())
