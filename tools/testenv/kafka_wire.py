"""The little of Kafka's protocol that testenv speaks: is a broker there, and make a topic.

Over plain TCP to loopback. Its own since Kafka's tools take a second of a JVM each, and no client of
Python is needed otherwise.
"""

import socket
import struct

METADATA, CREATE_TOPICS = 3, 19
TOPIC_ALREADY_EXISTS = 36


class Refused(Exception):
    """A broker's error."""


def text(value):
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def metadata_request():
    """Version 1: of no topic."""
    return struct.pack(">i", 0)


def create_topics_request(name, partitions, settings, timeout_ms):
    """Version 2: one topic of one replica."""
    body = struct.pack(">i", 1) + text(name) + struct.pack(">ihi", partitions, 1, 0)
    body += struct.pack(">i", len(settings))
    for key in sorted(settings):
        body += text(key) + text(settings[key])
    return body + struct.pack(">i?", timeout_ms, False)


def exchange(address, key, version, body, timeout):
    """Sends a request to `host:port` and returns the body of the answer."""
    host, _, port = address.rpartition(":")
    request = struct.pack(">hhi", key, version, 1) + text("testenv") + body
    with socket.create_connection((host, int(port)), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            answer = stream.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""
    if len(answer) < 4:
        raise OSError("%s closed the connection" % address)
    return answer[4:]


def ready(address, timeout=5):
    """Whether the cluster has a broker that takes requests."""
    try:
        answer = exchange(address, METADATA, 1, metadata_request(), timeout)
        return struct.unpack_from(">i", answer)[0] > 0
    except (OSError, struct.error):
        return False


def create_topic(address, name, partitions=1, settings=None, timeout=30):
    """Makes a topic; raises Refused or OSError."""
    answer = exchange(address, CREATE_TOPICS, 2,
                      create_topics_request(name, partitions, settings or {}, timeout * 1000), timeout)
    # Throttle time, the number of topics, the name.
    (length,) = struct.unpack_from(">h", answer, 8)
    code, message = struct.unpack_from(">hh", answer, 10 + length)
    if code != 0:
        said = answer[14 + length:14 + length + max(message, 0)].decode(errors="replace")
        raise Refused("%s: error %d of Kafka%s" % (name, code, ": " + said if said else ""))
