"""Chapter 7's exercises as published code solves them."""

import math

import torch
import torch.nn.functional as F
from exercise_bank import PUBLIC_SEED
from torch import nn

from autograder import exercises

CHAPTER = "ch07_causal_masking"
SEEDS = (PUBLIC_SEED, 7, 77)


def name(exercise: str) -> str:
    return f"{CHAPTER}/{exercise}"


def cases_of(exercise: str, seed: int):
    return [case for _, drawn in exercises.find(name(exercise)).draw(seed) for case in drawn]


class Published:
    """As transformers, nanoGPT and others write it, with the names and the shapes of the exercises."""

    @staticmethod
    def causal_mask__buffer(q_len, k_len=None):
        k_len = q_len if k_len is None else k_len
        bias = torch.tril(torch.ones((64, 64), dtype=torch.bool)).view(1, 1, 64, 64)
        return bias[:, :, k_len - q_len : k_len, :k_len][0, 0]

    @staticmethod
    def causal_mask__filled(q_len, k_len=None):
        past = 0 if k_len is None else k_len - q_len
        mask = torch.full((q_len, q_len), torch.finfo(torch.float32).min)
        place = torch.arange(q_len)
        mask.masked_fill_(place < (place + 1).view(q_len, 1), 0)
        mask = torch.cat([torch.zeros(q_len, past), mask], dim=-1)
        return mask == 0

    @staticmethod
    def causal_mask__cache_position(q_len, k_len=None):
        k_len = q_len if k_len is None else k_len
        cache_position = torch.arange(k_len - q_len, k_len)
        return torch.arange(k_len) <= cache_position.reshape(-1, 1)

    @staticmethod
    def combine_masks__expanded(causal, padding):
        batch, k_len = padding.shape
        expanded = padding[:, None, None, :].expand(batch, 1, causal.shape[0], k_len)
        lowest = torch.finfo(torch.float32).min
        added = torch.zeros_like(expanded, dtype=torch.float32).masked_fill(~expanded, lowest)
        added = added.masked_fill(~causal, lowest)
        return added == 0

    @staticmethod
    def next_token_loss__gpt2(logits, tokens, ignore_index=-100):
        shift_logits = logits[..., :-1, :].contiguous()
        shift_labels = tokens[..., 1:].contiguous()
        loss_fct = nn.CrossEntropyLoss(ignore_index=ignore_index, reduction="sum")
        loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return loss / (shift_labels != ignore_index).sum().clamp(min=1)

    @staticmethod
    def next_token_loss__padded_labels(logits, tokens, ignore_index=-100):
        labels = F.pad(tokens, (0, 1), value=ignore_index)[..., 1:].contiguous().view(-1)
        if bool((labels == ignore_index).all()):
            return logits.sum() * 0.0
        flat = logits.float().view(-1, logits.shape[-1]) if logits.is_contiguous() else logits.flatten(0, 1)
        return F.cross_entropy(flat.float(), labels, ignore_index=ignore_index, reduction="mean")

    @staticmethod
    def next_token_loss__nanogpt(logits, tokens, ignore_index=-100):
        x, y = logits[:, :-1], tokens[:, 1:]
        if not (y != ignore_index).any():
            return x.sum() * 0
        return F.cross_entropy(x.reshape(-1, x.size(-1)), y.reshape(-1), ignore_index=ignore_index)

    @staticmethod
    def filter_logits__warpers(logits, top_k=None, top_p=None):
        if top_k is not None:
            indices = torch.topk(logits, min(top_k, logits.size(-1)))[1]
            remove = torch.ones_like(logits, dtype=torch.bool).scatter(-1, indices, False)
            logits = logits.masked_fill(remove, -float("Inf"))
        if top_p is not None and top_p < 1.0:
            sorted_logits, sorted_indices = torch.sort(logits, descending=False)
            cumulative = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
            remove = cumulative <= (1 - top_p)
            remove[..., -1:] = 0
            remove = remove.scatter(-1, sorted_indices, remove)
            logits = logits.masked_fill(remove, -float("Inf"))
        return logits

    @staticmethod
    def filter_logits__gist(logits, top_k=None, top_p=None):
        logits = logits.clone()
        if top_k is not None:
            order = torch.argsort(logits, dim=-1, descending=True)
            logits.scatter_(-1, order[..., top_k:], -math.inf)
        if top_p is not None and top_p < 1:
            sorted_logits, sorted_indices = torch.sort(logits, descending=True)
            remove = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1) > top_p
            remove[..., 1:] = remove[..., :-1].clone()
            remove[..., 0] = 0
            logits[remove.scatter(-1, sorted_indices, remove)] = -math.inf
        return logits

    @staticmethod
    def generate__nanogpt(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
        idx = prompt
        for _ in range(max_new_tokens):
            cut = context_len is not None and idx.size(1) > context_len
            idx_cond = idx[:, -context_len:] if cut else idx
            logits = model(idx_cond)[:, -1, :]
            if temperature == 0:
                idx_next = torch.argmax(logits, dim=-1)[:, None]
            else:
                probs = F.softmax(logits / temperature, dim=-1)
                idx_next = torch.multinomial(probs, num_samples=1, generator=generator)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx

    @staticmethod
    @torch.no_grad()
    def generate__sequences(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
        model.eval()
        device = next(model.parameters()).device
        out = prompt.clone().to(device)
        for _ in range(max_new_tokens):
            start = 0 if context_len is None else max(0, out.shape[1] - context_len)
            scores = model(out[:, start:])[:, -1].to(copy=True, dtype=torch.float32)
            if temperature:
                token = torch.multinomial((scores / temperature).softmax(-1), 1, generator=generator)
            else:
                token = scores.topk(1).indices
            out = torch.cat([out, token], dim=-1)
        return out

    @staticmethod
    def find_leaks__one_batch(model, tokens, vocab_size):
        model.eval()
        T = len(tokens)
        with torch.no_grad():
            base = model(tokens.unsqueeze(0))
            changed = tokens.repeat(T, 1)
            changed.diagonal().copy_((tokens + 1) % vocab_size)
            delta = (model(changed) - base).abs().amax(-1)
        return {tuple(pair) for pair in (delta > 1e-4).T.triu(1).nonzero().tolist()}
