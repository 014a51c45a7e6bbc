"""Numbers read from bytes: one load each, unaligned, without the interpreter's bounds and signs.

For compiled functions only; the caller has made sure that the bytes are there.
"""

# ruff: noqa: ARG001 - numba demands these signatures
# ruff: noqa: PLR2004 - widths in bits

from __future__ import annotations

from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
from llvmlite import ir
from numba import extending, types

_intrinsic: Any = extending.intrinsic

_CRC32C = "llvm.x86.sse42.crc32.64.64"
HARDWARE_CRC32C = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))
"""Whether `crc32c_step` can be called: the processor has the instruction."""


def _load(context: Any, builder: Any, signature: Any, arguments: Any, bits: int) -> Any:
    """The ``bits`` at a byte offset of a one-dimensional array of bytes, in the machine's order."""
    array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
    place = builder.gep(array.data, [arguments[1]])
    return builder.load(builder.bitcast(place, ir.IntType(bits).as_pointer()), align=1)


def _big_endian(bits: int) -> Any:
    def typed(typing_context: Any, data: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = _load(context, builder, signature, arguments, bits)
            if bits > 8:
                word = builder.bswap(word)
            return builder.sext(word, ir.IntType(64)) if bits < 64 else word

        return types.int64(data, types.int64), build

    return typed


int8: Any = _intrinsic(_big_endian(8))
int16: Any = _intrinsic(_big_endian(16))
int32: Any = _intrinsic(_big_endian(32))
int64: Any = _intrinsic(_big_endian(64))


@_intrinsic  # type: ignore[untyped-decorator]
def uint8(typing_context: Any, data: Any, at: Any) -> Any:
    """The byte at an offset, 0 to 255."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = _load(context, builder, signature, arguments, 8)
        return builder.zext(word, ir.IntType(64))

    return types.int64(data, types.int64), build


@_intrinsic  # type: ignore[untyped-decorator]
def little64(typing_context: Any, data: Any, at: Any) -> Any:
    """Eight bytes as an unsigned number, the first one lowest."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, signature, arguments, 64)

    return types.uint64(data, types.int64), build


@_intrinsic  # type: ignore[untyped-decorator]
def copy8(typing_context: Any, source: Any, source_at: Any, target: Any, target_at: Any) -> Any:
    """Copy eight bytes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = _load(context, builder, signature, arguments, 64)
        array = context.make_array(signature.args[2])(context, builder, value=arguments[2])
        place = builder.gep(array.data, [arguments[3]])
        builder.store(word, builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), build


@_intrinsic  # type: ignore[untyped-decorator]
def crc32c_step(typing_context: Any, value: Any, word: Any) -> Any:
    """CRC-32C of eight more bytes (`little64`), by the processor's instruction."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        known = builder.module.globals.get(_CRC32C)
        kind = ir.FunctionType(number, [number, number])
        return builder.call(known or ir.Function(builder.module, kind, _CRC32C), arguments)

    return types.uint64(types.uint64, types.uint64), build
