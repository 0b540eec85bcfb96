"""The wall clock of this process, set wrong where the C library reads it: in the code that the kernel lends it.

Linux maps a small library into each process, the vDSO, whose functions read the clock without a system call (vdso(7)).
Python, the C and the C++ library all read it there. Its pages are the process's own once they are written to. Each
function that tells the wall clock gets a jump as its first instruction, to code behind the end of the library which
makes the system call, and adds to what the kernel says.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterator

#: Tags of the dynamic section: where strings and symbols are (elf(5)).
_STRTAB, _SYMTAB = 5, 6
_DYNAMIC = 2
_READ_WRITE_RUN, _READ_RUN = 7, 5
#: The code of each function, before and after the number to be added is fetched (rcx); every way out is the last byte.
#: clock_gettime: mov eax, 228; syscall; test eax, eax; jnz out; test edi, edi; jz fetch; cmp edi, 5; jnz out; fetch;
#: add [rsi], rcx; ret. Clock 0 is the wall clock, 5 the same to the last tick.
#: gettimeofday: mov eax, 96; syscall; test eax, eax; jnz out; test rdi, rdi; jz out; fetch; add [rdi], rcx; ret.
#: time: mov eax, 201; syscall; fetch; add rax, rcx; test rdi, rdi; jz out; mov [rdi], rax; ret.
_CODES = {
    "__vdso_clock_gettime": ("b8e40000000f0585c0751385ff740583ff05750a", "48010ec3"),
    "__vdso_gettimeofday": ("b8600000000f0585c0750f4885ff740a", "48010fc3"),
    "__vdso_time": ("b8c90000000f05", "4801c84885ff7403488907c3"),
}
#: mov rcx, [rip + …]
_FETCH = bytes.fromhex("488b0d")
_JUMP = 0xE9


def shift_wall_clock(seconds: int) -> None:
    """Have this process, and what it forks, read another time of day from now on. Raises `OSError` if it cannot be."""
    if platform.machine() != "x86_64":
        raise OSError(f"the vDSO's code is only known for x86-64, and this is {platform.machine()}")
    begin, end = _where()
    image = ctypes.string_at(begin, end - begin)
    symbols = _symbols(image)
    # Behind the last byte that is not zero nothing is kept; until then there are the names of sections and the like.
    added = begin + -(-len(image.rstrip(b"\0")) // 8) * 8 + 8
    code, entries = _compile(symbols, begin, added)
    first = next(iter(entries))
    jump, distance = struct.unpack_from("<Bi", image, first - begin)
    if jump == _JUMP:
        # It was shifted before: the number is where it is, before the code of the first function.
        added = first + 5 + distance - 8
    elif added + 8 + len(code) > end:
        raise OSError("there is no room behind the vDSO")
    with _writable(begin, end):
        # Written are 8 bytes at a time, at addresses that 8 divides: whole for a thread that is just coming by.
        ctypes.c_int64.from_address(added).value += seconds
        if jump != _JUMP:
            ctypes.memmove(added + 8, code, len(code))
            for entry, target in entries.items():
                rest = image[entry - begin + 5 : entry - begin + 8]
                first_bytes = struct.pack("<Bi", _JUMP, target - (entry + 5)) + rest
                ctypes.c_uint64.from_address(entry).value = int.from_bytes(first_bytes, "little")


def _where() -> tuple[int, int]:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if line.rstrip().endswith("[vdso]"):
                begin, _, end = line.split()[0].partition("-")
                return int(begin, 16), int(end, 16)
    raise OSError("this process has no vDSO")


def _symbols(image: bytes) -> dict[str, int]:
    """Return where in a vDSO which function is."""
    at, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    headers = [struct.unpack_from("<IIQ", image, at + 56 * number) for number in range(count)]
    dynamic = next(offset for kind, _, offset in headers if kind == _DYNAMIC)
    found = dict(struct.unpack_from("<QQ", image, dynamic + 16 * number) for number in range(_entries(image, dynamic)))
    strings, symbols = found[_STRTAB], found[_SYMTAB]
    names: dict[str, int] = {}
    # Nothing says how many symbols there are but that the strings lie behind them, as in every vDSO of x86-64.
    for number in range(1, (strings - symbols) // 24):
        name, _, _, _, value = struct.unpack_from("<IBBHQ", image, symbols + 24 * number)
        names[image[strings + name : image.index(b"\0", strings + name)].decode()] = value
    return names


def _entries(image: bytes, dynamic: int) -> int:
    count = 0
    while image[dynamic + 16 * count : dynamic + 16 * count + 8] != bytes(8):
        count += 1
    return count


def _compile(symbols: dict[str, int], begin: int, added: int) -> tuple[bytes, dict[int, int]]:
    """Return the code that comes behind the number `added`, and for each function's address where its own begins."""
    code, entries = b"", {}
    for name, (before, after) in _CODES.items():
        if symbols.get(name, 1) % 8:
            raise OSError(f"the vDSO has no {name} that can be replaced")
        entries[begin + symbols[name]] = added + 8 + len(code)
        code += bytes.fromhex(before) + _FETCH
        code += struct.pack("<i", added - (added + 8 + len(code) + 4)) + bytes.fromhex(after)
    return code, entries


@contextlib.contextmanager
def _writable(begin: int, end: int) -> Iterator[None]:
    """Let the pages be written to meanwhile, and run all the time. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(begin, end - begin, _READ_WRITE_RUN) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel keeps the vDSO as it is: {os.strerror(number)}")
    try:
        yield
    finally:
        libc.mprotect(begin, end - begin, _READ_RUN)
