"""Prefix trees: in a causal model a state depends on the prefix alone, so each is computed once.

The 256 completions of a GRPO iteration have 2,304 token positions but only some 250 distinct
prefixes. Attention runs over chunks of the tree that hold all ancestors of their nodes: one masked
call serves many sequences, and no score outside a chunk is computed.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlvr.policy.linear import FEWEST_ROWS
from rlvr.task.addition import POSITIONS

CHUNK_PLACES = 48  # more waste scores between strangers, fewer repeat more ancestors
ALIGNMENT = 16  # PyTorch's CPU attention is fastest on multiples of 16
FEW_SHAPES = 64  # many results are filled up to a multiple: oneDNN compiles kernels for each shape


class Window(NamedTuple):
    """What one attention call computes: queries attend to keys, chunk by chunk.

    A place is a row of the chunks laid out one after another, each padded to the same width: C x w
    places for keys, C x v for queries. There are m results: one per distinct queried
    node, then perhaps some that stand for nothing.
    """

    keys: Tensor
    """Row of the layer's input at each key place (C w,)."""
    queries: Tensor
    """Result at each query place (C v,)."""
    mask: Tensor
    """0 where a query may attend, -inf elsewhere (C, 1, v, w)."""
    places: Tensor
    """Query place of each result (m,)."""
    rows: Tensor
    """Row of the layer's input of each result (m,)."""


class PrefixTree(NamedTuple):
    """The distinct prefixes of a batch of sequences: N nodes, with P distinct embeddings."""

    tokens: Tensor
    """Token of each embedding (P,)."""
    positions: Tensor
    """Position of each embedding (P,)."""
    first: Window
    """The first layer: its input has a row per embedding, its results are all nodes."""
    inner: Window
    """A layer between: its input has a row per node, its results are all nodes."""
    outer: Window
    """The last layer: its results are the nodes whose next token is asked for."""
    result_of: Tensor
    """Result of the outer window for each sequence and asked position (n, L - first)."""


def prefix_tree(sequences: Tensor, first: int, like: Tensor) -> PrefixTree:
    """The tree of `sequences` (n, L) on the CPU, to predict what follows positions first..L - 1.

    Its tensors have the device of `like`, and its masks the dtype.
    """
    tokens = sequences.numpy()
    n, length = tokens.shape
    order = np.lexsort(tokens.T[::-1])  # sorted, equal prefixes are neighbours
    tokens = tokens[order]

    # A node stands in the first row that has its prefix; a chunk repeats the ancestors it needs.
    distinct = np.ones((n, length), dtype=bool)
    np.not_equal(tokens[1:], tokens[:-1], out=distinct[1:])
    np.logical_or.accumulate(distinct, axis=1, out=distinct)
    new_nodes = distinct.sum(axis=1)
    opens_chunk = _opens_chunk(new_nodes, length)
    chunk_of_row = opens_chunk.cumsum() - 1
    placed = distinct | opens_chunk[:, None]

    rows, positions = placed.nonzero()
    chunk = chunk_of_row[rows]
    chunks = int(chunk[-1]) + 1
    place, width = _lay_out(chunk)
    node_of = _fill_down(distinct, np.arange(new_nodes.sum()))  # (n, L)
    place_of = _fill_down(placed, place)  # (n, L): within the row's own chunk
    node = node_of[rows, positions]
    original = distinct[rows, positions]  # not an ancestor that a chunk repeats

    mask = np.zeros((chunks * width, width), dtype=np.float32)  # padding attends to anything
    mask[place] = -np.inf
    up_to = np.minimum(np.arange(length), positions[:, None])
    mask[place[:, None], place_of[rows[:, None], up_to] - (chunk * width)[:, None]] = 0

    pair = tokens[rows, positions] * POSITIONS + positions  # all that an embedding depends on
    occurs = np.bincount(pair) > 0
    pairs, embedding = occurs.nonzero()[0], (occurs.cumsum() - 1)[pair]
    asked = original & (positions >= first)
    query_place, query_width = _lay_out(chunk[asked])
    query_mask = np.zeros((chunks * query_width, width), dtype=np.float32)
    query_mask[query_place] = mask[place[asked]]
    results = np.arange(len(query_place))
    result_of = np.empty((n, length - first), dtype=np.int64)
    result_of[order] = _scatter(new_nodes.sum(), node[asked], results)[node_of[:, first:]]

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(like.device, non_blocking=True)

    def masks(array: np.ndarray) -> Tensor:
        return tensor(array).to(like.dtype).view(chunks, 1, -1, width)

    keys = tensor(_scatter(chunks * width, place, node))
    inner = Window(
        keys, keys, masks(mask), tensor(_fill_up(place[original])), tensor(_fill_up(node[original]))
    )
    embedding_keys = tensor(_scatter(chunks * width, place, embedding))
    return PrefixTree(
        tokens=tensor(pairs // POSITIONS),
        positions=tensor(pairs % POSITIONS),
        first=inner._replace(keys=embedding_keys, rows=tensor(_fill_up(embedding[original]))),
        inner=inner,
        outer=Window(
            keys=keys,
            queries=tensor(_scatter(chunks * query_width, query_place, results)),
            mask=masks(query_mask),
            places=tensor(_fill_up(query_place)),
            rows=tensor(_fill_up(node[asked])),
        ),
        result_of=tensor(result_of),
    )


def _opens_chunk(new_nodes: np.ndarray, length: int) -> np.ndarray:
    """Whether each row opens a chunk: greedily, none having more than CHUNK_PLACES places."""
    opens, places = [], CHUNK_PLACES
    for nodes in new_nodes.tolist():  # 0 for a row that repeats another
        places += nodes
        opens.append(places > CHUNK_PLACES)
        if opens[-1]:
            places = length  # the row's whole path
    return np.array(opens)


def _lay_out(chunk: np.ndarray) -> tuple[np.ndarray, int]:
    """A place for each item, given its chunk (ascending), and the width of a chunk."""
    rank = np.arange(len(chunk)) - np.searchsorted(chunk, chunk)
    width = -(-(int(rank.max()) + 1) // ALIGNMENT) * ALIGNMENT
    return chunk * width + rank, width


def _fill_up(index: np.ndarray) -> np.ndarray:
    """The index of results and, if they are many, of some that nobody asks for."""
    lacking = -len(index) % FEW_SHAPES if len(index) >= FEWEST_ROWS else 0
    return np.concatenate([index, np.zeros(lacking, dtype=index.dtype)]) if lacking else index


def _fill_down(where: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Ascending `values` put where `where` (n, L) holds, and carried down each column."""
    table = np.zeros(where.shape, dtype=np.int64)
    table[where] = values
    return np.maximum.accumulate(table, axis=0)


def _scatter(size: int, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` at `index` of an array of `size`, 0 elsewhere."""
    array = np.zeros(size, dtype=np.int64)
    array[index] = values
    return array
