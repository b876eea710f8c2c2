"""Small networks in plain torch modules, one of each well-known kind, as input of exporters."""

import torch
from torch import nn
from torch.nn import functional as F


def conv_bn(channels, out, kernel=3, stride=1, groups=1, activation=nn.ReLU):
    """Convolution, normalisation, activation."""
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), *([activation()] if activation else []))


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.body = nn.Sequential(conv_bn(channels, out, 3, stride), conv_bn(out, out, activation=None))
        self.side = conv_bn(channels, out, 1, stride, activation=None) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


def resnet():
    """A stem with a padded, strided maximum; residual blocks; a mean over the plane."""
    stem = nn.Sequential(conv_bn(3, 4, 3, 2), nn.MaxPool2d(3, 2, 1))
    blocks = nn.Sequential(Residual(4, 4, 1), Residual(4, 6, 2))
    return nn.Sequential(stem, blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))


def vgg():
    """Plain convolutions and maxima, then linear layers with dropout."""
    features = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    )
    head = nn.Sequential(nn.Linear(6 * 4 * 4, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 5))
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(4), nn.Flatten(), head)


class Dense(nn.Module):
    def __init__(self, channels, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1, bias=False))
            for c in range(channels, channels + growth * layers, growth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet():
    """Layers whose inputs are all earlier outputs; transitions by averages."""
    transition = nn.Sequential(nn.BatchNorm2d(7), nn.ReLU(), nn.Conv2d(7, 4, 1, bias=False), nn.AvgPool2d(2))
    body = nn.Sequential(conv_bn(3, 3, 3, 2), Dense(3, 2, 2), transition, Dense(4, 2, 2), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


class Inverted(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.same = stride == 1 and channels == out
        wide = 2 * channels
        self.body = nn.Sequential(
            conv_bn(channels, wide, 1, activation=nn.ReLU6),
            conv_bn(wide, wide, 3, stride, wide, activation=nn.ReLU6),
            conv_bn(wide, out, 1, activation=None),
        )

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet():
    """Depthwise convolutions and clipped activations."""
    body = nn.Sequential(conv_bn(3, 4, 3, 2, activation=nn.ReLU6), Inverted(4, 4, 1), Inverted(4, 5, 2))
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(5, 5))


class UNet(nn.Module):
    """Down by maxima, up by transposed convolution and by repetition, with skip connections."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = conv_bn(3, 3), conv_bn(3, 4), conv_bn(4, 5)
        self.up = nn.ConvTranspose2d(5, 4, 2, 2)
        self.fourth, self.fifth, self.last = conv_bn(8, 4), conv_bn(7, 3), nn.Conv2d(3, 2, 1)

    def forward(self, x):
        one = self.first(x)
        two = self.second(F.max_pool2d(one, 2))
        three = self.third(F.max_pool2d(two, 2))
        four = self.fourth(torch.cat([self.up(three), two], 1))
        five = self.fifth(torch.cat([F.interpolate(four, scale_factor=2.0, mode="nearest"), one], 1))
        return self.last(five).mean((2, 3))


class Inception(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.one, self.three = conv_bn(channels, 2, 1), nn.Sequential(conv_bn(channels, 2, 1), conv_bn(2, 3))
        self.five, self.pool = nn.Sequential(conv_bn(channels, 1, 1), conv_bn(1, 2, 5)), conv_bn(channels, 2, 1)

    def forward(self, x):
        pooled = self.pool(F.max_pool2d(x, 3, 1, 1))
        return torch.cat([self.one(x), self.three(x), self.five(x), pooled], 1)


def googlenet():
    """Parallel branches with several kernels; maxima with ceil_mode."""
    stem = nn.Sequential(conv_bn(3, 4, 3, 2), nn.MaxPool2d(3, 2, ceil_mode=True))
    return nn.Sequential(stem, Inception(4), Inception(9), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(9, 5))


NETWORKS = {
    "resnet": resnet,
    "vgg": vgg,
    "densenet": densenet,
    "mobilenet": mobilenet,
    "unet": UNet,
    "googlenet": googlenet,
}


def made(name, seed=0):
    """A network with random weights and statistics, for inference."""
    torch.manual_seed(seed)
    network = NETWORKS[name]()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 2.0**-16  # attributes of ONNX are float32
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
    return network.eval()
