"""The layers of `specgrad bench conv`: operator, name, shapes of input and weight, options."""

from __future__ import annotations

from typing import Any

from ..ops import Conv, ConvTranspose, Linear

Row = tuple[type, str, tuple[int, ...], tuple[int, ...], dict[str, Any]]

COMMON: list[Row] = [
    (Conv, "ResNet stem 7×7 s2, 3→64 at 224", (8, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    (Conv, "ResNet 1×1, 64→256 at 56", (8, 64, 56, 56), (256, 64, 1, 1), {}),
    (Conv, "ResNet 3×3, 64 at 56", (8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    (Conv, "ResNet 1×1 s2, 256→512 at 56", (8, 256, 56, 56), (512, 256, 1, 1), {"stride": 2}),
    (Conv, "ResNet 3×3, 128 at 28", (8, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
    (Conv, "ResNet 3×3 s2, 128 at 56", (8, 128, 56, 56), (128, 128, 3, 3), {"stride": 2, "padding": 1}),
    (Conv, "ResNet 1×1, 1024→256 at 14", (8, 1024, 14, 14), (256, 1024, 1, 1), {}),
    (Conv, "ResNet 3×3, 256 at 14", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    (Conv, "ResNet 3×3, 512 at 7", (8, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    (Conv, "MobileNet depthwise 3×3, 32 at 112", (8, 32, 112, 112), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    (
        Conv,
        "MobileNet depthwise 3×3 s2, 64 at 112",
        (8, 64, 112, 112),
        (64, 1, 3, 3),
        {"stride": 2, "padding": 1, "groups": 64},
    ),
    (Conv, "MobileNet depthwise 3×3, 512 at 14", (8, 512, 14, 14), (512, 1, 3, 3), {"padding": 1, "groups": 512}),
    (Conv, "audio k9, 64 at 8192", (8, 64, 8192), (64, 64, 9), {"padding": 4}),
    (Conv, "audio k3 d4, 64 at 8192", (8, 64, 8192), (64, 64, 3), {"padding": 4, "dilation": 4}),
    (Conv, "U-Net 3-D 3×3×3, 32 at 32", (4, 32, 32, 32, 32), (32, 32, 3, 3, 3), {"padding": 1}),
    (
        ConvTranspose,
        "DCGAN transposed 4×4 s2, 256→128 at 8",
        (16, 256, 8, 8),
        (256, 128, 4, 4),
        {"stride": 2, "padding": 1},
    ),
    (
        ConvTranspose,
        "DCGAN transposed 4×4 s2, 128→64 at 16",
        (16, 128, 16, 16),
        (128, 64, 4, 4),
        {"stride": 2, "padding": 1},
    ),
    (Conv, "rank 4, 3×3×3×3, 8 at 12", (1, 8, 12, 12, 12, 12), (8, 8, 3, 3, 3, 3), {"padding": 1}),
    (Conv, "one image, one channel, 7×7 at 512", (1, 1, 512, 512), (1, 1, 7, 7), {"padding": 3}),
    (Conv, "one volume, one channel, 5×5×5 at 64", (1, 1, 64, 64, 64), (1, 1, 5, 5, 5), {"padding": 2}),
]

HELD_OUT: list[Row] = [
    (Conv, "1×1, 256→64 at 56", (8, 256, 56, 56), (64, 256, 1, 1), {}),
    (Conv, "1×1, 512→2048 at 7", (8, 512, 7, 7), (2048, 512, 1, 1), {}),
    (Conv, "1×1, 2048→512 at 7", (8, 2048, 7, 7), (512, 2048, 1, 1), {}),
    (Conv, "1×1, 32→64 at 112", (8, 32, 112, 112), (64, 32, 1, 1), {}),
    (Conv, "1×1, 512 at 14", (8, 512, 14, 14), (512, 512, 1, 1), {}),
    (Conv, "1×1 in 3 groups, 240 at 28", (8, 240, 28, 28), (240, 80, 1, 1), {"groups": 3}),
    (Conv, "3×3 s2, 256→512 at 14", (8, 256, 14, 14), (512, 256, 3, 3), {"stride": 2, "padding": 1}),
    (Conv, "3×3, 3→64 at 224", (2, 3, 224, 224), (64, 3, 3, 3), {"padding": 1}),
    (Conv, "3×3, 512 at 28, one image", (1, 512, 28, 28), (512, 512, 3, 3), {"padding": 1}),
    (Conv, "3×3, 512 at 7, one image", (1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    (Conv, "3×3, 512 at 7, 32 images", (32, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    (Conv, "3×3, 256 at 14, one image", (1, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    (Conv, "3×3, 64 at 56, one image", (1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    (Conv, "depthwise 3×3, 128 at 56", (8, 128, 56, 56), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
    (Conv, "depthwise 3×3 s2, 256 at 28", (8, 256, 28, 28), (256, 1, 3, 3), {"stride": 2, "padding": 1, "groups": 256}),
    (Conv, "depthwise 5×5, 480 at 14", (8, 480, 14, 14), (480, 1, 5, 5), {"padding": 2, "groups": 480}),
    (Conv, "depthwise 3×3, 1024 at 7", (8, 1024, 7, 7), (1024, 1, 3, 3), {"padding": 1, "groups": 1024}),
    (Conv, "depthwise 7×7, 96 at 56", (8, 96, 56, 56), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
    (Conv, "3×3 in 32 groups, 128 at 56", (8, 128, 56, 56), (128, 4, 3, 3), {"padding": 1, "groups": 32}),
    (Conv, "3×3 in 32 groups, 1024 at 7", (8, 1024, 7, 7), (1024, 32, 3, 3), {"padding": 1, "groups": 32}),
    (Conv, "3×3 d2, 256 at 28", (4, 256, 28, 28), (256, 256, 3, 3), {"padding": 2, "dilation": 2}),
    (Conv, "3×3 d4, 256 at 14", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 4, "dilation": 4}),
    (Conv, "patches 16×16, 3→768 at 224", (8, 3, 224, 224), (768, 3, 16, 16), {"stride": 16}),
    (Conv, "patches 4×4, 3→96 at 224", (8, 3, 224, 224), (96, 3, 4, 4), {"stride": 4}),
    (Conv, "patches 2×2, 96→192 at 56", (8, 96, 56, 56), (192, 96, 2, 2), {"stride": 2}),
    (Conv, "3×3, 17→33 at 31", (8, 17, 31, 31), (33, 17, 3, 3), {"padding": 1}),
    (Conv, "5×5, 5→7 at 64", (8, 5, 64, 64), (7, 5, 5, 5), {"padding": 2}),
    (Conv, "3×3×3, 64 at 16", (4, 64, 16, 16, 16), (64, 64, 3, 3, 3), {"padding": 1}),
    (Conv, "3×3×3 s2, 16→32 at 32", (4, 16, 32, 32, 32), (32, 16, 3, 3, 3), {"stride": 2, "padding": 1}),
    (Conv, "k16 s8, 1→256 at 16000", (4, 1, 16000), (256, 1, 16), {"stride": 8}),
    (Conv, "k3, 512 at 500", (4, 512, 500), (512, 512, 3), {"padding": 1}),
    (Conv, "k2 d64, 64 at 4096", (8, 64, 4096), (64, 64, 2), {"dilation": 64}),
    (ConvTranspose, "transposed 4×4, 100→512 at 1", (16, 100, 1, 1), (100, 512, 4, 4), {}),
    (ConvTranspose, "transposed 4×4 s2, 512→256 at 4", (16, 512, 4, 4), (512, 256, 4, 4), {"stride": 2, "padding": 1}),
    (ConvTranspose, "transposed 2×2 s2, 128→64 at 28", (4, 128, 28, 28), (128, 64, 2, 2), {"stride": 2}),
    (Conv, "4×4 s2, 64→128 at 32", (16, 64, 32, 32), (128, 64, 4, 4), {"stride": 2, "padding": 1}),
]

LINEAR: list[Row] = [
    (Linear, "digits, 64→128, 64 rows", (64, 64), (128, 64), {}),
    (Linear, "classes, 2048→1000, 32 rows", (32, 2048), (1000, 2048), {}),
    (Linear, "classes, 8192→10, 64 rows", (64, 8192), (10, 8192), {}),
    (Linear, "classes, 512→10, 256 rows", (256, 512), (10, 512), {}),
    (Linear, "VGG, 25088→4096, 8 rows", (8, 25088), (4096, 25088), {}),
    (Linear, "VGG, 4096→4096, 1 row", (1, 4096), (4096, 4096), {}),
    (Linear, "transformer, 768→3072, 1024 rows", (1024, 768), (3072, 768), {}),
    (Linear, "transformer, 3072→768, 1024 rows", (1024, 3072), (768, 3072), {}),
    (Linear, "attention, 64→64, 4096 rows", (4096, 64), (64, 64), {}),
    (Linear, "words, 256→30000, 16 rows", (16, 256), (30000, 256), {}),
    (Linear, "square, 1024→1024, 1024 rows", (1024, 1024), (1024, 1024), {}),
    (Linear, "odd, 17→33, 10001 rows", (10001, 17), (33, 17), {}),
]

TABLES = {"common": COMMON, "held-out": HELD_OUT, "linear": LINEAR}
"""Layers on which kernels were tuned, layers on which they were not, and linear maps."""
