from __future__ import annotations

import io

import pytest

from cuwheel.build.compile_cache.resp import ProtocolError, read_command


def test_reads_commands_one_after_the_other() -> None:
    stream = io.BytesIO(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n*0\r\n")

    assert [read_command(stream) for _ in range(3)] == [[b"GET", b"a\r\nb"], [b"PING"], []]


@pytest.mark.parametrize("sent", [b"", b"*1\r\n", b"*1\r\n$3\r\nGE"])
def test_tells_where_the_connection_ends(sent: bytes) -> None:
    with pytest.raises(EOFError):
        read_command(io.BytesIO(sent))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        b"*65\r\n",
        b"*-1\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n*1\r\n",
        b"*1\r\n$3x\r\n",
        b"*" + b"1" * 100,
    ],
)
def test_refuses_what_no_cache_says(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_command(io.BytesIO(sent))
