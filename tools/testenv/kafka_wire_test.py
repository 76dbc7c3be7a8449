"""Tests of the requests to Kafka against a broker made of a socket."""

import socket
import struct
import threading
import unittest

import kafka_wire


class Broker:
    """Answers one request with `body`, and keeps what it was asked."""

    def __init__(self, body):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.asked = b""
        self.thread = threading.Thread(target=self.serve, args=(body,))
        self.thread.start()

    def serve(self, body):
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            self.asked = stream.read(size)
            if body is not None:
                answer = struct.pack(">i", 1) + body
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def close(self):
        self.thread.join()
        self.listener.close()


class KafkaWireTest(unittest.TestCase):

    def broker(self, body):
        broker = Broker(body)
        self.addCleanup(broker.close)
        return broker

    def test_a_cluster_is_ready_when_it_has_a_broker(self):
        for body, expected in ((struct.pack(">i", 1) + b"...", True), (struct.pack(">i", 0), False),
                               (b"", False), (None, False)):
            broker = self.broker(body)
            self.assertEqual(kafka_wire.ready(broker.address), expected, body)
            self.assertEqual(broker.asked[:4], struct.pack(">hh", 3, 1))

    def test_nobody_there_is_not_ready(self):
        self.assertFalse(kafka_wire.ready("127.0.0.1:1"))

    def test_a_topic_is_asked_for_with_its_settings(self):
        broker = self.broker(struct.pack(">iih", 0, 1, 1) + b"t" + struct.pack(">hh", 0, -1))
        kafka_wire.create_topic(broker.address, "t", 3, {"a": "b"})
        self.assertIn(b"\0\1t\0\0\0\3\0\1\0\0\0\0\0\0\0\1\0\1a\0\1b", broker.asked)

    def test_a_refusal_is_told(self):
        broker = self.broker(struct.pack(">iih", 0, 1, 1) + b"t" + struct.pack(">hh", 36, 6) + b"exists")
        with self.assertRaises(kafka_wire.Refused) as raised:
            kafka_wire.create_topic(broker.address, "t")
        self.assertIn("error 36 of Kafka: exists", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
