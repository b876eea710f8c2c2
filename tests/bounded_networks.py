"""Random small networks for bounds: all windows, all geometry options, branches that rejoin."""

import numpy as np

import specgrad as sg


class Network:
    """A function of (*batch, channels, *spatial) arrays, made of random layers; `exact` if it has
    no exponential."""

    def __init__(self, seed):
        self.random = random = np.random.default_rng(seed)
        self.rank = int(random.integers(1, 4))
        most = {1: 12, 2: 6, 3: 4}[self.rank]
        sizes = tuple(int(n) for n in random.integers(2, most + 1, self.rank))
        self.shape = (int(random.integers(1, 4)), *sizes)
        self.exact = True
        self.layers = []
        shape = self.shape
        for _ in range(int(random.integers(2, 6))):
            shape = self.grow(shape)
        self.lower = random.integers(-16, 17, self.shape) / 8
        self.upper = self.lower + random.integers(0, 9, self.shape) / 8 * random.integers(0, 4)

    def grow(self, shape):
        """Add a layer that fits; returns the shape of its output."""
        kinds = [
            "conv",
            "conv_transpose",
            "max",
            "avg",
            "adaptive",
            "whole",
            "relu",
            "relu",
            "relu",
            "residual",
            "smooth",
        ]
        while True:
            layer = getattr(self, str(self.random.choice(kinds)))(shape)
            try:
                (made,) = {np.shape(layer(np.zeros(shape)))}
            except sg.SpecgradError:
                continue
            if 0 < np.prod(made) <= 120:
                self.layers.append(layer)
                return made

    def integers(self, low, high):
        return tuple(int(n) for n in self.random.integers(low, high, self.rank))

    def weights(self, *shape):
        return self.random.integers(-8, 9, shape) / 8

    def pads(self, most):
        return tuple((int(a), int(b)) for a, b in self.random.integers(0, most, (self.rank, 2)))

    def window(self):
        return {
            "kernel_size": self.integers(1, 4),
            "stride": self.integers(1, 4),
            "padding": self.pads(3),
            "dilation": self.integers(1, 3),
            "ceil_mode": bool(self.random.integers(2)),
        }

    def conv(self, shape):
        groups = int(self.random.choice([1, shape[0]]))
        out = groups * int(self.random.integers(1, 3))
        weight = self.weights(out, shape[0] // groups, *self.integers(1, 4))
        bias = self.weights(out) if self.random.integers(2) else None
        options = {"stride": self.integers(1, 3), "padding": self.pads(3), "dilation": self.integers(1, 3)}
        return lambda x: sg.conv(x, weight, bias, groups=groups, **options)

    def conv_transpose(self, shape):
        weight, bias = self.weights(shape[0], 2, *self.integers(1, 3)), self.weights(2)
        options = {"stride": self.integers(1, 3), "padding": self.pads(2), "output_padding": self.integers(0, 2)}
        return lambda x: sg.conv_transpose(x, weight, bias, **options)

    def max(self, shape):
        options = self.window()
        return lambda x: sg.max_pool(x, **options)

    def avg(self, shape):
        options = {**self.window(), "count_include_pad": bool(self.random.integers(2))}
        options["divisor_override"] = int(self.random.integers(1, 5)) if self.random.integers(3) == 0 else None
        return lambda x: sg.avg_pool(x, **options)

    def adaptive(self, shape):
        pool, size = (sg.adaptive_max_pool, sg.adaptive_avg_pool)[self.random.integers(2)], self.integers(1, 5)
        return lambda x: pool(x, size)

    def whole(self, shape):
        pool = (sg.global_max_pool, sg.global_avg_pool)[self.random.integers(2)]
        return lambda x: pool(x, self.rank)

    def relu(self, shape):
        return sg.relu

    def residual(self, shape):
        scale, shift = self.weights(shape[0], *[1] * self.rank), self.weights(*shape)
        return lambda x: sg.add(sg.relu(sg.sub(x, shift)), sg.mul(x, scale))

    def smooth(self, shape):
        self.exact = False
        options = {**self.window(), "beta": float(self.random.choice([-2.0, 0.5, 3.0]))}
        options["pad"] = str(self.random.choice(["zero", "skip"]))
        return lambda x: sg.smooth_max_pool(x, **options)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def samples(self, count):
        """Inputs in the box: inside, and at its corners."""
        inside = self.random.uniform(size=(count, *self.shape))
        share = np.where(np.arange(count).reshape(-1, *[1] * len(self.shape)) % 2, inside, inside.round())
        return np.clip(self.lower + share * (self.upper - self.lower), self.lower, self.upper)
