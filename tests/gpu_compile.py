"""Compile what the GPU engine launches for sm_90, without a device: python tests/gpu_compile.py

Calls run on CPU tensors with launching replaced by compiling, so the kernels, their types and their
constants are those of real calls. Prints one line per kernel and exits with 1 if the compiler
refuses any. `--kinds` compiles one kernel of each kind alone.
"""

import math
import sys
import warnings

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

import specgrad as sg
from specgrad.engines import gpu
from specgrad.torch import routing

KINDS = "--kinds" in sys.argv
TARGET = GPUTarget("cuda", 90, 32)
compiled = {}


def compile_instead(self, *args, grid, warmup, **words):
    """Replaces JITFunction.run, without the launch."""
    backend = make_backend(TARGET)
    bound, specialization, options = create_function_from_signature(self.signature, self.params, backend)(
        *args, **words
    )
    options, signature, constants, attributes = self._pack_args(backend, words, bound, specialization, options)
    kind = getattr(words["tile"].KIND, "value", "")
    name = f"{self.fn.__module__.rsplit('.')[-1]}.{self.__name__}"
    key = name, kind if KINDS else str(specialization)
    if key not in compiled:
        source = ASTSource(self, signature, constants, attributes)
        compiled[key] = triton.compile(source, target=TARGET, options=options.__dict__)
        print(name, kind, signature["y" if "y" in signature else "gx"], flush=True)


def calls():
    """Calls that use every rule and every kernel, with each dtype that changes the code."""
    single, double, half = torch.float32, torch.float64, torch.bfloat16
    yield sg.MaxPool((2, 2), stride=1, padding=((1, 0), (1, 0))), (2, 4, 6), single
    yield sg.MaxPool((3, 2), stride=2, padding=1, ceil_mode=True), (2, 4, 4), half
    yield sg.MaxPool((6, 2), stride=1, padding=(3, 1)), (2, 3, 24), single
    yield sg.MaxPool((4, 4), stride=1, padding=2), (2, 3, 22), half
    yield sg.MaxPool((3, 2, 3), stride=1, padding=((1, 1), (1, 0), (1, 1))), (2, 4, 4, 6), single
    yield sg.AvgPool((3, 2, 2), stride=1, padding=1), (2, 4, 4, 8), half
    yield sg.MaxPool((3, 2, 2), stride=1, padding=1), (2, 3, 3, 3), single
    yield sg.MaxPool((2, 2), dilation=2), (2, 5, 5), single
    yield sg.MaxPool((2, 2), ties="split"), (2, 5, 5), single
    yield sg.AvgPool((3, 3), stride=2, padding=1, count_include_pad=False), (2, 5, 5), single
    yield sg.AvgPool((9, 6), stride=1, padding=3), (2, 33, 24), half
    yield sg.AvgPool((4, 2, 2), stride=1), (2, 5, 3, 3), single
    yield sg.AvgPool((2, 2), dilation=2, padding=1, ceil_mode=True), (2, 4, 4), double
    yield sg.SmoothMaxPool((2, 2), stride=1, padding=1, beta=1.0), (2, 3, 3), single
    yield sg.SmoothMaxPool((2, 2), beta=1.0, pad="skip"), (2, 4, 4), double
    yield sg.SmoothMaxPool((5, 5), beta=1.0), (2, 5, 5), half
    yield sg.AdaptiveMaxPool((2, 2)), (2, 12, 13), single
    yield sg.AdaptiveAvgPool((2, 2)), (2, 12, 13), double
    yield sg.GlobalMaxPool(2), (2, 9, 9), half
    yield sg.GlobalMaxPool(2, ties="split"), (2, 9, 9), single
    yield sg.MaxPool((4, 2), stride=1, padding=(2, 1)), (2, 3, 13), half
    yield sg.AvgPool((4, 4), stride=1, padding=1), (2, 7, 7), double
    yield sg.AvgPool((5, 5), stride=1, padding=2), (2, 13, 13), half
    yield sg.MaxPool((17, 4), stride=1, padding=(8, 2)), (2, 18, 24), half
    yield sg.MaxPool((7, 4), stride=1, padding=((3, 3), (1, 2))), (2, 7, 22), single
    yield sg.MaxPool((17, 9), stride=1, padding=((8, 8), (5, 3))), (2, 33, 20), half
    yield sg.MaxPool((2, 2)), (2, 4, 4), double
    yield sg.MaxPool((3, 3), stride=1, padding=1), (2, 4, 22), single
    yield sg.GlobalAvgPool(2), (8, 9, 9), single
    yield sg.GlobalMaxPool(2, ties="first"), (8, 9, 9), single
    yield sg.GlobalAvgPool(2), (2, 9, 9), half
    yield sg.MaxPool((13, 2), stride=1, padding=((6, 6), (1, 0))), (2, 32, 22), half
    # the smallest of their kinds, which compile fastest
    yield sg.MaxPool((4, 1), stride=1), (2, 4, 3), half
    yield sg.MaxPool((4, 1), stride=1), (2, 4, 3), single
    yield sg.MaxPool((2, 2), stride=1), (2, 3, 3), half


def main():
    warnings.simplefilter("ignore")
    JITFunction.run = compile_instead
    wrong = 0
    listed = list(enumerate(calls()))
    if KINDS:  # the smallest call of each kind, which compiles fastest
        listed.sort(key=lambda one: (math.prod(getattr(one[1][0], "kernel_size", ())), math.prod(one[1][1])))
    for turn, (op, shape, dtype) in listed:
        x = torch.zeros(shape, dtype=dtype)
        if turn % 3 == 2:
            x = x.movedim(0, -1).contiguous().movedim(-1, 0)
        try:
            gpu.forward(op, (x,))
            y, kept = gpu.keep(op, (x,))
            gpu.push(op, (x,), kept, (x,))
            gpu.pull(op, (x,), kept, y)
            if hasattr(op, "ties"):
                gpu.indices(op, (x,))
        except Exception as error:  # report any error of the compiler, and continue
            wrong += 1
            print(f"{op!r} {dtype}: {type(error).__name__}: {str(error)[-500:]}")
    y = torch.zeros(1, 2, 2, 2).to(memory_format=torch.channels_last)
    routing.mending().Mended(2, 2, 0, 1, False).mend(torch.Size((1, 2, 4, 4)), y, y.long())
    print(len(compiled), "kernels, refused:", wrong)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
