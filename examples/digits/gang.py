"""The ranks of a gang, joined over TCP by the rendezvous environment that Capstan sets.

Rank 0 listens at MASTER_ADDR:MASTER_PORT and the others connect to it. A sum is made by rank 0 in the order
of the ranks and sent back, so that every rank gets the same bits whatever the timing.
"""

import errno
import os
import socket
import struct
import sys
import time

import numpy as np

# What a Task exits with when its port was taken between PREPARE and START.
EXIT_PORT_TAKEN = 98
JOIN_SECONDS = 60
# Longer than the slowest step, and than a checkpoint's commit.
STEP_SECONDS = 120
HELLO = struct.Struct("<16s36sqi")
MAGIC = b"capstan-digits-1"


class Gang:
    def __init__(self):
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.generation = int(os.environ.get("CAPSTAN_GENERATION", "1"))
        self._job = os.environ.get("CAPSTAN_JOB_UID", "").encode()[:36]
        # By rank at rank 0; the one connection to rank 0 elsewhere.
        self._peers = {}
        if self.size == 1:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if self.rank == 0:
            self._accept(address)
        else:
            self._connect(address)

    def _hello(self):
        return HELLO.pack(MAGIC, self._job, self.generation, self.rank)

    def _accept(self, address):
        try:
            listener = socket.create_server(address, backlog=self.size)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                print(f"port {address[1]} is taken", file=sys.stderr)
                sys.exit(EXIT_PORT_TAKEN)
            raise
        deadline = time.monotonic() + JOIN_SECONDS
        with listener:
            while len(self._peers) < self.size - 1:
                listener.settimeout(max(0.001, deadline - time.monotonic()))
                peer, _ = listener.accept()
                rank = self._greet(peer)
                if rank is None:
                    # Someone else on this machine, or a rank of an older generation.
                    peer.close()
                else:
                    self._peers[rank] = peer

    def _greet(self, peer):
        self._prepare(peer)
        try:
            magic, job, generation, rank = HELLO.unpack(_receive(peer, HELLO.size))
        except OSError:
            return None
        ours = HELLO.unpack(self._hello())
        if (magic, job, generation) != ours[:3] or not 0 < rank < self.size:
            return None
        return None if rank in self._peers else rank

    def _connect(self, address):
        deadline = time.monotonic() + JOIN_SECONDS
        while True:
            try:
                peer = socket.create_connection(address, timeout=5)
                break
            except OSError:
                # Rank 0 may not have come so far.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._prepare(peer)
        peer.sendall(self._hello())
        self._peers[0] = peer

    @staticmethod
    def _prepare(peer):
        peer.settimeout(STEP_SECONDS)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def average(self, values):
        """The mean of `values` (float64) over the ranks, in place."""
        if self.size == 1:
            return
        if self.rank != 0:
            self._peers[0].sendall(values)
            _receive_into(self._peers[0], values)
            return
        part = np.empty_like(values)
        for rank in range(1, self.size):
            _receive_into(self._peers[rank], part)
            values += part
        values /= self.size
        for rank in range(1, self.size):
            self._peers[rank].sendall(values)


def _receive(peer, size):
    received = bytearray(size)
    _receive_into(peer, received)
    return bytes(received)


def _receive_into(peer, buffer):
    view = memoryview(buffer).cast("B")
    while view:
        count = peer.recv_into(view)
        if count == 0:
            raise ConnectionError("a rank of the gang has gone")
        view = view[count:]
