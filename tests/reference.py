"""InDIGO and the Transformer once more, slow and obvious: one sentence and one step at a time; no batch, no cache.

Written from PAPERS.md A1 (Gu, Liu, Cho 2019; equation numbers are theirs) on the parameters of the systems in
`indigo_cli.models`, but without their code: everything is recomputed from nothing at each step, the relations are built
by Eqs. 5 and 6, and A[r] is added to every key. Rows are tokens in generation order: 0 `<s>`, 1 `</s>`, then words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

PAD, BOS, EOS, EOD = range(4)
NOT_WORDS = (PAD, BOS, EOS)
LEFT_OF, RIGHT_OF = -1, 1

Relations = list[list[int]]
"""r[i][j] = sign(z_i - z_j): 1 where j stands left of i (Eq. 3). Row i is the paper's column i."""
START: Relations = [[0, -1], [1, 0]]


def insert_next_to(r: Relations, neighbour: int, side: int) -> Relations:
    """Return the relations once a token stands next to `neighbour` (Eqs. 5 and 6)."""
    new = [side if j == neighbour else r[neighbour][j] for j in range(len(r))]
    return [[*row, -new[i]] for i, row in enumerate(r)] + [[*new, 0]]


def positions(r: Relations) -> list[int]:
    """Return z: how many tokens stand left of each (Eq. 4)."""
    return [sum(max(0, relation) for relation in row) for row in r]


def surface(r: Relations) -> list[int]:
    """Return the rows from left to right, boundaries included. Slot n lies between entries n and n + 1."""
    z = positions(r)
    return sorted(range(len(r)), key=lambda row: z[row])


def gold_slots(order: Sequence[int]) -> list[int]:
    """Return the slot of each step: how many of the words that stand belong left of the new one."""
    return [sum(earlier < new for earlier in order[:step]) for step, new in enumerate(order)]


def relations_of(order: Sequence[int]) -> Relations:
    """Return the relations after all steps of an order, each word put right of its left neighbour."""
    r = START
    for slot in gold_slots(order):
        r = insert_next_to(r, surface(r)[slot], RIGHT_OF)
    return r


@dataclass(frozen=True)
class Step:
    """What the model says at one step: log-probabilities of every vocabulary id, and of the slots for the gold word."""

    words: Tensor
    slots: Tensor


def indigo_steps(
    model: Any,
    config: Any,
    source: Sequence[int],
    target: Sequence[int],
    order: Sequence[int],
    *,
    ordered_source: bool,
    codes: list[Tensor] | None = None,
) -> list[Step]:
    """Return the T + 1 steps of a target in an order; the last one is due to say `<eod>`."""
    memory = encode(model, config, source, ordered_source=ordered_source)
    words = [target[index] for index in order]
    steps = []
    for step, (word, r) in enumerate(zip([*words, EOD], _growing(order), strict=True)):
        canvas = [BOS, EOS, *words[:step]]
        rows = torch.stack([embed(model.embeddings.target.weight, token) for token in canvas])
        if codes is not None:  # of `<s>`, `</s>` and the words
            rows = rows + torch.stack(codes[: len(canvas)])
        hidden = decode(model, config, rows, memory, r=r)
        keys = pointer(model, config, hidden, word)
        count, sorted_rows = len(canvas), surface(r)
        slots = [
            keys[count + left] + keys[right] for left, right in pairwise(sorted_rows)
        ]  # Eq. 11: right key of the left neighbour and left key of the right neighbour
        feature = part_of_heads(model, 1) @ hidden[-1]
        steps.append(Step(word_log_probs(model, feature), torch.stack(slots).log()))
    return steps


def position_first_steps(
    model: Any, config: Any, source: Sequence[int], target: Sequence[int], order: Sequence[int], *, ordered_source: bool
) -> list[Step]:
    """Return the T + 1 steps with `predict = "position_first"`: slots without a word, words of the gold slot."""
    memory = encode(model, config, source, ordered_source=ordered_source)
    slot_map = model.position_first.slot.weight
    mix = 1.0 if config.pointer_query == "plain" else math.sqrt(0.5)
    steps = []
    for step, (gold, r) in enumerate(zip([*gold_slots(order), len(order)], _growing(order), strict=True)):
        canvas = [BOS, EOS, *(target[index] for index in order[:step])]
        rows = torch.stack([embed(model.embeddings.target.weight, token) for token in canvas])
        hidden = decode(model, config, rows, memory, r=r)
        gaps = list(pairwise(surface(r)))
        keys = pointer(model, config, hidden, None)
        slots = torch.stack([keys[len(canvas) + left] + keys[right] for left, right in gaps]).log()
        left, right = gaps[gold]
        mean = (part_of_heads(model, 3) @ hidden[left] + part_of_heads(model, 2) @ hidden[right]) / 2
        feature = (part_of_heads(model, 1) @ hidden[-1] + slot_map @ mean) * mix
        banned = NOT_WORDS if right == 1 else (*NOT_WORDS, EOD)  # `<eod>` goes left of `</s>` only
        steps.append(Step(word_log_probs(model, feature, banned), slots))
    return steps


def _growing(order: Sequence[int]) -> list[Relations]:
    return [relations_of(order[:step]) for step in range(len(order) + 1)]


def transformer_steps(
    model: Any, config: Any, source: Sequence[int], target: Sequence[int], *, ordered_source: bool
) -> list[Step]:
    """Return the T + 1 steps of a target from left to right; the only slot is the last one."""
    memory = encode(model, config, source, ordered_source=ordered_source)
    table = model.embeddings.target.weight
    steps = []
    for length in range(len(target) + 1):
        tokens = [BOS, *target[:length]]
        rows = [embed(table, token) + sinusoid(at, table.shape[1]) for at, token in enumerate(tokens)]
        hidden = decode(model, config, torch.stack(rows), memory, r=None)
        only = torch.full((length + 1,), -torch.inf)
        only[length] = 0.0
        steps.append(Step(word_log_probs(model, hidden[-1]), only))
    return steps


def losses(
    steps: Sequence[Step],
    target: Sequence[int],
    order: Sequence[int],
    *,
    smoothing: float = 0.0,
    eod_position: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the smoothed word loss, the plain word loss and the position loss of a sentence (Eq. 10), nats."""
    gold = [*(target[index] for index in order), EOD]
    plain = torch.stack([-step.words[word] for step, word in zip(steps, gold, strict=True)]).sum()
    uniform = torch.stack([-step.words[step.words > -torch.inf].mean() for step in steps]).sum()
    slots = gold_slots(order) + ([len(order)] if eod_position else [])  # `<eod>`: the slot left of `</s>`
    position = [-step.slots[slot] for step, slot in zip(steps, slots, strict=False)]
    return (1 - smoothing) * plain + smoothing * uniform, plain, torch.stack([*position, plain * 0]).sum()


def word_log_probs(model: Any, feature: Tensor, banned: Sequence[int] = NOT_WORDS) -> Tensor:
    """Eq. 8 with tied embeddings; what is not a word is impossible."""
    logits = model.embeddings.target.weight @ feature
    return impossible(logits, banned).log_softmax(0)


def pointer(model: Any, config: Any, hidden: Tensor, word: int | None) -> Tensor:
    """Return the probability of each key: left keys of all rows, then right keys (Eq. 9 with its two masks).

    No word is mixed into the query where the slot comes first.
    """
    count, model_dim = hidden.shape
    query = part_of_heads(model, 0) @ hidden[-1]
    if word is None:
        pass
    elif config.pointer_query == "plain":
        query = query + model.embeddings.target.weight[word]
    else:
        query = (query + math.sqrt(model_dim) * model.embeddings.target.weight[word]) * math.sqrt(0.5)
    left_keys, right_keys = (hidden @ part_of_heads(model, side).T for side in (2, 3))
    logits = torch.cat((left_keys, right_keys)) @ query
    if config.pointer_scale == "model":
        logits = logits / math.sqrt(model_dim)
    return impossible(logits, (0, count + 1)).softmax(0)  # left of `<s>`, right of `</s>`


def impossible(logits: Tensor, masked: Sequence[int]) -> Tensor:
    """Return the logits with some of them at minus infinity."""
    mask = torch.zeros(len(logits), dtype=torch.bool)
    mask[list(masked)] = True
    return logits.masked_fill(mask, -torch.inf)


def part_of_heads(model: Any, index: int) -> Tensor:
    """Return E (0), F (1), C (2) or D (3), to be multiplied from the left."""
    model_dim = model.heads.weight.shape[1]
    part: Tensor = model.heads.weight[index * model_dim : (index + 1) * model_dim]
    return part


def embed(table: Tensor, token: int) -> Tensor:
    """Return sqrt(D) times a row of the table."""
    return table[token] * math.sqrt(table.shape[1])


def sinusoid(position: int, model_dim: int) -> Tensor:
    """Return the position code of the Transformer."""
    code = []
    for k in range(model_dim // 2):
        angle = position / 10000 ** (2 * k / model_dim)
        code += [math.sin(angle), math.cos(angle)]
    return torch.tensor(code)


def encode(model: Any, config: Any, source: Sequence[int], *, ordered_source: bool) -> Tensor:
    """Encode a source, closed by `</s>`: (X, D)."""
    tokens = [*source, EOS]
    scheme = config.source_positions
    if scheme == "auto":
        scheme = ("ternary" if config.system == "indigo" else "sinusoidal") if ordered_source else "none"
    table = model.embeddings.target.weight if config.share_embeddings else model.embeddings.source.weight
    rows = torch.stack([embed(table, token) for token in tokens])
    if scheme == "sinusoidal":
        rows = rows + torch.stack([sinusoid(at, rows.shape[1]) for at in range(len(tokens))])
    in_text_order = [[(i > j) - (i < j) for j in range(len(tokens))] for i in range(len(tokens))]
    r = in_text_order if scheme == "ternary" else None
    for layer in model.encoder.layers:
        rows = rows + self_attention(layer.attention, config, norm(layer.attention_norm, rows), r=r, causal=False)
        rows = rows + feed_forward(layer.ff, norm(layer.ff_norm, rows))
    return norm(model.encoder.norm, rows)


def decode(model: Any, config: Any, rows: Tensor, memory: Tensor, *, r: Relations | None) -> Tensor:
    """Return the states (R, D) of all rows; each sees itself and earlier ones."""
    for layer in model.decoder.layers:
        rows = rows + self_attention(layer.attention, config, norm(layer.attention_norm, rows), r=r, causal=True)
        rows = rows + cross_attention(layer.cross, norm(layer.cross_norm, rows), memory)
        rows = rows + feed_forward(layer.ff, norm(layer.ff_norm, rows))
    return norm(model.decoder.norm, rows)


def self_attention(attention: Any, config: Any, rows: Tensor, *, r: Relations | None, causal: bool) -> Tensor:
    """Eq. 7, with A[r + 1] added to every key."""
    model_dim = rows.shape[1]
    head_dim = model_dim // config.num_heads
    divisor = math.sqrt(model_dim if getattr(config, "attention_scale", "head") == "model" else head_dim)
    query, key, value = (rows @ part.T for part in attention.qkv.weight.split(model_dim))
    out = []
    for i in range(len(rows)):
        seen = range(i + 1) if causal else range(len(rows))
        heads = []
        for head in range(config.num_heads):
            part = slice(head * head_dim, (head + 1) * head_dim)
            keys, extra = key[seen, part], torch.zeros(len(seen))
            if r is not None:
                relation = [r[i][j] + 1 for j in seen]
                shared = config.relation_table == "shared"
                keys = keys + attention.relation_table[relation, slice(None) if shared else part]
                extra = attention.relation_bias[relation] if shared else extra
            weights = ((keys @ query[i, part] + extra) / divisor).softmax(0)
            heads.append(weights @ value[seen, part])
        out.append(torch.cat(heads))
    return linear(attention.out, torch.stack(out))


def cross_attention(cross: Any, rows: Tensor, memory: Tensor) -> Tensor:
    """Ordinary attention to the source."""
    model_dim = rows.shape[1]
    head_dim = model_dim // cross.num_heads
    query = rows @ cross.query.weight.T
    key, value = (memory @ part.T for part in cross.key_value.weight.split(model_dim))
    heads = []
    for head in range(cross.num_heads):
        part = slice(head * head_dim, (head + 1) * head_dim)
        heads.append((query[:, part] @ key[:, part].T / math.sqrt(head_dim)).softmax(1) @ value[:, part])
    return linear(cross.out, torch.cat(heads, dim=1))


def feed_forward(ff: Any, rows: Tensor) -> Tensor:
    """Linear, ReLU, Linear."""
    return linear(ff.outer, linear(ff.inner, rows).clamp(min=0))


def linear(layer: Any, rows: Tensor) -> Tensor:
    """A linear map with bias."""
    mapped: Tensor = rows @ layer.weight.T + layer.bias
    return mapped


def norm(layer: Any, rows: Tensor) -> Tensor:
    """Layer normalisation."""
    centred = rows - rows.mean(1, keepdim=True)
    scaled: Tensor = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias
    return scaled
