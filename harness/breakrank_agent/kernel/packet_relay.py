"""A wire of ours behind a rank's end of its cable: what the rank sends leaves late, twice, or damaged.

It is started as a script in the rank's network (`python -I -S wire.py DELAY_MS JITTER_MS DUPLICATED DAMAGED SEED`).
The kernel hands it what is to leave, by a redirection to its device (tc-mirred(8)); it sends the frames on from behind
that. All chance comes from the seed, which netem(8) takes on few kernels, and many have no netem at all; this wants
tun(4). It says `ready`, or why not, and works until it is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

#: The name of the device, and of the rank's end of the cable.
DEVICE, CABLE = "wire0", "eth0"
#: ioctl(2) and flags of linux/if_tun.h: a device for frames, without a header before them.
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
#: Of linux/if_packet.h and linux/if_ether.h: send past the redirection that brought the frame here; no frame of others.
_SOL_PACKET, _PACKET_QDISC_BYPASS = 263, 20
_ETHERNET, _IP_AND_TCP = 14, 40


def main(delay_ms: float, jitter_ms: float, duplicated: float, damaged: float, seed: int) -> None:
    """Make the device, say so, and hand frames on."""
    try:
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", DEVICE.encode(), _IFF_TAP | _IFF_NO_PI))
        cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        cable.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        cable.bind((CABLE, 0))
    except OSError as error:
        print(f"/dev/net/tun: {error.strerror}", flush=True)
        sys.exit(1)
    print("ready", flush=True)
    draw = random.Random(seed)
    waiting: list[tuple[float, int, bytes]] = []
    number = 0
    while True:
        until = waiting[0][0] - time.monotonic() if waiting else None
        if select.select([device], [], [], None if until is None else max(0.0, until))[0]:
            frame = os.read(device, 65536)
            due = time.monotonic() + (delay_ms + draw.uniform(-jitter_ms, jitter_ms)) / 1000
            if draw.random() < damaged:
                frame = damage(frame, draw)
            for _ in range(2 if draw.random() < duplicated else 1):
                number += 1
                heapq.heappush(waiting, (due, number, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            send(cable, heapq.heappop(waiting)[2])


def damage(frame: bytes, draw: random.Random) -> bytes:
    """Return a frame with one bit flipped in what it carries, behind the headers of Ethernet, IP and TCP or UDP."""
    start = _ETHERNET + _IP_AND_TCP
    if len(frame) <= start:
        return frame
    changed = bytearray(frame)
    changed[draw.randrange(start, len(frame))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def send(cable: socket.socket, frame: bytes) -> None:
    """Send a frame on; what a link that is down refuses is lost."""
    with contextlib.suppress(OSError):
        cable.send(frame)


if __name__ == "__main__":
    late, varying, twice, wrong = (float(word) for word in sys.argv[1:5])
    main(late, varying, twice, wrong, int(sys.argv[5]))
