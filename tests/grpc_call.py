"""One gRPC call over a plain socket, with the necessary part of HTTP/2 (RFC 9113)."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END_STREAM, END_HEADERS, ACK = 1, 4, 1
SERVICE = "/lf.a2a.v1.A2AService/"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A literal header without indexing (RFC 7541 section 6.2.2)."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def whole(sock, count):
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise ConnectionError("the connection ended in the middle of a frame")
        got += more
    return got


def call(at, method, message=b"", host="localhost", within=20):
    """The status and the bytes of the answer; the status is `refused` for a trailers-only answer."""
    fields = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": host,
              "content-type": "application/grpc", "te": "trailers", "a2a-version": "1.0"}
    head = b"".join(literal(*field) for field in fields.items())
    body = b"\0" + struct.pack(">I", len(message)) + message
    with socket.create_connection(at, timeout=within) as sock:
        sock.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head) + frame(DATA, END_STREAM, 1, body))
        answer = b""
        while True:
            length, kind, flags, stream = struct.unpack(">I", b"\0" + whole(sock, 3))[0], *whole(sock, 2), whole(sock, 4)
            payload = whole(sock, length)
            if kind in (SETTINGS, PING) and not flags & ACK:
                sock.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            if stream != b"\0\0\0\1":
                continue
            answer += payload if kind == DATA else b""
            if kind not in (DATA, HEADERS) or flags & END_STREAM:
                # A refusal has no message; its status is in its only header block.
                return ("0" if answer else "refused"), answer[5:]
