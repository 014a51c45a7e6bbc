"""Functions that numba compiles, a cache for their machine code (ADR 10), and loads of numbers from bytes.

Numba keeps compiled code beside the source by default: in the repository, or nowhere on a read-only
install. Here it is kept in one folder below the temporary one, which belongs to this user alone (what is
read from there is executed) and is named after the source of this package and the layouts of records: numba
itself does not see that a function called from another file has changed. Where no such folder can be had,
nothing is kept.

A number takes one unaligned load, without the interpreter's bounds and signs. Only compiled functions may
use these loads; the caller has made sure that the bytes are there.
"""

# ruff: noqa: ARG001 - numba demands these signatures
# ruff: noqa: PLR2004 - widths in bits

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding  # type: ignore[import-untyped]
import numba
from llvmlite import ir
from numba import extending, types
from numba.core.caching import UserProvidedCacheLocator

from groupshift.adapters.system import own_folder

F = TypeVar("F", bound=Callable[..., Any])

_LOCATOR = f"{__name__}.TemporaryFolder"


@cache
def _digest() -> str:
    """Of this package and of the layouts that code of it is written from; in a folder and a zip alike."""
    sources = sorted(
        (package, entry.name, entry.read_bytes())
        for package in (__package__ or "", "groupshift.log")
        for entry in resources.files(package).iterdir()
        if entry.name.endswith((".py", ".json"))
    )
    return hashlib.sha256(repr(sources).encode()).hexdigest()[:16]


@cache
def _folder() -> Path | None:
    """This user's own folder, made when it is missing; None where it cannot be had."""
    folder = own_folder("groupshift-compiled")
    with suppress(OSError):
        if folder is not None:
            within = folder / _digest()
            within.mkdir(exist_ok=True)
            within.touch()
            return within
    return None


class TemporaryFolder(UserProvidedCacheLocator):
    """Tells numba the folder, and when what lies there is out of date: when the package has changed."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        folder = _folder()
        assert folder is not None  # noqa: S101 - `from_function` has looked
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(folder)

    def get_source_stamp(self) -> str:
        """The digest of the package instead of a file's time, which a zip does not have."""
        return _digest()

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> TemporaryFolder | None:
        """None where nothing can be kept."""
        return cls(py_func, py_file) if _folder() is not None else None


def compiled(function: F) -> F:
    """``function`` compiled at its first call, without the interpreter's lock."""
    made: Any = numba.njit(nogil=True)(function)
    config: Any = numba.config
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = _LOCATOR
    try:
        made.enable_caching()
    except RuntimeError:
        pass  # numba found no place: compiled anew in each process
    finally:
        config.CACHE_LOCATOR_CLASSES = before
    return made  # type: ignore[no-any-return]


_intrinsic: Any = extending.intrinsic

_CRC32C = "llvm.x86.sse42.crc32.64.64"
HARDWARE_CRC32C = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))
"""Whether `crc32c_step` can be called: the processor has the instruction."""


def _load(context: Any, builder: Any, signature: Any, arguments: Any, bits: int) -> Any:
    """The ``bits`` at a byte offset of a one-dimensional array of bytes, in the machine's order."""
    array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
    place = builder.gep(array.data, [arguments[1]])
    return builder.load(builder.bitcast(place, ir.IntType(bits).as_pointer()), align=1)


def _loader(bits: int, *, big_endian: bool, signed: bool) -> Any:
    """An intrinsic ``(data, at)`` that loads a number of so many bits, as an int64 or a uint64."""

    def typed(typing_context: Any, data: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = _load(context, builder, signature, arguments, bits)
            if big_endian and bits > 8:
                word = builder.bswap(word)
            extended = builder.sext if signed else builder.zext
            return extended(word, ir.IntType(64)) if bits < 64 else word

        return (types.int64 if signed or bits < 64 else types.uint64)(data, types.int64), build

    return _intrinsic(typed)


int8, int16, int32, int64 = (_loader(bits, big_endian=True, signed=True) for bits in (8, 16, 32, 64))
uint8, little64 = _loader(8, big_endian=True, signed=False), _loader(64, big_endian=False, signed=False)
"""Loads of a byte, 0 to 255, and of eight bytes as an unsigned number, the first one lowest."""


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
