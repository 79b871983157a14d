"""The plain implementation: document A as one would first write it, on `Policy.forward`.

Tests take it for the truth, and benchmarks measure ours against it. Tokens, advantages and weights
mean the same as in the package.
"""

import copy
import json
import sys
import time
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from rlvr.config.methods.grpo import GrpoSettings
from rlvr.config.settings.whole import Config, load_config
from rlvr.methods.grpo import Batch, completion_losses, reward_advantages
from rlvr.policy.sampling import Rollout
from rlvr.policy.transformer import Policy, initial_policy
from rlvr.task.addition import COMPLETION_LENGTH, OUTPUT_CLASSES, draw_additions
from rlvr.task.rewards.exact import reward
from rlvr.task.teachers import demonstrations


def completion_logits(policy: Policy, prompts: Tensor, completions: Tensor) -> Tensor:
    """Logits (n, 3, 13) of each token of `completions` (n, 3) after prompts (n, 7)."""
    sequences = torch.cat([prompts, completions[:, :-1]], dim=1)
    return policy(sequences)[:, -COMPLETION_LENGTH:]


def log_probs(
    policy: Policy, prompts: Tensor, completions: Tensor, temperature: float = 1.0
) -> Tensor:
    """Log-probabilities (n, 3) of the tokens of `completions` (n, 3) after prompts (n, 7)."""
    every = (completion_logits(policy, prompts, completions) / temperature).log_softmax(dim=-1)
    return every.gather(-1, completions.unsqueeze(-1)).squeeze(-1)


def sft_loss(policy: Policy, prompts: Tensor, completions: Tensor) -> Tensor:
    """Mean cross-entropy per token."""
    logits = completion_logits(policy, prompts, completions)
    return functional.cross_entropy(logits.flatten(0, 1), completions.flatten())


def sft_step(
    policy: Policy, optimizer: torch.optim.Optimizer, prompts: Tensor, completions: Tensor
) -> None:
    """One step of SFT."""
    loss = sft_loss(policy, prompts, completions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def rollout(
    policy: Policy, prompts: Tensor, generator: torch.Generator, temperature: float = 1.0
) -> Rollout:
    """One completion after each of `prompts` (n, 7), token by token."""
    uniforms = torch.rand((COMPLETION_LENGTH, len(prompts), OUTPUT_CLASSES), generator=generator)
    sequences, columns = prompts, []
    for uniform in uniforms:
        every = (policy(sequences)[:, -1] / temperature).log_softmax(dim=-1)
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
    beta: float,
    generator: torch.Generator,
) -> dict[str, float]:
    """Several epochs of minibatch steps, every completion in each."""
    clipped, norms = [], []
    for _ in range(settings.epochs):
        order = torch.randperm(len(batch.advantages), generator=generator)
        for indices in order.tensor_split(-(-len(order) // settings.minibatch_size)):
            part = Batch(*(tensor[indices] for tensor in batch))
            log_probs_new = log_probs(policy, part.prompts, part.completions, settings.temperature)
            losses = completion_losses(log_probs_new, part, settings, beta)
            optimizer.zero_grad()
            losses.loss.mean().backward()
            norm = nn.utils.clip_grad_norm_(policy.parameters(), settings.max_gradient_norm)
            optimizer.step()
            norms.append(norm)
            clipped.append(losses.clipped.double().mean())
    return {
        "clip_fraction": torch.stack(clipped).mean().item(),
        "gradient_norm": torch.stack(norms).double().mean().item(),
    }


@torch.no_grad()
def greedy(policy: Policy, prompts: Tensor) -> Tensor:
    """The most likely token at each step, (n, 3); of tied logits the lowest token."""
    sequences = prompts
    for _ in range(COMPLETION_LENGTH):
        tokens = policy(sequences)[:, -1].argmax(dim=-1, keepdim=True)
        sequences = torch.cat([sequences, tokens], dim=1)
    return sequences[:, -COMPLETION_LENGTH:]


def sampled_accuracy(policy: Policy, generator: torch.Generator) -> tuple[float, float]:
    """Greedy accuracy on 2,048 random prompts, all of them and those with a carry."""
    asked = draw_additions(2_048, generator)
    rewards = reward(asked, greedy(policy, asked.prompts()))
    return rewards.mean().item(), rewards[asked.carry()].mean().item()


def document_a(config: Config) -> list[float]:
    """All runs of document A, one after the other. Returns the final accuracies."""
    accuracies = []
    for seed in config.seeds:
        for teacher, recipe in (("weak", "base"), ("cold", "short")):
            generator = torch.Generator().manual_seed(seed)
            policy = initial_policy(config.policy, seed)
            optimizer = torch.optim.Adam(policy.parameters(), lr=config.sft.learning_rate)
            for _ in range(config.sft.steps):
                asked = draw_additions(config.sft.batch_size, generator)
                shown = demonstrations(config.teachers[teacher], asked, generator)
                sft_step(policy, optimizer, asked.prompts(), shown)

            settings = config.job(recipe).grpo
            temperature = settings.temperature
            reference = copy.deepcopy(policy).requires_grad_(False)
            optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate)
            for iteration in range(1, settings.iterations + 1):
                asked = draw_additions(settings.prompts_per_iteration, generator)
                asked = asked.repeated(settings.group_size)
                prompts = asked.prompts()
                sampled = rollout(policy, prompts, generator, temperature)
                with torch.no_grad():  # for the KL that is shown
                    log_probs_ref = log_probs(reference, prompts, sampled.completions, temperature)
                rewards = reward(asked, sampled.completions)
                groups = rewards.view(-1, settings.group_size)
                advantages = reward_advantages(groups, settings).flatten()
                batch = Batch(
                    prompts,
                    sampled.completions,
                    sampled.log_probs,
                    log_probs_ref,
                    rewards,
                    advantages,
                )
                update(policy, optimizer, batch, settings, 0.0, generator)
                if iteration % settings.evaluate_every == 0:
                    accuracy, _ = sampled_accuracy(policy, generator)
            accuracies.append(accuracy)
    return accuracies


if __name__ == "__main__":  # python benchmarks/plain.py CONFIG THREADS: seconds, as JSON
    torch.set_num_threads(int(sys.argv[2]))
    started = time.perf_counter(), time.process_time()
    finals = document_a(load_config(yaml.safe_load(Path(sys.argv[1]).read_text())))
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    print(json.dumps({"wall": wall, "cpu": cpu, "accuracies": finals}))
