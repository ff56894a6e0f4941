# SPDX-License-Identifier: GPL-3.0-or-later
"""package.quantise in torch, for training through it: forward sees the packed value, backward passes straight."""

import torch

from package import SHRINKS


def round_bf16(x):
    return x.to(torch.bfloat16).to(torch.float32)


def packed_value(groups, bits):
    """What package.py gives back for float32 [groups, group_size]."""
    top = 2**bits - 1
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    middle, half = (low + high) * 0.5, (high - low) * 0.5
    best_error = best = None
    for shrink in SHRINKS:
        reach = half * shrink
        scale = round_bf16(reach * 2 / top)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        bias = round_bf16(middle - reach)
        value = torch.clamp(torch.round((groups - bias) / scale), 0, top) * scale + bias
        error = (value - groups).square().sum(-1, keepdim=True)
        if best is None:
            best_error, best = error, value
        else:
            better = error < best_error
            best_error, best = torch.where(better, error, best_error), torch.where(better, value, best)
    return best


def straight_through(groups, bits):
    return groups + (packed_value(groups.detach(), bits) - groups.detach())
