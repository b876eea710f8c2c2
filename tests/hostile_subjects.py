"""Subjects that break their process, each in another way, on max pooling with kernels of 3 cells;
otherwise they are right."""

import contextlib
import ctypes
import os
import signal
import sys
import time

import numpy as np

import specgrad


class Hostile:
    def __init__(self, name, amiss):
        self.name, self.amiss = name, amiss

    def forward(self, op, inputs):
        with specgrad.engine("reference"):  # compiles nothing
            y = op(*inputs)
        if np.prod(op.kernel_size) == 3:
            self.amiss(op, y)
        return y


class Own(BaseException):
    def __str__(self):
        return "\x1b[31mred\x1b[0m [bold]bold[/bold] <script>"


def segfault(op, y):
    ctypes.string_at(0)


def leave(op, y):
    os._exit(3)


def own(op, y):
    raise Own


def generator_exit(op, y):
    raise GeneratorExit


def interrupt(op, y):
    raise KeyboardInterrupt


def kill(op, y):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(op, y):
    while True:
        time.sleep(1)


def hog(op, y):
    held = []
    while True:
        held.append(np.ones(2**26))


def close(op, y):
    print("before")
    with contextlib.suppress(Exception):
        sys.stdout.close()
        os.close(1)


def alter(op, y):
    object.__setattr__(op, "kernel_size", (9,))


def talk(op, y):
    print("said \x1b[2J\x07 [red]this[/red]", file=sys.stderr)


FUNCTIONS = (segfault, leave, own, generator_exit, interrupt, kill, hang, hog, close, alter, talk)
SUBJECTS = {f"{f.__name__}s": Hostile(f"{f.__name__} \x1b]0;title\x07", f) for f in FUNCTIONS}


def __getattr__(name):
    try:
        return SUBJECTS[name]
    except KeyError:
        raise AttributeError(name) from None
