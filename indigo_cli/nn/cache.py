"""Keys and values of the tokens that stand, for cached decoding; the hypotheses of a sentence share one store.

A node is a token of some hypothesis. Hypotheses that grew out of the same beginning share its nodes, so that choosing
among them copies nothing: each has a path, the nodes of its rows, and sees no others.

Shape letters: G groups (sentences; or places, once there are too many hypotheses to share), F hypotheses of a group,
S sentences, B hypotheses a sentence, P places (hypotheses of all sentences in a row), L layers, H heads, d head width,
N nodes, R rows (tokens of one hypothesis), n new rows, E width of the system's own part.
"""

import torch
from torch import Tensor

MAX_SHARED = 32
"""More hypotheses than this get copies of their own: each would look at too many nodes that are not on its path."""
SPARE = 1.5
"""Nodes on no path are thrown out when there are this many times as many nodes as needed."""
SWEEP_EVERY = 4
"""Rows from one look for such nodes to the next: to look, the host waits for the device."""


class NodeCache:
    """An append-only store of nodes, and the paths of the hypotheses through them.

    Args:
        layers, heads, head_dim: L, H and d.
        own: E, floats a node for the system's own use.
        groups: G at the start, of one hypothesis each.
        like: A tensor whose dtype and device to use.
        capacity: Nodes to make room for at first; grows by doubling.
        waits: Whether the host may wait for the device to save work: to throw nodes out, and copies of what has not
            moved. Without it nodes on no path stay.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        head_dim: int,
        *,
        own: int,
        groups: int,
        like: Tensor,
        capacity: int = 32,
        waits: bool = True,
    ) -> None:
        self._keys_values = like.new_empty(layers, 2, groups, heads, capacity, head_dim)
        self._own = like.new_empty(groups, capacity, own)
        self._path_GFR: Tensor | None = None  # None: one hypothesis a group, and its rows are the nodes
        self._shared, self._waits = True, waits
        self.num_nodes = 0

    @property
    def num_rows(self) -> int:
        """R: each hypothesis has as many."""
        return self.num_nodes if self._path_GFR is None else self._path_GFR.shape[2]

    @property
    def groups(self) -> int:
        """G: queries must be folded to (G, F * n, ...)."""
        return self._own.shape[0]

    def grow(self, count: int) -> None:
        """Give every hypothesis `count` more rows, to be written; several only while it is alone in its group."""
        assert count == 1 or self._path_GFR is None
        new = count if self._path_GFR is None else self._path_GFR.shape[1]
        first = self.num_nodes
        self.num_nodes += new
        capacity = self._own.shape[1]
        if self.num_nodes > capacity:
            self._resize(max(2 * capacity, self.num_nodes), kept=first)
        if self._path_GFR is not None:
            node = torch.arange(first, self.num_nodes, device=self._own.device)
            self._path_GFR = torch.cat((self._path_GFR, node[:, None].expand(self.groups, new, 1)), dim=2)

    def write(self, layer: int, keys_values_2GHQd: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values (2, G, H, F * n, d) of the new rows, and return those of all nodes, (G * H, N, d)."""
        stored = self._keys_values[layer].narrow(3, 0, self.num_nodes)
        new = keys_values_2GHQd.shape[3]
        stored.narrow(3, self.num_nodes - new, new).copy_(keys_values_2GHQd)
        keys, values = stored.flatten(1, 2).unbind()
        return keys, values

    def write_own(self, own_PnE: Tensor) -> None:
        """Write the system's own part of the new rows, (P, n, E) or folded."""
        own = own_PnE.reshape(self.groups, -1, self._own.shape[2])
        self._own[:, self.num_nodes - own.shape[1] : self.num_nodes] = own

    def own(self) -> Tensor:
        """Return the system's own part of all nodes, (G, N, E), a view."""
        return self._own[:, : self.num_nodes]

    def mask(self, count: int) -> Tensor | None:
        """Return what the `count` new rows of each hypothesis see: (G or 1, F * n, N), 0 or -inf; None = everything."""
        if self._path_GFR is not None:
            groups, hypotheses, _ = self._path_GFR.shape
            hidden = self._own.new_full((groups, hypotheses, self.num_nodes), -torch.inf)
            return hidden.scatter_(2, self._path_GFR, 0.0)
        if count == 1:
            return None
        return self._own.new_full((1, count, self.num_nodes), -torch.inf).triu_(self.num_nodes - count + 1)

    def spread(self, of_rows_PnR: Tensor) -> Tensor:
        """Turn numbers of each row, seen from the new ones, into those of each node, 0 off the path: (G, F * n, N)."""
        if self._path_GFR is None:
            return of_rows_PnR.to(self._own.dtype)
        groups, hypotheses, rows = self._path_GFR.shape
        nodes = self._own.new_zeros(groups, hypotheses, self.num_nodes)
        return nodes.scatter_(2, self._path_GFR, of_rows_PnR.reshape(groups, hypotheses, rows).to(nodes.dtype))

    def own_of(self, row_P: Tensor) -> Tensor:
        """Return the system's own part of one row of each hypothesis, (P, E)."""
        paths = self._paths()
        node_GF = paths.gather(2, row_P.reshape(*paths.shape[:2], 1))[..., 0]
        group = torch.arange(self.groups, device=row_P.device)[:, None]
        return self._own[group, node_GF].flatten(0, 1)

    def own_products(self, query_SCKE: Tensor, parent_SC: Tensor, columns: slice = slice(None)) -> Tensor:
        """Multiply K queries of each candidate with the system's own part of each row of its parent: (S, C, K, R).

        `columns` of that part may be chosen; E counts them.
        """
        own = self.own()[:, :, columns]
        if not self._shared:
            place = self._places(parent_SC)
            own = own if self._unmoved(place) else own.index_select(0, place)
            return torch.bmm(query_SCKE.flatten(0, 1), own.transpose(1, 2)).view(*query_SCKE.shape[:3], -1)
        # Candidates are multiplied with rows of other hypotheses too: that costs less than picking theirs before.
        products = torch.bmm(query_SCKE.flatten(1, 2), own.transpose(1, 2)).view(*query_SCKE.shape[:3], -1)
        if self._path_GFR is None:
            return products
        path_SCKR = self._paths_of(parent_SC)[:, :, None].expand(-1, -1, query_SCKE.shape[2], -1)
        return products.gather(3, path_SCKR)

    def own_rows(self, columns: slice) -> Tensor:
        """Return some columns of the system's own part of every row of every hypothesis, (P, R, columns)."""
        own = self.own()[:, :, columns]
        if self._path_GFR is None:
            return own
        groups, hypotheses, rows = self._path_GFR.shape
        first = torch.arange(0, groups * self._own.shape[1], self._own.shape[1], device=own.device)
        index = (self._path_GFR + first[:, None, None]).flatten()
        of_nodes = self._own.flatten(0, 1)[:, columns]
        return of_nodes.index_select(0, index).view(groups * hypotheses, rows, -1)

    def choose(self, parent_SB: Tensor) -> None:
        """Replace the hypotheses of each sentence by the given ones, some perhaps several times."""
        beam = parent_SB.shape[1]
        if self._shared and beam > MAX_SHARED:
            self._unshare(parent_SB)
        elif self._shared:
            if self._path_GFR is not None or beam > 1:
                self._path_GFR = self._paths_of(parent_SB)
                if self._waits and self.num_rows % SWEEP_EVERY == 0:
                    self._sweep()
        else:
            place = self._places(parent_SB)
            if not self._unmoved(place):
                self._keep_groups(place)

    def keep(self, sentence_index: Tensor, place_index: Tensor) -> None:
        """Keep some sentences; `place_index` are the places of their hypotheses."""
        self._keep_groups(sentence_index if self._shared else place_index)

    def _paths(self) -> Tensor:
        if self._path_GFR is not None:
            return self._path_GFR
        return torch.arange(self.num_rows, device=self._own.device).expand(self.groups, 1, -1)

    def _paths_of(self, parent_SC: Tensor) -> Tensor:
        """Return (S, C, R) the paths of the given hypotheses, while sentences are the groups."""
        return self._paths().gather(1, parent_SC[..., None].expand(-1, -1, self.num_rows))

    def _places(self, parent_SB: Tensor) -> Tensor:
        sentences = parent_SB.shape[0]
        first = torch.arange(0, self.groups, self.groups // sentences, device=parent_SB.device)
        return (parent_SB + first[:, None]).flatten()

    def _unmoved(self, place: Tensor) -> bool:
        """Tell whether these are all places in order, as when samples grow; False if nobody may wait for it."""
        return self._waits and place.shape[0] == self.groups and bool((place.diff() == 1).all())

    def _keep_groups(self, index: Tensor) -> None:
        self._keys_values = self._keys_values.index_select(2, index)
        self._own = self._own.index_select(0, index)
        if self._path_GFR is not None:
            self._path_GFR = self._path_GFR.index_select(0, index)

    def _sweep(self) -> None:
        """Throw out the nodes on no path, if they are many."""
        paths = self._paths().flatten(1)
        used = torch.zeros(self.groups, self.num_nodes, dtype=torch.bool, device=paths.device).scatter_(1, paths, True)
        most = int(used.sum(dim=1).max())
        if self.num_nodes < SPARE * most:
            return
        # A group that needs fewer nodes than another keeps some that it does not need.
        kept = used.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        number = used.cumsum(dim=1) - 1
        self._take(kept[:, None])
        self._path_GFR = number.gather(1, paths).unflatten(1, (-1, self.num_rows))

    def _unshare(self, parent_SB: Tensor) -> None:
        """Give every hypothesis a group of its own."""
        self._take(self._paths_of(parent_SB))
        self._path_GFR, self._shared = None, False

    def _take(self, node_GFM: Tensor) -> None:
        """Make G * F groups of M nodes, each of the given nodes of its old group."""
        layers, two, groups, heads, capacity, head_dim = self._keys_values.shape
        _, copies, nodes = node_GFM.shape
        first = torch.arange(0, layers * two * groups * heads * capacity, capacity, device=node_GFM.device)
        first = first.view(-1, groups, 1, heads, 1)
        rows = (first + node_GFM[None, :, :, None]).flatten()
        kept = self._keys_values.view(-1, head_dim).index_select(0, rows)
        kept = kept.view(layers, two, groups * copies, heads, nodes, head_dim)
        own_rows = torch.arange(0, groups * capacity, capacity, device=node_GFM.device)[:, None, None] + node_GFM
        own = self._own.view(groups * capacity, -1)[own_rows.flatten()].view(groups * copies, nodes, -1)
        if copies > 1:
            self._keys_values = kept.new_empty(layers, two, groups * copies, heads, capacity, head_dim)
            self._own = own.new_empty(groups * copies, capacity, own.shape[2])
        self._keys_values[..., :nodes, :] = kept
        self._own[:, :nodes] = own
        self.num_nodes = nodes

    def _resize(self, capacity: int, *, kept: int) -> None:
        """Make room for so many nodes and keep the first ones."""
        shape, own_shape = list(self._keys_values.shape), list(self._own.shape)
        shape[4] = own_shape[1] = capacity
        keys_values, own = self._keys_values.new_empty(shape), self._own.new_empty(own_shape)
        keys_values[..., :kept, :] = self._keys_values[..., :kept, :]
        own[:, :kept] = self._own[:, :kept]
        self._keys_values, self._own = keys_values, own
