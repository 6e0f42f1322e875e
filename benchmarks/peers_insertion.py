"""Our Insertion Transformer and fairseq's in one run: python benchmarks/peers_insertion.py PYTHON_OF_THE_PEER [ROUNDS]

Equal sizes (`peers/workload.py`), equal sources, equal calls of the decoder: R that insert a word into every slot, so
that 2^R - 1 words stand, and one more, which a trained model closes its slots with. Weights are random: ours closes no
slot while there is room; fairseq's is kept from stopping by its own `eos_penalty`, and what its last call inserts costs
it nothing. Greedy on both sides (fairseq's has no beam). One thread, CPU time, in turn; an output's text is not made.

The peer's Python needs `fairseq-fixed` (a fork that runs on Python 3.11). Nothing compiled is used here, so its source
on the path will do: `pip download --no-deps --no-binary :all: fairseq-fixed`, unpack, and a `.pth` file that names the
folder, beside torch, hydra-core, omegaconf, bitarray, scikit-learn, sacrebleu and regex.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import insertion_workload
from compare import ROUNDS, WARM_UP, Worker


def main() -> None:
    """Measure every task and print how many times as fast ours is."""
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    peer = Worker(sys.argv[1], "fairseq_insertion")
    ours = Worker(sys.executable, "ours_insertion")
    for task in insertion_workload.TASKS:
        of_ours = {kind: f"{kind} {task}" for kind in insertion_workload.KINDS}
        seconds: dict[str, list[float]] = {name: [] for name in ("fairseq", *of_ours)}
        for turn in range(WARM_UP + rounds):
            taken = {"fairseq": peer.seconds(task), **{kind: ours.seconds(name) for kind, name in of_ours.items()}}
            if turn >= WARM_UP:
                for name, value in taken.items():
                    seconds[name].append(value)
        print(
            f"{task}: fairseq {insertion_workload.sentences(task) / statistics.median(seconds['fairseq']):,.1f} / CPU s"
        )
        for kind in of_ours:
            ratios = [theirs / own for theirs, own in zip(seconds["fairseq"], seconds[kind], strict=True)]
            rate = insertion_workload.sentences(task) / statistics.median(seconds[kind])
            median = statistics.median(ratios)
            spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
            print(
                f"  ours, {kind:12} {rate:9,.1f}   faster by {median:5.2f} {spread}  {'ok' if median > 1 else 'MISSED'}"
            )


if __name__ == "__main__":
    main()
