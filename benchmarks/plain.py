"""The plain implementation: document A as one would first write it, in PyTorch with autograd.

Tests take it for the truth, and benchmarks measure ours against it. Tokens, advantages and weights
mean the same as in the package; what the package has as arrays are tensors here.
"""

import copy
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from rlvr.config.methods.grpo import GrpoSettings
from rlvr.config.settings.whole import Config, load_config
from rlvr.methods.grpo import Batch, reward_advantages
from rlvr.policy.engines.torch.transformer import Transformer
from rlvr.policy.parameters import initial_values
from rlvr.policy.policy import Policy
from rlvr.task.addition import COMPLETION_LENGTH, draw_additions
from rlvr.task.rewards.exact import reward
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations


def module_of(policy: Policy) -> Transformer:
    """A PyTorch module with the weights of a policy, in their kind of number."""
    return Transformer(policy.settings, policy.values)


def values_of(module: Transformer) -> np.ndarray:
    """The weights of a module (parameters,)."""
    return torch.cat([p.detach().flatten() for p in module.parameters()]).numpy()


def completion_logits(module: Transformer, prompts: Tensor, completions: Tensor) -> Tensor:
    """Logits (n, 3, 13) of each token of `completions` (n, 3) after prompts (n, 7)."""
    sequences = torch.cat([prompts, completions[:, :-1]], dim=1)
    return module(sequences)[:, -COMPLETION_LENGTH:]


def log_probs(
    module: Transformer, prompts: Tensor, completions: Tensor, temperature: float = 1.0
) -> Tensor:
    """Log-probabilities (n, 3) of the tokens of `completions` (n, 3) after prompts (n, 7)."""
    every = (completion_logits(module, prompts, completions) / temperature).log_softmax(dim=-1)
    return every.gather(-1, completions.unsqueeze(-1)).squeeze(-1)


def sft_loss(module: Transformer, prompts: Tensor, completions: Tensor) -> Tensor:
    """Mean cross-entropy per token."""
    logits = completion_logits(module, prompts, completions)
    return functional.cross_entropy(logits.flatten(0, 1), completions.flatten())


def sft_step(
    module: Transformer, optimizer: torch.optim.Optimizer, prompts: Tensor, completions: Tensor
) -> float:
    """One step of SFT; returns the loss."""
    loss = sft_loss(module, prompts, completions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def rollout(
    module: Transformer, prompts: Tensor, uniforms: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Completions, log-probabilities, entropies (n, 3), token by token, by uniforms (3, n)."""
    sequences, columns = prompts, []
    for uniform in uniforms:
        every = (module(sequences)[:, -1] / temperature).log_softmax(dim=-1)
        below = every.exp().cumsum(dim=-1) <= uniform.unsqueeze(-1)
        tokens = below[:, :-1].sum(dim=-1, keepdim=True)
        entropy = -(every.exp() * every).sum(dim=-1, keepdim=True)
        columns.append((tokens, every.gather(-1, tokens), entropy))
        sequences = torch.cat([sequences, tokens], dim=1)
    completions, chosen, entropies = (torch.cat(c, dim=1) for c in zip(*columns, strict=True))
    return completions, chosen, entropies


def kl_estimate(log_probs_new: Tensor, log_probs_ref: Tensor, kl_estimator: str) -> Tensor:
    """KL(policy || reference) estimated at each sampled token, nats."""
    d = log_probs_ref - log_probs_new
    return {"k1": -d, "k2": d.square() / 2, "k3": torch.expm1(d) - d}[kl_estimator]


def completion_losses(
    log_probs_new: Tensor, batch: Batch, settings: GrpoSettings, beta: float
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate of each completion with its KL, and the share of its ratios clipped."""
    log_probs_old, log_probs_ref, advantages = (
        torch.from_numpy(array)
        for array in (batch.log_probs_old, batch.log_probs_ref, batch.advantages)
    )
    log_ratio = log_probs_new - log_probs_old
    if settings.ratio == "sequence":
        log_ratio = log_ratio.sum(dim=1, keepdim=True)
    ratio, a = log_ratio.exp(), advantages.to(log_ratio.dtype).unsqueeze(1)
    low, high = 1 - settings.clip_epsilon_low, 1 + settings.clip_epsilon_high
    clipped = ((ratio > high) & (a > 0)) | ((ratio < low) & (a < 0))
    loss = -torch.minimum(ratio * a, ratio.clamp(low, high) * a).mean(dim=1)
    if beta and settings.kl_placement == "loss":
        kl = kl_estimate(log_probs_new, log_probs_ref, settings.kl_estimator)
        loss = loss + beta * kl.sum(dim=1)
    return loss, clipped.double().mean(dim=1)


def update(
    module: Transformer,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    settings: GrpoSettings,
    beta: float,
    generator: np.random.Generator,
) -> dict[str, float]:
    """Several epochs of minibatch steps, every completion in each."""
    clipped, norms = [], []
    for _ in range(settings.epochs):
        order = generator.permutation(len(batch.advantages))
        for indices in np.array_split(order, -(-len(order) // settings.minibatch_size)):
            part = Batch(*(array[indices] for array in batch))
            tokens = (torch.from_numpy(array) for array in (part.prompts, part.completions))
            log_probs_new = log_probs(module, *tokens, settings.temperature)
            losses, share = completion_losses(log_probs_new, part, settings, beta)
            optimizer.zero_grad()
            losses.mean().backward()
            norms.append(nn.utils.clip_grad_norm_(module.parameters(), settings.max_gradient_norm))
            optimizer.step()
            clipped.append(share.mean())
    return {
        "clip_fraction": torch.stack(clipped).mean().item(),
        "gradient_norm": torch.stack(norms).double().mean().item(),
    }


@torch.no_grad()
def greedy(module: Transformer, prompts: Tensor) -> Tensor:
    """The most likely token at each step, (n, 3); of tied logits the lowest token."""
    sequences = prompts
    for _ in range(COMPLETION_LENGTH):
        tokens = module(sequences)[:, -1].argmax(dim=-1, keepdim=True)
        sequences = torch.cat([sequences, tokens], dim=1)
    return sequences[:, -COMPLETION_LENGTH:]


def sampled_accuracy(module: Transformer, generator: np.random.Generator) -> tuple[float, float]:
    """Greedy accuracy on 2,048 random prompts, all of them and those with a carry."""
    asked = draw_additions(2_048, generator)
    rewards = reward(asked, greedy(module, torch.from_numpy(asked.prompts())).numpy())
    return rewards.mean().item(), rewards[asked.carry()].mean().item()


def document_a(config: Config) -> list[float]:
    """All runs of document A, one after the other. Returns the final accuracies."""
    accuracies = []
    for seed in config.seeds:
        for teacher, recipe in (("weak", "base"), ("cold", "short")):
            generator = stream(seed, "plain")
            module = Transformer(config.policy, initial_values(config.policy, seed))
            optimizer = torch.optim.Adam(module.parameters(), lr=config.sft.learning_rate)
            for _ in range(config.sft.steps):
                asked = draw_additions(config.sft.batch_size, generator)
                shown = demonstrations(config.teachers[teacher], asked, generator)
                sft_step(module, optimizer, *map(torch.from_numpy, (asked.prompts(), shown)))

            settings = config.job(recipe).grpo
            temperature = settings.temperature
            reference = copy.deepcopy(module).requires_grad_(False)
            optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
            for iteration in range(1, settings.iterations + 1):
                asked = draw_additions(settings.prompts_per_iteration, generator)
                asked = asked.repeated(settings.group_size)
                prompts = asked.prompts()
                tokens = torch.from_numpy(prompts)
                uniforms = torch.from_numpy(generator.random((COMPLETION_LENGTH, len(prompts))))
                completions, old, _ = rollout(module, tokens, uniforms, temperature)
                with torch.no_grad():  # for the KL that is shown
                    ref = log_probs(reference, tokens, completions, temperature)
                rewards = reward(asked, completions.numpy())
                groups = rewards.reshape(-1, settings.group_size)
                advantages = reward_advantages(groups, settings).ravel()
                arrays = (tensor.numpy() for tensor in (completions, old, ref))
                batch = Batch(prompts, *arrays, rewards, advantages)
                update(module, optimizer, batch, settings, 0.0, generator)
                if iteration % 5 == 0:  # as document A does it
                    accuracy, _ = sampled_accuracy(module, generator)
            accuracies.append(accuracy)
    return accuracies


if __name__ == "__main__":  # python benchmarks/plain.py CONFIG THREADS: seconds, as JSON
    torch.set_num_threads(int(sys.argv[2]))
    started = time.perf_counter(), time.process_time()
    finals = document_a(load_config(yaml.safe_load(Path(sys.argv[1]).read_text())))
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    print(json.dumps({"wall": wall, "cpu": cpu, "accuracies": finals}))
