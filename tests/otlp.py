"""A tracing backend: OTLP over HTTP, in protobuf, in plain Python."""

import http.server
import struct
import threading


def fields(message):
    """The fields of a protobuf message: number and value; bytes for nested messages and texts, integers otherwise."""
    at = 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, at = message[at : at + size], at + size
        yield tag >> 3, value


def all_of(message, number):
    return [value for field, value in fields(message) if field == number]


def first(message, number, default=b""):
    return next(iter(all_of(message, number)), default)


def plain(any_value):
    """OTLP's AnyValue: a string, a boolean, an integer or a double."""
    for number, value in fields(any_value):
        if number == 4:
            return struct.unpack("<d", value)[0]
        return {1: lambda: value.decode(), 2: lambda: bool(value), 3: lambda: value}.get(number, lambda: value)()
    return None


def attributes(message, number):
    return {first(pair, 1).decode(): plain(first(pair, 2)) for pair in all_of(message, number)}


def spans_of(request):
    """The spans of an ExportTraceServiceRequest."""
    for resource in all_of(request, 1):
        of_process = attributes(first(resource, 1), 1)
        for scope in all_of(resource, 2):
            for span in all_of(scope, 2):
                yield {
                    "service": of_process.get("service.name"),
                    "resource": of_process,
                    "trace": first(span, 1).hex(),
                    "id": first(span, 2).hex(),
                    "parent": first(span, 4).hex(),
                    "name": first(span, 5).decode(),
                    "attributes": attributes(span, 9),
                }


class Receiver:
    """Listens at `host` on a free port and keeps the received spans."""

    def __init__(self, host):
        spans = []
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    spans.extend(spans_of(body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.spans = spans
        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://{host}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
