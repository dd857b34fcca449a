"""Receivers of alerts on this machine, which answer, fail, hang, redirect and hang up as told."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Received:
    """One request, or one e-mail (in ``body``)."""

    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Server:
    def __init__(self) -> None:
        self.received: list[Received] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        # Wakes who waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._safely, args=(connection,), daemon=True).start()

    def _safely(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        raise NotImplementedError


class Receiver(_Server):
    """Of HTTP. ``script``: what the next requests get, the last one for ever.

    A status, ``(status, headers)``, ``"hang"`` (never an answer), ``"cut"`` (the connection is closed), ``"drip"`` (an answer
    without end).
    """

    def __init__(self, *script: Any) -> None:
        self.script = list(script) or [200]
        super().__init__()

    def url(self, path: str = "/hook/hush-hush") -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}{path}"

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += _some(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += _some(connection)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.received.append(Received(first.split()[1], headers, body))
        if answer == "hang":
            self._closed.wait(60)
            return
        if answer == "cut":
            return
        if answer == "drip":
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
            while not self._closed.is_set():
                connection.sendall(b"x" * 65536)
        status, more = answer if isinstance(answer, tuple) else (answer, {})
        lines = [f"HTTP/1.1 {status} Whatever", "content-length: 2", *(f"{name}: {value}" for name, value in more.items())]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\nok")


class MailServer(_Server):
    """Of SMTP, without TLS. ``script``: the codes that the next messages get, the last one for ever."""

    def __init__(self, *script: int) -> None:
        self.script = list(script) or [250]
        super().__init__()

    def _serve(self, connection: socket.socket) -> None:
        def say(line: str) -> None:
            connection.sendall(f"{line}\r\n".encode())

        reader = connection.makefile("rb")
        say("220 mail.test")
        while line := reader.readline():
            word = line.split()[0].upper()
            if word == b"EHLO":
                say("250-mail.test\r\n250 AUTH PLAIN")
            elif word == b"AUTH":
                say("235 come in")
            elif word == b"DATA":
                say("354 go on")
                body = b""
                while (part := reader.readline()) != b".\r\n":
                    body += part
                self.received.append(Received("", {}, body))
                say(f"{self.script.pop(0) if len(self.script) > 1 else self.script[0]} hush-hush")
            else:
                say("221 bye" if word == b"QUIT" else "250 fine")


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ValueError("closed too early")
    return data
