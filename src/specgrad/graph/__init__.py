"""Operators as a program that can be read, checked, differentiated and compiled before it runs."""

from .graph import Graph
from .program import Program
from .trace import Shape, trace

__all__ = ["Graph", "Program", "Shape", "trace"]
