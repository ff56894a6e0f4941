# SPDX-License-Identifier: GPL-3.0-or-later
"""Muon: momentum whose update is orthogonalised by Newton-Schulz steps; matrices of one shape go together."""

import torch


def orthogonalise(x, steps=5):
    """[n, rows, cols] bf16, each matrix towards the nearest with all singular values one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    wide = x.size(-2) <= x.size(-1)
    x = x if wide else x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.mT


class Muon(torch.optim.Optimizer):
    """params: [(tensor, rows, cols)]: a tensor is seen as a stack of [rows, cols]. The update's size is that of Adam's."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0, compiled=True):
        self.views = {id(p): (rows, cols) for p, rows, cols in params}
        super().__init__([p for p, _, _ in params], dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.orthogonalise = torch.compile(orthogonalise) if compiled else orthogonalise

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            momentum = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in params]
            grads = [p.grad for p in params]
            torch._foreach_lerp_(momentum, grads, 1 - group["momentum"])
            ahead = torch._foreach_lerp(grads, momentum, group["momentum"])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            shapes = {}
            for p, g in zip(params, ahead):
                shapes.setdefault(self.views[id(p)], []).append((p, g))
            for (rows, cols), members in shapes.items():
                stack = torch.cat([g.reshape(-1, rows, cols).bfloat16() for _, g in members])
                update = self.orthogonalise(stack).split([p.numel() // (rows * cols) for p, _ in members])
                scale = 0.2 * max(rows, cols) ** 0.5 * group["lr"]
                torch._foreach_add_([p for p, _ in members],
                                    [u.reshape(p.shape).to(p.dtype) for u, (p, _) in zip(update, members)], alpha=-scale)
