"""The plain implementation: document A as one would first write it, on `Policy.forward`.

Tests take it for the truth, and benchmarks measure ours against it. Tokens, advantages and weights
mean the same as in the package.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlvr.addition import ANSWER_LENGTH, OUTPUT_CLASSES
from rlvr.grpo import Batch, clipped_surrogate_loss, is_clipped
from rlvr.policy import Policy
from rlvr.rollout import Rollout
from rlvr.settings import GrpoSettings


def answer_logits(policy: Policy, prompts: Tensor, answers: Tensor) -> Tensor:
    """Logits (n, 3, 13) of each answer token given the prompt (n, 7) and `answers` (n, 3)."""
    sequences = torch.cat([prompts, answers[:, :-1]], dim=1)
    return policy(sequences)[:, -ANSWER_LENGTH:]


def log_probs(policy: Policy, prompts: Tensor, answers: Tensor) -> Tensor:
    """Log-probabilities (n, 3) of the tokens of `answers` (n, 3) after prompts (n, 7)."""
    every = answer_logits(policy, prompts, answers).log_softmax(dim=-1)
    return every.gather(-1, answers.unsqueeze(-1)).squeeze(-1)


def sft_loss(policy: Policy, prompts: Tensor, answers: Tensor) -> Tensor:
    """Mean cross-entropy per answer token."""
    logits = answer_logits(policy, prompts, answers)
    return functional.cross_entropy(logits.flatten(0, 1), answers.flatten())


def sft_step(
    policy: Policy, optimizer: torch.optim.Optimizer, prompts: Tensor, answers: Tensor
) -> None:
    """One step of SFT."""
    loss = sft_loss(policy, prompts, answers)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def rollout(policy: Policy, prompts: Tensor, generator: torch.Generator) -> Rollout:
    """One completion after each of `prompts` (n, 7), token by token."""
    uniforms = torch.rand((ANSWER_LENGTH, len(prompts), OUTPUT_CLASSES), generator=generator)
    sequences, columns = prompts, []
    for uniform in uniforms:
        every = policy(sequences)[:, -1].log_softmax(dim=-1)
        tokens = (every - (-uniform.log()).log()).argmax(dim=-1, keepdim=True)
        entropy = -(every.exp() * every).sum(dim=-1, keepdim=True)
        columns.append((tokens, every.gather(-1, tokens), entropy))
        sequences = torch.cat([sequences, tokens], dim=1)
    return Rollout(*(torch.cat(column, dim=1) for column in zip(*columns, strict=True)))


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    settings: GrpoSettings,
    generator: torch.Generator,
) -> dict[str, float]:
    """Several epochs of minibatch steps, every completion in each."""
    clipped, norms = [], []
    for _ in range(settings.epochs):
        order = torch.randperm(len(batch.advantages), generator=generator)
        for indices in order.split(settings.minibatch_size):
            prompts, completions, log_probs_old, advantages = (part[indices] for part in batch)
            log_probs_new = log_probs(policy, prompts, completions).sum(dim=1)
            ratio = (log_probs_new - log_probs_old).exp()
            loss = clipped_surrogate_loss(ratio, advantages, settings.clip_epsilon)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(policy.parameters(), settings.max_gradient_norm)
            optimizer.step()
            norms.append(norm)
            clipped.append(is_clipped(ratio, advantages, settings.clip_epsilon).double().mean())
    return {
        "clip_fraction": torch.stack(clipped).mean().item(),
        "gradient_norm": torch.stack(norms).double().mean().item(),
    }


@torch.no_grad()
def greedy(policy: Policy, prompts: Tensor) -> Tensor:
    """The most likely token at each step, (n, 3); of tied logits the lowest token."""
    sequences = prompts
    for _ in range(ANSWER_LENGTH):
        tokens = policy(sequences)[:, -1].argmax(dim=-1, keepdim=True)
        sequences = torch.cat([sequences, tokens], dim=1)
    return sequences[:, -ANSWER_LENGTH:]
