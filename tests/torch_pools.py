"""Shared poolings of torch tensors: every operator and option, numbers without ties, and
tolerances."""

import functools

import numpy as np
import torch

import specgrad as sg

OPTIONS = [
    sg.MaxPool((3, 2), stride=2, padding=1),
    sg.MaxPool((2, 2), stride=1, padding=((1, 0), (0, 1)), dilation=2, ceil_mode=True, ties="all"),
    sg.MaxPool((2,), padding="same", stride=1, ties="split", axes=(1,)),
    sg.MaxPool((17, 16), stride=1, padding=8),
    sg.AvgPool((3, 2), stride=2, padding=1, ceil_mode=True),
    sg.AvgPool((2, 2), padding="same", stride=1, dilation=2, count_include_pad=False, axes=(0, 2)),
    sg.AvgPool((2, 2), divisor_override=3),
    sg.SmoothMaxPool((2, 3), beta=1.5, stride=1, padding=1),
    sg.SmoothMaxPool((2, 2), beta=-0.5, padding="same", stride=2, dilation=2, pad="skip"),
    sg.AdaptiveMaxPool((3, None)),
    sg.AdaptiveMaxPool((2, 3), ties="split"),
    sg.AdaptiveAvgPool((2, 7)),
    sg.GlobalMaxPool(2),
    sg.GlobalMaxPool(2, ties="first", keepdims=False),
    sg.GlobalAvgPool(1, axes=(1,)),
]
"""Every operator with every option."""

exactly = functools.partial(torch.testing.assert_close, rtol=0, atol=0)
nearly = functools.partial(torch.testing.assert_close, rtol=2.0**-53 * 2**10, atol=2.0**-53 * 2**10)
"""Numbers of magnitude 1 in float64, summed over at most a thousand terms by either side."""


def sample(*shape, seed=0):
    """Numbers without ties."""
    size = int(np.prod(shape))
    mixed = np.random.default_rng(seed).permutation(size) / size - 0.5
    return torch.from_numpy(mixed.reshape(shape))


def bent(function):
    """A function of all outputs with its own curvature."""
    return lambda x: (function(x).sin() * function(x)).sum()
