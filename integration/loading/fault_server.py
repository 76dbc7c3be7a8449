#!/usr/bin/env python3
"""A web server with faults, over plain HTTP on 127.0.0.1: it gives what lies in a folder, but as it is told to.

usage: fault_server.py FOLDER PORT WORK_FOLDER

WORK_FOLDER/faults.json, read anew for each request, says by path what is wrong with an object:

    after         bytes of its content that are given before the fault begins (default 0)
    becomes       another object takes its place, `under` the same ETag ("same"), or under its own
                  ("new", the default); `deaf`: a condition is not looked at
    gone          404
    status        this status, with `retry_after`
    flips         a byte at this offset is another
    shifted       the bytes are those from so much before
    stops         no byte from this offset on is ever given: the connection closes, or with `stalls`
                  stays open
    endless       bytes without end, where a range was asked for
    unsized       the same, for every request, and nothing says how many
    whole         200 and the whole object, where a range was asked for
    range_lies    Content-Range names a range so much further on
    total_lies    Content-Range's total is off by so much
    redirects     to itself
    encoded       it says that it is compressed
    times         only in so many answers (default: in all)

and of what is right, but takes its time:

    holds         after so many answers with content the others wait while it is set; they give
                  `first` bytes before (default 0). With another `round` it counts anew

Each answer with content is a line of WORK_FOLDER/served.log, written when it ends:
`<path> <status> <first byte> <bytes>`. Says by systemd's protocol that it is ready.
"""

import hashlib
import http.server
import json
import os
import socket
import sys
import threading
import time
import urllib.parse

FOLDER, PORT, WORK = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CHUNK = 256 * 1024
LOCK = threading.Lock()
# By path: bytes of content given, faulty answers.
GIVEN = {}
FAULTY = {}
# By path: the round of `holds`, and how many answers have begun in it.
BEGUN = {}


def fault_of(path):
    try:
        with open(os.path.join(WORK, "faults.json"), encoding="utf-8") as file:
            return json.load(file).get(path, {})
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def etag_of(path):
    info = os.stat(path)
    return '"%s"' % hashlib.sha1(
        f"{path} {info.st_mtime_ns} {info.st_size}".encode()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def refuse(self, status, headers=None):
        self.answer(status, {"Content-Length": "0", **(headers or {})})

    def range_of(self, size):
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return None
        first, last = text[len("bytes="):].split("-")
        return int(first), min(int(last or size - 1), size - 1)

    def do_GET(self):
        path = urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")
        fault = fault_of(path)
        with LOCK:
            begun = GIVEN.get(path, 0) >= fault.get("after", 0)
            if begun and "times" in fault:
                FAULTY[path] = FAULTY.get(path, 0) + (
                    "status" in fault or self.headers.get("Range") != "bytes=0-0")
                begun = FAULTY[path] <= fault["times"]
        if not begun:
            fault = {name: fault[name] for name in ("holds", "first", "round") if name in fault}
        file = os.path.join(FOLDER, path)
        if "gone" in fault or not os.path.isfile(file):
            return self.refuse(404)
        if "status" in fault:
            return self.refuse(fault["status"], {"Retry-After": str(fault.get("retry_after", 0))})
        if "redirects" in fault:
            return self.refuse(302, {"Location": self.path})
        etag = etag_of(file)
        if "becomes" in fault:
            file = os.path.join(FOLDER, fault["becomes"])
            if fault.get("under", "new") == "new":
                etag = etag_of(file)
        if self.headers.get("If-Match", etag) != etag and "deaf" not in fault:
            return self.refuse(412)
        return self.give(path, file, etag, fault)

    def give(self, path, file, etag, fault):
        size = os.path.getsize(file)
        asked = self.range_of(size)
        headers = {"ETag": etag}
        if "encoded" in fault:
            headers["Content-Encoding"] = "gzip"
        if asked is not None and size > 0 and asked[0] >= size:
            return self.refuse(416, {"Content-Range": f"bytes */{size}", **headers})
        if size == 0 and asked is not None:
            return self.refuse(416, {"Content-Range": "bytes */0", **headers})
        probe = asked == (0, 0)
        if "unsized" in fault:
            self.close_connection = True
            self.answer(200, {**headers, "Connection": "close"})
            return self.pour(path, 200, 0)
        if asked is None or ("whole" in fault and not probe):
            first, last = 0, size - 1
            headers["Content-Length"] = str(size)
            status = 200
        else:
            first, last = asked
            lie = 0 if probe else fault.get("range_lies", 0)
            total = size + fault.get("total_lies", 0) * (not probe)
            headers["Content-Range"] = f"bytes {first + lie}-{last + lie}/{total}"
            if "endless" in fault and not probe:
                self.close_connection = True
                self.answer(206, {**headers, "Connection": "close"})
                return self.pour(path, 206, first)
            headers["Content-Length"] = str(last - first + 1)
            status = 206
        held = not probe and self.is_held(path, fault)
        if held and not fault.get("first"):
            self.wait_while_held(path)
        self.answer(status, headers)
        try:
            self.send(path, file, fault, first, last, held, probe)
        finally:
            if not probe:
                with LOCK, open(os.path.join(WORK, "served.log"), "a", encoding="utf-8") as log:
                    log.write(f"{path} {status} {first} {self.sent}\n")

    sent = 0

    def is_held(self, path, fault):
        if "holds" not in fault:
            return False
        with LOCK:
            now, begun = BEGUN.get(path, (None, 0))
            if now != fault.get("round", 0):
                begun = 0
            BEGUN[path] = (fault.get("round", 0), begun + 1)
        return begun >= fault["holds"]

    def wait_while_held(self, path):
        """What was killed meanwhile gets nothing that would be counted."""
        while "holds" in fault_of(path):
            time.sleep(0.02)
        try:
            gone = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            gone = False
        if gone:
            raise ConnectionAbortedError

    def send(self, path, file, fault, first, last, held, probe):
        """Bytes first to last."""
        self.sent = 0
        with open(file, "rb") as content:
            content.seek(max(0, first - (0 if probe else fault.get("shifted", 0))))
            at = first
            while at <= last:
                if held and at - first >= fault.get("first", 0):
                    self.wait_while_held(path)
                    held = False
                end = last + 1
                if held:
                    end = min(end, first + fault["first"])
                if "stops" in fault and not probe:
                    end = min(end, fault["stops"])
                chunk = bytearray(content.read(min(CHUNK, max(0, end - at))))
                if not chunk:
                    if "stalls" in fault:
                        while fault_of(path):
                            time.sleep(0.1)
                    self.close_connection = True
                    return
                flips = fault.get("flips", -1)
                if at <= flips < at + len(chunk):
                    chunk[flips - at] ^= 1
                self.wfile.write(chunk)
                self.sent += len(chunk)
                at += len(chunk)
                if not probe:
                    with LOCK:
                        GIVEN[path] = GIVEN.get(path, 0) + len(chunk)

    def pour(self, path, status, first):
        """Until the other side has had enough."""
        sent = 0
        try:
            while True:
                self.wfile.write(b"x 1 -\n" * 40000)
                sent += 240000
        except OSError:
            pass
        with LOCK, open(os.path.join(WORK, "served.log"), "a", encoding="utf-8") as log:
            log.write(f"{path} {status} {first} {sent}\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # Clients go, by their own will or killed.
        pass


def main():
    server = Server(("127.0.0.1", PORT), Handler)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        address = os.environ["NOTIFY_SOCKET"]
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(b"READY=1")
    server.serve_forever()


if __name__ == "__main__":
    main()
