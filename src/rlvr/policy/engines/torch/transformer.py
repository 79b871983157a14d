"""The Transformer in PyTorch: its own encoder layers under a causal mask."""

import numpy as np
import torch
from torch import Tensor, nn

from rlvr.config.settings.policy import PolicySettings
from rlvr.policy.parameters import named
from rlvr.task.addition import OUTPUT_CLASSES, POSITIONS, VOCABULARY


class Transformer(nn.Module):
    """Pre-norm Transformer with learned positions and an untied head; 69,325 parameters by default.

    It stays in training mode, there being no dropout, so that all its forward passes take the
    same path through PyTorch.
    """

    def __init__(self, settings: PolicySettings, values: np.ndarray) -> None:
        """With a copy of these weights (parameters,), of their kind of number."""
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, settings.width)
        self.positions = nn.Embedding(POSITIONS, settings.width)
        self.layers = nn.ModuleList(
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
        weights = {name: torch.from_numpy(view) for name, view in named(values, settings).items()}
        self.to(torch.from_numpy(values).dtype).load_state_dict(weights)

    def hidden_states(self, tokens: Tensor) -> Tensor:
        """The last layer's output (n, length, width) at each position of `tokens` (n, length)."""
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(
            length, device=tokens.device, dtype=self.head.weight.dtype
        )
        hidden = self.tokens(tokens) + self.positions.weight[:length]
        for layer in self.layers:
            hidden = layer(hidden, src_mask=causal, is_causal=True)
        return hidden

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, length, 13) of the token after each position of `tokens` (n, length)."""
        return self.head(self.hidden_states(tokens))
