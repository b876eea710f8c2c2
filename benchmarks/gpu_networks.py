"""Small networks whose pooling takes part, as `gpu.py` measures them before and after specgrad.torch.accelerate."""

import torch
from torch import nn


def conv(a, b, k=3):
    return nn.Sequential(nn.Conv2d(a, b, k, padding=k // 2), nn.ReLU())


class Inception(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.one, self.three, self.pool = conv(a, 64, 1), conv(a, 96, 3), nn.MaxPool2d(3, 1, 1)
        self.last = conv(a, 32, 1)

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.last(self.pool(x))], 1)


class Pyramid(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.begin, self.pool, self.end = conv(a, a // 2, 1), nn.MaxPool2d(5, 1, 2), conv(a * 2, a, 1)

    def forward(self, x):
        parts = [self.begin(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.end(torch.cat(parts, 1))


def head(a):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(a, 10)]


NETWORKS = {
    "VGG-like": lambda: nn.Sequential(
        conv(3, 64), conv(64, 64), nn.MaxPool2d(2), conv(64, 128), nn.MaxPool2d(2), conv(128, 256), nn.MaxPool2d(2), *head(256)
    ),
    "GoogLeNet-like": lambda: nn.Sequential(
        conv(3, 64), nn.MaxPool2d(3, 2, 1), Inception(64), Inception(192), nn.MaxPool2d(3, 2, 1), Inception(192), *head(192)
    ),
    "SPPF-like": lambda: nn.Sequential(conv(3, 64), nn.MaxPool2d(2), conv(64, 128), nn.MaxPool2d(2), Pyramid(128), *head(128)),
}  # fmt: skip
