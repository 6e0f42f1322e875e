"""Training with absolute positions: one random canvas a target, whose states nothing of another canvas can share.

As Stern et al. (2019) train (PAPERS.md B1): for the balanced-tree and the uniform loss k ~ U{0..T} words chosen at
random stand; for any other order those of the first so many rounds of its history, the number drawn alike, which for
left to right is their prefix of k words. The loss of a target is the mean over the slots of its canvas; where closing
is learnt from whole canvases only, the empty slots of others count as 0, but not where a slot learns a word of its own.

Shape letters: S sentences, K orders of a target, N = S * K sequences, T words, R = T + 2 rows, M slots, D width. A slot
of a canvas is named by the row on its left.
"""

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Batch
from indigo_cli.models.insertion_history import Aim, History, shares
from indigo_cli.models.insertion_pass import close_loss, histories_of, slots_of, step_log_probs
from indigo_cli.models.protocol import Losses, StepLogProbs
from indigo_cli.nn.losses import log_normalisers, word_loss
from indigo_cli.nn.positions.canvas import GrownCanvas
from indigo_cli.nn.sentence_dropout import sentence_keys, uniform

if TYPE_CHECKING:
    from indigo_cli.models.insertion import Insertion


@dataclass(frozen=True)
class Standing:
    """A canvas of each target.

    Args:
        stands_NR: Rows of the whole target that stand.
        next_NR: The next row that stands, R where there is none.
    """

    stands_NR: Tensor
    next_NR: Tensor

    @classmethod
    def of(cls, stands_NR: Tensor) -> "Standing":
        """Find the neighbours."""
        rows = stands_NR.shape[1]
        index = torch.where(stands_NR, torch.arange(rows, device=stands_NR.device), rows)
        behind = functional.pad(index[:, 1:], (0, 1), value=rows)
        return cls(stands_NR, behind.flip(1).cummin(dim=1).values.flip(1))

    @property
    def slots_NR(self) -> Tensor:
        """(N, R) bool: which rows have a slot on their right: all that stand but the last."""
        return self.stands_NR & (self.next_NR < self.stands_NR.shape[1])

    @property
    def empty_NR(self) -> Tensor:
        """(N, R) bool: slots that no word is missing in."""
        return self.slots_NR & (
            self.next_NR == torch.arange(1, self.stands_NR.shape[1] + 1, device=self.next_NR.device)
        )


def draw_canvas(history: History, aim: Aim, key_N: Tensor) -> Standing:
    """Draw a canvas of each target, by its key alone."""
    real, zero = history.real_NT, torch.zeros_like(key_N)
    share = uniform(key_N, zero)
    if aim == "first":
        stage = torch.where(real, history.stage_NT, 0)
        rounds = (share * (functional.pad(stage, (1, 0)).amax(dim=1) + 1)).long()
        stands = real & (stage <= rounds[:, None])
    else:
        number = torch.arange(1, real.shape[1] + 1, device=key_N.device)
        chance = torch.where(real, uniform(key_N[:, None], number), 2.0)
        rank = chance.argsort(dim=1, stable=True).argsort(dim=1)
        stands = rank < (share * (history.lengths_N + 1)).long()[:, None]
    stands = functional.pad(functional.pad(stands, (1, 0), value=True), (0, 1))
    return Standing.of(stands.scatter(1, history.canvas.last_N[:, None], True))


def canvas_keys(batch: Batch, *, training: bool) -> Tensor:
    """Return (N,) keys of the canvases: of examples, so that validations see the same; new ones at each training step.

    Training takes one number from torch's generator, which starts anew for each micro-batch.
    """
    visit = int(torch.randint(1 << 62, ())) if training else 0
    num_orders = batch.plan.orders.shape[1]
    names = [f"{name} {k}" for name in batch.ids for k in range(num_orders)]
    return sentence_keys(0, visit, [zlib.crc32(name.encode()) for name in names]).to(batch.target.device)


def losses(system: "Insertion", batch: Batch, memory: Tensor, smoothing: float) -> Losses:
    """Return the losses of one canvas of each target and order: a sentence weighs 1."""
    history = histories_of(batch)
    canvas = draw_canvas(history, system.aim, canvas_keys(batch, training=system.training))
    features_NRD = slot_features(system, history, canvas, memory, batch)
    empty_NR, filled_NR = canvas.empty_NR, canvas.slots_NR & ~canvas.empty_NR
    if system.ends_at_once:  # nothing is said of empty slots before no other is left
        empty_NR = empty_NR & ~filled_NR.any(dim=1, keepdim=True)
    scored_NR = empty_NR | filled_NR
    # As in the paper: what is said of a canvas is divided by all of its slots; that of left to right is of one alone.
    counted_NR = scored_NR if system.aim == "first" else canvas.slots_NR
    weight_NR = batch.plan.weights.flatten()[:, None] / counted_NR.sum(dim=1, keepdim=True) * scored_NR
    filled, empty = (scored.flatten().nonzero()[:, 0] for scored in (filled_NR, empty_NR))
    weight, features = weight_NR.flatten(), features_NRD.flatten(0, 1)
    words, rows = system.embeddings.words, weight_NR.shape[1]
    left_NR = torch.arange(rows, device=filled.device).expand_as(canvas.next_NR)
    share = shares(system.aim, left_NR, canvas.next_NR, history.step_NT, system.temperature).flatten(0, 1)[filled]
    gold = (history.words_NR[:, 1:-1] - FIRST_WORD).clamp(min=0)[filled // rows]
    taken, word_nll = word_loss(features[filled], words, gold, weight[filled], share_NJ=share, smoothing=smoothing)
    closed, closed_nll = close_loss(features[empty], words, weight[empty], smoothing=smoothing)
    parts: dict[str, tuple[Tensor, float | Tensor]] = {
        "word": (word_nll @ weight[filled], weight[filled].sum()),
        "close": (closed_nll @ weight[empty], weight[empty].sum()),
    }
    objective = taken + closed
    if system.chooses_slots:
        position = (slot_nll(system, features_NRD, canvas.slots_NR) * weight_NR)[scored_NR].sum()
        parts["position"] = (position.detach(), weight.sum())
        objective = objective + position
    return Losses(objective, parts, float(len(batch.ids)))


def slot_features(system: "Insertion", history: History, canvas: Standing, memory: Tensor, batch: Batch) -> Tensor:
    """Return (N, R, D) features of the slots of a canvas; those of rows that have none mean nothing."""
    grown = GrownCanvas(
        (~canvas.stands_NR).long(), history.canvas.left_NR, history.canvas.right_NR, history.canvas.last_N
    )
    to_right, to_left = system.sides(history.words_NR, grown, memory, batch).chunk(2, dim=2)
    neighbour = canvas.next_NR.clamp(max=canvas.stands_NR.shape[1] - 1)
    features = to_right + to_left.gather(1, neighbour[..., None].expand_as(to_left))
    return system.biased(features, canvas.slots_NR)


def slot_nll(system: "Insertion", features_NRD: Tensor, slots_NR: Tensor) -> Tensor:
    """Return (N, R) minus log p(slot) among all slots of a canvas; what stands at rows without a slot means nothing."""
    if system.slot_query is not None:
        score_NR = system.slot_query(features_NRD)[..., 0].float()
    else:
        index = slots_NR.flatten().nonzero()[:, 0]
        log_z = log_normalisers(features_NRD.flatten(0, 1)[index], system.embeddings.words)
        score_NR = log_z.new_zeros(slots_NR.numel()).index_copy(0, index, log_z).view(slots_NR.shape)
    everything = score_NR.masked_fill(~slots_NR, -torch.inf).logsumexp(dim=1, keepdim=True)
    nll: Tensor = everything - score_NR
    return nll


def log_probs(system: "Insertion", batch: Batch, memory: Tensor) -> StepLogProbs:
    """Return log p of each word and of each closing: the canvases of all rounds, one after another."""
    slots = slots_of(batch)
    every, history, rows = slots.all, slots.history, slots.history.words_NR.shape[1]
    features = memory.new_zeros(len(every.left), memory.shape[2])
    decided = every.pool % rows  # the round of each slot, from 0: the stage of its younger border
    for made in range(int(functional.pad(decided, (1, 0)).max()) + 1):
        stands = history.canvas.stage_NR <= made
        of_canvas = slot_features(system, history, Standing.of(stands), memory, batch)
        chosen = decided == made
        features[chosen] = of_canvas.flatten(0, 1)[every.left[chosen]].to(features.dtype)
    return step_log_probs(system, slots, features, batch)


def serial_log_probs(system: "Insertion", batch: Batch, memory: Tensor) -> StepLogProbs:
    """Return log p(word | slot), log p(slot) and that of the end where one slot is filled at a time, as the orders say.

    The end is `<eod>` in any slot: with the words that could be inserted it adds up to 1.
    """
    history = histories_of(batch)
    orders, rows = batch.plan.orders.flatten(0, 1), history.words_NR.shape[1]
    table = system.embeddings.words
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for step in range(rows - 1):
        stands = functional.pad(history.real_NT & (history.step_NT < step), (1, 1))
        stands = stands | (history.canvas.stage_NR == 0)
        canvas = Standing.of(stands)
        features = slot_features(system, history, canvas, memory, batch)
        log_z = log_normalisers(features.flatten(0, 1), table).view(stands.shape)
        slot = -slot_nll(system, features, canvas.slots_NR)
        ends = (features @ table[EOD - FIRST_WORD]).float() - log_z + slot
        end = ends.masked_fill(~canvas.slots_NR, -torch.inf).logsumexp(dim=1)
        word = orders[:, step : step + 1] if step < orders.shape[1] else orders.new_zeros(len(orders), 1)
        left = history.canvas.left_NR.gather(1, word + 1)
        column = (history.words_NR.gather(1, word + 1)[:, 0] - FIRST_WORD).clamp(min=0)
        at_left = features.gather(1, left[..., None].expand(-1, -1, features.shape[2]))[:, 0]
        logit = (at_left * table[column]).sum(dim=1).float()
        found.append((logit - log_z.gather(1, left)[:, 0], slot.gather(1, left)[:, 0], end))
    words, slots, ends = (torch.stack(part, dim=1).clamp(max=0.0) for part in zip(*found, strict=True))
    index = torch.arange(rows - 1, device=words.device)
    before, at = index < history.lengths_N[:, None], index == history.lengths_N[:, None]
    words = torch.where(before, words, 0.0) + torch.where(at, ends, 0.0)
    shape = batch.plan.orders.shape[:2]
    return StepLogProbs(words.unflatten(0, shape), torch.where(before, slots, 0.0)[:, :-1].unflatten(0, shape))
