"""A faster Triton interpreter for tests."""

import triton

from specgrad.engines import gpu


def quicken():
    """Cache the interpreter's preparation of helpers, its list of NumPy types and the shapes of its
    tensors, which it repeats at every step, and skip its overflow checks, which are reported only
    while debugging."""
    if not gpu.INTERPRETED:
        return
    interpreter = triton.runtime.interpreter
    prepared, types, listed = set(), {}, interpreter._get_np_dtype

    def called(self, *args, **words):
        if self.fn not in prepared:
            interpreter._patch_lang(self.fn)
            prepared.add(self.fn)
        return self.rewrite()(*args, **words)

    def numpy_type(kind):
        name = str(kind.scalar)
        if name not in types:
            types[name] = listed(kind)
        return types[name]

    core, semantic = triton.language.core, interpreter.interpreter_semantic
    begin, broadcast, changed = core.tensor.__init__, semantic.broadcast_impl_value, core.block_type.with_element_ty

    def begun(self, handle, kind):
        """A tensor has the number and the constants of the shape that another of its type has."""
        if "shared" in vars(kind):
            self.handle, self.type, self.dtype = handle, kind, kind.scalar
            self.numel, self.shape = kind.shared
        else:
            begin(self, handle, kind)
            kind.shared = self.numel, self.shape

    def broadcast_if_they_differ(one, other):
        kinds = one.type, other.type
        if all(kind.is_block() for kind in kinds) and kinds[0].shape.values == kinds[1].shape.values:
            return one, other
        return broadcast(one, other)

    def of_element(self, scalar):
        held = vars(self).setdefault("held", {})
        if str(scalar) not in held:
            held[str(scalar)] = changed(self, scalar)
        return held[str(scalar)]

    core.tensor.__init__, core.block_type.with_element_ty = begun, of_element
    semantic.broadcast_impl_value = broadcast_if_they_differ
    interpreter.InterpretedFunction.__call__ = called
    interpreter._get_np_dtype = numpy_type
    if not interpreter.interpreter_builder.options.debug:
        interpreter.interpreter_semantic.binary_op_sanitize_overflow_impl = lambda *given: None
