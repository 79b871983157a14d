"""The policy: a small decoder-only Transformer over addition tokens.

It has two forward passes for one function. `forward` is the plain one, on PyTorch's own encoder
layer with a causal mask; tests take it for the truth. `logits_on` computes each distinct prefix of
a batch once, and is what training uses.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlvr.config.settings.policy import PolicySettings
from rlvr.policy.linear import linear
from rlvr.policy.prefix_tree import PrefixTree, Window, prefix_tree
from rlvr.task.addition import OUTPUT_CLASSES, POSITIONS, PROMPT_LENGTH, VOCABULARY
from rlvr.task.streams import stream


class _LayerWeights(NamedTuple):
    """The parameters of a `torch.nn.TransformerEncoderLayer`, and its number of heads."""

    heads: int
    norm1: tuple[Tensor, Tensor]
    in_proj: tuple[Tensor, Tensor]
    out_proj: tuple[Tensor, Tensor]
    norm2: tuple[Tensor, Tensor]
    linear1: tuple[Tensor, Tensor]
    linear2: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, layer: nn.TransformerEncoderLayer) -> "_LayerWeights":
        """Of a layer; they stay its own."""
        attention = layer.self_attn
        return cls(
            attention.num_heads,
            (layer.norm1.weight, layer.norm1.bias),
            (attention.in_proj_weight, attention.in_proj_bias),
            (attention.out_proj.weight, attention.out_proj.bias),
            (layer.norm2.weight, layer.norm2.bias),
            (layer.linear1.weight, layer.linear1.bias),
            (layer.linear2.weight, layer.linear2.bias),
        )

    def all_nodes(self, hidden: Tensor, window: Window) -> Tensor:
        """The layer at all nodes (N, width), from its input `hidden` (rows, width)."""
        width = hidden.shape[1]
        normed = functional.layer_norm(hidden, (width,), *self.norm1)
        qkv = linear(normed, *self.in_proj).index_select(0, window.keys)
        return self._rest(hidden, *qkv.chunk(3, dim=1), window)

    def asked_nodes(self, hidden: Tensor, window: Window) -> Tensor:
        """The layer at the asked nodes (m, width); keys and values still are of all nodes."""
        width = hidden.shape[1]
        (q_weight, kv_weight), (q_bias, kv_bias) = (
            x.split_with_sizes([width, 2 * width]) for x in self.in_proj
        )
        normed = functional.layer_norm(hidden, (width,), *self.norm1)
        q = linear(normed.index_select(0, window.rows), q_weight, q_bias)
        kv = linear(normed, kv_weight, kv_bias).index_select(0, window.keys)
        return self._rest(hidden, q.index_select(0, window.queries), *kv.chunk(2, dim=1), window)

    def _rest(self, hidden: Tensor, q: Tensor, k: Tensor, v: Tensor, window: Window) -> Tensor:
        """Attention and feed-forward, from queries, keys and values at their places."""
        width, chunks = hidden.shape[1], len(window.mask)
        q, k, v = (
            x.view(chunks, -1, self.heads, width // self.heads).transpose(1, 2) for x in (q, k, v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=window.mask)
        mixed = mixed.transpose(1, 2).reshape(-1, width).index_select(0, window.places)
        hidden = hidden.index_select(0, window.rows) + linear(mixed, *self.out_proj)
        inner = functional.layer_norm(hidden, (width,), *self.norm2)
        inner = linear(inner, *self.linear1).relu_()
        return hidden + linear(inner, *self.linear2)


class Policy(nn.Module):
    """Pre-norm Transformer with learned positions and an untied head; 69,325 parameters by default.

    It stays in training mode, there being no dropout, so that all its forward passes take the
    same path through PyTorch.
    """

    def __init__(self, settings: PolicySettings) -> None:
        """Random weights, as PyTorch's layers initialise themselves."""
        super().__init__()
        self.settings = settings
        self.tokens = nn.Embedding(VOCABULARY, settings.width)
        self.positions = nn.Embedding(POSITIONS, settings.width)
        self.layers = nn.ModuleList(  # not nn.TransformerEncoder, whose layers all start equal
            nn.TransformerEncoderLayer(
                settings.width,
                settings.heads,
                settings.feed_forward,
                dropout=0.0,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(settings.layers)
        )
        self.head = nn.Linear(settings.width, OUTPUT_CLASSES)
        self._find_weights()

    def _find_weights(self) -> None:
        # Looking a parameter up in nested modules takes as long as a small operation on it.
        self._fast_layers = [_LayerWeights.of(layer) for layer in self.layers]

    def _apply(self, *arguments: Any, **named: Any) -> "Policy":
        """Move or convert the parameters (`to`, `double`, ...), which may make new ones."""
        super()._apply(*arguments, **named)
        self._find_weights()
        return self

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, length, 13) of the token after each position of `tokens` (n, length)."""
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(
            length, device=tokens.device, dtype=self.head.weight.dtype
        )
        hidden = self.tokens(tokens) + self.positions.weight[:length]
        for layer in self.layers:
            hidden = layer(hidden, src_mask=causal, is_causal=True)
        return self.head(hidden)

    def logits_on(self, tree: PrefixTree) -> Tensor:
        """Logits (m, 13) of the token after each of the tree's m results; see `prefix_tree`."""
        hidden = self.tokens.weight.index_select(0, tree.tokens)
        hidden = hidden + self.positions.weight.index_select(0, tree.positions)
        *others, last = self._fast_layers
        window = tree.first
        for layer in others:
            hidden = layer.all_nodes(hidden, window)
            window = tree.inner
        if not others:
            hidden = hidden.index_select(0, tree.first.rows)
        return self.head(last.asked_nodes(hidden, tree.outer))

    def log_probs(self, prompts: Tensor, completions: Tensor, temperature: float = 1.0) -> Tensor:
        """Log-probabilities (n, 3) of the tokens of `completions` (n, 3) after prompts (n, 7).

        Those of sampling at `temperature`. Tokens are on the CPU, the result is on the policy's
        device.
        """
        sequences = torch.cat([prompts, completions[:, :-1]], dim=1)
        tree = prefix_tree(sequences, PROMPT_LENGTH, like=self.head.weight)
        completions = completions.to(self.head.weight.device, non_blocking=True)
        return pick(log_softmax(self.logits_on(tree), temperature), tree, completions)

    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def log_softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probabilities (m, 13) of sampling at `temperature`."""
    # Transposed, since PyTorch's kernel is four times as fast along dimension 0.
    return (logits if temperature == 1 else logits / temperature).T.log_softmax(dim=0).T


def pick(log_probs: Tensor, tree: PrefixTree, tokens: Tensor) -> Tensor:
    """Of the results' log-probabilities (m, 13) those of `tokens` (n, k)."""
    index = tokens * len(log_probs) + tree.result_of
    return log_probs.T.flatten().index_select(0, index.flatten()).view_as(index)


def initial_policy(settings: PolicySettings, seed: int) -> Policy:
    """A policy with the initial weights of the run seed, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "initial_weights").initial_seed())
        return Policy(settings)
