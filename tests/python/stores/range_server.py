"""An HTTP server for files in memory: it gives ranges, counts requests, and fails when it is told to."""
import contextlib
import hashlib
import http.server
import re
import socket
import threading
import time
import urllib.parse

CHUNK_NBYTES = 64 << 10


class RangeServer:
    """files: content by path, such as "d/a.lmc", or with its query, "get?a.lmc". url: of the server, to be followed by
    a path.
    requests: (path, first byte, bytes) of each; (path, None, None) without a range.

    faults: what happens to the next requests for files that are there, one word each: "" nothing; "503"; "drop", the
    connection ends within the content; "short", fewer bytes than were asked for; "ignore", all of the file; "shift",
    the bytes of another place; "unsized", without the size of the file; "gzip"; "hang", nothing comes; "circle", a
    redirection to the same path; "416", without a size; "trickle", a byte now and then; "trickling head", of the
    answer's head.
    always: the same for every request. at_once_max: answers that were under way together.
    missing: the status for a file that is not there. query: that a URL must have, as a signature is. latency_s: of
    every answer. bytes_per_s: of all connections together; 0 for no limit.
    """

    def __init__(self, files=None, etag=True, latency_s=0, bytes_per_s=0):
        self.files = dict(files or {})
        self.etag, self.latency_s, self.bytes_per_s = etag, latency_s, bytes_per_s
        self.requests, self.headers, self.faults, self.always, self.nbytes = [], [], [], "", 0
        self.missing, self.query = 404, ""
        self.at_once = self.at_once_max = 0
        self.is_ending = threading.Event()
        self.lock = threading.Lock()
        self._link_is_free_at = 0.0
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = "http://127.0.0.1:%d/" % self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def count(self, path=None):
        return sum(path in (None, request[0]) for request in self.requests)

    def forget(self):
        self.requests.clear()
        self.headers.clear()
        self.nbytes = 0

    def send(self, write, content):
        """Bytes leave one after another, at the speed of the link."""
        for at in range(0, len(content), CHUNK_NBYTES):
            chunk = content[at:at + CHUNK_NBYTES]
            if self.bytes_per_s:
                with self.lock:
                    self._link_is_free_at = max(self._link_is_free_at, time.monotonic()) \
                        + len(chunk) / self.bytes_per_s
                    leaves_at = self._link_is_free_at
                time.sleep(max(0, leaves_at - time.monotonic()))
            write(chunk)
            with self.lock:
                self.nbytes += len(chunk)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is no fault."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        with self.owner.lock:
            self.owner.at_once += 1
            self.owner.at_once_max = max(self.owner.at_once_max, self.owner.at_once)
        try:
            with contextlib.suppress(ConnectionError):
                self.answer()
        finally:
            with self.owner.lock:
                self.owner.at_once -= 1

    do_HEAD = do_GET

    def answer(self):
        owner = self.owner
        path, _, query = self.path.partition("?")
        path = urllib.parse.unquote(path).lstrip("/")
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(match[1]), int(match[2])) if match else (None, None)
        with owner.lock:
            owner.requests.append((path, first, last + 1 - first if match else None))
            owner.headers.append(dict(self.headers))
            fault = owner.always or (owner.faults.pop(0) if owner.faults and path in owner.files else "")
        time.sleep(owner.latency_s)
        content = owner.files.get(path + "?" + query, owner.files.get(path))
        if owner.query and query != owner.query:
            return self.plain(403)
        if content is None or fault == "503":
            return self.plain(owner.missing if content is None else 503)
        etag = '"%s"' % hashlib.md5(content[:64] + content[-64:] + b"%d" % len(content)).hexdigest()
        if self.headers.get("If-Match", etag) != etag and owner.etag:
            return self.plain(412)
        if match and first >= len(content):
            return self.plain(416, {"Content-Range": "bytes */%d" % len(content)})
        if fault == "circle":
            return self.plain(302, {"Location": self.path})
        if fault == "416":
            return self.plain(416)
        if fault == "hang":
            owner.is_ending.wait(20)
            return None
        if fault == "trickling head":
            return self.trickle(b"HTTP/1.1 206 Partial Content\r\nX: ".ljust(4000, b"x"))
        return self.give(content, first, last, fault, etag if owner.etag else None)

    def give(self, content, first, last, fault, etag):
        is_part = first is not None and fault != "ignore"
        begin, end = (first, min(last + 1, len(content))) if is_part else (0, len(content))
        shift = 1 if fault == "shift" else 0
        size = "*" if fault == "unsized" else len(content)
        self.send_response(206 if is_part else 200)
        if is_part:
            self.send_header("Content-Range", "bytes %d-%d/%s" % (begin + shift, end + shift - 1, size))
        if fault == "gzip":
            self.send_header("Content-Encoding", "gzip")
        if etag:
            self.send_header("ETag", etag)
        sent = content[begin:end]
        if fault == "short":
            sent = sent[:len(sent) // 2]
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "drop":
            self.wfile.write(sent[:len(sent) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "trickle":
            return self.trickle(sent)
        self.owner.send(self.wfile.write, sent)

    def trickle(self, content):
        for at in range(len(content)):
            self.wfile.write(content[at:at + 1])
            if self.owner.is_ending.wait(0.05):
                break

    def plain(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
