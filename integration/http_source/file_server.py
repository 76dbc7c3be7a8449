#!/usr/bin/env python3
"""Serves a folder by Python's own web server, over TLS with a certificate of its own.

usage: file_server.py FOLDER PORT WORK_FOLDER

Writes WORK_FOLDER/ca.pem, the certificate that a client must trust, and says by systemd's protocol
that it is ready. Needs the program openssl (Debian: openssl).
"""

import functools
import http.server
import os
import socket
import ssl
import subprocess
import sys


def main():
    folder, port, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    key, certificate = os.path.join(work, "key.pem"), os.path.join(work, "ca.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        address = os.environ["NOTIFY_SOCKET"]
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(b"READY=1")
    server.serve_forever()


if __name__ == "__main__":
    main()
