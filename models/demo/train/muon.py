# SPDX-License-Identifier: GPL-3.0-or-later
"""Muon: momentum whose update is orthogonalised by Newton-Schulz steps; matrices of one shape go together."""

import torch


def orthogonalise(x, steps=5):
    """[n, rows, cols] bf16, rows <= cols: each matrix towards the nearest with all singular values one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """params: [(tensor, rows, cols)]: a tensor is seen as a stack of [rows, cols]. The update's size is that of Adam's."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        self.views = {id(p): (rows, cols) for p, rows, cols in params}
        super().__init__([p for p, _, _ in params], dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

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
                rows, cols = self.views[id(p)]
                g = g.reshape(-1, rows, cols).bfloat16()
                wide = g if rows <= cols else g.mT
                shapes.setdefault(wide.shape[1:], []).append((p, wide, rows <= cols))
            for shape, members in shapes.items():
                updates = orthogonalise(torch.cat([g for _, g, _ in members])).split([len(g) for _, g, _ in members])
                updates = [(u if straight else u.mT).reshape(p.shape) for u, (p, _, straight) in zip(updates, members)]
                torch._foreach_add_([p for p, _, _ in members], [u.to(p.dtype) for u, (p, _, _) in zip(updates, members)],
                                    alpha=-0.2 * max(shape) ** 0.5 * group["lr"])
