"""The wire: only who knows the key is believed, what is said is bounded, and its end is an error with a reason."""

from __future__ import annotations

import json
import os
import socket
import threading

import pytest

from breakrank.host.wire import MOST_LINE, MOST_UNKNOWN, Wire, WireCut, call
from breakrank.nodes.reception import Reception


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    wires = Wire.over(one), Wire.over(other)
    yield wires
    for wire in wires:
        wire.close()


@pytest.fixture
def reception():
    made = Reception()
    yield made
    made.close()


def greet(reception, key):
    """Call the reception with a key; return what `call` returned or raised, and the deputies that have come."""
    found = []

    def go():
        try:
            wire = call("127.0.0.1", reception.port, key, 5.0, 5.0)
            if wire is not None:
                texts = ("name", "host", "machine", "folder", "address", "interface", "python")
                wire.send(hello=dict.fromkeys(texts, "x"))
            found.append(wire)
        except WireCut as error:
            found.append(error)

    caller = threading.Thread(target=go)
    caller.start()
    come = []
    while (caller.is_alive() or not found) and not come:
        come += reception.arrivals()
    caller.join()
    for _ in range(1000):
        come += reception.arrivals()
    return found[0], come


def test_messages_arrive_whole_and_in_their_order(ends):
    one, other = ends
    for number in range(100):
        one.send(number=number, text="x" * number)
    heard = []
    while len(heard) < 100:
        heard += other.receive()
    assert [message["number"] for message in heard] == list(range(100))


def test_who_knows_the_key_comes_in(reception):
    wire, come = greet(reception, reception.key)
    assert isinstance(wire, Wire) and [hello["name"] for _, hello in come] == ["x"]
    for one in (wire, come[0][0]):
        one.close()


def test_who_does_not_know_it_is_hung_up_on_and_finds_out_that_it_is_the_wrong_place(reception):
    error, come = greet(reception, "another")
    assert isinstance(error, WireCut) and str(error) == "it does not know the key" and come == []


@pytest.mark.parametrize("said", [b"[]\n", b"{}\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * (MOST_UNKNOWN + 2), b"\xff\n"])
def test_a_stranger_is_hung_up_on(reception, said):
    with socket.create_connection(("127.0.0.1", reception.port)) as line:
        line.sendall(said)
        line.settimeout(0.01)
        gone = False
        while not gone:
            assert reception.arrivals() == []
            try:
                gone = line.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                gone = True


def test_the_key_is_never_said(ends, reception):
    said = b""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = threading.Thread(target=call, args=("127.0.0.1", listener.getsockname()[1], reception.key, 0.2, 0.2))
        caller.start()
        line, _ = listener.accept()
        with line:
            said += line.recv(4096)
            caller.join()
    assert said.startswith(b'{"nonce"') and reception.key.encode() not in said


def test_a_line_without_an_end_is_refused(ends):
    one, other = ends
    other.most = MOST_LINE
    sender = threading.Thread(target=lambda: flood(one))
    sender.start()
    with pytest.raises(WireCut, match="a line without an end"):
        while True:
            other.receive()
    other.close()
    sender.join()


def flood(wire):
    os.set_blocking(wire.fileno(), True)
    left = MOST_LINE + (1 << 20)
    try:
        while left:
            left -= os.write(wire.fileno(), b"x" * min(left, 65536))
    except OSError:
        return


def test_the_end_of_the_other_is_an_error(ends):
    one, other = ends
    one.close()
    with pytest.raises(WireCut, match="closed"):
        other.receive()


def test_nothing_is_lost_of_what_a_deputy_says_right_after_its_first_words(reception):
    texts = ("name", "host", "machine", "folder", "address", "interface", "python")
    said = [{"hello": dict.fromkeys(texts, "x")}, {"caller": "door-1"}, {"caller": "door-2"}]
    deputies = []

    def go():
        wire = call("127.0.0.1", reception.port, reception.key, 30.0, 30.0)
        # In one piece, as where ranks have called before the deputy could say anything.
        os.write(wire.writer, b"".join(json.dumps(message).encode() + b"\n" for message in said))
        deputies.append(wire)

    caller = threading.Thread(target=go)
    caller.start()
    come = []
    while not come:
        come += reception.arrivals()
    caller.join()
    ((wire, _),) = come
    heard = []
    while len(heard) < 2:
        wire.wait(1.0)
        heard += wire.receive()
    assert heard == said[1:]
    for end in (wire, *deputies):
        end.close()
