"""The specification with a chosen fault, for counterexamples of every kind."""

import numpy as np

from specgrad import Dual
from specgrad.conformance import NotOffered


class Amiss:
    """A subject that answers as the specification does, with the result of one method spoilt."""

    def __init__(self, name, method=None, spoil=None, lacks=()):
        self.name, self.method, self.spoil, self.lacks = name, method, spoil, lacks

    def _spoilt(self, method, result):
        if method in self.lacks:
            raise NotOffered(method)
        return self.spoil(result) if method == self.method else result

    def forward(self, op, inputs):
        return self._spoilt("forward", op(*inputs))

    def jvp(self, op, inputs, tangents):
        return self._spoilt("jvp", op.jvp(inputs, tangents)[1])

    def vjp(self, op, inputs, cotangent):
        return self._spoilt("vjp", op.vjp(inputs, cotangent))

    def second(self, op, inputs, tangents, cotangent):
        moved = op.vjp(tuple(Dual(x, t) for x, t in zip(inputs, tangents, strict=True)), cotangent)
        return self._spoilt("second", tuple(m.tangent for m in moved))


def more(result):
    return tuple(map(more, result)) if isinstance(result, tuple) else np.asarray(result + 1, result.dtype)


def longer(result):
    return tuple(map(longer, result)) if isinstance(result, tuple) else result[None]


def wide(result):
    return np.asarray(result, np.float64 if result.dtype == np.float32 else np.float32)


def fails(result):
    raise IndexError("too far")


METHODS = ("forward", "jvp", "vjp", "second")
SUBJECTS = {
    **{f"{m}_{how.__name__}": Amiss(f"{m} {how.__name__}", m, how) for m in METHODS for how in (more, longer, fails)},
    "vjp_without_jvp": Amiss("vjp more, without jvp", "vjp", more, lacks=("jvp",)),
    "another_type": Amiss("another type", "forward", wide),
}


def __getattr__(name):
    try:
        return SUBJECTS[name]
    except KeyError:
        raise AttributeError(name) from None
