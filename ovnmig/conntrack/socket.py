"""A raw NETLINK_NETFILTER socket of the network namespace the calling thread is in.

Requests in one ``send`` are worked off in order; an error in one does not stop the rest. Errors come
back as acknowledgements and are lost when the receive buffer is full (with the default size 256 of
them), hence the large buffer and the cap on messages per send.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ovnmig.conntrack import messages as m
from ovnmig.conntrack.program import Words
from ovnmig.conntrack.transform import Chunk

SEND_MAX: Final = 500
"""Messages per send: their acknowledgements fit the receive buffer several times over."""
RECEIVE_BUFFER: Final = 8 << 20
NO_RIGHT: Final = "connection tracking needs CAP_NET_ADMIN in its network namespace"
_SEND_BUFFER: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20
_FIRST_BYTES: Final = 1 << 17
"""The first chunk of a dump is small, the next twice as large: who works on them can begin early."""
_RECEIVE_MAX: Final = 1 << 16
_SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
_HEADER = struct.Struct("=IHHII")
_CODE = struct.Struct("=i")


class NetlinkError(OSError):
    """The kernel refused a request as a whole, or answered something that is not netlink."""


class NetlinkSocket:
    """Batched requests and dumps. Not safe for two threads at once: open one each."""

    def __init__(self, receive_buffer: int = RECEIVE_BUFFER) -> None:
        """Without CAP_NET_ADMIN the socket opens, and its first use raises PermissionError."""
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, m.NETLINK_NETFILTER
        )
        try:
            force_buffer(self._socket, SO_RCVBUFFORCE, receive_buffer)
            force_buffer(self._socket, _SO_SNDBUFFORCE, _SEND_BUFFER)
            for option in (m.NETLINK_CAP_ACK, m.NETLINK_EXT_ACK):
                self._socket.setsockopt(m.SOL_NETLINK, option, 1)
            self._socket.bind((0, 0))
        except BaseException:
            self._socket.close()
            raise
        self._seq = secrets.randbits(30)
        self._arena = np.empty((_CHUNK_BYTES + _RECEIVE_MAX) // 4, dtype=np.uint32)

    def close(self) -> None:
        """Closes the socket; closing twice is fine."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def take_seq(self, count: int = 1) -> int:
        """Reserves ``count`` consecutive sequence numbers, returns the first."""
        if self._seq + count >= 1 << 32:
            self._seq = 1
        first = self._seq
        self._seq += count
        return first

    def transact(self, batch: Words) -> tuple[dict[int, int], list[bytes], bool]:
        """Sends the rows of ``batch`` (at most SEND_MAX messages with ascending sequence numbers).

        Sets NLM_F_ACK on the last one and reads until it is answered. Returns the errno of each
        refused message by sequence number, the messages the kernel answered with, and whether
        answers were lost (receive buffer full): then the caller has to look at the kernel's table.
        """
        batch[-1, 1] |= np.uint32(_ack_bit())
        last = int(batch[-1, 2])
        first = int(batch[0, 2])
        self._socket.send(batch.data)
        errors: dict[int, int] = {}
        answers: list[bytes] = []
        lost = False
        while True:
            # The kernel works requests off inside send, so every answer it could store is there by
            # now. Once one was dropped the last may be missing too: then never wait.
            try:
                data = self._socket.recv(_RECEIVE_MAX, socket.MSG_DONTWAIT if lost else 0)
            except BlockingIOError:
                return errors, answers, True
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            for kind, seq, raw in _messages(data):
                if not first <= seq <= last:
                    continue
                if kind != m.NLMSG_ERROR:
                    answers.append(raw)
                    continue
                code = _CODE.unpack_from(raw, 16)[0]
                if code == -errno.EPERM:
                    raise PermissionError(errno.EPERM, NO_RIGHT)
                if code:
                    errors[seq] = -code
                if seq == last:
                    return errors, answers, lost

    def dump(self, request: bytes) -> Iterator[tuple[Chunk, int]]:
        """Sends a dump request and yields its messages as chunks of up to a megabyte, with the flags.

        ``request`` is a whole message whose sequence number came from ``take_seq``. A chunk lives
        in a buffer that the next one overwrites. Raises NetlinkError when the kernel refuses.
        """
        seq = _HEADER.unpack_from(request)[3]
        self._socket.send(request)
        arena = self._arena
        view = arena.data.cast("B")
        done = False
        size_wanted = _FIRST_BYTES
        try:
            while not done:
                used = 0
                flags = 0
                offsets: list[NDArray[np.intp]] = []
                while not done and used < size_wanted:
                    size = self._socket.recv_into(view[used:], _RECEIVE_MAX)
                    start = used // 4
                    found, done, flags = _split(arena, start, start + size // 4, seq, flags)
                    offsets.append(found)
                    used += size
                yield Chunk(arena[: used // 4], np.concatenate(offsets)), flags
                size_wanted = min(2 * size_wanted, _CHUNK_BYTES)
        except (NetlinkError, PermissionError):
            done = True
            raise
        finally:
            while not done:
                size = self._socket.recv_into(view, _RECEIVE_MAX)
                done = _split(arena, 0, size // 4, seq, 0)[1]


def force_buffer(sock: socket.socket, option: int, size: int) -> None:
    """SO_RCVBUFFORCE or SO_SNDBUFFORCE; where that is not allowed, the unprivileged option."""
    plain = socket.SO_RCVBUF if option == SO_RCVBUFFORCE else socket.SO_SNDBUF
    with suppress(PermissionError):
        sock.setsockopt(socket.SOL_SOCKET, option, size)
        return
    sock.setsockopt(socket.SOL_SOCKET, plain, size)


def _ack_bit() -> int:
    raw = struct.pack("=HH", 0, m.MessageFlag.ACK)
    return int(np.frombuffer(raw, dtype=np.uint32)[0])


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    offset = 0
    while offset + m.NLMSG_HEADER_LEN <= len(data):
        length, kind, _, seq, _ = _HEADER.unpack_from(data, offset)
        if length < m.NLMSG_HEADER_LEN or offset + length > len(data):
            raise NetlinkError(errno.EBADMSG, "a netlink message has a length that does not fit")
        yield kind, seq, data[offset : offset + length]
        offset += (length + 3) & ~3


def _split(words: Words, start: int, end: int, seq: int, flags: int) -> tuple[NDArray[np.intp], bool, int]:
    """Offsets of the messages between two words, whether the dump ended, and its flags."""
    runs: list[NDArray[np.intp]] = []
    while start < end:
        length = int(words[start]) >> 2
        high, low = divmod(int(words[start + 1]), 1 << 16)
        kind, message_flags = (low, high) if np.little_endian else (high, low)
        ours = int(words[start + 2]) == seq
        if ours and kind in (m.NLMSG_DONE, m.NLMSG_ERROR):
            code = _CODE.unpack(words[start + 4 : start + 5].tobytes())[0]
            if code == -errno.EPERM:
                raise PermissionError(errno.EPERM, NO_RIGHT)
            if code:
                raise NetlinkError(-code, f"the kernel refused the dump: {os.strerror(-code)}")
            return _concat(runs), True, flags
        if length < 4 or start + length > end:
            raise NetlinkError(errno.EBADMSG, "a netlink message has a length that does not fit")
        # Each message that has the length of the first one ends where the next begins, so equal
        # lengths at equal distances are a run of whole messages.
        count = (end - start) // length
        same = words[start : start + count * length : length] == words[start]
        run = count if same.all() else int(np.argmin(same))
        if ours:
            flags |= message_flags
            runs.append(np.arange(start, start + run * length, length, dtype=np.intp))
        start += run * length
    return _concat(runs), False, flags


def _concat(runs: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    if len(runs) == 1:
        return runs[0]
    return np.concatenate(runs) if runs else np.empty(0, dtype=np.intp)
