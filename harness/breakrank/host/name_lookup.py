"""Looks a host's name up as a rank does: by the rank's own files and name servers, and with no program of the rank's.

Programs that are installed where a rank is may be anybody's, as in an image: they are not ours to run outside of its
walls.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import struct

from breakrank_agent.kernel.rooted import opened, reopen, resolve
from breakrank_agent.protocol.target import Walls

#: The seconds that a server may take to answer. A limit, not a trigger.
_ANSWER_S = 1.0
#: As much of a file is read, and as many servers are asked as the C library does (resolv.conf(5)).
_FILE_BYTES, _SERVERS = 1 << 16, 3
#: The port of name servers; the type of a question for an IPv4 address, and its class (RFC 1035).
_PORT, _A, _IN = 53, 1, 1


def look_up(walls: Walls, root: int, name: str) -> str:
    """Return the IPv4 address of a host as the rank behind the walls finds it, whose root is open; empty if unknown."""
    for words in _lines(root, "/etc/hosts"):
        if name in words[1:] and _is_address(words[0]):
            return words[0]
    servers = [words[1] for words in _lines(root, "/etc/resolv.conf") if words[0] == "nameserver" and words[1:]]
    for server in filter(_is_address, servers[:_SERVERS]):
        with contextlib.suppress(OSError), walls.open_socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            if address := _ask(line, server, name):
                return address
    return ""


def addresses(root: int, name: str) -> list[str]:
    """Return all addresses, of both kinds, that the file of hosts in an open root has for a name, in its order."""
    return [words[0] for words in _lines(root, "/etc/hosts") if name in words[1:]]


def _lines(root: int, path: str) -> list[list[str]]:
    """Return the words of each line of a file that lies in a root; none where there is no such file."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        found = stack.enter_context(opened(resolve(root, path)))
        if stat.S_ISREG(os.fstat(found).st_mode):
            descriptor = stack.enter_context(opened(reopen(found, os.O_RDONLY)))
            text = os.pread(descriptor, _FILE_BYTES, 0).decode(errors="replace")
            return [words for line in text.splitlines() if (words := line.partition("#")[0].split())]
    return []


def _is_address(text: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(socket.inet_pton(socket.AF_INET, text))
    return False


def _ask(line: socket.socket, server: str, name: str) -> str:
    number = secrets.randbits(16)
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    line.settimeout(_ANSWER_S)
    line.connect((server, _PORT))
    line.send(struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!B2H", 0, _A, _IN))
    return read_answer(line.recv(4096), number)


def read_answer(data: bytes, number: int) -> str:
    """Return the first address in the answer to question `number`; empty if it has none, or is no answer."""
    with contextlib.suppress(struct.error, IndexError):
        said, flags, questions, answers, _, _ = struct.unpack_from("!6H", data)
        if said != number or not flags & 0x8000 or flags & 15:
            return ""
        place = 12
        for _ in range(questions):
            place = _past_name(data, place) + 4
        for _ in range(answers):
            place = _past_name(data, place)
            kind, group, _, size = struct.unpack_from("!2HIH", data, place)
            place += 10
            if (kind, group, size) == (_A, _IN, 4):
                return ".".join(map(str, struct.unpack_from("!4B", data, place)))
            place += size
    return ""


def _past_name(data: bytes, place: int) -> int:
    """Return where what follows a name begins; a pointer to a name that came before ends it (RFC 1035, 4.1.4)."""
    while size := data[place]:
        if size & 0xC0:
            return place + 2
        place += size + 1
    return place + 1
