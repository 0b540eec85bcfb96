"""A container's or an image's answers about itself are checked, and no other process answers for a zygote."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import time

import pytest
from support import containers

from breakrank.errors import BreakrankError
from breakrank.host.name_lookup import read_answer
from breakrank.host.session import Session
from breakrank.runners.bridge import answer_name
from breakrank.runners.docker import part, untrusted
from breakrank.runners.process import stage_agent

DEEP = b"[" * 200_000


@pytest.mark.parametrize("data", [
    DEEP, b"", b"\xff\xfe", b"[]", b"null", b"7", b"{}", b'{"pid": true}', b'{"pid": "1"}', b'{"pid": -1}',
    b'{"pid": 0}', b'{"pid": 1.5}', b'{"error": ["a"]}', b'{"pid": null, "error": null}', b'{"pid": 1', b'{"pid": NaN}',
])  # fmt: skip
def test_an_answer_of_another_shape_is_an_error_of_one_line(data):
    said = untrusted.answer(data)
    assert set(said) == {"error"} and said["error"] and "\n" not in said["error"]
    assert not untrusted.is_ready(data)


def test_an_answer_as_a_zygote_gives_it_is_taken():
    assert untrusted.answer(b'{"pid": 17}') == {"pid": 17}
    assert untrusted.answer(b'{"error": "the fork failed\\n\\u001b[2J"}') == {"error": "the fork failed  [2J"}
    assert len(untrusted.answer(json.dumps({"error": "x" * 10**6}).encode())["error"]) <= 300
    assert untrusted.is_ready(b'{"ready": 1}') and not untrusted.is_ready(b'{"ready": 2}')


@pytest.mark.parametrize(
    "printed", [DEEP, b"", b"[]", b"[1, 2]", b'[{"python": 3}, []]', b'[{"python": "3"}, 7]', b"[{}, []]"]
)
def test_what_an_image_says_that_it_has_is_checked(printed):
    with pytest.raises(ValueError, match="it does not say what it has"):
        untrusted.contents(printed)


def test_what_an_image_has_is_taken_as_it_says():
    assert untrusted.contents(b'[{"python": "3.11"}, ["cc"]]') == ({"python": "3.11"}, ["cc"])


def packed(kind: bytes, content: bytes = b"", to: str = "") -> bytes:
    """Return an archive of one entry, as an engine hands out a file."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("passwd")
        entry.type, entry.linkname, entry.size = kind, to, len(content)
        archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def test_a_table_is_read_from_a_regular_file_of_bounded_size():
    line = b"worker:x:1234:5::/:/bin/sh\nnothing\n"
    assert untrusted.table([packed(tarfile.REGTYPE, line)]) == [["worker", "x", "1234", "5", "", "/", "/bin/sh"]]
    assert untrusted.table([packed(tarfile.SYMTYPE, to="/etc/shadow")]) == []
    assert untrusted.table([packed(tarfile.LNKTYPE, to="elsewhere")]) == []
    assert untrusted.table([packed(tarfile.FIFOTYPE)]) == untrusted.table([b"no archive"]) == untrusted.table([]) == []

    def endless():
        while True:
            yield b"x" * 65536

    with pytest.raises(ValueError, match="larger than 1 MiB"):
        untrusted.table(endless())


@pytest.mark.parametrize("text", ["", "-1", "x", "1e3", "4294967295", "99999999999", "1\n", "٣"])
def test_a_number_of_a_user_is_one(text):
    with pytest.raises(ValueError, match="the image names no user that there is"):
        untrusted.number(text, "user")
    assert untrusted.number("4294967294", "user") == 4294967294


def test_a_variable_that_is_too_long_is_not_handed_on():
    assert untrusted.variables({"PATH": "/bin", "HOME": "x" * 10**6, "OTHER": "1"}, ("PATH", "HOME", "HOSTNAME")) == {
        "PATH": "/bin"
    }


def test_of_what_a_container_prints_one_line_is_shown():
    assert untrusted.last_line([b"one\ntwo\x1b[2J\n", b"\n"]) == "two [2J"
    assert untrusted.last_line([]) == "it said nothing"
    assert len(untrusted.last_line([b"x" * 10**6] * 20)) == 300


def listening(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(path)
    made.listen(1)
    return made


def call(path: str, lives=lambda: True):
    return untrusted.call(os.getpid(), path, lives, tuple)


def test_the_zygote_itself_is_called(tmp_path):
    path = str(tmp_path / "zygote")
    with listening(path), call(path) as line:
        assert line.getpeername() is not None


def test_a_link_to_a_socket_of_the_machine_is_not_followed(tmp_path):
    (tmp_path / "sockets").mkdir()
    (tmp_path / "sockets/rank-0").symlink_to(tmp_path / "engine.sock")
    (tmp_path / "linked").symlink_to("sockets")
    with listening(str(tmp_path / "engine.sock")) as engine:
        engine.setblocking(False)
        for path in ("sockets/rank-0", "linked/rank-0"):
            with pytest.raises(OSError, match="is a symbolic link"):
                call(str(tmp_path / path))
        with pytest.raises(BlockingIOError):
            engine.accept()


def test_what_is_no_socket_is_not_called_and_not_waited_for(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe", ""):
        with pytest.raises(OSError, match="is no socket"):
            call(str(tmp_path / name))


LISTENS = """
import socket, sys
made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
made.bind(sys.argv[1])
made.listen(1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_another_process_does_not_answer_for_the_zygote(tmp_path):
    path = str(tmp_path / "zygote")
    command = [sys.executable, "-c", LISTENS, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(OSError, match="another process answers"):
            call(path)
        with untrusted.call(os.getpid(), path, lambda: True, lambda: (other.pid,)) as line:
            assert line.getpeername() is not None
        other.stdin.close()


def test_a_zygote_that_has_ended_or_never_listens_is_not_waited_for(tmp_path, monkeypatch):
    lives = iter([True, True, False])
    assert call(str(tmp_path / "nothing"), lambda: next(lives)) is None
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    assert call(str(tmp_path / "nothing")) is None


SWAPS = {
    "the socket": "os.symlink('/var/run/docker.sock', '/breakrank/sockets/rank-2')",
    "the folder": "os.rename('/breakrank/sockets', '/breakrank/old'); os.symlink('/var/run', '/breakrank/sockets')",
    "a file": "open('/breakrank/sockets/rank-2', 'w')",
}


@pytest.mark.parametrize("swap", SWAPS)
def test_a_container_that_lays_something_in_the_place_of_a_socket_is_told_in_one_line(tmp_path, swap):
    image = containers.require(containers.BARE["3.13"])
    clusters, staged, session = part("cluster"), stage_agent(tmp_path), Session()
    try:
        cluster = clusters.Cluster(session, staged, image, "", {"PYTHONPATH": f"{clusters.SHARED}/{staged.name}"})
        (first, _) = cluster.grow(2)
        assert first.handle.exec_run(["python3", "-c", f"import os; {SWAPS[swap]}"]).exit_code == 0
        with pytest.raises(BreakrankError, match="no rank can run in a container of") as error:
            cluster.grow(3)
        assert "\n" not in str(error.value)
        cluster.close()
    finally:
        session.close()


def answered(name: str, number: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    asked = struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)
    return answer_name(asked, {"rank-0": "10.77.0.1"})


def test_a_name_server_is_understood_and_a_liar_does_no_harm():
    whole = answered("rank-0", 4711)
    assert read_answer(whole, 4711) == "10.77.0.1"
    assert read_answer(whole, 4712) == read_answer(answered("rank-9", 4711), 4711) == ""
    for size in range(len(whole)):
        assert read_answer(whole[:size], 4711) == ""
    assert read_answer(whole[:4] + b"\xff" * 4096, 4711) == read_answer(whole[:12] + b"\xc0\x0c" * 2000, 4711) == ""
