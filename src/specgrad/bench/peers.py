"""The peers of the benchmark: the calls, without arguments, that each library offers for an
operator. Libraries that are not installed are left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from ..ops.pool import AdaptiveWindow, Average, Maximum, SlidingWindow, SmoothMaxPool, WholeWindow

Calls = dict[str, Callable[[], Any]]


def symmetric(op: Any) -> tuple[int, ...] | None:
    """The padding of a sliding operator as one number per axis, or None if it is not symmetric."""
    pairs = op.padding
    return None if isinstance(pairs, str) or any(a != b for a, b in pairs) else tuple(a for a, _ in pairs)


class Peer:
    """Another library's pooling."""

    name: str

    def set_threads(self, n: int) -> None:
        """Use this many threads, if the library allows it."""

    def calls(self, op: Any, x: Any) -> Calls:
        """The peer's calls among "forward", "winners" and "vjp"; empty if the peer does not support
        the operator."""
        raise NotImplementedError


class Torch(Peer):
    """torch.nn.functional on one of its layouts."""

    def __init__(self, layout: str) -> None:
        import torch

        self.torch, self.layout = torch, layout
        self.name = f"torch {layout}"

    def set_threads(self, n: int) -> None:
        self.torch.set_num_threads(n)

    def function(self, op: Any) -> Callable[[Any], Any] | None:
        """The torch function of one tensor for this operator, or None."""
        f, rank = self.torch.nn.functional, op.spatial_rank()
        kind = "max" if isinstance(op, Maximum) else "avg"
        if isinstance(op, SmoothMaxPool):
            return self.smooth(op) if rank == 2 else None
        if isinstance(op, SlidingWindow):
            pool: Any = getattr(f, f"{kind}_pool{rank}d", None)
            pad = symmetric(op)
            if pool is None or pad is None or any(p > k // 2 for p, k in zip(pad, op.kernel_size, strict=True)):
                return None
            return lambda t: pool(t, op.kernel_size, op.stride, pad)
        size = op.output_size if isinstance(op, AdaptiveWindow) else (1,) * rank
        adaptive: Any = getattr(f, f"adaptive_{kind}_pool{rank}d", None)
        return None if adaptive is None else lambda t: adaptive(t, size)

    def smooth(self, op: Any) -> Callable[[Any], Any]:
        """The operator by unfold and logsumexp, since torch has no smooth maximum."""
        f, pad = self.torch.nn.functional, symmetric(op)

        def composed(t: Any) -> Any:
            n, c = t.shape[:2]
            columns = f.unfold(t, op.kernel_size, padding=pad, stride=op.stride)
            return self.torch.logsumexp(op.beta * columns.reshape(n, c, -1, columns.shape[-1]), 2) / op.beta

        return composed

    def calls(self, op: Any, x: Any) -> Calls:
        torch, function = self.torch, self.function(op)
        if function is None or (self.layout != "NCHW" and op.spatial_rank() != 2):
            return {}
        given = torch.from_numpy(x)
        if self.layout == "mkldnn":
            if isinstance(op, SmoothMaxPool | AdaptiveWindow | WholeWindow) or not torch.backends.mkldnn.is_available():
                return {}
            given = given.to_mkldnn()
        elif self.layout == "channels_last":
            given = given.to(memory_format=torch.channels_last)

        def forward() -> Any:
            with torch.no_grad():
                return function(given)

        try:
            forward()
        except RuntimeError:
            return {}
        if self.layout == "mkldnn":
            return {"forward": forward}
        leaf = given.clone().requires_grad_(True)
        y = function(leaf)
        arriving = y.detach().clone()
        return {
            "forward": forward,
            "winners": lambda: function(leaf),
            "vjp": lambda: torch.autograd.grad(y, leaf, arriving, retain_graph=True),
        }


class OnnxRuntime(Peer):
    """ONNX Runtime's MaxPool, AveragePool and global pools."""

    name = "onnxruntime"
    threads = 1

    def set_threads(self, n: int) -> None:
        self.threads = n

    def calls(self, op: Any, x: Any) -> Calls:
        import onnxruntime
        from onnx import TensorProto, helper

        maximum = isinstance(op, Maximum)
        if isinstance(op, WholeWindow):
            node = helper.make_node("GlobalMaxPool" if maximum else "GlobalAveragePool", ["x"], ["y"])
        elif isinstance(op, SlidingWindow) and not isinstance(op, SmoothMaxPool) and symmetric(op) is not None:
            pads = [*symmetric(op), *symmetric(op)]  # type: ignore[misc]
            words = {"kernel_shape": op.kernel_size, "strides": op.stride, "pads": pads}
            if isinstance(op, Average):
                words["count_include_pad"] = 1
            node = helper.make_node("MaxPool" if maximum else "AveragePool", ["x"], ["y"], **words)
        else:
            return {}
        shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "pool", [shape], [out])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = self.threads, 4
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            session.run(None, {"x": x})
        except Exception:  # its errors share no base but Exception, and mean that the operator is not supported
            return {}
        return {"forward": lambda: session.run(None, {"x": x})}


class Jax(Peer):
    """jax.lax.reduce_window, compiled."""

    name = "jax"

    def calls(self, op: Any, x: Any) -> Calls:
        import jax

        if not isinstance(op, SlidingWindow) or isinstance(op, SmoothMaxPool):
            return {}
        batch = x.ndim - op.spatial_rank()
        window, strides = (1,) * batch + tuple(op.kernel_size), (1,) * batch + tuple(op.stride)  # type: ignore[arg-type]
        pads = ((0, 0),) * batch + tuple(op.padding)  # type: ignore[arg-type]
        maximum = isinstance(op, Maximum)
        count = 1
        for k in op.kernel_size:
            count *= k

        def pool(t: Any) -> Any:
            if maximum:
                return jax.lax.reduce_window(t, -float("inf"), jax.lax.max, window, strides, pads)
            return jax.lax.reduce_window(t, 0.0, jax.lax.add, window, strides, pads) / count

        given, forward = jax.device_put(x, jax.devices("cpu")[0]), jax.jit(pool)
        arriving = forward(given)
        backward = jax.jit(lambda t, g: jax.vjp(pool, t)[1](g)[0])
        calls: Calls = {"forward": lambda: forward(given).block_until_ready()}
        if max(op.kernel_size) <= 5:  # for larger kernels its gradient takes minutes
            calls["vjp"] = lambda: backward(given, arriving).block_until_ready()
        return calls


class Scipy(Peer):
    """scipy.ndimage's sliding filters: stride 1 and odd kernels only."""

    name = "scipy.ndimage"

    def calls(self, op: Any, x: Any) -> Calls:
        from scipy import ndimage

        if not isinstance(op, SlidingWindow) or isinstance(op, SmoothMaxPool) or set(op.stride) != {1}:  # type: ignore[arg-type]
            return {}
        if any(k % 2 == 0 or p != k // 2 for k, p in zip(op.kernel_size, symmetric(op) or (), strict=True)):
            return {}
        size = (1,) * (x.ndim - op.spatial_rank()) + tuple(op.kernel_size)
        out = x.copy()
        if isinstance(op, Maximum):
            return {"forward": lambda: ndimage.maximum_filter(x, size, output=out, mode="constant", cval=-float("inf"))}
        return {"forward": lambda: ndimage.uniform_filter(x, size, output=out, mode="constant")}


def _if_installed(make: Callable[[], Peer], *modules: str) -> Callable[[], Peer | None]:
    return lambda: make() if all(importlib.util.find_spec(module) for module in modules) else None


PEERS: list[Callable[[], Peer | None]] = [
    _if_installed(lambda: Torch("NCHW"), "torch"),
    _if_installed(lambda: Torch("channels_last"), "torch"),
    _if_installed(lambda: Torch("mkldnn"), "torch"),
    _if_installed(OnnxRuntime, "onnx", "onnxruntime"),
    _if_installed(Jax, "jax"),
    _if_installed(Scipy, "scipy"),
]
